/* bench_trace [MEBIBYTES]: how fast `foray trace` reads and analyses, against the least that must be done with the bytes.
 *
 * A real profile is repeated with its times and ids shifted until the file has that size (default 128); then, in turn and
 * three times each: a plain state machine that follows strings and depth over the file, and a complete analysis with its JSON
 * report left out. Prints the medians, their ratio (at most 2.0 is wanted), and the analysis's peak memory against the
 * file's size (at most 0.25).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "timeline/session.h"

enum { BLOCK = 1 << 20, REPEATS = 3, MOST_SEED = 8 << 20 };

static char seed[MOST_SEED];

/* The seed file, unpacked. Returns its bytes. */
static size_t read_seed(const char *path)
{
    source *s;
    foray_error err;
    size_t bytes = 0;
    if (source_open(path, &s, &err) != FORAY_OK) {
        fprintf(stderr, "bench_trace: %s\n", err.text);
        exit(1);
    }
    for (size_t n; bytes < sizeof seed && (n = source_read(s, seed + bytes, sizeof seed - bytes)) > 0;)
        bytes += n;
    source_close(s);
    return bytes;
}

/* Writes the events from..to once more, with whole numbers behind these keys moved on. */
static void write_copy(FILE *out, const char *from, const char *to, int64_t copy)
{
    static const struct {
        const char *key;
        int64_t by;
    } moved[] = { { "\"ts\": ", 60000000 },
                  { "\"correlation\": ", 100000 },
                  { "\"id\": ", 100000 },
                  { "\"External id\": ", 100000 } };
    const char *done = from;
    for (const char *p = from; p < to; p++) {
        if (*p != '"')
            continue;
        for (size_t k = 0; k < sizeof moved / sizeof *moved; k++) {
            size_t n = strlen(moved[k].key);
            if (strncmp(p, moved[k].key, n) != 0 || p[n] < '0' || p[n] > '9')
                continue;
            char *end;
            int64_t value = strtoll(p + n, &end, 10);
            fwrite(done, 1, (size_t)(p + n - done), out);
            fprintf(out, "%" PRId64, value + copy * moved[k].by);
            done = end;
            p = end - 1;
        }
    }
    fwrite(done, 1, (size_t)(to - done), out);
}

static uint64_t make_file(const char *path, size_t mebibytes)
{
    size_t bytes = read_seed(FORAY_TESTS "/golden/traces/hta_simple_add.json.gz");
    char *list = strstr(seed, "\"traceEvents\": [");
    char *end = seed + bytes;
    FILE *out = fopen(path, "wb");
    if (list == NULL || out == NULL)
        exit(1);
    list += 16;
    while (*end != ']')
        end--;
    fwrite(seed, 1, (size_t)(list - seed), out);
    for (int64_t copy = 0; (uint64_t)ftello(out) < (uint64_t)mebibytes << 20; copy++) {
        if (copy > 0)
            fputs(",\n", out);
        write_copy(out, list, end, copy);
    }
    fputs("]}\n", out);
    uint64_t written = (uint64_t)ftello(out);
    fclose(out);
    return written;
}

/* Follows strings and depth, and nothing else. Returns a number that depends on all of it. */
static uint64_t state_machine(const char *path)
{
    static char block[BLOCK];
    uint64_t strings = 0, depth = 0, nested = 0;
    bool inside = false, escaped = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; (got = read(fd, block, sizeof block)) > 0;) {
        for (ssize_t i = 0; i < got; i++) {
            char c = block[i];
            if (inside) {
                if (escaped)
                    escaped = false;
                else if (c == '\\')
                    escaped = true;
                else if (c == '"')
                    inside = false;
            } else if (c == '"') {
                inside = true;
                strings++;
            } else if (c == '{' || c == '[') {
                depth++;
                nested++;
            } else if (c == '}' || c == ']') {
                depth--;
            }
        }
    }
    close(fd);
    return strings + nested + depth;
}

static size_t analyse_file(const char *path)
{
    session s;
    foray_error err;
    if (session_open(NULL, NULL, &s, &err) != FORAY_OK ||
        session_add(&s, path, FORMAT_UNKNOWN, &err) != FORAY_OK || session_finish(&s, &err) != FORAY_OK) {
        fprintf(stderr, "bench_trace: %s\n", err.text);
        exit(1);
    }
    size_t events = s.input.events.parts[0].events;
    if (s.analyses[0].sums_wrong != 0)
        exit(1);
    session_free(&s);
    return events;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    size_t mebibytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 128, events = 0;
    char path[] = "/tmp/foray-bench-trace-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    uint64_t bytes = make_file(path, mebibytes),
             sink = state_machine(path); /* the file is in memory from here on */
    double plain[REPEATS], full[REPEATS];
    int64_t before = mem_get_stats().peak_bytes;
    for (int i = 0; i < REPEATS; i++) {
        int64_t a = clock_ns();
        sink += state_machine(path);
        int64_t b = clock_ns();
        events = analyse_file(path);
        int64_t c = clock_ns();
        plain[i] = (double)(b - a) / 1e9;
        full[i] = (double)(c - b) / 1e9;
    }
    unlink(path);
    qsort(plain, REPEATS, sizeof *plain, compare);
    qsort(full, REPEATS, sizeof *full, compare);
    int64_t peak = mem_get_stats().peak_bytes;
    printf("%.0f MB, %zu events (%" PRIu64 ")\n", (double)bytes / 1e6, events, sink & 1);
    printf("state machine      %.3f s (%.3f … %.3f), %.2f GB/s\n", plain[1], plain[0], plain[2],
           (double)bytes / 1e9 / plain[1]);
    printf("complete analysis  %.3f s (%.3f … %.3f), %.2f GB/s, %.2f times the state machine (wanted: at "
           "most 2.0)\n",
           full[1], full[0], full[2], (double)bytes / 1e9 / full[1], full[1] / plain[1]);
    printf("peak memory        %.1f MB, %.3f of the file (wanted: at most 0.25)\n", (double)peak / 1e6,
           (double)(peak > before ? peak : before) / (double)bytes);
    return 0;
}

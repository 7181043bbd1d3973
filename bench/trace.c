/* bench_trace [MEBIBYTES]: how fast `foray trace` is, against the least that must be done with the bytes.
 * bench_trace make kineto|ascend MEBIBYTES FILE: only writes such a file.
 *
 * A real profile is repeated with its times and ids shifted until the file has that size (default 1000; Ascend text and the
 * packed file a quarter of it). Then, in turn and five times each: a plain state machine that follows strings and depth
 * over the file, and `foray trace FILE`, the program itself with its report going nowhere. Prints medians with their extremes,
 * the median of the pairs' ratios, and the program's peak memory as the system counts it. A packed file is compared with
 * unpacking it and with the analysis of the plain one, whichever takes longer.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "timeline/source.h"

enum { BLOCK = 1 << 20, REPEATS = 5, MOST_SEED = 8 << 20, MOVED = 6 };

/* A kind of profile: a real file, and which whole numbers behind which keys move on with every copy. */
typedef struct {
    const char *name, *seed, *list, *tail;
    struct {
        const char *key;
        uint64_t by;
    } moved[MOVED];
} profile;

static const profile kineto = { "kineto",
                                FORAY_TESTS "/golden/traces/hta_alexnet.json.gz",
                                "\"traceEvents\": [",
                                "]}\n",
                                { { "\"ts\": ", 60000000 },
                                  { "\"correlation\": ", 100000 },
                                  { "\"id\": ", 100000 },
                                  { "\"External id\": ", 100000 } } };

static const profile ascend = { "ascend",
                                FORAY_TESTS "/golden/traces/ascend_rank0.json.gz",
                                "[",
                                "]\n",
                                { { "\"ts\": \"", 1000000 },
                                  { "\"correlation_id\": ", 100000 },
                                  { "\"connection_id\": ", 100000 },
                                  { "\"id\": \"", 100000ull << 32 },
                                  { "\"id\": ", 1000000000 } } };

static char seed[MOST_SEED];

static void refuse(const char *what)
{
    fprintf(stderr, "bench_trace: %s\n", what);
    exit(1);
}

/* The seed file, unpacked. Returns its bytes. */
static size_t read_seed(const char *path)
{
    source *s;
    foray_error err;
    size_t bytes = 0;
    if (source_open(path, &s, &err) != FORAY_OK)
        refuse(err.text);
    for (size_t n; bytes < sizeof seed && (n = source_read(s, seed + bytes, sizeof seed - bytes)) > 0;)
        bytes += n;
    source_close(s);
    return bytes;
}

/* Writes the events from..to once more, with whole numbers behind the profile's keys moved on. */
static void write_copy(FILE *out, const profile *kind, const char *from, const char *to, uint64_t copy)
{
    const char *done = from;
    for (const char *p = from; p < to; p++) {
        if (*p != '"')
            continue;
        for (size_t k = 0; k < MOVED && kind->moved[k].key != NULL; k++) {
            size_t n = strlen(kind->moved[k].key);
            if (strncmp(p, kind->moved[k].key, n) != 0 || p[n] < '0' || p[n] > '9')
                continue;
            char *end;
            uint64_t value = strtoull(p + n, &end, 10);
            fwrite(done, 1, (size_t)(p + n - done), out);
            fprintf(out, "%" PRIu64, value + copy * kind->moved[k].by);
            done = end;
            p = end - 1;
            break;
        }
    }
    fwrite(done, 1, (size_t)(to - done), out);
}

static uint64_t make_file(const profile *kind, size_t mebibytes, const char *path)
{
    size_t bytes = read_seed(kind->seed);
    char *list = strstr(seed, kind->list), *end = seed + bytes;
    FILE *out = fopen(path, "wb");
    if (list == NULL || out == NULL)
        refuse("cannot write the file");
    list += strlen(kind->list);
    while (*end != ']')
        end--;
    fwrite(seed, 1, (size_t)(list - seed), out);
    for (uint64_t copy = 0; (uint64_t)ftello(out) < (uint64_t)mebibytes << 20; copy++) {
        if (copy > 0)
            fputs(",\n", out);
        write_copy(out, kind, list, end, copy);
    }
    fputs(kind->tail, out);
    uint64_t written = (uint64_t)ftello(out);
    if (fclose(out) != 0)
        refuse("cannot write the file");
    return written;
}

static void pack(const char *path, const char *packed)
{
    static char block[BLOCK];
    FILE *in = fopen(path, "rb");
    gzFile out = gzopen(packed, "wb6");
    if (in == NULL || out == NULL)
        refuse("cannot pack the file");
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;)
        gzwrite(out, block, (unsigned)n);
    fclose(in);
    gzclose(out);
}

/* ---- what is measured ------------------------------------------------------------------------- */

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

/* zlib's inflate, and nothing else. */
static uint64_t unpack(const char *path)
{
    static char block[BLOCK];
    uint64_t bytes = 0;
    gzFile in = gzopen(path, "rb");
    gzbuffer(in, 128 << 10);
    for (int n; (n = gzread(in, block, sizeof block)) > 0;)
        bytes += (uint64_t)n;
    gzclose(in);
    return bytes;
}

/* Runs `foray trace path`; returns the most memory it had, in bytes. */
static uint64_t analyse_file(const char *foray, const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        execl(foray, foray, "trace", path, (char *)NULL);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0)
        refuse("foray trace failed");
    return (uint64_t)used.ru_maxrss << 10;
}

/* ---- figures ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sorts; prints the median and the extremes. */
static void print_spread(const char *what, double *values, const char *unit)
{
    qsort(values, REPEATS, sizeof *values, compare);
    printf("  %-46s %7.3f (%.3f – %.3f)%s", what, values[REPEATS / 2], values[0], values[REPEATS - 1], unit);
}

static double seconds_since(int64_t *at)
{
    int64_t now = clock_ns();
    double s = (double)(now - *at) / 1e9;
    *at = now;
    return s;
}

static void measure_plain(const char *foray, const profile *kind, const char *path, uint64_t bytes,
                          double gate)
{
    double plain[REPEATS], full[REPEATS], ratio[REPEATS];
    uint64_t peak = 0, sink = state_machine(path); /* the file is in memory from here on */
    for (int i = 0; i < REPEATS; i++) {
        int64_t at = clock_ns();
        sink += state_machine(path);
        plain[i] = seconds_since(&at);
        uint64_t used = analyse_file(foray, path);
        full[i] = seconds_since(&at);
        ratio[i] = full[i] / plain[i];
        peak = used > peak ? used : peak;
    }
    printf("%s text, %.0f MB (%" PRIu64 ")\n", kind->name, (double)bytes / 1e6, sink & 1);
    print_spread("state machine", plain, " s\n");
    print_spread("foray trace", full, " s\n");
    print_spread("foray trace to the state machine", ratio, "");
    printf("  (wanted: at most %.1f)\n", gate);
    printf("  %-46s %7.3f  (wanted: at most 0.25)\n", "peak memory to the file's size",
           (double)peak / (double)bytes);
}

static void measure_packed(const char *foray, const char *path, const char *packed)
{
    double inflate[REPEATS], plain[REPEATS], full[REPEATS], ratio[REPEATS];
    uint64_t sink = 0;
    for (int i = 0; i < REPEATS; i++) {
        int64_t at = clock_ns();
        sink += unpack(packed);
        inflate[i] = seconds_since(&at);
        analyse_file(foray, path);
        plain[i] = seconds_since(&at);
        analyse_file(foray, packed);
        full[i] = seconds_since(&at);
        ratio[i] = full[i] / (inflate[i] > plain[i] ? inflate[i] : plain[i]);
    }
    printf("kineto text, packed, %.0f MB unpacked\n", (double)sink / REPEATS / 1e6);
    print_spread("unpacking alone", inflate, " s\n");
    print_spread("foray trace, plain", plain, " s\n");
    print_spread("foray trace, packed", full, " s\n");
    print_spread("packed to the longer of the two", ratio, "");
    printf("\n");
}

/* A temporary file's name. */
static void name_file(char *path)
{
    int fd = mkstemp(path);
    if (fd < 0)
        refuse("no room for temporary files in /tmp");
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "make") == 0) {
        const profile *kind = strcmp(argv[2], ascend.name) == 0 ? &ascend : &kineto;
        printf("%" PRIu64 " bytes\n", make_file(kind, strtoul(argv[3], NULL, 10), argv[4]));
        return 0;
    }
    size_t mebibytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    char foray[4096], path[] = "/tmp/foray-bench-trace-XXXXXX", packed[] = "/tmp/foray-bench-trace-XXXXXX";
    const char *slash = strrchr(argv[0], '/');
    snprintf(foray, sizeof foray, "%.*sforay", slash != NULL ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
    name_file(path);
    uint64_t bytes = make_file(&kineto, mebibytes, path);
    measure_plain(foray, &kineto, path, bytes, 2.0);
    bytes = make_file(&ascend, mebibytes / 4, path);
    measure_plain(foray, &ascend, path, bytes, 4.0);
    make_file(&kineto, mebibytes / 4, path);
    name_file(packed);
    pack(path, packed);
    measure_packed(foray, path, packed);
    unlink(path);
    unlink(packed);
    return 0;
}

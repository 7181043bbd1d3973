/* side.c: reads and compares companions of Ascend's timelines; see side.h.
 *
 * JSON is walked by the keys above a value, tables by the names of their columns, since both vary from version to version. A
 * kernel's row is a task where one starts at the same nanosecond and bears the same name.
 */
#include "timeline/side.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/mem.h"
#include "timeline/csv.h"
#include "timeline/decimal.h"
#include "timeline/list.h"

enum { DEPTH = 24, MOST_JSON = 1 << 30 };

static bool holds(const char *start, size_t bytes, const char *text)
{
    return memmem(start, bytes, text, strlen(text)) != NULL;
}

side_kind side_kind_of(const char *start, size_t bytes)
{
    static const struct {
        const char *first, *second;
        side_kind kind;
    } marks[] = {
        { "\"Communication Time Info\"", "\"Elapse Time(ms)\"", SIDE_COLLECTIVES },
        { "\"Transport Type\"", "\"Bandwidth(GB/s)\"", SIDE_LINKS },
        { "\"experimental_config\"", "\"config\"", SIDE_INFO },
        { "\"parallel_group_info\"", "\"ENV_VARIABLES\"", SIDE_UNUSED },
        { "Name,", "Start Time(us),", SIDE_KERNELS },
        { "Step,Computing,", "Free", SIDE_STEPS },
        { "API Name,Time(us)", "Count", SIDE_UNUSED },
        { "OP Type,Core Type", "Count", SIDE_UNUSED },
        { "Name,Input Shapes,Call Stack", "Host Self Duration", SIDE_UNUSED },
        { "Step,Type,Index,Computing", "Free", SIDE_UNUSED },
    };
    if (bytes > 0 && memchr("{[", start[0], 2) != NULL && holds(start, bytes, "\"ph\""))
        return SIDE_NONE;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (holds(start, bytes, marks[i].first) && holds(start, bytes, marks[i].second))
            return marks[i].kind;
    return SIDE_NONE;
}

/* ---- JSON ------------------------------------------------------------------------------------- */

/* A value with the keys above it: key[0] its own, key[1] that of the object around it, … */
typedef struct {
    const json_reader *r;
    const char *key[DEPTH + 1];
    size_t bytes[DEPTH + 1];
} place;

static bool key_is(const place *p, size_t above, const char *text)
{
    if (above >= p->r->depth)
        return false;
    size_t at = p->r->depth - above;
    return p->key[at] != NULL && p->bytes[at] == strlen(text) && memcmp(p->key[at], text, p->bytes[at]) == 0;
}

static void copy_key(const place *p, size_t above, char *out, size_t room)
{
    size_t at = p->r->depth - above;
    if (above < p->r->depth && p->key[at] != NULL)
        snprintf(out, room, "%.*s", (int)p->bytes[at], p->key[at]);
}

/* Files may say anything: a sum that no clock counts stays at its end. */
static void add_ns(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = more > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t as_ms(const json_reader *r)
{
    int64_t ns;
    return decimal_ns(r->text, r->bytes, 6, &ns) ? ns : 0;
}

static void take_info(side_file *f, const place *p)
{
    if (key_is(p, 0, "rank_id") && p->r->kind == JR_NUMBER && p->r->whole && p->r->integer >= 0 &&
        p->r->integer < UINT16_MAX)
        f->rank = (int)p->r->integer;
    if (key_is(p, 0, "_profiler_level") && p->r->kind == JR_STRING)
        snprintf(f->level, sizeof f->level, "%.*s", (int)p->r->bytes, p->r->text);
}

static void take_collective(side_file *f, const place *p)
{
    if (p->r->kind != JR_NUMBER || key_is(p, 2, "Total Op Info") || key_is(p, 3, "Total Op Info"))
        return;
    if (key_is(p, 1, "Communication Time Info")) {
        f->collectives += key_is(p, 0, "Elapse Time(ms)");
        add_ns(&f->elapsed, key_is(p, 0, "Elapse Time(ms)") ? as_ms(p->r) : 0);
        add_ns(&f->transit, key_is(p, 0, "Transit Time(ms)") ? as_ms(p->r) : 0);
        add_ns(&f->waiting, key_is(p, 0, "Wait Time(ms)") ? as_ms(p->r) : 0);
        add_ns(&f->without_task, key_is(p, 0, "Idle Time(ms)") ? as_ms(p->r) : 0);
    }
    bool size = key_is(p, 0, "Transit Size(MB)"), time = key_is(p, 0, "Transit Time(ms)");
    if (!key_is(p, 2, "Communication Bandwidth Info") || !(size || time) || p->r->number <= 0)
        return;
    char kind[12] = "";
    copy_key(p, 1, kind, sizeof kind);
    if (strcmp(kind, "SDMA") == 0) /* the engine, whatever the link: the others' sum */
        return;
    size_t i = 0;
    while (i < f->traffic_kinds && strcmp(f->traffic[i].kind, kind) != 0)
        i++;
    if (i == SIDE_LINK_KINDS)
        return;
    if (i == f->traffic_kinds)
        snprintf(f->traffic[f->traffic_kinds++].kind, sizeof kind, "%s", kind);
    f->traffic[i].megabytes += size ? p->r->number : 0;
    add_ns(&f->traffic[i].ns, time ? as_ms(p->r) : 0);
}

/* Links between ranks over all of a kind of collective; a rank's own copies are no link. */
static void take_link(side_file *f, const place *p)
{
    char pair[24] = "", of[96] = "";
    copy_key(p, 2, of, sizeof of);
    if (strstr(of, "-total") == NULL)
        return;
    if (key_is(p, 0, "Transport Type") && p->r->kind == JR_STRING)
        snprintf(f->transport, sizeof f->transport, "%.*s", (int)p->r->bytes, p->r->text);
    if (!key_is(p, 0, "Bandwidth(GB/s)") || p->r->kind != JR_NUMBER || p->r->number <= 0 ||
        strcmp(f->transport, "LOCAL") == 0)
        return;
    copy_key(p, 1, pair, sizeof pair);
    f->links++;
    if (f->slow_rate == 0 || p->r->number < f->slow_rate) {
        f->slow_rate = p->r->number;
        memcpy(f->slow, pair, sizeof pair);
    }
    if (p->r->number > f->fast_rate) {
        f->fast_rate = p->r->number;
        memcpy(f->fast, pair, sizeof pair);
    }
}

static int read_json(side_file *f, foray_error *err)
{
    char *text;
    size_t bytes;
    uint8_t stack[DEPTH];
    int rc = file_read(f->path, MOST_JSON, &text, &bytes, err);
    if (rc != FORAY_OK)
        return rc;
    json_reader r;
    json_reader_init(&r, f->path, text, bytes, stack, DEPTH);
    place p = { .r = &r };
    for (json_kind k; (k = json_reader_next(&r)) != JR_END && k != JR_ERROR;) {
        if (k == JR_KEY) {
            p.key[r.depth] = r.text;
            p.bytes[r.depth] = r.bytes;
        } else if (k == JR_ARRAY) {
            p.key[r.depth] = NULL;
        } else if (k == JR_NUMBER || k == JR_STRING) {
            if (f->kind == SIDE_INFO)
                take_info(f, &p);
            else if (f->kind == SIDE_COLLECTIVES)
                take_collective(f, &p);
            else
                take_link(f, &p);
        }
    }
    rc = json_reader_error(&r, err);
    mem_free(MEM_GENERAL, text, bytes + 1);
    return rc;
}

/* ---- tables ----------------------------------------------------------------------------------- */

static int either_column(const csv *c, const char *name, const char *other)
{
    int found = csv_column(c, name);
    return found >= 0 ? found : csv_column(c, other);
}

static bool microseconds(const csv *c, int column, int64_t *ns)
{
    const char *text = csv_field(c, column);
    return decimal_ns(text, strlen(text), 3, ns);
}

static bool read_kernels(side_file *f, store *s, csv *c)
{
    int name = either_column(c, "Name", "Op Name"),
        start = either_column(c, "Start Time(us)", "Task Start Time(us)"),
        dur = either_column(c, "Duration(us)", "Task Duration(us)"),
        blocks = either_column(c, "Block Dim", "Block Num"),
        core = either_column(c, "Accelerator Core", "Task Type");
    while (csv_next(c)) {
        side_kernel k = { 0 };
        uint64_t wide;
        if (!microseconds(c, start, &k.start) || !microseconds(c, dur, &k.dur) || k.dur < 0) {
            f->bad_rows++;
            continue;
        }
        const char *on = csv_field(c, core), *called = csv_field(c, name), *wide_text = csv_field(c, blocks);
        k.comm = strcmp(on, "HCCL") == 0 || strcmp(on, "COMMUNICATION") == 0;
        k.name = names_add(&s->names, called, strlen(called));
        k.blocks =
            decimal_whole(wide_text, strlen(wide_text), &wide) && wide < UINT32_MAX ? (uint32_t)wide : 0;
        if (!list_reserve(&f->kernels, &f->kernel_cap, f->kernel_count + 1, sizeof *f->kernels))
            return false;
        f->kernels[f->kernel_count++] = k;
    }
    return true;
}

static void read_step_times(side_file *f, csv *c)
{
    int step = csv_column(c, "Step"), computing = csv_column(c, "Computing"),
        exposed = csv_column(c, "Communication(Not Overlapped)"), overlapped = csv_column(c, "Overlapped"),
        idle = csv_column(c, "Free");
    while (csv_next(c)) {
        int64_t ns[4];
        bool fine = microseconds(c, computing, &ns[0]) && microseconds(c, exposed, &ns[1]) &&
                    microseconds(c, overlapped, &ns[2]) && microseconds(c, idle, &ns[3]);
        f->bad_rows += !fine;
        if (!fine || f->steps++ > 0)
            continue;
        snprintf(f->step, sizeof f->step, "%.20s", csv_field(c, step));
        f->computing = ns[0];
        f->exposed = ns[1];
        f->overlapped = ns[2];
        f->idle = ns[3];
    }
}

static int read_table(side_file *f, store *s, foray_error *err)
{
    source *from;
    csv c;
    int rc = source_open(f->path, &from, err);
    if (rc != FORAY_OK)
        return rc;
    rc = csv_open(from, &c, err);
    if (rc == FORAY_OK) {
        if (!csv_next(&c))
            rc = fail(err, FORAY_EFILE, "%s: a table without a row", f->path);
        else if (f->kind != SIDE_KERNELS)
            read_step_times(f, &c);
        else if (!read_kernels(f, s, &c))
            rc = fail(err, FORAY_ENOMEM, "%s: out of memory", f->path);
        f->bad_rows += c.too_long;
        csv_close(&c);
    }
    source_close(from);
    return rc;
}

static int by_blocks(const void *a, const void *b)
{
    const side_kernel *x = a, *y = b;
    return x->blocks < y->blocks ? -1 : x->blocks > y->blocks;
}

int side_read(side_files *f, store *s, side_kind kind, const char *path, foray_error *err)
{
    if (kind == SIDE_UNUSED)
        return fail(err, FORAY_EFILE,
                    "%s: a companion of a trace that does not say when tasks ran: nothing here uses it",
                    path);
    size_t bytes = strlen(path) + 1;
    if (!list_reserve(&f->files, &f->cap, f->count + 1, sizeof *f->files))
        return fail(err, FORAY_ENOMEM, "%s: out of memory", path);
    side_file *x = &f->files[f->count];
    *x = (side_file) { .kind = kind, .rank = -1, .path = mem_alloc(MEM_RECORDS, bytes) };
    if (x->path == NULL)
        return fail(err, FORAY_ENOMEM, "%s: out of memory", path);
    memcpy(x->path, path, bytes);
    f->count++;
    int rc = kind == SIDE_KERNELS || kind == SIDE_STEPS ? read_table(x, s, err) : read_json(x, err);
    if (rc == FORAY_OK && x->kernel_count > 0)
        qsort(x->kernels, x->kernel_count, sizeof *x->kernels, by_blocks);
    return rc;
}

void side_free(side_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        mem_free(MEM_RECORDS, f->files[i].path, strlen(f->files[i].path) + 1);
        list_free(&f->files[i].kernels, &f->files[i].kernel_cap, sizeof *f->files[i].kernels);
    }
    list_free(&f->files, &f->cap, sizeof *f->files);
    f->count = 0;
}

/* ---- beside a trace --------------------------------------------------------------------------- */

static size_t folder_bytes(const char *path, size_t bytes)
{
    while (bytes > 0 && path[bytes - 1] != '/')
        bytes--;
    return bytes;
}

bool side_belongs(const side_file *f, const part *p)
{
    size_t mine = folder_bytes(f->path, strlen(f->path)), its = folder_bytes(p->path, strlen(p->path));
    for (int up = 0; up < 2; up++) {
        if (mine == its && memcmp(f->path, p->path, mine) == 0)
            return true;
        its = its > 0 ? folder_bytes(p->path, its - 1) : 0;
    }
    return false;
}

void side_apply(const side_files *f, store *s)
{
    for (size_t i = 0; i < f->count; i++)
        for (size_t p = 0; p < s->part_count && f->files[i].rank >= 0; p++)
            if (s->parts[p].rank < 0 && s->parts[p].format == FORMAT_ASCEND &&
                side_belongs(&f->files[i], &s->parts[p]))
                s->parts[p].rank = f->files[i].rank;
}

/* ---- what it says ----------------------------------------------------------------------------- */

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static bool is_task(const task_graph *g, const side_kernel *k)
{
    size_t low = 0, high = g->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->tasks[middle].start < k->start)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < g->count && g->tasks[low].start == k->start; low++)
        if (g->tasks[low].name == k->name)
            return true;
    return false;
}

/* kernels of f are sorted by blocks: so many, at most, have those in which half of the time is spent. */
static uint32_t half_in_blocks(const side_file *f, int64_t sum)
{
    int64_t so_far = 0;
    for (size_t i = 0; i < f->kernel_count; i++) {
        add_ns(&so_far, f->kernels[i].comm ? 0 : f->kernels[i].dur);
        if (so_far >= sum - so_far)
            return f->kernels[i].blocks;
    }
    return 0;
}

static void describe_kernels(const side_file *f, const task_graph *g, char *out, size_t room, bool *warning)
{
    size_t kernels = 0, found = 0;
    int64_t sum = 0;
    for (size_t i = 0; i < f->kernel_count; i++) {
        const side_kernel *k = &f->kernels[i];
        if (k->comm)
            continue;
        kernels++;
        found += is_task(g, k);
        add_ns(&sum, k->dur);
    }
    *warning = found < kernels;
    if (found == 0)
        snprintf(out, room, "none of its %zu kernels is in the timeline: it belongs to another run", kernels);
    else
        snprintf(out, room,
                 "%zu of its %zu kernels are in the timeline%s; half of their %.3f ms run in kernels of at "
                 "most %u blocks",
                 found, kernels, found < kernels ? ", which has lost the others" : "", ms(sum),
                 half_in_blocks(f, sum));
}

static void describe_collectives(const side_file *f, char *out, size_t room)
{
    int n = snprintf(
        out, room, "%zu collectives, %.3f ms: %.3f in transit, %.3f in waits, %.3f without a task of theirs",
        f->collectives, ms(f->elapsed), ms(f->transit), ms(f->waiting), ms(f->without_task));
    for (size_t i = 0; i < f->traffic_kinds && n > 0 && (size_t)n < room; i++)
        n += snprintf(out + n, room - (size_t)n, "; %s %.1f MB at %.1f GB/s", f->traffic[i].kind,
                      f->traffic[i].megabytes,
                      f->traffic[i].ns > 0 ? f->traffic[i].megabytes / ms(f->traffic[i].ns) : 0.0);
}

void side_describe(const side_file *f, const task_graph *g, char *out, size_t room, bool *warning)
{
    *warning = false;
    switch (f->kind) {
    case SIDE_INFO:
        snprintf(out, room, "rank %d, profiler level %s", f->rank,
                 f->level[0] != '\0' ? f->level : "not stated");
        break;
    case SIDE_KERNELS:
        describe_kernels(f, g, out, room, warning);
        break;
    case SIDE_STEPS:
        snprintf(out, room,
                 "the vendor's account of step %s (sets, not dependencies): computing %.3f, communication "
                 "alone %.3f, "
                 "overlapped %.3f, free %.3f ms",
                 f->step[0] != '\0' ? f->step : "1", ms(f->computing), ms(f->exposed), ms(f->overlapped),
                 ms(f->idle));
        break;
    case SIDE_COLLECTIVES:
        describe_collectives(f, out, room);
        break;
    case SIDE_LINKS:
        snprintf(out, room,
                 "%zu links between ranks: the slowest %s at %.1f GB/s, the fastest %s at %.1f GB/s",
                 f->links, f->slow, f->slow_rate, f->fast, f->fast_rate);
        break;
    default:
        out[0] = '\0';
        break;
    }
    size_t n = strlen(out);
    if (f->bad_rows > 0 && n < room)
        snprintf(out + n, room - n, "; %zu rows of it are unreadable", f->bad_rows);
}

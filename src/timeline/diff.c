/* diff.c: compares two runs; see diff.h. */
#include "timeline/diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "base/mem.h"
#include "base/rng.h"
#include "timeline/list.h"

enum { RESAMPLES = 400, MOST_BUCKETS = 64 };

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t median_of(int64_t *list, size_t n)
{
    qsort(list, n, sizeof *list, compare_int64);
    return n % 2 != 0 ? list[n / 2] : list[n / 2 - 1] + (list[n / 2] - list[n / 2 - 1]) / 2;
}

/* ---- figures ---------------------------------------------------------------------------------- */

/* A figure of the steps of a bucket: the wall (-1) or a phase. Returns how many. */
static size_t gather(const analysis *a, uint32_t b, int phase_or_wall, int64_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < a->step_count; i++)
        if (a->steps[i].bucket == (int)b)
            out[n++] = phase_or_wall < 0 ? a->steps[i].end - a->steps[i].start
                                         : a->steps[i].phases_ns[phase_or_wall];
    return n;
}

/* The 95 % interval of the difference of medians, by drawing both runs again with replacement. */
static void interval(const int64_t *a, size_t n, const int64_t *b, size_t m, int64_t *scratch, int64_t *low,
                     int64_t *high)
{
    int64_t off[RESAMPLES];
    uint32_t draw = 0;
    for (int k = 0; k < RESAMPLES; k++) {
        for (size_t i = 0; i < n; i++)
            scratch[i] = a[rng_at(7, draw++, RNG_TEST, 0, 0).word[0] % n];
        int64_t of_a = median_of(scratch, n);
        for (size_t i = 0; i < m; i++)
            scratch[i] = b[rng_at(7, draw++, RNG_TEST, 0, 0).word[0] % m];
        off[k] = median_of(scratch, m) - of_a;
    }
    qsort(off, RESAMPLES, sizeof *off, compare_int64);
    *low = off[RESAMPLES * 25 / 1000];
    *high = off[RESAMPLES - 1 - RESAMPLES * 25 / 1000];
}

/* Fills out->line from the two buckets. room: [3][the larger number of steps]. */
static void compare_buckets(const analysis *a, const analysis *b, diff_bucket *out, int64_t *room,
                            size_t most)
{
    int64_t *of_a = room, *of_b = room + most, *scratch = room + 2 * most;
    out->a_steps = a->buckets[out->a_bucket].steps;
    out->b_steps = b->buckets[out->b_bucket].steps;
    out->a_length = a->buckets[out->a_bucket].commit_length;
    out->b_length = b->buckets[out->b_bucket].commit_length;
    for (int p = -1; p < PHASE_COUNT; p++) {
        size_t n = gather(a, out->a_bucket, p, of_a), m = gather(b, out->b_bucket, p, of_b);
        diff_line *l = &out->line[out->lines];
        interval(of_a, n, of_b, m, scratch, &l->low_ns, &l->high_ns);
        l->a_ns = median_of(of_a, n);
        l->b_ns = median_of(of_b, m);
        l->what = p < 0 ? "wall" : phase_name((phase)p);
        l->shown = n >= 3 && m >= 3 && (l->low_ns > 0 || l->high_ns < 0);
        if (p < 0 || l->a_ns != 0 || l->b_ns != 0)
            out->lines++;
    }
}

/* Buckets that occur in both runs. Returns how many, or a negative code. */
static int match_buckets(const report *ra, const report *rb, diff_bucket *out, foray_error *err)
{
    size_t ga = report_first_group(ra), gb = report_first_group(rb);
    int n = 0;
    if (ga == SIZE_MAX || gb == SIZE_MAX)
        return fail(err, FORAY_EUSAGE, "--diff: one of the runs holds no steps");
    const analysis *a = &ra->analyses[ga], *b = &rb->analyses[gb];
    size_t most = a->step_count > b->step_count ? a->step_count : b->step_count;
    int64_t *room = mem_alloc(MEM_RECORDS, 3 * (most + 1) * sizeof *room);
    if (room == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for the comparison");
    for (uint32_t i = 0; i < a->bucket_count; i++)
        for (uint32_t j = 0; j < b->bucket_count && n < MOST_BUCKETS; j++)
            if (strcmp(names_text(&a->graph.s->names, a->buckets[i].key),
                       names_text(&b->graph.s->names, b->buckets[j].key)) == 0) {
                out[n] = (diff_bucket) { .a_bucket = i, .b_bucket = j };
                compare_buckets(a, b, &out[n++], room, most + 1);
            }
    mem_free(MEM_RECORDS, room, 3 * (most + 1) * sizeof *room);
    if (n == 0)
        return fail(
            err, FORAY_EUSAGE,
            "--diff: the runs have no bucket in common, so no step of one is like a step of the other");
    return n;
}

/* ---- manifests -------------------------------------------------------------------------------- */

/* "key": value pairs of a manifest, nested keys joined by a dot. */
typedef struct {
    struct {
        char key[80], value[120];
    } * pair;
    size_t count, cap;
} pairs;

static void take_pair(pairs *p, const char *prefix, const json_reader *key, json_reader *r)
{
    char name[80];
    char plain[64] = "";
    if (key->bytes < sizeof plain)
        memcpy(plain, key->text, key->bytes);
    snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", plain);
    json_reader_next(r);
    if (r->kind == JR_OBJECT && prefix[0] == '\0') {
        while (json_reader_next(r) == JR_KEY) {
            json_reader inner = *r;
            take_pair(p, name, &inner, r);
        }
        return;
    }
    if (list_reserve(&p->pair, &p->cap, p->count + 1, sizeof *p->pair)) {
        snprintf(p->pair[p->count].key, sizeof p->pair->key, "%s", name);
        snprintf(p->pair[p->count].value, sizeof p->pair->value, "%.*s",
                 (int)(r->bytes < 110 ? r->bytes : 110),
                 r->kind == JR_STRING || r->kind == JR_NUMBER ? r->text
                 : r->kind == JR_TRUE                         ? "true"
                 : r->kind == JR_FALSE                        ? "false"
                                                              : "");
        if (r->kind == JR_TRUE || r->kind == JR_FALSE)
            snprintf(p->pair[p->count].value, sizeof p->pair->value, "%s",
                     r->kind == JR_TRUE ? "true" : "false");
        p->count++;
    }
    json_reader_skip(r);
}

static void read_manifest(const char *text, size_t bytes, pairs *out)
{
    uint8_t stack[16];
    json_reader r;
    json_reader_init(&r, "manifest", text, bytes, stack, sizeof stack);
    if (json_reader_next(&r) != JR_OBJECT)
        return;
    while (json_reader_next(&r) == JR_KEY) {
        json_reader key = r;
        take_pair(out, "", &key, &r);
    }
}

/* A key that says where the files were put, or how busy the machine was, is no condition of the run. */
static bool is_condition(const char *key)
{
    static const char *const other[] = {
        "load",          "options.steps", "options.timeline", "options.verbose",
        "options.quiet", "options.json",  "options.model"
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strcmp(key, other[i]) == 0)
            return false;
    return true;
}

static const char *manifest_of(const report *r, size_t *bytes)
{
    const steps_file *f = &r->input->steps;
    for (size_t i = 0; i < f->file_count; i++)
        if (f->files[i].manifest != NULL) {
            *bytes = f->files[i].manifest_bytes;
            return f->files[i].manifest;
        }
    for (size_t i = 0; i < r->input->events.part_count; i++)
        if (r->input->events.parts[i].manifest != NULL) {
            *bytes = r->input->events.parts[i].manifest_bytes;
            return r->input->events.parts[i].manifest;
        }
    return NULL;
}

static const char *value_of(const pairs *p, const char *key)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->pair[i].key, key) == 0)
            return p->pair[i].value;
    return "";
}

/* Calls put for every condition that differs; returns how many, -1 where a run has no manifest. */
static int differing_conditions(const report *a, const report *b,
                                void (*put)(buf *, int, const char *, const char *, const char *), buf *out)
{
    size_t an = 0, bn = 0;
    const char *at = manifest_of(a, &an), *bt = manifest_of(b, &bn);
    pairs ap = { 0 }, bp = { 0 };
    int n = 0;
    if (at == NULL || bt == NULL)
        return -1;
    read_manifest(at, an, &ap);
    read_manifest(bt, bn, &bp);
    for (size_t i = 0; i < ap.count; i++)
        if (is_condition(ap.pair[i].key) && strcmp(ap.pair[i].value, value_of(&bp, ap.pair[i].key)) != 0)
            put(out, n++, ap.pair[i].key, ap.pair[i].value, value_of(&bp, ap.pair[i].key));
    for (size_t i = 0; i < bp.count; i++) {
        bool known = false;
        for (size_t k = 0; k < ap.count && !known; k++)
            known = strcmp(ap.pair[k].key, bp.pair[i].key) == 0;
        if (!known && is_condition(bp.pair[i].key))
            put(out, n++, bp.pair[i].key, "", bp.pair[i].value);
    }
    list_free(&ap.pair, &ap.cap, sizeof *ap.pair);
    list_free(&bp.pair, &bp.cap, sizeof *bp.pair);
    return n;
}

/* ---- text ------------------------------------------------------------------------------------- */

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static void put_condition(buf *out, int n, const char *key, const char *a, const char *b)
{
    (void)n;
    buf_printf(out, "  %s: %s → %s\n", key, a[0] != '\0' ? a : "(unset)", b[0] != '\0' ? b : "(unset)");
}

static void put_bucket(const report *a, const diff_bucket *d, buf *out)
{
    const analysis *of = &a->analyses[report_first_group(a)];
    buf_printf(out, "\n%s: %u steps against %u\n%-16s %10s %10s %10s   95 %% interval\n",
               names_text(&of->graph.s->names, of->buckets[d->a_bucket].key), d->a_steps, d->b_steps,
               "ms, medians", "A", "B", "B - A");
    const char *between = "";
    buf same = { 0 };
    for (size_t i = 0; i < d->lines; i++) {
        const diff_line *l = &d->line[i];
        if (l->shown || i == 0) {
            buf_printf(out, "%-16s %10.3f %10.3f %+10.3f   %+.3f … %+.3f%s\n", l->what, ms(l->a_ns),
                       ms(l->b_ns), ms(l->b_ns - l->a_ns), ms(l->low_ns), ms(l->high_ns),
                       l->shown ? "" : "  no difference shown");
        } else {
            buf_printf(&same, "%s%s", between, l->what);
            between = ", ";
        }
    }
    if (same.len > 0)
        buf_printf(out, "no difference shown: %s\n", same.data);
    buf_free(&same);
    if (d->a_length > 0 && d->b_length > 0) {
        const diff_line *w = &d->line[0];
        buf_printf(out,
                   "per token: %.3f → %.3f ms (commit length %.2f → %.2f); of it by length alone %+.3f, by "
                   "time alone %+.3f\n",
                   ms(w->a_ns) / d->a_length, ms(w->b_ns) / d->b_length, d->a_length, d->b_length,
                   ms(w->a_ns) / d->b_length - ms(w->a_ns) / d->a_length,
                   (ms(w->b_ns) - ms(w->a_ns)) / d->b_length);
    }
}

int diff_text(const report *a, const report *b, buf *out, foray_error *err)
{
    diff_bucket list[MOST_BUCKETS];
    int n = match_buckets(a, b, list, err);
    if (n < 0)
        return n;
    buf conditions = { 0 };
    int differ = differing_conditions(a, b, put_condition, &conditions);
    if (differ < 0)
        buf_puts(out, "conditions: at least one run states none, so nothing is known of what else changed\n");
    else if (differ == 0)
        buf_puts(out, "conditions: the same in both runs\n");
    else
        buf_printf(out, "conditions that differ%s:\n%s",
                   differ > 1 ? " (more than one: no cause can be named)" : "",
                   conditions.data != NULL ? conditions.data : "");
    buf_free(&conditions);
    for (int i = 0; i < n; i++)
        put_bucket(a, &list[i], out);
    return FORAY_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void put_json_condition(buf *out, int n, const char *key, const char *a, const char *b)
{
    buf_puts(out, n != 0 ? ",{\"key\":" : "{\"key\":");
    buf_json_string(out, key, strlen(key));
    buf_puts(out, ",\"a\":");
    buf_json_string(out, a, strlen(a));
    buf_puts(out, ",\"b\":");
    buf_json_string(out, b, strlen(b));
    buf_puts(out, "}");
}

int diff_json(const report *a, const report *b, buf *out, foray_error *err)
{
    diff_bucket list[MOST_BUCKETS];
    int n = match_buckets(a, b, list, err);
    if (n < 0)
        return n;
    buf_puts(out, "{\"conditions\":[");
    int differ = differing_conditions(a, b, put_json_condition, out);
    buf_printf(out, "],\"conditions_known\":%s,\"buckets\":[", differ >= 0 ? "true" : "false");
    const analysis *of = &a->analyses[report_first_group(a)];
    for (int i = 0; i < n; i++) {
        const diff_bucket *d = &list[i];
        const char *key = names_text(&of->graph.s->names, of->buckets[d->a_bucket].key);
        buf_puts(out, i != 0 ? ",{\"bucket\":" : "{\"bucket\":");
        buf_json_string(out, key, strlen(key));
        buf_printf(out, ",\"a_steps\":%u,\"b_steps\":%u,\"lines\":[", d->a_steps, d->b_steps);
        for (size_t k = 0; k < d->lines; k++) {
            const diff_line *l = &d->line[k];
            buf_printf(out,
                       "%s{\"what\":\"%s\",\"a_ns\":%" PRId64 ",\"b_ns\":%" PRId64 ",\"low_ns\":%" PRId64
                       ",\"high_ns\":%" PRId64 ",\"differs\":%s}",
                       k != 0 ? "," : "", l->what, l->a_ns, l->b_ns, l->low_ns, l->high_ns,
                       l->shown ? "true" : "false");
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "]}\n");
    return FORAY_OK;
}

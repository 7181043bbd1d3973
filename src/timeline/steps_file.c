/* steps_file.c: step records out of JSON lines (foray) or out of a saved /server_info answer (SGLang).
 *
 * In an answer the records stand in internal_states[…].dspark_info_record.records; anything else in it is passed over, so
 * the fields of future servers do no harm.
 */
#include "timeline/steps_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_reader.h"
#include "base/mem.h"
#include "timeline/decimal.h"
#include "timeline/list.h"

enum { DEPTH = 32 };

/* The most that a step can have. */
static const int64_t MOST_COUNT = 1 << 30, MOST_NS = (int64_t)24 * 3600 * 1000000000,
                     MOST_NUMBER = INT64_MAX / 2;

void steps_file_free(steps_file *f)
{
    for (size_t i = 0; i < f->file_count; i++) {
        mem_free(MEM_RECORDS, f->files[i].path, strlen(f->files[i].path) + 1);
        if (f->files[i].manifest != NULL)
            mem_free(MEM_RECORDS, f->files[i].manifest, f->files[i].manifest_bytes + 1);
    }
    list_free(&f->files, &f->file_cap, sizeof *f->files);
    list_free(&f->entries, &f->cap, sizeof *f->entries);
    *f = (steps_file) { 0 };
}

static bool holds(const char *start, size_t bytes, const char *text)
{
    return memmem(start, bytes, text, strlen(text)) != NULL;
}

bool steps_file_looks_like(const char *start, size_t bytes)
{
    if (holds(start, bytes, "\"traceEvents\"") || holds(start, bytes, "\"ph\""))
        return false;
    return holds(start, bytes, "\"forward_ct\"") || holds(start, bytes, "\"dspark_info_record\"") ||
           holds(start, bytes, "\"internal_states\"") ||
           (holds(start, bytes, "\"verify_num_draft_tokens\"") && holds(start, bytes, "\"components\""));
}

static char *copy_text(const char *text, size_t bytes)
{
    char *copy = mem_alloc(MEM_RECORDS, bytes + 1);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

/* A time in milliseconds as ns; -1: null. *fit becomes false where it is none that a step can have. */
static int64_t take_ms(const json_reader *r, bool *fit)
{
    int64_t ns = -1;
    if (r->kind == JR_NUMBER && decimal_ns(r->text, r->bytes, 6, &ns) && ns >= 0 && ns <= MOST_NS)
        return ns;
    *fit &= r->kind == JR_NULL;
    return -1;
}

static int64_t take_int(const json_reader *r, int64_t most, bool *fit)
{
    if (r->kind == JR_NUMBER && r->whole && r->integer >= 0 && r->integer <= most)
        return r->integer;
    *fit &= r->kind == JR_NULL;
    return -1;
}

/* The reader stands at the array behind "reqs"; sums up what was committed. */
static bool take_requests(json_reader *r, step_entry *e, bool *fit)
{
    if (r->kind != JR_ARRAY)
        return json_reader_skip(r);
    while (json_reader_next(r) == JR_OBJECT) {
        while (json_reader_next(r) == JR_KEY) {
            bool wanted = json_reader_is(r, "acc_len");
            json_reader_next(r);
            int64_t length = wanted ? take_int(r, MOST_COUNT, fit) : -1;
            if (length >= 0) {
                e->commit_sum = (e->commit_sum < 0 ? 0 : e->commit_sum) + length;
                e->committed_requests++;
            } else {
                json_reader_skip(r);
            }
        }
        if (r->kind != JR_OBJECT_END)
            return false;
    }
    return r->kind == JR_ARRAY_END;
}

static bool take_phases(json_reader *r, step_entry *e, bool *fit)
{
    if (r->kind != JR_OBJECT)
        return json_reader_skip(r);
    e->has_phases = true;
    while (json_reader_next(r) == JR_KEY) {
        int found = -1;
        for (int p = 0; p < PHASE_COUNT; p++)
            if (json_reader_is(r, phase_name((phase)p)))
                found = p;
        json_reader_next(r);
        if (found >= 0) {
            int64_t ns = take_int(r, MOST_NS, fit);
            e->phases_ns[found] = ns > 0 ? ns : 0;
        }
        json_reader_skip(r);
    }
    return r->kind == JR_OBJECT_END;
}

typedef enum {
    KEY_CT,
    KEY_BS,
    KEY_TOKENS,
    KEY_CPU,
    KEY_GPU,
    KEY_DRAFT,
    KEY_VERIFY,
    KEY_RANK,
    KEY_KIND,
    KEY_WALL,
    KEY_PHASES,
    KEY_REQS,
    KEY_OTHER
} record_key;

static record_key find_key(const json_reader *r)
{
    static const char *const keys[KEY_OTHER] = { "forward_ct",
                                                 "bs",
                                                 "num_verify_tokens",
                                                 "step_cpu_ms",
                                                 "step_gpu_ms",
                                                 "draft_gpu_ms",
                                                 "target_verify_gpu_ms",
                                                 "rank",
                                                 "kind",
                                                 "wall_ns",
                                                 "phases_ns",
                                                 "reqs" };
    int k = 0;
    while (k < KEY_OTHER && !json_reader_is(r, keys[k]))
        k++;
    return (record_key)k;
}

/* More in the phases than the step lasted? */
static bool phases_fit(const step_entry *e)
{
    int64_t wall = e->wall_ns > 0 ? e->wall_ns : e->step_ns, sum = 0;
    for (int p = 0; p < PHASE_COUNT; p++)
        sum += e->phases_ns[p];
    return wall <= 0 || sum <= wall;
}

/* Reads one record whose opening brace was just read. False: the JSON is broken. *fit: its values can be. */
static bool take_record(json_reader *r, step_entry *e, bool *fit)
{
    *e = (step_entry) { .forward_ct = -1,
                        .rank = -1,
                        .requests = -1,
                        .verify_tokens = -1,
                        .decode = true,
                        .wall_ns = -1,
                        .step_ns = -1,
                        .draft_ns = -1,
                        .verify_ns = -1,
                        .commit_sum = -1 };
    int64_t cpu_ns = -1;
    *fit = true;
    while (json_reader_next(r) == JR_KEY) {
        record_key k = find_key(r);
        json_reader_next(r);
        bool fine = true;
        switch (k) {
        case KEY_CT:
            e->forward_ct = take_int(r, MOST_NUMBER, fit);
            *fit &= e->forward_ct >= 0;
            break;
        case KEY_BS:
            e->requests = (int)take_int(r, MOST_COUNT, fit);
            break;
        case KEY_TOKENS:
            e->verify_tokens = (int)take_int(r, MOST_COUNT, fit);
            break;
        case KEY_CPU:
            cpu_ns = take_ms(r, fit);
            break;
        case KEY_GPU:
            e->step_ns = take_ms(r, fit);
            break;
        case KEY_DRAFT:
            e->draft_ns = take_ms(r, fit);
            break;
        case KEY_VERIFY:
            e->verify_ns = take_ms(r, fit);
            break;
        case KEY_RANK:
            e->rank = (int)take_int(r, MOST_COUNT, fit);
            break;
        case KEY_KIND:
            e->decode = !(r->kind == JR_STRING && json_reader_is(r, "prefill"));
            break;
        case KEY_WALL:
            e->wall_ns = take_int(r, MOST_NS, fit);
            break;
        case KEY_PHASES:
            fine = take_phases(r, e, fit);
            continue;
        case KEY_REQS:
            fine = take_requests(r, e, fit);
            continue;
        default:
            break;
        }
        if (!fine || !json_reader_skip(r))
            return false;
    }
    if (e->wall_ns < 0)
        e->wall_ns = cpu_ns;
    *fit &= phases_fit(e);
    return r->kind == JR_OBJECT_END;
}

/* Adds the record that stands at place, or counts it where its values cannot be. */
static int add_entry(steps_file *f, steps_source *from, const step_entry *e, bool fit, uint64_t place,
                     foray_error *err)
{
    if (!fit) {
        if (from->unfit++ == 0)
            from->first_unfit = place;
        return FORAY_OK;
    }
    if (!list_reserve(&f->entries, &f->cap, f->count + 1, sizeof *f->entries))
        return fail(err, FORAY_ENOMEM, "%s: out of memory", from->path);
    f->entries[f->count] = *e;
    f->entries[f->count++].file = (uint32_t)f->file_count;
    from->count++;
    return FORAY_OK;
}

/* ---- JSON lines ------------------------------------------------------------------------------- */

static bool is_blank(const char *text, size_t bytes)
{
    while (bytes > 0 && strchr(" \t\r", text[bytes - 1]) != NULL && text[bytes - 1] != '\0')
        bytes--;
    return bytes == 0;
}

static int read_lines(steps_file *f, steps_source *from, const char *text, size_t bytes, foray_error *err)
{
    int rc = FORAY_OK;
    uint64_t number = 0;
    for (size_t at = 0; at < bytes && rc == FORAY_OK;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end != NULL ? (size_t)(end - (text + at)) : bytes - at;
        uint8_t stack[DEPTH];
        json_reader r;
        step_entry e;
        bool fit = true;
        number++;
        json_reader_init(&r, from->path, text + at, length, stack, DEPTH);
        if (is_blank(text + at, length)) {
            /* nothing */
        } else if (json_reader_next(&r) != JR_OBJECT || !take_record(&r, &e, &fit)) {
            if (end == NULL)
                from->truncated = true;
            else if (from->broken++ == 0)
                from->first_broken = number;
        } else if (e.forward_ct >= 0 || !fit) {
            rc = add_entry(f, from, &e, fit, number, err);
        } else if (from->manifest == NULL && from->count == 0) {
            from->manifest = copy_text(text + at, length);
            from->manifest_bytes = length;
            from->foray = holds(text + at, length, "\"program\":\"foray\"");
        }
        at += length + 1;
    }
    return rc;
}

/* ---- answers ---------------------------------------------------------------------------------- */

/* Goes through a value of any shape; an array behind "records" is read as step records. */
static int read_answer(steps_file *f, steps_source *from, json_reader *r, int depth, foray_error *err)
{
    int rc = FORAY_OK;
    if (r->kind == JR_OBJECT) {
        while (rc == FORAY_OK && json_reader_next(r) == JR_KEY) {
            bool records = json_reader_is(r, "records");
            json_reader_next(r);
            if (records && r->kind == JR_ARRAY) {
                step_entry e;
                bool fit;
                for (uint64_t n = 1; rc == FORAY_OK && json_reader_next(r) == JR_OBJECT; n++)
                    if (take_record(r, &e, &fit) && (e.forward_ct >= 0 || !fit))
                        rc = add_entry(f, from, &e, fit, n, err);
            } else if (depth < 8 && (r->kind == JR_OBJECT || r->kind == JR_ARRAY)) {
                rc = read_answer(f, from, r, depth + 1, err);
            } else {
                json_reader_skip(r);
            }
        }
    } else if (r->kind == JR_ARRAY) {
        while (rc == FORAY_OK && json_reader_next(r) != JR_ARRAY_END && r->kind != JR_ERROR &&
               r->kind != JR_END) {
            if (r->kind == JR_OBJECT || r->kind == JR_ARRAY)
                rc = read_answer(f, from, r, depth + 1, err);
        }
    }
    return rc;
}

/* Says why nothing in a file is a step record. */
static int refuse_empty(const steps_source *from, foray_error *err)
{
    const char *places = from->answer ? "record" : "line";
    if (from->unfit > 0)
        return fail(err, FORAY_EFILE,
                    "%s: %s %" PRIu64 ": values that no step can have, as in all its records", from->path,
                    places, from->first_unfit);
    if (from->broken > 0)
        return fail(err, FORAY_EFILE, "%s: line %" PRIu64 ": no JSON object; no step record in the file",
                    from->path, from->first_broken);
    return fail(err, FORAY_EFILE, "%s: no step record in it", from->path);
}

static bool same_records(const steps_file *f, const steps_source *a, const steps_source *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const step_entry *x = &f->entries[a->first + i], *y = &f->entries[b->first + i];
        if (x->forward_ct != y->forward_ct || x->rank != y->rank || x->requests != y->requests ||
            x->verify_tokens != y->verify_tokens || x->wall_ns != y->wall_ns || x->step_ns != y->step_ns ||
            x->draft_ns != y->draft_ns || x->verify_ns != y->verify_ns || x->commit_sum != y->commit_sum)
            return false;
    }
    return true;
}

int steps_file_read(steps_file *f, const char *path, const char *text, size_t bytes, foray_error *err)
{
    steps_source from = { .path = copy_text(path, strlen(path)), .first = f->count };
    if (from.path == NULL || !list_reserve(&f->files, &f->file_cap, f->file_count + 1, sizeof *f->files)) {
        mem_free(MEM_RECORDS, from.path, strlen(path) + 1);
        return fail(err, FORAY_ENOMEM, "%s: out of memory", path);
    }
    const char *end = memchr(text, '\n', bytes);
    size_t line = end != NULL ? (size_t)(end - text) : bytes;
    int rc;
    if (holds(text, line < 65536 ? line : 65536, "internal_states") ||
        holds(text, bytes < 65536 ? bytes : 65536, "dspark_info_record") ||
        holds(text, line, "\"records\"")) {
        uint8_t stack[DEPTH];
        json_reader r;
        json_reader_init(&r, path, text, bytes, stack, DEPTH);
        json_reader_next(&r);
        from.answer = true;
        rc = read_answer(f, &from, &r, 0, err);
        if (rc == FORAY_OK && json_reader_error(&r, err) != FORAY_OK) {
            from.truncated = from.count > 0;
            rc = from.count > 0 ? FORAY_OK : FORAY_EFILE;
        }
    } else {
        rc = read_lines(f, &from, text, bytes, err);
    }
    if (rc == FORAY_OK && from.count == 0)
        rc = refuse_empty(&from, err);
    for (size_t i = 0; i < f->file_count && rc == FORAY_OK; i++)
        if (same_records(f, &f->files[i], &from))
            rc = fail(err, FORAY_EFILE, "%s: holds the step records of %s once more (give one of them)", path,
                      f->files[i].path);
    if (rc != FORAY_OK) {
        f->count = from.first;
        mem_free(MEM_RECORDS, from.path, strlen(path) + 1);
        if (from.manifest != NULL)
            mem_free(MEM_RECORDS, from.manifest, from.manifest_bytes + 1);
        return rc;
    }
    f->files[f->file_count++] = from;
    return FORAY_OK;
}

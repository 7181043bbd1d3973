/* overlay.c: writes the overlay, event by event; what is on the path says so in its args and has a lane of its own. */
#include "timeline/overlay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { LANE_STEPS = 1, LANE_PATH = 2, LANE_FIRST = 10 };

typedef struct {
    file_writer file;
    int64_t base;
    const char *between;
} overlay;

static void put_name(overlay *o, int rank, size_t tid, const char *what, const char *name)
{
    buf *out = &o->file.pending;
    buf_printf(out,
               "%s\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%zu,\"args\":{\"name\":", o->between,
               what, rank, tid);
    buf_json_string(out, name, strlen(name));
    buf_puts(out, "}}");
    o->between = ",";
}

/* Opens an event and leaves its args open. */
static buf *begin(overlay *o, int rank, size_t tid, const char *name, const char *cat, int64_t from,
                  int64_t to)
{
    buf *out = &o->file.pending;
    int64_t ts = from - o->base, dur = to - from;
    buf_printf(out,
               "%s\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%zu,\"cat\":\"%s\",\"ts\":%" PRId64 ".%03" PRId64
               ",\"dur\":%" PRId64 ".%03" PRId64 ",\"name\":",
               o->between, rank, tid, cat, ts / 1000, ts % 1000, dur / 1000, dur % 1000);
    buf_json_string(out, name, strlen(name));
    buf_puts(out, ",\"args\":{");
    o->between = ",";
    return out;
}

static int write_rank(overlay *o, const analysis *a, const group *g, foray_error *err)
{
    const store *s = a->graph.s;
    char title[48];
    int64_t base = g->base_ns;
    snprintf(title, sizeof title, "rank %d", g->rank);
    put_name(o, g->rank, 0, "process_name", title);
    put_name(o, g->rank, LANE_STEPS, "thread_name", "steps");
    put_name(o, g->rank, LANE_PATH, "thread_name", "critical path");
    for (size_t l = 0; l < a->graph.t->lanes; l++)
        if (a->graph.lane_first != NULL && a->graph.lane_first[l + 1] > a->graph.lane_first[l]) {
            snprintf(title, sizeof title, "stream %.30s", store_lane_name(s, l));
            put_name(o, g->rank, LANE_FIRST + l, "thread_name", title);
        }
    int rc = FORAY_OK;
    for (size_t i = 0; i < a->step_count && rc == FORAY_OK; i++) {
        const step *x = &a->steps[i];
        snprintf(title, sizeof title, "step %zu", i);
        buf *out = begin(o, g->rank, LANE_STEPS, title, "step", x->start + base, x->end + base);
        buf_printf(out, "\"kept\":%s}}", x->reason == STEP_KEPT ? "true" : "false");
        for (size_t k = 0; k < x->segments && rc == FORAY_OK; k++) {
            const segment *p = path_at(a, x->first_segment + k);
            out = begin(o, g->rank, LANE_PATH, names_text(&s->names, p->words), phase_name((phase)p->phase),
                        p->from + base, p->to + base);
            buf_printf(out, "\"kind\":\"%s\",\"stage\":\"%s\",\"evidence\":\"%s\"}}",
                       segment_kind_name((segment_kind)p->kind), phase_name((phase)p->owner),
                       evidence_name((evidence)p->how));
            rc = file_flush(&o->file, false, err);
        }
    }
    for (size_t i = 0; i < a->graph.count && rc == FORAY_OK; i++) {
        const task *x = &a->graph.tasks[i];
        buf *out = begin(o, g->rank, (size_t)LANE_FIRST + x->lane, task_name(&a->graph, x),
                         event_kind_name((event_kind)x->kind), x->start + base, x->end + base);
        buf_printf(out, "\"stage\":\"%s\",\"replay\":%u}}", phase_name((phase)x->phase), x->replay);
        rc = file_flush(&o->file, false, err);
    }
    return rc;
}

int overlay_write(const report *r, const char *path, foray_error *err)
{
    overlay o = { .base = INT64_MAX, .between = "" };
    for (size_t i = 0; i < r->count; i++) {
        const analysis *a = &r->analyses[i];
        int64_t base = r->groups->groups[i].base_ns;
        if (a->step_count > 0 && a->steps[0].start + base < o.base)
            o.base = a->steps[0].start + base;
        if (a->graph.count > 0 && a->graph.tasks[0].start + base < o.base)
            o.base = a->graph.tasks[0].start + base;
    }
    int rc = file_create(path, &o.file, err);
    if (rc != FORAY_OK)
        return rc;
    buf_puts(&o.file.pending, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (size_t i = 0; i < r->count && rc == FORAY_OK; i++)
        rc = write_rank(&o, &r->analyses[i], &r->groups->groups[i], err);
    buf_puts(&o.file.pending, "\n]}\n");
    if (rc == FORAY_OK)
        return file_commit(&o.file, err);
    file_abandon(&o.file);
    return rc;
}

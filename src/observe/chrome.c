/* chrome.c: lays task records out as trace events, one a line.
 *
 *     {"displayTimeUnit":"ns","metadata":{…},"traceEvents":[
 *     {"ph":"M",…},
 *     {"ph":"X",…}]}
 *
 * All numbers are integers or exact decimals of integers, so none can be NaN. Times count from the earliest
 * record, whose clock reading stands in metadata.base_ns. An arrow runs to a task that waited for an event
 * from the task on another stream of its rank whose end, at or before `ready`, came last.
 */
#include "observe/chrome.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

/* The numbering of kernel classes is that of kernel/kernel.h. */
static const char *const class_names[] = { "compute", "attention", "copy", "communication", "host" };
enum { CLASSES = sizeof class_names / sizeof *class_names };

typedef struct {
    file_writer file;
    const task_record *tasks; /* [count] */
    size_t count;
    int64_t base_ns;
    const char *const *stream_names; /* [streams], or NULL */
    int streams;
    size_t *by_end;  /* [count] indices of tasks, by (rank, end) */
    size_t *earlier; /* [count] for a place in by_end: the last place before it on another stream; or NONE */
    const char *between;
} writer;

static const size_t NONE = SIZE_MAX;

/* Nanoseconds as microseconds with three decimals, exactly. */
static void append_us(buf *out, const char *name, int64_t ns)
{
    const char *sign = ns < 0 ? "-" : "";
    uint64_t magnitude = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    buf_printf(out, ",\"%s\":%s%" PRIu64 ".%03" PRIu64, name, sign, magnitude / 1000, magnitude % 1000);
}

static void append_string(buf *out, const char *text)
{
    const char *shown = text != NULL ? text : "unnamed";
    buf_json_string(out, shown, strlen(shown));
}

/* Starts a line of its own for an event. */
static buf *begin_event(writer *w)
{
    buf *out = &w->file.pending;
    buf_printf(out, "%s\n", w->between);
    w->between = ",";
    return out;
}

static void write_task(writer *w, const task_record *t)
{
    buf *out = begin_event(w);
    buf_puts(out, "{\"ph\":\"X\",\"name\":");
    append_string(out, t->name);
    buf_printf(out, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d",
               t->kernel_class < CLASSES ? class_names[t->kernel_class] : "unknown", t->rank, t->stream);
    append_us(out, "ts", t->start_ns - w->base_ns);
    append_us(out, "dur", t->end_ns - t->start_ns);
    buf_printf(out, ",\"args\":{\"graph\":%d,\"node\":%d,\"round\":%" PRId64 ",\"phase\":\"%s\",\"rows\":%d",
               t->graph, t->node, t->round, phase_name((phase)t->phase), t->rows);
    append_us(out, "ready", t->ready_ns - w->base_ns);
    buf_printf(out, ",\"waited_event\":%d}}", t->waited_event);
}

/* The task whose end released t, or NULL. */
static const task_record *find_cause(const writer *w, const task_record *t)
{
    size_t low = 0,
           high = w->count; /* by_end[0 … low-1] end in an earlier rank, or in t's by its ready time */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const task_record *m = &w->tasks[w->by_end[middle]];
        if (m->rank < t->rank || (m->rank == t->rank && m->end_ns <= t->ready_ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    size_t place = low - 1;
    const task_record *m = &w->tasks[w->by_end[place]];
    if (m->rank == t->rank && m->stream == t->stream) {
        place = w->earlier[place];
        if (place == NONE)
            return NULL;
        m = &w->tasks[w->by_end[place]];
    }
    return m->rank == t->rank ? m : NULL;
}

static void write_arrow(writer *w, size_t id, const task_record *t)
{
    const task_record *cause = t->waited_event >= 0 ? find_cause(w, t) : NULL;
    if (cause == NULL)
        return;
    buf *out = begin_event(w);
    buf_printf(out, "{\"ph\":\"s\",\"id\":%zu,\"name\":\"event %d\",\"cat\":\"event\",\"pid\":%d,\"tid\":%d",
               id, t->waited_event, cause->rank, cause->stream);
    append_us(out, "ts", cause->end_ns - w->base_ns);
    buf_puts(out, "}");
    out = begin_event(w);
    buf_printf(
        out,
        "{\"ph\":\"f\",\"bp\":\"e\",\"id\":%zu,\"name\":\"event %d\",\"cat\":\"event\",\"pid\":%d,\"tid\":%d",
        id, t->waited_event, t->rank, t->stream);
    append_us(out, "ts", t->start_ns - w->base_ns);
    buf_puts(out, "}");
}

/* Names of processes (ranks) and threads (streams) that occur: each at its first task, by (rank, end). */
static void write_names(writer *w)
{
    int16_t rank = 0;
    for (size_t i = 0; i < w->count; i++) {
        const task_record *t = &w->tasks[w->by_end[i]];
        if (i != 0 && t->rank == rank)
            continue;
        rank = t->rank;
        buf *out = begin_event(w);
        buf_printf(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}",
                   rank, rank);
        for (int s = 0; w->stream_names != NULL && s < w->streams; s++) {
            out = begin_event(w);
            buf_printf(
                out, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", rank,
                s);
            append_string(out, w->stream_names[s]);
            buf_puts(out, "}}");
        }
    }
}

static int compare_ends(const void *a, const void *b, void *user)
{
    const task_record *tasks = user, *x = &tasks[*(const size_t *)a], *y = &tasks[*(const size_t *)b];
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

/* Fills by_end and earlier. */
static void order_tasks(writer *w)
{
    for (size_t i = 0; i < w->count; i++) {
        w->by_end[i] = i;
        if (i == 0 || w->tasks[i].start_ns < w->base_ns)
            w->base_ns = w->tasks[i].start_ns;
    }
    qsort_r(w->by_end, w->count, sizeof *w->by_end, compare_ends, (void *)w->tasks);
    for (size_t i = 0; i < w->count; i++) {
        const task_record *t = &w->tasks[w->by_end[i]], *p = i != 0 ? &w->tasks[w->by_end[i - 1]] : NULL;
        if (p == NULL)
            w->earlier[i] = NONE;
        else
            w->earlier[i] = p->rank == t->rank && p->stream == t->stream ? w->earlier[i - 1] : i - 1;
    }
}

int chrome_write(const char *path, const char *manifest_line, const task_record *tasks, size_t count,
                 uint64_t lost, const char *const *stream_names, int streams, foray_error *err)
{
    size_t bytes;
    if (!mem_size_mul(count, sizeof(size_t), &bytes))
        return fail(err, FORAY_ELIMIT, "%s: %zu tasks are too many", path, count);
    writer w = {
        .tasks = tasks, .count = count, .stream_names = stream_names, .streams = streams, .between = ""
    };
    w.by_end = mem_alloc(MEM_RECORDS, bytes);
    w.earlier = mem_alloc(MEM_RECORDS, bytes);
    int code = FORAY_OK;
    if (w.by_end == NULL || w.earlier == NULL) {
        code = fail(err, FORAY_ENOMEM, "%s: out of memory for %zu tasks", path, count);
        goto done;
    }
    code = file_create(path, &w.file, err);
    if (code != FORAY_OK)
        goto done;
    order_tasks(&w);
    buf_printf(&w.file.pending,
               "{\"displayTimeUnit\":\"ns\",\"metadata\":{\"manifest\":%s,\"base_ns\":%" PRId64
               ",\"tasks\":%zu,\"lost_tasks\":%" PRIu64 "},\"traceEvents\":[",
               manifest_line != NULL ? manifest_line : "null", w.base_ns, count, lost);
    write_names(&w);
    for (size_t i = 0; i < count && code == FORAY_OK; i++) {
        write_task(&w, &tasks[i]);
        write_arrow(&w, i, &tasks[i]);
        code = file_flush(&w.file, false, err);
    }
    buf_puts(&w.file.pending, "\n]}\n");
    if (code == FORAY_OK)
        code = file_commit(&w.file, err);
    else
        file_abandon(&w.file);
done:
    mem_free(MEM_RECORDS, w.by_end, bytes);
    mem_free(MEM_RECORDS, w.earlier, bytes);
    return code;
}

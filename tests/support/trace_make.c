/* trace_make.c: writes the events; see trace_make.h. */
#include "support/trace_make.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "timeline/list.h"

void trace_make_open(trace_make *m, int64_t scale, int64_t shift)
{
    *m = (trace_make) { .scale = scale, .shift = shift };
}

void trace_make_free(trace_make *m)
{
    buf_free(&m->lines);
    list_free(&m->start, &m->cap, sizeof *m->start);
}

static void begin_line(trace_make *m)
{
    assert_true(list_reserve(&m->start, &m->cap, m->count + 1, sizeof *m->start));
    m->start[m->count++] = m->lines.len;
}

static void put_times(trace_make *m, int64_t start, int64_t dur)
{
    int64_t at = start * m->scale + m->shift, length = dur * m->scale;
    buf_printf(&m->lines, ",\"ts\":%s%lld.%03lld,\"dur\":%" PRId64 ".%03" PRId64, at < 0 ? "-" : "",
               llabs(at) / 1000, llabs(at) % 1000, length / 1000, length % 1000);
}

void trace_make_host(trace_make *m, const char *cat, const char *name, int tid, int64_t start, int64_t dur,
                     int64_t correlation)
{
    begin_line(m);
    buf_printf(&m->lines, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":4242,\"tid\":%d", cat, name,
               tid);
    put_times(m, start, dur);
    if (correlation != 0)
        buf_printf(&m->lines, ",\"args\":{\"correlation\":%" PRId64 "}", correlation);
    buf_puts(&m->lines, "}");
}

void trace_make_task(trace_make *m, const char *cat, const char *name, int stream, int64_t start, int64_t dur,
                     int64_t correlation)
{
    begin_line(m);
    buf_printf(&m->lines, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":0,\"tid\":%d", cat, name,
               stream);
    put_times(m, start, dur);
    buf_printf(&m->lines, ",\"args\":{\"device\":0,\"stream\":%d,\"correlation\":%" PRId64 "}}", stream,
               correlation);
}

void trace_make_wait(trace_make *m, int stream, int on, int64_t at, int64_t wait, int64_t record)
{
    begin_line(m);
    buf_printf(&m->lines,
               "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait Event\",\"pid\":0,\"tid\":%d",
               stream);
    put_times(m, at, 0);
    buf_printf(&m->lines,
               ",\"args\":{\"cuda_sync_kind\":\"Stream Wait "
               "Event\",\"stream\":%d,\"wait_on_stream\":%d,\"correlation\":%" PRId64,
               stream, on, wait);
    if (record != 0)
        buf_printf(&m->lines, ",\"wait_on_cuda_event_record_corr_id\":%" PRId64, record);
    buf_puts(&m->lines, "}}");
}

void trace_make_line(trace_make *m, const char *json)
{
    begin_line(m);
    buf_puts(&m->lines, json);
}

void trace_make_text(const trace_make *m, uint32_t seed, int parts, int which, buf *out)
{
    size_t *order = mem_alloc(MEM_GENERAL, (m->count + 1) * sizeof *order);
    assert_non_null(order);
    for (size_t i = 0; i < m->count; i++)
        order[i] = i;
    for (size_t i = m->count; seed != 0 && i > 1; i--) {
        size_t j = rng_at(seed, (uint32_t)i, RNG_TEST, 0, 0).word[0] % i, other = order[i - 1];
        order[i - 1] = order[j];
        order[j] = other;
    }
    buf_puts(out, "{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":0},\"traceEvents\":[");
    const char *between = "\n";
    for (size_t i = 0; i < m->count; i++) {
        if ((int)(i % (size_t)parts) != which)
            continue;
        size_t from = m->start[order[i]],
               to = order[i] + 1 < m->count ? m->start[order[i] + 1] : m->lines.len;
        buf_puts(out, between);
        buf_append(out, m->lines.data + from, to - from);
        between = ",\n";
    }
    buf_puts(out, "\n],\"traceName\":\"made\"}\n");
    mem_free(MEM_GENERAL, order, (m->count + 1) * sizeof *order);
}

void trace_make_session(const char *text, size_t bytes, session *out)
{
    foray_error err;
    if (session_open(NULL, NULL, out, &err) != FORAY_OK ||
        session_add_text(out, "made.json", text, bytes, &err) != FORAY_OK ||
        session_finish(out, &err) != FORAY_OK)
        fail_msg("%s", err.text);
}

void trace_make_analysed(const trace_make *m, session *out)
{
    buf text = { 0 };
    trace_make_text(m, 0, 1, 0, &text);
    trace_make_session(text.data, text.len, out);
    buf_free(&text);
}

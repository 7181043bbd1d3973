/* device_program.c: see device_program.h.
 */
#include "support/device_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static int draw(uint64_t seed, uint32_t *n, int below)
{
    return (int)(rng_at(seed, (*n)++, RNG_TEST, 7, 0).word[0] % (uint32_t)below);
}

static bool touches(const program_op *o, int buffer)
{
    return o->dst == buffer || o->a == buffer || o->b == buffer;
}

static bool conflict(const program_op *x, const program_op *y)
{
    return touches(y, x->dst) || touches(x, y->dst);
}

void program_make(random_program *p, uint64_t seed, int count)
{
    uint32_t n = 0;
    memset(p, 0, sizeof *p);
    p->count = count;
    p->streams = 1 + draw(seed, &n, PROGRAM_STREAMS);
    p->buffers = 2 + draw(seed, &n, PROGRAM_BUFFERS - 1);
    for (int i = 0; i < count; i++)
        p->op[i] = (program_op) { .stream = draw(seed, &n, p->streams),
                                  .dst = draw(seed, &n, p->buffers),
                                  .a = draw(seed, &n, p->buffers),
                                  .b = draw(seed, &n, p->buffers),
                                  .number = i + 1 };
    for (int to = 0; to < count; to++) {
        for (int from = 0; from < to; from++) {
            if (p->op[from].stream != p->op[to].stream && conflict(&p->op[from], &p->op[to]))
                p->wait[p->waits++] = (program_wait) { .from = from, .to = to };
        }
    }
}

void program_close(const random_program *p, int without, program_order *out)
{
    memset(out, 0, sizeof *out);
    for (int to = 0; to < p->count; to++) {
        for (int from = 0; from < to; from++)
            out->before[from][to] = p->op[from].stream == p->op[to].stream;
    }
    for (int i = 0; i < p->waits; i++) {
        if (i != without)
            out->before[p->wait[i].from][p->wait[i].to] = true;
    }
    for (int k = 0; k < p->count; k++) {
        for (int i = 0; i < k; i++) {
            for (int j = k + 1; j < p->count; j++)
                out->before[i][j] |= out->before[i][k] && out->before[k][j];
        }
    }
}

static int64_t mix(int64_t dst, int64_t a, int64_t b, int number)
{
    uint64_t x = (uint64_t)dst * 0x9e3779b97f4a7c15u + (uint64_t)a * 3 + (uint64_t)b * 5 + (uint64_t)number;
    return (int64_t)(x ^ x >> 29);
}

static void run_op(const program_op *o, int64_t *dst, const int64_t *a, const int64_t *b)
{
    *dst = mix(*dst, *a, *b, o->number);
}

void random_program_run(const random_program *p, int64_t *buffer)
{
    for (int i = 0; i < p->count; i++) {
        const program_op *o = &p->op[i];
        run_op(o, &buffer[o->dst], &buffer[o->a], &buffer[o->b]);
    }
}

/* ---- on a device ---- */

static void run_step(void *user)
{
    struct program_step *s = user;
    program_bench *b = s->bench;
    const program_op *o = &b->p->op[s->op];
    run_op(o, b->buffer[o->dst], b->buffer[o->a], b->buffer[o->b]);
    int at = atomic_fetch_add(&b->logged, 1);
    if (at < (int)(sizeof b->log / sizeof b->log[0]))
        b->log[at] = s->op;
}

void bench_open(program_bench *b, const random_program *p, device *d)
{
    static const char *const stream_names[PROGRAM_STREAMS] = { "zero", "one", "two", "three" };
    static const char *const buffer_names[PROGRAM_BUFFERS] = { "A", "B", "C", "D", "E", "F" };
    memset(b, 0, sizeof *b);
    b->p = p;
    b->d = d;
    for (int i = 0; i < p->buffers; i++)
        assert_int_equal(device_alloc(d, buffer_names[i], sizeof(int64_t), (void **)&b->buffer[i], NULL), 0);
    for (int i = 0; i < p->streams; i++) {
        assert_int_equal(stream_create(d, stream_names[i], &b->stream[i], NULL), 0);
        assert_int_equal(event_create(d, "join", &b->join[i], NULL), 0);
    }
    for (int i = 0; i < p->count; i++) {
        assert_int_equal(event_create(d, "after", &b->event[i], NULL), 0);
        b->step[i] = (struct program_step) { .bench = b, .op = i };
    }
    assert_int_equal(event_create(d, "fork", &b->fork, NULL), 0);
    assert_int_equal(graph_pool_create(d, 0, &b->pool, NULL), 0);
}

void bench_close(program_bench *b)
{
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        stream_destroy(b->stream[i]);
        event_destroy(b->join[i]);
    }
    for (int i = 0; i < PROGRAM_OPS; i++)
        event_destroy(b->event[i]);
    event_destroy(b->fork);
    graph_pool_destroy(b->pool);
    for (int i = 0; i < PROGRAM_BUFFERS; i++)
        device_free(b->d, b->buffer[i]);
}

void bench_set(program_bench *b, const int64_t *buffer)
{
    for (int i = 0; i < b->p->buffers; i++)
        *b->buffer[i] = buffer[i];
    b->logged = 0;
}

void bench_get(const program_bench *b, int64_t *buffer)
{
    for (int i = 0; i < b->p->buffers; i++)
        buffer[i] = *b->buffer[i];
}

int bench_emit(program_bench *b, int without, foray_error *err)
{
    const random_program *p = b->p;
    int rc = event_record(b->fork, b->stream[0], err);
    for (int i = 1; rc == 0 && i < p->streams; i++)
        rc = stream_wait(b->stream[i], b->fork, err);
    for (int i = 0; rc == 0 && i < p->count; i++) {
        const program_op *o = &p->op[i];
        stream *s = b->stream[o->stream];
        for (int w = 0; rc == 0 && w < p->waits; w++) {
            if (p->wait[w].to == i && w != without)
                rc = stream_wait(s, b->event[p->wait[w].from], err);
        }
        kernel_args args = { .host = { .name = "mix", .run = run_step, .user = &b->step[i] } };
        args.host.reads[0] = b->buffer[o->a];
        args.host.reads[1] = b->buffer[o->b];
        args.host.writes[0] = b->buffer[o->dst];
        if (rc == 0)
            rc = stream_launch(s, KERNEL_HOST, &args, err);
        if (rc == 0)
            rc = event_record(b->event[i], s, err);
    }
    for (int i = 1; rc == 0 && i < p->streams; i++) {
        rc = event_record(b->join[i], b->stream[i], err);
        if (rc == 0)
            rc = stream_wait(b->stream[0], b->join[i], err);
    }
    return rc;
}

int bench_capture(program_bench *b, int without, graph **out, foray_error *err)
{
    int rc = stream_capture_begin(b->stream[0], b->pool, err);
    if (rc)
        return rc;
    rc = bench_emit(b, without, err);
    int end = stream_capture_end(b->stream[0], out, rc ? NULL : err);
    return rc ? rc : end;
}

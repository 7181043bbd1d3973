/* experts_case.c: see experts_case.h. */
#include "support/experts_case.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "support/matmul_case.h"

/* Rows [first, first + rows) of one of the two long matrices. */
static weight_source part(const experts_weights *w, int which, int first, int rows, int cols, size_t stride)
{
    const dtype type = w->shape.type;
    uint64_t before;
    dtype_bytes(type, (uint64_t)first * (uint64_t)cols, &before);
    return (weight_source) { .data = w->data[which] + before,
                             .type = type,
                             .rows = rows,
                             .cols = cols,
                             .scale = w->scales[which],
                             .scale_stride = stride,
                             .first_row = first };
}

experts_weights experts_case_weights(const experts_shape *s, uint64_t seed)
{
    experts_weights w = { .shape = *s };
    const int rows[2] = { 2 * s->experts * s->width, s->experts * s->dim }, cols[2] = { s->dim, s->width };
    size_t stride[2];
    for (int i = 0; i < 2; i++) {
        w.data[i] = matmul_random_weights(s->type, rows[i], cols[i], VALUES_ORDINARY, seed + (uint64_t)i,
                                          &w.bytes[i]);
        w.scales[i] = matmul_random_scales(s->type, rows[i], cols[i], VALUES_ORDINARY, seed + 2 + (uint64_t)i,
                                           &w.scale_bytes[i], &stride[i]);
    }
    w.sources = mem_alloc_zeroed(MEM_GENERAL, (size_t)s->experts * sizeof *w.sources);
    for (int e = 0; e < s->experts; e++)
        w.sources[e] = (expert_source) {
            .gate = part(&w, 0, 2 * e * s->width, s->width, s->dim, stride[0]),
            .up = part(&w, 0, (2 * e + 1) * s->width, s->width, s->dim, stride[0]),
            .down = part(&w, 1, e * s->dim, s->dim, s->width, stride[1]),
        };
    return w;
}

void experts_case_free_weights(experts_weights *w)
{
    mem_free(MEM_GENERAL, w->sources, (size_t)w->shape.experts * sizeof *w->sources);
    for (int i = 0; i < 2; i++) {
        mem_free(MEM_GENERAL, w->data[i], w->bytes[i]);
        mem_free(MEM_GENERAL, w->scales[i], w->scale_bytes[i]);
    }
}

/* The next n words of the pass's memory; without memory only counted. */
static void *take(experts_pass *p, size_t n)
{
    void *at = p->memory ? (char *)p->memory + p->bytes : NULL;
    p->bytes += (n * 4 + 63) / 64 * 64;
    return at;
}

static void lay_out(experts_pass *p)
{
    const experts_shape *s = &p->shape;
    const size_t rows = (size_t)s->max_rows, pairs = rows * (size_t)s->chosen;
    p->live = take(p, 1);
    p->x = take(p, rows * (size_t)s->dim);
    p->logits = take(p, rows * (size_t)s->experts);
    p->norm = take(p, (size_t)s->dim);
    p->add = take(p, rows * (size_t)s->dim);
    p->choice = take(p, pairs);
    p->first = take(p, (size_t)s->experts + 1);
    p->pair = take(p, pairs);
    p->distinct = take(p, 1);
    p->weight = take(p, pairs);
    p->inner = take(p, pairs * (size_t)s->width);
    p->y = take(p, pairs * (size_t)s->dim);
    p->out = take(p, rows * (size_t)s->dim);
}

static void fill(float *out, size_t n, float scale, uint64_t seed)
{
    float *x = matmul_random_floats(n, VALUES_ORDINARY, seed);
    for (size_t i = 0; i < n; i++)
        out[i] = scale * x[i];
    mem_free(MEM_GENERAL, x, n * sizeof *x);
}

experts_pass experts_case_pass(const experts_shape *s, int live, uint64_t seed)
{
    experts_pass p = { .shape = *s };
    lay_out(&p);
    p.memory = mem_alloc(MEM_GENERAL, p.bytes);
    assert(p.memory);
    memset(p.memory, 0x7f, p.bytes);
    p.bytes = 0;
    lay_out(&p);
    *p.live = live;
    const size_t rows = (size_t)s->max_rows, dim = (size_t)s->dim;
    fill(p.x, rows * dim, 1, seed);
    fill(p.logits, rows * (size_t)s->experts, 8, seed + 1);
    fill(p.norm, dim, 1, seed + 2);
    fill(p.add, rows * dim, 1, seed + 3);
    return p;
}

void experts_case_free_pass(experts_pass *p)
{
    mem_free(MEM_GENERAL, p->memory, p->bytes);
}

static row_count rows_of(const experts_pass *p)
{
    return (row_count) { .live = p->live, .max = p->shape.max_rows };
}

kernel_args experts_case_route(const experts_pass *p)
{
    return (kernel_args) { .route = { .rows = rows_of(p),
                                      .logits = p->logits,
                                      .experts = p->shape.experts,
                                      .chosen = p->shape.chosen,
                                      .scale = 1.5f,
                                      .choice = p->choice,
                                      .weight = p->weight } };
}

kernel_args experts_case_group(const experts_pass *p)
{
    return (kernel_args) { .group = { .rows = rows_of(p),
                                      .choice = p->choice,
                                      .experts = p->shape.experts,
                                      .chosen = p->shape.chosen,
                                      .first = p->first,
                                      .pair = p->pair,
                                      .distinct = p->distinct } };
}

kernel_args experts_case_gate_up(const experts_pass *p, const expert_block *b)
{
    return (kernel_args) { .experts = { .max_rows = p->shape.max_rows,
                                        .experts = p->shape.experts,
                                        .chosen = p->shape.chosen,
                                        .first = p->first,
                                        .pair = p->pair,
                                        .w = b->gate_up,
                                        .x = p->x,
                                        .norm = p->shape.norm ? p->norm : NULL,
                                        .eps = 1e-6f,
                                        .weight = p->weight,
                                        .limit = p->shape.limit,
                                        .out = p->inner } };
}

kernel_args experts_case_down(const experts_pass *p, const expert_block *b)
{
    return (kernel_args) { .experts = { .max_rows = p->shape.max_rows,
                                        .experts = p->shape.experts,
                                        .chosen = p->shape.chosen,
                                        .first = p->first,
                                        .pair = p->pair,
                                        .w = b->down,
                                        .x = p->inner,
                                        .by_pair = true,
                                        .out = p->y } };
}

kernel_args experts_case_combine(const experts_pass *p)
{
    return (kernel_args) { .combine = { .rows = rows_of(p),
                                        .y = p->y,
                                        .add = p->add,
                                        .chosen = p->shape.chosen,
                                        .dim = p->shape.dim,
                                        .out = p->out } };
}

static void run(const kernel_table *t, kernel_id id, kernel_args args)
{
    matmul_run_kernel(&t->kernel[id], &args);
}

void experts_case_run(const kernel_table *t, const experts_pass *p, const expert_block *b, bool route)
{
    if (route)
        run(t, KERNEL_ROUTE, experts_case_route(p));
    run(t, KERNEL_GROUP, experts_case_group(p));
    run(t, KERNEL_EXPERTS, experts_case_gate_up(p, b));
    run(t, KERNEL_EXPERTS, experts_case_down(p, b));
    run(t, KERNEL_COMBINE, experts_case_combine(p));
}

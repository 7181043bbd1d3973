/* experts_case.h: a random layer of experts and a pass of rows through it, kernel by kernel, for tests and benchmarks.
 *
 * A case owns its memory. Threads: one.
 */
#ifndef FORAY_TESTS_SUPPORT_EXPERTS_CASE_H
#define FORAY_TESTS_SUPPORT_EXPERTS_CASE_H

#include "kernel/expert_block.h"
#include "kernel/impl.h"

typedef struct {
    dtype type; /* of all weights */
    int dim, width, experts, chosen;
    int max_rows;
    float limit;
    bool norm;
} experts_shape;

/* Weights as files hold them: [expert][gate, up] and [expert][down]. Owned. */
typedef struct {
    experts_shape shape;
    expert_source *sources;       /* [experts] */
    uint8_t *data[2], *scales[2]; /* of all gates and ups, of all downs */
    size_t bytes[2], scale_bytes[2];
} experts_weights;

experts_weights experts_case_weights(const experts_shape *s, uint64_t seed);
void experts_case_free_weights(experts_weights *w);

/* What a pass reads and writes, all from one allocation. x, logits, norm are random, the rest is garbage (0x7f). */
typedef struct {
    experts_shape shape;
    int32_t *live;                             /* [1] */
    float *x, *logits, *norm, *add;            /* [rows, dim], [rows, experts], [dim], [rows, dim] */
    int32_t *choice, *first, *pair, *distinct; /* [rows, chosen], [experts + 1], [rows, chosen], [1] */
    float *weight, *inner, *y, *out;           /* [pairs], [pairs, width], [pairs, dim], [rows, dim] */
    void *memory;
    size_t bytes;
} experts_pass;

experts_pass experts_case_pass(const experts_shape *s, int live, uint64_t seed);
void experts_case_free_pass(experts_pass *p);

/* The arguments of each kernel of the pass. */
kernel_args experts_case_route(const experts_pass *p);
kernel_args experts_case_group(const experts_pass *p);
kernel_args experts_case_gate_up(const experts_pass *p, const expert_block *b);
kernel_args experts_case_down(const experts_pass *p, const expert_block *b);
kernel_args experts_case_combine(const experts_pass *p);

/* All five in order; without `route` the choice and the weights stand as they are. */
void experts_case_run(const kernel_table *t, const experts_pass *p, const expert_block *b, bool route);

#endif

/* args_experts.h: arguments of the mixture-of-experts kernels: each row chooses a few experts, rows are grouped by expert
 * on the device, every chosen expert runs over its rows, and a row adds up its own results in the order of its
 * choice, so that nothing depends on which other rows there are (spec: DeepSeek-V4 2.8). Part of kernel.h.
 *
 *   pair = row * chosen + i: the i-th choice of a row
 *
 *   choice  row 0: 5 2   row 1: 2 7     first  … [2]=0 [3]=2 … [5]=2 [6]=3 [7]=3 [8]=4
 *                                       pair   1 2 | 0 | 3       (pairs in ascending order inside an expert)
 */
#ifndef FORAY_KERNEL_ARGS_EXPERTS_H
#define FORAY_KERNEL_ARGS_EXPERTS_H

#include <stdbool.h>

#include "kernel/rows.h"
#include "kernel/weight.h"

enum { EXPERTS_MAX_CHOSEN = 32, EXPERTS_MAX = 1024 };

/* s = sqrt(softplus(logits)). The `chosen` experts with the largest s + bias (ties: lowest id, order: descending), or
 * those of table[ids[row]]; weight = s / sum of the chosen s * scale, without the bias. Weights are finite for finite
 * logits, and the chosen ones are distinct experts whatever the logits (kernel/ref/route.c). */
typedef struct {
    row_count rows;
    const float *logits;  /* [rows, experts] */
    const float *bias;    /* [experts] or NULL */
    const int32_t *ids;   /* [rows] token ids, with table; outside the vocabulary: as id 0 */
    const int32_t *table; /* [vocab, chosen] or NULL; whoever loads it has checked 0 <= entry < experts */
    int vocab, experts, chosen; /* chosen <= experts, EXPERTS_MAX_CHOSEN */
    float scale;
    int32_t *choice; /* [rows, chosen] */
    float *weight;   /* [rows, chosen] */
} args_route;

/* Pairs by expert. One tile, which runs without rows too: first is then all zeros. */
typedef struct {
    row_count rows;
    const int32_t *choice; /* [rows, chosen] */
    int experts, chosen;
    int32_t *first;    /* [experts + 1] where an expert's pairs start in `pair` */
    int32_t *pair;     /* [rows * chosen] */
    int32_t *distinct; /* [1] experts that have pairs */
} args_group;

/* out[pair] = w[expert of the pair] x, over the pairs of each expert, each expert's weights read once. */
typedef struct {
    int max_rows, experts, chosen;
    const int32_t *first, *pair; /* of KERNEL_GROUP */
    const packed_weight *w;      /* [experts] all of one shape and type; borrowed */
    const float *x;              /* [rows, cols], or [rows * chosen, cols] with by_pair */
    bool by_pair;
    const float *norm; /* [cols] RMSNorm weight, or NULL */
    float eps;
    /* weight given: w is gate | up interleaved, out = (silu(min(gate, limit)) clamp(up, limit)) weight[pair], half as
     * wide (limit 0: no clamp). NULL: out = the plain product. */
    const float *weight; /* [rows * chosen] */
    float limit;
    float *out; /* [rows * chosen, w->rows or half of it] */
} args_experts;

/* out[row] = sum of y[row * chosen + i] over i in order, + add[row]. add may be out. */
typedef struct {
    row_count rows;
    const float *y;   /* [rows * chosen, dim] */
    const float *add; /* [rows, dim] or NULL */
    int chosen, dim;  /* chosen >= 1 */
    float *out;       /* [rows, dim] */
} args_combine;

#endif

/* attention.c: softmax attention over paged entries, as foray defines its bits (design.md P2).
 *
 * For one row at position p and one head, over the visible entries t in increasing order:
 *   s[t] = (((0 + q0 k0) + q1 k1) + …) * scale        one chain of fused multiply-adds over the dimensions
 *   m    = max s[t]                                   exact; NaN is never the maximum
 *   w[t] = exp(s[t] - m)                              kernel/ref/vmath.h
 *   sum  = the w[t] in virtual lanes t mod 16         kernel/ref/reduce.h; t counts from the request's start
 *   o[d] = (((0 + w v) + w v) + …) * (1 / sum)        one chain over the entries
 * Nothing here depends on the other rows of the span, on pages or on chunks. Entries past p are not read into
 * any result: they may hold anything. One tile per row; scalar. Threads: tiles at once.
 */
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/attention.h"
#include "kernel/ref/reduce.h"
#include "kernel/ref/vmath.h"

static int attention_tiles(const kernel_args *args)
{
    const args_attention *a = &args->attention;
    int rows = 0;
    for (int s = 0; s < attention_spans(a); s++)
        rows += a->spans[s].rows;
    return rows;
}

static size_t attention_scratch(const kernel_args *args)
{
    return ((size_t)args->attention.max_length + 1) * sizeof(float);
}

/* weight: [last - first + 1], of scratch. */
static void attend(const args_attention *a, const row_span *span, int row, int head, float *weight)
{
    const kv_layer *kv = &a->kv;
    const int d = kv->head_dim, kv_head = head / (a->heads / kv->kv_heads);
    const int last = span->first_position + row, first = attention_first(a, last);
    const float *q = a->q + (size_t)(span->first_row + row) * a->q_stride + (size_t)head * d;
    float *out = a->out + ((size_t)(span->first_row + row) * a->heads + head) * d;
    float lane[REDUCE_LANES] = { 0 }, max = -INFINITY;

    for (int t = first; t <= last; t++) {
        const uint16_t *k = attention_keys(kv, span->slot, kv_head, t / 16);
        float s = 0;
        for (int i = 0; i < d; i++)
            s = fmaf(q[i], dtype_f16_to_f32(k[i * 16 + t % 16]), s);
        weight[t - first] = s * a->scale;
        max = weight[t - first] > max ? weight[t - first] : max;
    }
    for (int t = first; t <= last; t++) {
        weight[t - first] = vmath_exp(weight[t - first] - max);
        lane[t % REDUCE_LANES] += weight[t - first];
    }
    const float scale = 1.0f / reduce_tree(lane);
    for (int i = 0; i < d; i++) {
        float o = 0;
        for (int t = first; t <= last; t++) {
            const uint16_t *v = attention_keys(kv, span->slot, kv_head, t / 16) + attention_values(kv);
            o = fmaf(weight[t - first], dtype_f16_to_f32(v[(t % 16) * d + i]), o);
        }
        out[i] = o * scale;
    }
}

static void attention_run(const kernel_args *args, int tile, void *scratch)
{
    const args_attention *a = &args->attention;
    const row_span *span = a->spans;
    for (; tile >= span->rows; span++)
        tile -= span->rows;
    for (int head = 0; head < a->heads; head++)
        attend(a, span, tile, head, scratch);
}

const kernel_impl ref_attention = { .tiles = attention_tiles,
                                    .scratch = attention_scratch,
                                    .run = attention_run };

/* pass.h: the buffers of one forward pass: what goes in, the activations in between, what comes out.
 *
 * Addresses never change, so a captured graph can read them; what changes between replays is refreshed in
 * device memory. One pass object serves prefill chunks and verify rounds in turn, never both at once.
 *
 * Inputs are rows: token, position, request slot. Rows of one request with consecutive positions form a span
 * and share one read of the keys.
 *
 *      rows     0      1      2      3      4                spans  {0, 4 rows, slot 2, pos 17} {4, 1 row, slot 0, …}
 *      ids      last   draft0 draft1 draft2 last
 *      slot     2      2      2      2      0
 *      position 17     18     19     20     93
 *
 * Threads: the host thread writes inputs while nothing is in flight; kernels read and write the rest.
 */
#ifndef FORAY_MODEL_PASS_H
#define FORAY_MODEL_PASS_H

#include "device/device.h"
#include "kernel/kernel.h"

/* Counts that kernels read, in one cache line of device memory.
 *
 * Padding is what lies behind them, up to the bounds of a launch: rows behind `rows`, spans behind `spans`, head rows behind
 * `heads`, in every buffer of a pass and in whatever else is by row or head row (samplers, drafters). It may hold anything:
 * what an earlier pass left, NaN, ids, positions, slots and addresses that are none. Who sees to what:
 *
 *   whoever fills a pass   writes the live part and no more
 *   kernels                take their tiles from the live counts: they neither read padding nor write it
 *   records                count padding as launched, never as live
 *
 * A pass may be all padding. A live span may have no rows: nothing else of it is looked at. */
typedef struct {
    int32_t rows, spans, heads; /* live rows; live spans; rows whose logits are wanted */
    int32_t stream_rows;        /* rows times residual streams, for a NextN pass */
} pass_counts;

struct llama_buffers;
struct deepseek4_buffers;

typedef struct {
    int max_rows, max_spans, max_heads;

    /* in */
    pass_counts *count;
    int32_t *ids, *position, *slot; /* [max_rows] */
    row_span *spans;                /* [max_spans] */
    int32_t *head_row;              /* [max_heads] rows that go through the head */

    /* activations, of the model's family (the other NULL) */
    struct llama_buffers *llama;
    struct deepseek4_buffers *deepseek4;

    /* out */
    float *hidden; /* [max_heads, dim]   rows picked for the head */
    float *logits; /* [max_heads, vocab] */
} pass;

/* Allocates what every family has: in and out. On error nothing is held. */
int pass_create(device *d, int dim, int vocab, int max_rows, int max_spans, int max_heads, pass *out,
                foray_error *err);
void pass_destroy(device *d, pass *p);

/* One buffer of rows x width elements of `size` bytes in device memory, into *out, unless *rc says that an earlier one
 * failed. Sizes are bounded by the configs' limits, so they cannot overflow. */
void pass_buffer(device *d, const char *name, size_t rows, size_t width, size_t size, void *out, int *rc,
                 foray_error *err);
/* Frees buffers, NULLs among them. */
void pass_free_buffers(device *d, void *const *buffers, size_t count);

#endif

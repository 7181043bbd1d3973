/* expert_block.h: all experts of a layer in one block of memory, each an unbroken run of bytes.
 *
 *   data:  [expert 0: gate and up groups in turn | down] [expert 1: …] …
 *
 * A pass reads a few experts out of many; large contiguous pieces are what memory is fast at.
 * Threads: any; never written after experts_pack.
 */
#ifndef FORAY_KERNEL_EXPERT_BLOCK_H
#define FORAY_KERNEL_EXPERT_BLOCK_H

#include "kernel/weight.h"

/* One expert in the files: down(silu(gate x) * up x). */
typedef struct {
    weight_source gate, up; /* [width, dim] of one type */
    weight_source down;     /* [dim, width] */
} expert_source;

typedef struct {
    int experts;
    packed_weight *gate_up, *down; /* [experts] as args_experts wants them; their data lies in the block */
    uint8_t *data;
    size_t bytes;
    uint64_t file_bytes; /* of all of them in the file */
} expert_block;

/* Packs sources [experts], with weight_pack's meaning of rounded and lanes. *out is owned: experts_free, which frees
 * everything at once (never weight_free on its parts). EUNSUPPORTED: an expert that is not shaped like the first, or
 * what weight_pack refuses; ENOMEM. */
int experts_pack(const expert_source *sources, int experts, bool rounded, int lanes, expert_block *out,
                 foray_error *err);
void experts_free(expert_block *b); /* b may be zeroed */

#endif

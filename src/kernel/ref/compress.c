/* compress.c: a compressor's two halves: rows into the state ring, completed groups out of it.
 *
 * A row that completes a group pools the tokens in front of it, for each channel on its own, in ascending order:
 *   m = the largest score    w[t] = exp(score[t] - m)    pooled = (((0 + w kv) + w kv) + …) / (((0 + w) + w) + …)
 * then norm, rotation at the group's first position, rounding (latent.h). All rows of the pass have been stored
 * before, so a group may lie partly in this pass; the group before token 0 is not there and adds nothing. These are the
 * bits (design.md P2). One tile per row; scalar.
 * Threads: tiles at once (they write different entries).
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/compress.h"
#include "kernel/ref/entry_pack.h"
#include "kernel/ref/latent.h"
#include "kernel/ref/rope.h"

static int state_store_tiles(const kernel_args *args)
{
    return rows_live(args->state_store.rows);
}

static void state_store_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_state_store *a = &args->state_store;
    const int p = a->position[tile];
    const float *x = a->x + (size_t)tile * a->x_stride, *score = x + a->width;
    const float *ape = a->ape + (size_t)(p % a->ratio) * a->width;
    float *entry = entry_at(&a->state, a->slot[tile], p);
    memcpy(entry, x, (size_t)a->width * sizeof *x);
    for (int i = 0; i < a->width; i++)
        entry[a->width + i] = score[i] + ape[i];
}

const kernel_impl ref_state_store = { .tiles = state_store_tiles, .run = state_store_run };

/* ---- groups ---- */

int compress_tiles(const kernel_args *args)
{
    return rows_live(args->compress.rows);
}

/* The tokens of a group, by address | cos and sin of its rotation | the entry. */
size_t compress_scratch(const kernel_args *args)
{
    const args_compress *a = &args->compress;
    return 2 * (size_t)a->ratio * sizeof(float *) + (size_t)(a->rope_dim + a->width) * sizeof(float);
}

bool compress_begin(const args_compress *a, int row, void *scratch, compress_group *g)
{
    const int p = a->position[row], slot = a->slot[row], first = p - a->ratio + 1, half = a->rope_dim / 2;
    if ((p + 1) % a->ratio != 0)
        return false;
    assert(!a->state.ring || a->state.ring >= a->ratio * (a->overlap ? 2 : 1));
    *g = (compress_group) { .kv = scratch,
                            .to_score = (size_t)a->width * (a->overlap ? 2 : 1),
                            .slot = slot,
                            .index = p / a->ratio };
    g->cos_sin = (float *)(void *)(g->kv + 2 * a->ratio);
    g->entry = g->cos_sin + a->rope_dim;
    for (int t = first - a->ratio; a->overlap && first > 0 && t < first; t++)
        g->kv[g->tokens++] = entry_at(&a->state, slot, t);
    for (int t = first; t <= p; t++)
        g->kv[g->tokens++] = entry_at(&a->state, slot, t) + (a->overlap ? a->width : 0);
    for (int i = 0; i < half; i++) {
        const vmath_angle angle = rope_angle(first, a->frequency[i]);
        g->cos_sin[i] = angle.cos;
        g->cos_sin[half + i] = angle.sin;
    }
    return true;
}

static float pool_channel(const compress_group *g, int channel)
{
    float max = -INFINITY, sum = 0, pooled = 0;
    for (int t = 0; t < g->tokens; t++) {
        const float s = g->kv[t][g->to_score + channel];
        max = s > max ? s : max;
    }
    for (int t = 0; t < g->tokens; t++) {
        const float w = vmath_exp(g->kv[t][g->to_score + channel] - max);
        sum += w;
        pooled = fmaf(w, g->kv[t][channel], pooled);
    }
    return pooled / sum;
}

static void compress_run(const kernel_args *args, int tile, void *scratch)
{
    const args_compress *a = &args->compress;
    compress_group g;
    if (!compress_begin(a, tile, scratch, &g))
        return;
    for (int c = 0; c < a->width; c++)
        g.entry[c] = pool_channel(&g, c);
    latent_norm(g.entry, a->width, a->norm, a->eps, g.entry);
    latent_rotate(g.entry, a->width, a->rope_dim, g.cos_sin, false);
    latent_round(g.entry, a->width, a->rope_dim, a->rounding);
    entry_store(&a->out, g.slot, g.index, g.entry);
}

const kernel_impl ref_compress = { .tiles = compress_tiles,
                                   .scratch = compress_scratch,
                                   .run = compress_run };

/* compress.c: a compressor's two halves: rows into the state ring, completed groups out of it.
 *
 * A row that completes a group pools the tokens in front of it, for each channel on its own, in ascending order:
 *   m = the largest score    w[t] = exp(score[t] - m)    pooled = (((0 + w kv) + w kv) + …) / (((0 + w) + w) + …)
 * then norm, rotation at the group's first position, rounding (latent.h). All rows of the pass have been stored
 * before, so a group may lie partly in this pass; the group before token 0 is not there and adds nothing. These are the
 * bits (design.md P2). One tile per row; scalar, used by every instruction set: it runs once per group.
 * Threads: tiles at once (they write different entries).
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernel/cpu/entries.h"
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

static int compress_tiles(const kernel_args *args)
{
    return rows_live(args->compress.rows);
}

/* The tokens of a group, by address | cos and sin of its rotation. */
static size_t compress_scratch(const kernel_args *args)
{
    const args_compress *a = &args->compress;
    return 2 * (size_t)a->ratio * sizeof(float *) + (size_t)a->rope_dim * sizeof(float);
}

/* kv[t] is a token's channels, kv[t] + to_score their scores. */
static float pool_channel(const float *const *kv, int tokens, size_t to_score, int channel)
{
    float max = -INFINITY, sum = 0, pooled = 0;
    for (int t = 0; t < tokens; t++) {
        const float s = kv[t][to_score + channel];
        max = s > max ? s : max;
    }
    for (int t = 0; t < tokens; t++) {
        const float w = vmath_exp(kv[t][to_score + channel] - max);
        sum += w;
        pooled = fmaf(w, kv[t][channel], pooled);
    }
    return pooled / sum;
}

/* Where the channels lie that pool into the group ending at p; returns how many tokens. */
static int find_tokens(const args_compress *a, int slot, int p, const float **kv)
{
    const int first = p - a->ratio + 1;
    int n = 0;
    for (int t = first - a->ratio; a->overlap && first > 0 && t < first; t++)
        kv[n++] = entry_at(&a->state, slot, t);
    for (int t = first; t <= p; t++)
        kv[n++] = entry_at(&a->state, slot, t) + (a->overlap ? a->width : 0);
    return n;
}

static void compress_run(const kernel_args *args, int tile, void *scratch)
{
    const args_compress *a = &args->compress;
    const int p = a->position[tile], slot = a->slot[tile], half = a->rope_dim / 2;
    const size_t to_score = (size_t)a->width * (a->overlap ? 2 : 1);
    if ((p + 1) % a->ratio != 0)
        return;
    assert(!a->state.ring || a->state.ring >= a->ratio * (a->overlap ? 2 : 1));

    const float **kv = scratch;
    float *cos_sin = (float *)(void *)(kv + 2 * a->ratio);
    float *entry = entry_at(&a->out, slot, p / a->ratio);
    const int tokens = find_tokens(a, slot, p, kv);
    for (int c = 0; c < a->width; c++)
        entry[c] = pool_channel(kv, tokens, to_score, c);
    for (int i = 0; i < half; i++) {
        const vmath_angle angle = rope_angle(p - p % a->ratio, a->frequency[i]);
        cos_sin[i] = angle.cos;
        cos_sin[half + i] = angle.sin;
    }
    latent_norm(entry, a->width, a->norm, a->eps, entry);
    latent_rotate(entry, a->width, a->rope_dim, cos_sin, false);
    latent_round(entry, a->width, a->rope_dim, a->rounding);
}

const kernel_impl ref_compress = { .tiles = compress_tiles,
                                   .scratch = compress_scratch,
                                   .run = compress_run };

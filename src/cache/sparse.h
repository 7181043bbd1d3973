/* sparse.h: the pools of compressed sparse attention (spec: DeepSeek-V4 7): per layer a window ring of latents and, by
 * its ratio, compressed entries and the compressor's state ring; for ratio 4 also the indexer's keys and its state.
 *
 *   pool            kind      entries of n tokens   floats per layer   layers        may still be read with n tokens
 *   window          ring      window + guard        head_dim           the target's  the last window - 1
 *   draft window    ring      window + guard        head_dim           a drafter's   the last window
 *   streams         ring      window + guard        streams x dim      one           the last window
 *   entries/r       growing   n / r                 head_dim           of ratio r    all
 *   state/r         ring      r + guard             2 head_dim         of ratio r    from n - n % r on
 *   state/4         ring      8 + guard             4 head_dim         of ratio 4    from n - n % 4 - 4 on
 *   index           growing   n / 4                 index_dim          of ratio 4    all
 *   index state     ring      8 + guard             4 index_dim        of ratio 4    from n - n % 4 - 4 on
 *
 * guard: the most rows of one pass, which may all turn out rejected. A ring holds one entry per token; what lies before
 * token 0 is nowhere: kernels know it by position. Entries are f32, or packed. Pools that no layer needs are left out. The digest
 * sees all but the draft window, whose rows depend on the rounds that the drafter took part in (the streams' do not).
 * Pure. Threads: any.
 */
#ifndef FORAY_CACHE_SPARSE_H
#define FORAY_CACHE_SPARSE_H

#include "cache/cache.h"
#include "kernel/rows.h"

/* Two pools per ratio, and window, draft window, streams, index, index state beside them. */
enum { SPARSE_MAX_LAYERS = 257, SPARSE_MAX_RATIOS = (CACHE_MAX_POOLS - 5) / 2 };

/* Tokens that a page covers: of entries/4 of 21 layers of 512, 2.6 MB as f32, .96 packed; tables of 4096 pages for a million tokens. */
#ifdef FORAY_TORTURE
enum { SPARSE_PAGE_TOKENS = 8 };
#else
enum { SPARSE_PAGE_TOKENS = 256 };
#endif

typedef struct {
    int layers;                   /* a drafter's included, which are the last */
    int drafter_layers;           /* NextN: 1 */
    int ratio[SPARSE_MAX_LAYERS]; /* [layers] 0: window only; 4: overlapped, with an indexer */
    int window, head_dim, index_dim;
    bool
        packed; /* compressed entries and the indexer's keys are rounded before they are stored, and kept packed */
    int rope_dim;     /* channels of an entry that are not rounded */
    int stream_width; /* streams x dim of the target, or 0: nobody needs its streams */
    /* Tokens that a page of growing entries covers, SPARSE_PAGE_TOKENS (one entry at least); a ring's page holds at
     * most so many entries. Any number from 1 on. */
    int page_tokens;
} sparse_shape;

/* The descriptors, with rings that keep so many entries (the guard) more than are read. Returns how many, or 0: there are more
 * than SPARSE_MAX_RATIOS different ratios. */
int sparse_pools(const sparse_shape *shape, int guard, pool_desc out[CACHE_MAX_POOLS]);

/* One layer's share of each pool of a cache made of sparse_pools(shape), as the kernels take it; base NULL where the
 * layer has no such entries. */
entry_rows sparse_window(const cache *c, const sparse_shape *shape, int layer);
entry_rows sparse_streams(const cache *c, const sparse_shape *shape);
entry_rows sparse_entries(const cache *c, const sparse_shape *shape, int layer);
entry_rows sparse_state(const cache *c, const sparse_shape *shape, int layer);
entry_rows sparse_index(const cache *c, const sparse_shape *shape, int layer);
entry_rows sparse_index_state(const cache *c, const sparse_shape *shape, int layer);

#endif

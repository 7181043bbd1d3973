/* sparse.h: which entries a row sees, and how the kernels of compressed sparse attention are cut into tiles: what
 * every implementation shares.
 *
 * A tile is a piece of one row, so that a single row can keep several workers busy; no bit depends on the cut.
 * Pure, but for reading the positions of live rows. Threads: any.
 */
#ifndef FORAY_KERNEL_REF_SPARSE_H
#define FORAY_KERNEL_REF_SPARSE_H

#include <assert.h>

#include "kernel/kernel.h"

enum {
    SPARSE_HEADS = 16,   /* heads per tile of head_rope and sparse_attention */
    SPARSE_ENTRIES = 256 /* entries per tile of index_score */
};

/* Compressed entries that a row at a position sees: entry j from token ratio j + ratio - 1 on, which completes it. */
static inline int sparse_visible(int32_t position, int ratio)
{
    return ratio > 0 ? (position + 1) / ratio : 0;
}

static inline int sparse_divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

/* One tile of a kernel that works on heads: heads first … first + count - 1 of a row. */
typedef struct {
    int row, first, count;
} sparse_tile;

static inline int sparse_head_tiles(row_count rows, int heads)
{
    return rows_live(rows) * sparse_divide_up(heads, SPARSE_HEADS);
}

static inline sparse_tile sparse_head_tile(int heads, int tile)
{
    const int per_row = sparse_divide_up(heads, SPARSE_HEADS), first = tile % per_row * SPARSE_HEADS;
    return (sparse_tile) { tile / per_row, first,
                           heads - first < SPARSE_HEADS ? heads - first : SPARSE_HEADS };
}

/* ---- index_score: entries instead of heads ---- */

/* Entries that a row scores: none where all that it sees are chosen anyway. */
static inline int sparse_scored(const args_index_score *a, int row)
{
    const int visible = sparse_visible(a->position[row], a->ratio);
    assert(visible <= a->max_entries);
    return visible > a->top ? visible : 0;
}

static inline int sparse_score_tiles(const kernel_args *args)
{
    const args_index_score *a = &args->index_score;
    int tiles = 0;
    for (int row = 0; row < rows_live(a->rows); row++)
        tiles += sparse_divide_up(sparse_scored(a, row), SPARSE_ENTRIES);
    return tiles;
}

static inline sparse_tile sparse_score_tile(const args_index_score *a, int tile)
{
    int row = 0, scored, tiles;
    for (;; row++, tile -= tiles) {
        scored = sparse_scored(a, row);
        tiles = sparse_divide_up(scored, SPARSE_ENTRIES);
        if (tile < tiles)
            break;
    }
    const int first = tile * SPARSE_ENTRIES;
    return (sparse_tile) { row, first, scored - first < SPARSE_ENTRIES ? scored - first : SPARSE_ENTRIES };
}

/* Floats of room for the unpacked keys that are scored together. */
enum { SPARSE_KEYS_AT_ONCE = 4 };

static inline size_t sparse_score_scratch(const kernel_args *args)
{
    return SPARSE_KEYS_AT_ONCE * (size_t)args->index_score.width * sizeof(float);
}

/* ---- sparse_attention: a row's keys as one list ---- */

static inline int sparse_max_keys(const args_sparse_attention *a)
{
    return a->window + (a->ratio > 0 ? a->max_entries : 0);
}

/* Compressed entries that a row attends to. */
static inline int sparse_count_entries(const args_sparse_attention *a, int row)
{
    const int n = a->ratio == 0 ? 0 : a->chosen ? a->count[row] : sparse_visible(a->position[row], a->ratio);
    assert(a->ratio == 0 || n <= a->max_entries);
    return n;
}

static inline int sparse_count_keys(const args_sparse_attention *a, int row)
{
    const int p = a->position[row];
    return (p < a->window ? p + 1 : a->window) + sparse_count_entries(a, row);
}

/* Unpacks an entry, as entry_load of entry_pack.h does. */
typedef const float *(*entry_loader)(const entry_rows *e, int slot, int entry, float *room);

/* Floats of room for the unpacked entries of a row. */
static inline size_t sparse_room(const args_sparse_attention *a)
{
    return a->ratio > 0 && a->entries.packing != ENTRY_F32 ? (size_t)a->max_entries * (size_t)a->width : 0;
}

/* Addresses of a row's keys, in the order in which everything is summed; returns how many.
 * keys: room for sparse_max_keys; room: sparse_room. */
static inline int sparse_find_keys(const args_sparse_attention *a, int row, entry_loader load,
                                   const float **keys, float *room)
{
    const int p = a->position[row], slot = a->slot[row];
    const int entries = sparse_count_entries(a, row);
    const int32_t *chosen = a->chosen ? a->chosen + (size_t)row * (size_t)a->top : NULL;
    int n = 0;
    for (int t = p < a->window ? 0 : p - a->window + 1; t <= p; t++)
        keys[n++] = entry_at(&a->ring, slot, t);
    for (int i = 0; i < entries; i++)
        keys[n++] = load(&a->entries, slot, chosen ? chosen[i] : i, room + (size_t)i * (size_t)a->width);
    return n;
}

#endif

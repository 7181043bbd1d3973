/* attention_tiles.c: cuts attention into tiles and lays out a tile's scratch; scalar, no instruction set.
 *
 * Scratch of a worker: addresses of key tiles | transposed q | sums | scores, each 64-aligned.
 * Threads: as the header says.
 */
#include "kernel/cpu/attention_tiles.h"

#include <assert.h>
#include <string.h>

/* With fewer tiles than this, query heads of one K/V head go to several tiles, so that more than one worker
 * has something to do. Not for the sake of balance alone: three heads of 3 queries cost two workers as much
 * as six tiles of 2 and 1 would, because converting K and V is then done twice. */
enum { FEW_TILES = 3 };

typedef struct {
    int heads; /* query heads per tile */
    int parts; /* tiles per K/V head and row block */
    int rows;  /* rows per block */
} attention_cut;

static int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int count_blocks(const args_attention *a, int rows)
{
    int blocks = 0;
    for (int s = 0; s < attention_spans(a); s++)
        blocks += divide_up(a->spans[s].rows, rows);
    return blocks;
}

static attention_cut make_cut(const args_attention *a)
{
    const int group = a->heads / a->kv.kv_heads;
    const int least = divide_up(group, ATTENTION_QUERIES);
    const int units = a->kv.kv_heads * count_blocks(a, ATTENTION_QUERIES / divide_up(group, least));
    int parts = least;
    if (units > 0 && units * parts < FEW_TILES)
        parts = smaller(group, divide_up(FEW_TILES, units));
    const int heads = divide_up(group, parts);
    return (attention_cut) { .heads = heads,
                             .parts = divide_up(group, heads),
                             .rows = ATTENTION_QUERIES / heads };
}

int attention_tiles(const kernel_args *args)
{
    const args_attention *a = &args->attention;
    const attention_cut cut = make_cut(a);
    return count_blocks(a, cut.rows) * a->kv.kv_heads * cut.parts;
}

/* ---- scratch ---- */

static size_t align_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Upper bound of a tile's key tiles: the longest range may begin and end inside one, and a window's range
 * grows by the rows behind the first. */
static int max_key_tiles(const args_attention *a)
{
    int entries = a->max_length;
    if (a->window > 0)
        entries = smaller(entries, a->window + ATTENTION_QUERIES);
    return entries / KV_TILE + 2;
}

static int sum_stride(const args_attention *a)
{
    return divide_up(a->kv.head_dim, 16) * 16;
}

static size_t keys_bytes(const args_attention *a)
{
    return align_up((size_t)max_key_tiles(a) * sizeof(const uint16_t *));
}

static size_t q_bytes(const args_attention *a)
{
    return align_up((size_t)a->kv.head_dim * ATTENTION_QUERIES * sizeof(float));
}

static size_t sum_bytes(const args_attention *a)
{
    return (size_t)sum_stride(a) * ATTENTION_QUERIES * sizeof(float);
}

size_t attention_scratch(const kernel_args *args)
{
    const args_attention *a = &args->attention;
    return keys_bytes(a) + q_bytes(a) + sum_bytes(a) +
           (size_t)max_key_tiles(a) * ATTENTION_QUERIES * KV_TILE * sizeof(float);
}

/* ---- one tile ---- */

/* Addresses of the key tiles first … first + count - 1 of a slot, page by page. */
static void find_keys(const kv_layer *kv, int slot, int kv_head, int first, int count, const uint16_t **keys)
{
    const int per_page = kv->page_rows / KV_TILE;
    const size_t tile = (size_t)KV_TILE * kv->head_dim;
    const int32_t *page = kv->table + (size_t)slot * (size_t)kv->table_stride + first / per_page;
    int in_page = first % per_page;
    for (int j = 0; j < count; page++, in_page = 0) {
        const uint16_t *k = (const uint16_t *)(const void *)(kv->base + (size_t)*page * kv->page_stride) +
                            (size_t)kv_head * per_page * tile;
        for (; in_page < per_page && j < count; in_page++)
            keys[j++] = k + (size_t)in_page * tile;
    }
}

static void find_ranges(const args_attention *a, int position, int first_tile, attention_work *w)
{
    const int base = first_tile * KV_TILE;
    for (int r = 0; r < w->rows; r++) {
        w->first[r] = attention_first(a, position + r) - base;
        w->last[r] = position + r - base;
    }
    w->shared_begin = w->first[w->rows - 1];
    w->shared_end = w->last[0] + 1;
}

void attention_begin(const args_attention *a, int tile, void *scratch, attention_work *w)
{
    const attention_cut cut = make_cut(a);
    const int group = a->heads / a->kv.kv_heads, d = a->kv.head_dim;
    const int part = tile % cut.parts, kv_head = tile / cut.parts % a->kv.kv_heads;
    const row_span *span = a->spans;
    int block = tile / cut.parts / a->kv.kv_heads;
    for (; block >= divide_up(span->rows, cut.rows); span++)
        block -= divide_up(span->rows, cut.rows);

    const int row = block * cut.rows, position = span->first_position + row;
    const int head = kv_head * group + part * cut.heads;
    w->rows = smaller(cut.rows, span->rows - row);
    w->heads = smaller(cut.heads, group - part * cut.heads);
    w->queries = w->rows * w->heads;
    w->head_dim = d;
    w->values = attention_values(&a->kv);

    const int first_tile = attention_first(a, position) / KV_TILE;
    w->key_tiles = (position + w->rows - 1) / KV_TILE - first_tile + 1;
    assert(w->key_tiles <= max_key_tiles(a));
    find_ranges(a, position, first_tile, w);

    char *at = scratch;
    w->keys = (const uint16_t **)(void *)at;
    w->q = (float *)(void *)(at += keys_bytes(a));
    w->sum = (float *)(void *)(at += q_bytes(a));
    w->score = (float *)(void *)(at += sum_bytes(a));
    w->sum_stride = sum_stride(a);
    find_keys(&a->kv, span->slot, kv_head, first_tile, w->key_tiles, w->keys);
    memset(w->sum, 0, (size_t)w->queries * (size_t)w->sum_stride * sizeof(float));
    for (int i = 0; i < w->queries; i++) {
        const size_t r = (size_t)(span->first_row + row + i / w->heads), h = (size_t)(head + i % w->heads);
        w->source[i] = a->q + r * a->q_stride + h * (size_t)d;
        w->out[i] = a->out + (r * (size_t)a->heads + h) * (size_t)d;
    }
}

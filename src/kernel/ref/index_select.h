/* index_select.h: the entries that a row attends to: those with the largest scores, ties to the lowest id.
 *
 * Chosen is a set, so how it is found leaves no trace in the bits. Scores become integers that ascend with them (NaN is the
 * smallest, -0 and +0 are equals), then the least chosen one is found by halving the range in which it lies: a count over
 * all entries per step, which compilers make vectors of; so each instruction set includes this page and has a fast one.
 * Threads: any, each in its scratch.
 */
#ifndef FORAY_KERNEL_REF_INDEX_SELECT_H
#define FORAY_KERNEL_REF_INDEX_SELECT_H

#include "kernel/ref/sparse.h"
#include "kernel/ref/vmath.h"

static inline int index_select_tiles(const kernel_args *args)
{
    return rows_live(args->index_select.rows);
}

static inline size_t index_select_scratch(const kernel_args *args)
{
    return (size_t)args->index_select.max_entries * sizeof(int32_t);
}

static inline int32_t index_rank(float score)
{
    const int32_t u = (int32_t)vmath_bits(score + 0.0f);
    const int32_t rank = u ^ (u >> 31 & 0x7fffffff);
    return score == score ? rank : INT32_MIN;
}

/* The rank of the top-th best, 1 <= top < n; *equals: how many of those with this very rank are among the best. */
static inline int32_t index_find_least(const int32_t *rank, int n, int top, int *equals)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    int above = 0; /* entries with rank > high; those with rank >= low are at least `top` */
    for (int i = 0; i < n; i++) {
        low = rank[i] < low ? rank[i] : low;
        high = rank[i] > high ? rank[i] : high;
    }
    while (low < high) {
        const int32_t middle = (int32_t)(((int64_t)low + high + 1) >> 1);
        int count = 0;
        for (int i = 0; i < n; i++)
            count += rank[i] >= middle;
        if (count < top) {
            high = middle - 1;
            above = count;
            continue;
        }
        low = middle;
        if (count == top) { /* no tie at the boundary */
            *equals = n;
            return low;
        }
    }
    *equals = top - above;
    return low;
}

static inline void index_select_run(const kernel_args *args, int tile, void *scratch)
{
    const args_index_select *a = &args->index_select;
    const float *score = a->score + (size_t)tile * a->max_entries;
    const int visible = sparse_visible(a->position[tile], a->ratio);
    int32_t *rank = scratch, *chosen = a->chosen + (size_t)tile * a->top;
    int n = 0, equals = 0;
    if (visible <= a->top) {
        for (; n < visible; n++)
            chosen[n] = n;
        a->count[tile] = n;
        return;
    }
    for (int j = 0; j < visible; j++)
        rank[j] = index_rank(score[j]);
    const int32_t least = a->top > 0 ? index_find_least(rank, visible, a->top, &equals) : 0;
    for (int j = 0; n < a->top; j++)
        if (rank[j] > least || (rank[j] == least && equals-- > 0))
            chosen[n++] = j;
    a->count[tile] = n;
}

#endif

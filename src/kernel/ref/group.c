/* group.c (ref): defines the order of pairs by expert: ascending inside an expert, experts one after the other.
 *
 * A counting sort without memory of its own: `first` holds counts, then where the next pair of an expert goes, which
 * at the end is where the next expert begins. One tile. Threads: any; no state.
 */
#include <string.h>

#include "kernel/cpu/entries.h"

static int group_tiles(const kernel_args *args)
{
    (void)args;
    return 1; /* also without rows: first must say so */
}

static void group_run(const kernel_args *args, int tile, void *scratch)
{
    (void)tile, (void)scratch;
    const args_group *a = &args->group;
    const int pairs = rows_live(a->rows) * a->chosen;
    int32_t *first = a->first, start = 0, distinct = 0;
    memset(first, 0, ((size_t)a->experts + 1) * sizeof *first);
    for (int p = 0; p < pairs; p++)
        first[a->choice[p]]++;
    for (int e = 0; e < a->experts; e++) {
        const int32_t count = first[e];
        first[e] = start;
        start += count;
        distinct += count > 0;
    }
    for (int p = 0; p < pairs; p++)
        a->pair[first[a->choice[p]]++] = p;
    memmove(first + 1, first, (size_t)a->experts * sizeof *first);
    first[0] = 0;
    *a->distinct = distinct;
}

const kernel_impl ref_group = { .tiles = group_tiles, .run = group_run };

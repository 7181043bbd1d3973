/* experts.c (ref): defines what an expert gives for a pair: a row (or a pair's own values) times its weights.
 *
 * The product is KERNEL_MATMUL's (kernel/ref/matmul.c), output by output; with weights of pairs it is
 * swiglu(gate, up) * weight (vmath_swiglu: limits first). Nothing depends on the other pairs of the expert.
 * Tiles: a group of rows (gated: a pair of groups) of an expert that has pairs. Threads: tiles at once.
 */
#include "kernel/cpu/entries.h"
#include "kernel/ref/dot.h"
#include "kernel/ref/experts.h"
#include "kernel/ref/prepare.h"
#include "kernel/ref/vmath.h"

int experts_next(const args_experts *a, int expert)
{
    while (expert < a->experts && a->first[expert + 1] == a->first[expert])
        expert++;
    return expert;
}

static int units_of(const args_experts *a)
{
    return a->weight ? a->w->groups / 2 : a->w->groups;
}

static int experts_tiles(const kernel_args *args)
{
    const args_experts *a = &args->experts;
    int tiles = 0;
    for (int e = experts_next(a, 0); e < a->experts; e = experts_next(a, e + 1))
        tiles += units_of(a);
    return tiles;
}

/* A prepared row, then two weight rows taken apart. */
static size_t experts_scratch(const kernel_args *args)
{
    const packed_weight *w = args->experts.w;
    return activation_bytes(w->form, 1, w->cols) + 2 * ref_weight_row_bytes(w);
}

static void experts_run(const kernel_args *args, int tile, void *scratch)
{
    const args_experts *a = &args->experts;
    const int unit = tile % units_of(a), gated = a->weight != NULL;
    int e = experts_next(a, 0);
    for (int skip = tile / units_of(a); skip > 0; skip--)
        e = experts_next(a, e + 1);

    const packed_weight *w = &a->w[e];
    const int outputs = gated ? w->rows / 2 : w->rows;
    char *weights[2] = { (char *)scratch + activation_bytes(w->form, 1, w->cols), NULL };
    weights[1] = weights[0] + ref_weight_row_bytes(w);
    for (int at = a->first[e]; at < a->first[e + 1]; at++) {
        const int pair = a->pair[at];
        ref_prepare_row(w->form, experts_row(a, pair), w->cols, a->norm, a->eps, scratch);
        for (int lane = 0; lane < w->lanes && unit * w->lanes + lane < outputs; lane++) {
            for (int half = 0; half <= gated; half++)
                ref_read_weights(w, gated ? 2 * unit + half : unit, lane, weights[half]);
            float y = ref_dot(w, weights[0], scratch);
            if (gated)
                y = vmath_swiglu(y, ref_dot(w, weights[1], scratch), a->limit) * a->weight[pair];
            a->out[(size_t)pair * (size_t)outputs + (size_t)(unit * w->lanes + lane)] = y;
        }
    }
}

const kernel_impl ref_experts = { .tiles = experts_tiles, .scratch = experts_scratch, .run = experts_run };

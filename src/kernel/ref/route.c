/* route.c (ref): defines which experts a row goes to and with what weights.
 *
 *   s(l)    l < -64: exp(l / 2), which softplus has become; else sqrt(log1p(exp(-|l|)) + max(l, 0))
 *   choice  score-routed: the largest s + bias, one after the other; of equal ones the lowest id. A NaN is below
 *           everything. By table: as it stands there; an id outside the vocabulary goes where id 0 goes.
 *   weight  (s / sum) * scale, the sum in order of choice. All s zero (logits below -174): equal shares.
 *
 * So the choice is always distinct experts (or the table's), whatever the logits. Tiles are rows.
 * Threads: tiles at once.
 */
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/route.h"
#include "kernel/ref/vmath.h"

float route_score(float logit)
{
    if (logit < ROUTE_LINEAR)
        return vmath_exp(0.5f * logit);
    const float rest = vmath_log1p(vmath_exp(-fabsf(logit)));
    return sqrtf(rest + (0.0f > logit ? 0.0f : logit));
}

void route_weigh(const args_route *a, int row, const float *score)
{
    const int32_t *choice = a->choice + (size_t)row * (size_t)a->chosen;
    float *weight = a->weight + (size_t)row * (size_t)a->chosen;
    float sum = 0;
    for (int i = 0; i < a->chosen; i++)
        sum += score[choice[i]];
    for (int i = 0; i < a->chosen; i++)
        weight[i] = (sum == 0 ? 1.0f / (float)a->chosen : score[choice[i]] / sum) * a->scale;
}

bool route_by_table(const args_route *a, int row, float *score)
{
    if (!a->table)
        return false;
    const int32_t id = a->ids[row];
    const int32_t *from = a->table + (size_t)(id < 0 || id >= a->vocab ? 0 : id) * (size_t)a->chosen;
    for (int i = 0; i < a->chosen; i++) {
        a->choice[(size_t)row * (size_t)a->chosen + (size_t)i] = from[i];
        score[from[i]] = route_score(a->logits[(size_t)row * (size_t)a->experts + (size_t)from[i]]);
    }
    return true;
}

int route_tiles(const kernel_args *args)
{
    return rows_live(args->route.rows);
}

size_t route_scratch(const kernel_args *args)
{
    return 2 * (size_t)route_padded(args->route.experts) * sizeof(float);
}

/* Integers in the order of the keys, none of which is -0. */
static int32_t rank(float key)
{
    const int32_t bits = (int32_t)vmath_bits(key);
    return isnan(key) ? ROUTE_TAKEN + 1 : bits ^ (bits >> 31 & 0x7fffffff);
}

static void route_run(const kernel_args *args, int tile, void *scratch)
{
    const args_route *a = &args->route;
    float *score = scratch;                                               /* [experts] */
    int32_t *key = (int32_t *)(void *)(score + route_padded(a->experts)); /* [experts] */
    if (!route_by_table(a, tile, score)) {
        for (int e = 0; e < a->experts; e++) {
            score[e] = route_score(a->logits[(size_t)tile * (size_t)a->experts + (size_t)e]);
            key[e] = rank(a->bias ? score[e] + a->bias[e] : score[e]);
        }
        for (int i = 0; i < a->chosen; i++) {
            int best = 0;
            for (int e = 1; e < a->experts; e++)
                best = key[e] > key[best] ? e : best;
            a->choice[(size_t)tile * (size_t)a->chosen + (size_t)i] = best;
            key[best] = ROUTE_TAKEN;
        }
    }
    route_weigh(a, tile, score);
}

const kernel_impl ref_route = { .tiles = route_tiles, .scratch = route_scratch, .run = route_run };

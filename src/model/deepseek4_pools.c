/* deepseek4_pools.c: see deepseek4_pools.h. */
#include "model/deepseek4_pools.h"

sparse_shape deepseek4_shape(const deepseek4_config *c, bool drafter, bool rounded)
{
    sparse_shape s = { .layers = c->layers + drafter,
                       .drafter_layers = drafter,
                       .window = c->window,
                       .head_dim = c->head_dim,
                       .index_dim = c->index_dim,
                       .packed = rounded && c->rounding == DEEPSEEK4_ROUND_FP8_FP4,
                       .rope_dim = c->rope_dim,
                       .stream_width = drafter ? c->streams * c->dim : 0,
                       .page_tokens = SPARSE_PAGE_TOKENS };
    for (int i = 0; i < c->layers; i++)
        s.ratio[i] = c->ratio[i];
    return s;
}

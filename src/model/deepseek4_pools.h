/* deepseek4_pools.h: what the caches of a DeepSeek-V4 type model look like: its config, as the cache room takes it.
 *
 * Apart from loading, so that `inspect` can plan memory for a model that it does not load. Pure. Threads: any.
 */
#ifndef FORAY_MODEL_DEEPSEEK4_POOLS_H
#define FORAY_MODEL_DEEPSEEK4_POOLS_H

#include "cache/sparse.h"
#include "model/deepseek4_config.h"

/* drafter: the NextN layer is there, so it has a window, and the target's streams are kept for it. rounded: activations are
 * rounded as the checkpoint expects it (--act-quant), so that entries can be kept packed. */
sparse_shape deepseek4_shape(const deepseek4_config *c, bool drafter, bool rounded);

#endif

/* nextn.h: the drafter that comes with the model: its NextN layer, fed with the target's residual streams and then with
 * its own (spec: DeepSeek-V4 3).
 *
 *   position            … n-2    n-1    n      n+1          n tokens computed, token n known
 *   row                 X,t      X,t    X',d1  X',d2        X: target's streams, X': the layer's own
 *   gives               -        d1     d2     d3
 *
 * Its rows live in the target's cache; the target's streams of its last window wait there too.
 * Threads: as chain.h.
 */
#ifndef FORAY_SPEC_NEXTN_H
#define FORAY_SPEC_NEXTN_H

#include "spec/chain.h"

typedef struct {
    device *device;
    const model *model; /* with a NextN layer */
    cache *cache;
    int slots, max_requests, max_rows; /* as of chain_config */
    chain_drawing drawing;
} nextn_config;

/* *out is owned: (*out)->destroy. Everything in the config is borrowed as long. */
int nextn_open(const nextn_config *config, drafter **out, foray_error *err);

#endif

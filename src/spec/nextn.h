/* nextn.h: the drafter that comes with the model: its NextN layer, fed with the target's residual streams and then with
 * its own (spec: DeepSeek-V4 3).
 *
 *   extend   after accept: rows for the positions that have become known, made of the target's streams there and the token
 *            that follows. The last row gives the first draft of the next round.
 *   draft    K - 1 rows, one after another: the layer's own streams of the row before and its draft
 *
 *   position            … n-2    n-1    n      n+1          n tokens computed, token n known
 *   row                 X,t      X,t    X',d1  X',d2        X: target's streams, X': the layer's own
 *   gives               -        d1     d2     d3           rows of n, n+1 … are overwritten by the next extend
 *
 * A drafter that was left out of some rounds owes rows: extend starts where it stopped, or a window back, from where on
 * its attention sees everything again; the target's streams of that window wait in the cache. So drafts after a pause
 * are those without one.
 * Threads: launches from the host thread; the rest in kernels of class host in stream order.
 */
#ifndef FORAY_SPEC_NEXTN_H
#define FORAY_SPEC_NEXTN_H

#include "model/model.h"
#include "spec/drafter.h"
#include "spec/plan.h"

typedef struct {
    device *device;
    const model *model; /* with a NextN layer */
    cache *cache;
    int slots, max_requests;
    int max_rows; /* of one extend, or more where a window needs it */
} nextn_config;

/* *out is owned: (*out)->destroy. Everything in the config is borrowed as long. */
int nextn_open(const nextn_config *config, drafter **out, foray_error *err);

#endif

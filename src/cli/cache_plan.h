/* cache_plan.h: what a model's caches take, as `foray inspect` prints it: a line per pool.
 *
 * Bytes of entries, from the descriptors that the engine itself works with; what pages leave unused is not in them.
 * Pure. Threads: any.
 */
#ifndef FORAY_CLI_CACHE_PLAN_H
#define FORAY_CLI_CACHE_PLAN_H

#include "base/buf.h"
#include "cache/pool.h"

/* Appends a table of the pools, for a person. */
void cache_plan_put(const pool_desc *pools, int count, buf *out);

/* Appends members of a JSON object: "kv_bytes_per_token", "ring_bytes", "context", "kv_bytes" (of one request of that
 * length), "pools". */
void cache_plan_json(const pool_desc *pools, int count, int context, buf *out);

#endif

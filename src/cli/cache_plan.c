/* cache_plan.c: see cache_plan.h. */
#include "cli/cache_plan.h"

#include <inttypes.h>

void cache_plan_put(const pool_desc *pools, int count, buf *out)
{
    buf_printf(out, "           %-14s %-8s %6s %12s %13s %12s %14s\n", "pool", "kind", "layers",
               "bytes/entry", "tokens/entry", "bytes/token", "bytes/request");
    for (int i = 0; i < count; i++) {
        const pool_desc *p = &pools[i];
        buf_printf(out, "           %-14s %-8s %6d %12zu %13d", p->name, p->ring ? "ring" : "growing",
                   p->layers, p->entry_bytes, p->tokens);
        if (p->ring)
            buf_printf(out, " %12s %14" PRIu64 "\n", "", pools_ring_bytes(p, 1));
        else
            buf_printf(out, " %12.10g\n", pools_bytes_per_token(p, 1));
    }
}

void cache_plan_json(const pool_desc *pools, int count, int context, buf *out)
{
    buf_printf(out,
               "\"kv_bytes_per_token\":%.17g,\"ring_bytes\":%" PRIu64 ",\"context\":%d,\"kv_bytes\":%" PRIu64,
               pools_bytes_per_token(pools, count), pools_ring_bytes(pools, count), context,
               pools_bytes(pools, count, context));
    buf_puts(out, ",\"pools\":[");
    for (int i = 0; i < count; i++) {
        const pool_desc *p = &pools[i];
        buf_printf(
            out,
            "%s{\"name\":\"%s\",\"kind\":\"%s\",\"layers\":%d,\"entry_bytes\":%zu,\"tokens_per_entry\":%d,"
            "\"bytes_per_token\":%.17g,\"ring_bytes\":%" PRIu64 "}",
            i ? "," : "", p->name, p->ring ? "ring" : "growing", p->layers, p->entry_bytes, p->tokens,
            pools_bytes_per_token(p, 1), pools_ring_bytes(p, 1));
    }
    buf_puts(out, "]");
}

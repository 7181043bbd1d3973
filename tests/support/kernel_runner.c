/* kernel_runner.c: tiles backwards and interleaved, scratch full of garbage, numbers out of Philox.
 *
 * One thread.
 */
#include "support/kernel_runner.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

int runner_tables(const kernel_table *out[RUNNER_MAX_TABLES])
{
    static const char *const names[] = { "avx2", "avx512" };
    int n = 0;
    for (int i = 0; i < 2; i++) {
        foray_error err;
        if (kernel_table_get(names[i], &out[n], &err) == 0)
            n++;
    }
    return n;
}

void runner_run(const kernel_table *table, kernel_id id, const kernel_args *args)
{
    const kernel_impl *k = &table->kernel[id];
    const size_t bytes = k->scratch ? k->scratch(args) : 0;
    const int tiles = k->tiles(args);
    void *scratch = mem_alloc(MEM_GENERAL, bytes);
    assert(scratch);
    memset(scratch, 0xff, bytes); /* as floats: NaN */
    if (k->prepare)
        k->prepare(args, scratch);
    for (int i = tiles - 1; i >= 0; i -= 2)
        k->run(args, i, scratch);
    for (int i = tiles - 2; i >= 0; i -= 2)
        k->run(args, i, scratch);
    mem_free(MEM_GENERAL, scratch, bytes);
}

static uint32_t draw(uint32_t stream, uint32_t *counter)
{
    const uint32_t i = (*counter)++;
    return rng_at(stream, 0, RNG_TEST, 0, i / 4).word[i % 4];
}

float runner_float(uint32_t stream, uint32_t *counter)
{
    return (float)(int32_t)draw(stream, counter) * 0x1p-31f;
}

int runner_below(uint32_t stream, uint32_t *counter, int n)
{
    return (int)((uint64_t)draw(stream, counter) * (uint64_t)n >> 32);
}

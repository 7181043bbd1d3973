/* avx512_experts.c: KERNEL_EXPERTS of the AVX-512 table: the matmul's dots, and where a pair's outputs go.
 *
 * Bits: kernel/ref/experts.c. Walking: kernel/cpu/experts.c. Threads: as kernel/impl.h says.
 */
#include <immintrin.h>

#include "kernel/cpu/avx512_matmul.h"
#include "kernel/cpu/avx512_reduce.h"
#include "kernel/cpu/avx512_vmath.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/experts.h"

static void finish(const void *job, int first, int row, int rows, const float *y, const float *up)
{
    const experts_job *j = job;
    const args_experts *a = j->a;
    const int left = j->outputs - first;
    const __mmask16 mask = left >= 16 ? 0xffff : avx512_mask_below(left);
    for (int r = 0; r < rows; r++, y += 16, up += 16) {
        const int pair = j->pair[row + r];
        __m512 v = _mm512_loadu_ps(y);
        if (a->weight)
            v = _mm512_mul_ps(avx512_swiglu(v, _mm512_loadu_ps(up), a->limit),
                              _mm512_set1_ps(a->weight[pair]));
        _mm512_mask_storeu_ps(a->out + (size_t)pair * (size_t)j->outputs + first, mask, v);
    }
}

static size_t scratch_bytes(const kernel_args *args)
{
    return experts_scratch(&avx512_matmul_ops, args);
}

static void prepare(const kernel_args *args, void *scratch)
{
    (void)args;
    experts_prepare(scratch);
}

static void run(const kernel_args *args, int tile, void *scratch)
{
    experts_run(&avx512_matmul_ops, finish, args, tile, scratch);
}

const kernel_impl avx512_experts = {
    .tiles = experts_tiles, .scratch = scratch_bytes, .prepare = prepare, .run = run
};

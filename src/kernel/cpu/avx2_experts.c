/* avx2_experts.c: KERNEL_EXPERTS of the AVX2 table: the matmul's dots, and where a pair's outputs go.
 *
 * Bits: kernel/ref/experts.c. Walking: kernel/cpu/experts.c. Threads: as kernel/impl.h says.
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_matmul.h"
#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/avx2_vmath.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/experts.h"

static void finish(const void *job, int first, int row, int rows, const float *y, const float *up)
{
    const experts_job *j = job;
    const args_experts *a = j->a;
    const __m256i mask = avx2_mask_below(j->outputs - first);
    for (int r = 0; r < rows; r++, y += 8, up += 8) {
        const int pair = j->pair[row + r];
        __m256 v = _mm256_loadu_ps(y);
        if (a->weight)
            v = _mm256_mul_ps(avx2_swiglu(v, _mm256_loadu_ps(up), a->limit), _mm256_set1_ps(a->weight[pair]));
        _mm256_maskstore_ps(a->out + (size_t)pair * (size_t)j->outputs + first, mask, v);
    }
}

static size_t scratch_bytes(const kernel_args *args)
{
    return experts_scratch(&avx2_matmul_ops, args);
}

static void prepare(const kernel_args *args, void *scratch)
{
    (void)args;
    experts_prepare(scratch);
}

static void run(const kernel_args *args, int tile, void *scratch)
{
    experts_run(&avx2_matmul_ops, finish, args, tile, scratch);
}

const kernel_impl avx2_experts = {
    .tiles = experts_tiles, .scratch = scratch_bytes, .prepare = prepare, .run = run
};

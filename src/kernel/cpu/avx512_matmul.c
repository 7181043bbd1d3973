/* avx512_matmul.c: the matmul of the AVX-512 (VNNI) table: its dots, its sizes, and its epilogues.
 *
 * Bits: kernel/ref/matmul.c. Walking: kernel/cpu/matmul.c. Threads: as kernel/impl.h says.
 */
#include "kernel/cpu/avx512_matmul.h"

#include <immintrin.h>

#include "kernel/cpu/avx512_reduce.h"
#include "kernel/cpu/avx512_vmath.h"
#include "kernel/cpu/entries.h"

static __m512 with_bias(const float *y, const float *bias, __mmask16 mask)
{
    const __m512 v = _mm512_loadu_ps(y);
    return bias ? _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, bias)) : v;
}

static void finish(const void *job, int first, int row, int rows, const float *y, const float *up)
{
    const args_matmul *a = job;
    const bool gated = matmul_gated(a);
    const int outputs = gated ? a->w->rows / 2 : a->w->rows, left = outputs - first;
    const __mmask16 mask = left >= 16 ? 0xffff : avx512_mask_below(left);
    const float *bias = a->bias ? a->bias + first : NULL;
    const float *up_bias = a->bias && gated ? a->bias + outputs + first : NULL;
    for (int r = 0; r < rows; r++, y += 16, up += 16) {
        float *out = a->out + (size_t)(row + r) * a->out_stride + first;
        __m512 v = with_bias(y, bias, mask);
        if (a->epilogue == EPILOGUE_ADD)
            v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), v);
        else if (a->epilogue == EPILOGUE_SWIGLU)
            v = avx512_swiglu(v, with_bias(up, up_bias, mask), a->limit);
        else if (gated)
            v = _mm512_mul_ps(avx512_gelu(v), with_bias(up, up_bias, mask));
        _mm512_mask_storeu_ps(out, mask, v);
    }
}

const matmul_ops avx512_matmul_ops = {
    .lanes = 16,
    .panel = 8,
    .streams = { 0, 4, 4, 2, 2, 2, 2, 2, 2 },
    .dot = {
        [DTYPE_F32] = avx512_dot_f32,
        [DTYPE_F16] = avx512_dot_f16,
        [DTYPE_BF16] = avx512_dot_bf16,
        [DTYPE_Q4_0] = avx512_dot_q4_0,
        [DTYPE_Q4_1] = avx512_dot_q4_1,
        [DTYPE_Q5_0] = avx512_dot_q5_0,
        [DTYPE_Q5_1] = avx512_dot_q5_1,
        [DTYPE_Q8_0] = avx512_dot_q8_0,
        [DTYPE_Q4_K] = avx512_dot_q4_k,
        [DTYPE_Q5_K] = avx512_dot_q5_k,
        [DTYPE_Q6_K] = avx512_dot_q6_k,
        [DTYPE_F8_E4M3] = avx512_dot_f8,
        [DTYPE_F4_E2M1] = avx512_dot_fp4,
        [DTYPE_MXFP4] = avx512_dot_fp4,
        [DTYPE_I8] = avx512_dot_i8,
    },
    .widen = avx512_widen,
    .prepare = avx512_prepare_panel,
    .finish = finish,
};

static void prepare(const kernel_args *args, void *scratch)
{
    matmul_prepare(&avx512_matmul_ops, args, scratch);
}

static void run(const kernel_args *args, int tile, void *scratch)
{
    matmul_run(&avx512_matmul_ops, args, tile, scratch);
}

const kernel_impl avx512_matmul = {
    .tiles = matmul_tiles, .scratch = matmul_scratch, .prepare = prepare, .run = run
};

/* avx2_matmul.c: the matmul of the AVX2 table: its dots, its sizes, and its epilogues.
 *
 * Bits: kernel/ref/matmul.c. Walking: kernel/cpu/matmul.c. Threads: as kernel/impl.h says.
 */
#include "kernel/cpu/avx2_matmul.h"

#include <immintrin.h>

#include "kernel/cpu/avx2_vmath.h"
#include "kernel/cpu/entries.h"

/* Eight outputs of one row that are all there. */
static void finish_eight(const args_matmul *a, const float *y, const float *up, const float *bias,
                         const float *up_bias, float *out)
{
    __m256 v = _mm256_loadu_ps(y);
    if (bias)
        v = _mm256_add_ps(v, _mm256_loadu_ps(bias));
    if (a->epilogue == EPILOGUE_ADD) {
        v = _mm256_add_ps(_mm256_loadu_ps(out), v);
    } else if (matmul_gated(a)) {
        __m256 u = _mm256_loadu_ps(up);
        if (bias)
            u = _mm256_add_ps(u, _mm256_loadu_ps(up_bias));
        v = a->epilogue == EPILOGUE_SWIGLU ? avx2_swiglu(v, u, a->limit) : _mm256_mul_ps(avx2_gelu(v), u);
    }
    _mm256_storeu_ps(out, v);
}

static void finish(const void *job, int first, int row, int rows, const float *y, const float *up)
{
    const args_matmul *a = job;
    const int outputs = matmul_gated(a) ? a->w->rows / 2 : a->w->rows, left = outputs - first;
    const size_t n = left < 8 ? (size_t)left * sizeof(float) : 8 * sizeof(float);
    const float *bias = a->bias ? a->bias + first : NULL;
    const float *up_bias = a->bias && matmul_gated(a) ? a->bias + outputs + first : NULL;
    float padded[2][8] = { 0 };
    if (left < 8 && a->bias) { /* the last group: through buffers of a whole register */
        __builtin_memcpy(padded[0], bias, n);
        bias = padded[0];
        if (up_bias) {
            __builtin_memcpy(padded[1], up_bias, n);
            up_bias = padded[1];
        }
    }
    for (int r = 0; r < rows; r++, y += 8, up += 8) {
        float *out = a->out + (size_t)(row + r) * a->out_stride + first, last[8] = { 0 };
        if (left >= 8) {
            finish_eight(a, y, up, bias, up_bias, out);
            continue;
        }
        __builtin_memcpy(last, out, n);
        finish_eight(a, y, up, bias, up_bias, last);
        __builtin_memcpy(out, last, n);
    }
}

const matmul_ops avx2_matmul_ops = {
    .lanes = 8,
    .panel = 4,
    .streams = { 0, 4, 4, 4, 4 },
    .dot = {
        [DTYPE_F32] = avx2_dot_f32,
        [DTYPE_F16] = avx2_dot_f16,
        [DTYPE_BF16] = avx2_dot_bf16,
        [DTYPE_Q4_0] = avx2_dot_q4_0,
        [DTYPE_Q4_1] = avx2_dot_q4_1,
        [DTYPE_Q5_0] = avx2_dot_q5_0,
        [DTYPE_Q5_1] = avx2_dot_q5_1,
        [DTYPE_Q8_0] = avx2_dot_q8_0,
        [DTYPE_Q4_K] = avx2_dot_q4_k,
        [DTYPE_Q5_K] = avx2_dot_q5_k,
        [DTYPE_Q6_K] = avx2_dot_q6_k,
        [DTYPE_F8_E4M3] = avx2_dot_f8,
        [DTYPE_F4_E2M1] = avx2_dot_fp4,
        [DTYPE_MXFP4] = avx2_dot_fp4,
        [DTYPE_I8] = avx2_dot_i8,
    },
    .widen = avx2_widen,
    .prepare = avx2_prepare_panel,
    .finish = finish,
};

static void prepare(const kernel_args *args, void *scratch)
{
    matmul_prepare(&avx2_matmul_ops, args, scratch);
}

static void run(const kernel_args *args, int tile, void *scratch)
{
    matmul_run(&avx2_matmul_ops, args, tile, scratch);
}

const kernel_impl avx2_matmul = {
    .tiles = matmul_tiles, .scratch = matmul_scratch, .prepare = prepare, .run = run
};

/* matmul.c (ref): defines the bits of every product of activations and weights (design.md P2).
 *
 * One output is one chain of fused multiply-adds from +0 along k upwards; nothing is split along k, so neither tiles,
 * threads nor the number of rows can change it. x is one activation row, w one weight row.
 *
 *   weights         activations   exact integer                    float steps, block by block
 *   F32 F16 BF16    f32           -                                acc = fma(w[k], x[k], acc)
 *   Q4_0 Q5_0 Q8_0  Q8 per 32     i = sum (q - centre) xq          acc = fma(i, d * xd, acc)
 *   Q4_1 Q5_1       Q8 per 32     i = sum q xq, over 32            acc = fma(m, xsum, acc); acc = fma(i, d * xd, acc)
 *   Q4_K Q5_K       Q8 per 32     as Q4_1, with d = d256 * scale and m = -(dmin256 * min) of the sub-block
 *   Q6_K            Q8 per 32     i = sum (q - 32) xq, over 16     acc = fma(i, (d256 * scale) * xd, acc), twice
 *   F8_E4M3 F4_E2M1 MXFP4   F8, f32    -                           acc = fma(code * scale, x[k], acc): exact weights
 *   I8              I8; f32       i = sum q xq, over the row; -    y = (i * xd) * scale; acc = fma(q * scale, x[k], acc)
 *
 * xq, xd, xsum: q, scale and sum of the activation block (kernel/ref/quant.c). Integers of blocks are below 2^24, I8's is
 * exact in 32 bits and rounded once; products of an f16 and a 6- or 8-bit scale are exact, Q6_K's first too. Epilogue:
 * y + bias, then store, add to out, or act(gate) * up (SWIGLU: both cut at the limit first).
 * Threads: tiles are groups of rows (gated: a group of gates and its group of ups).
 */
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/panel.h"
#include "kernel/ref/dot.h"
#include "kernel/ref/prepare.h"
#include "kernel/ref/vmath.h"
#include "kernel/scaled.h"

enum { BLOCK = 32 };

/* What a worker keeps: its own activations, if the kernel got plain rows, then two weight rows taken apart. */
typedef struct {
    void *rows, *weights[2];
} layout;

/* One row of I8, taken apart. */
typedef struct {
    float scale;
    int8_t q[];
} i8_row;

size_t ref_weight_row_bytes(const packed_weight *w)
{
    const size_t cols = (size_t)w->cols;
    size_t bytes = w->form == ACTIVATION_Q8   ? cols / BLOCK * sizeof(weight_block)
                   : w->form == ACTIVATION_I8 ? sizeof(i8_row) + cols
                                              : cols * sizeof(float);
    return (bytes + 63) / 64 * 64;
}

static size_t own_bytes(const args_matmul *a)
{
    return a->x ? activation_bytes(a->w->form, a->rows.max, a->w->cols) : 0;
}

static layout lay_out(const args_matmul *a, void *scratch)
{
    char *weights = (char *)scratch + own_bytes(a);
    return (layout) { .rows = a->x ? scratch : a->ready.data,
                      .weights = { weights, weights + ref_weight_row_bytes(a->w) } };
}

static bool is_gated(const args_matmul *a)
{
    return a->epilogue == EPILOGUE_SWIGLU || a->epilogue == EPILOGUE_GEGLU;
}

static int matmul_tiles(const kernel_args *args)
{
    const args_matmul *a = &args->matmul;
    return rows_live(a->rows) == 0 ? 0 : is_gated(a) ? a->w->groups / 2 : a->w->groups;
}

static size_t matmul_scratch(const kernel_args *args)
{
    return own_bytes(&args->matmul) + 2 * ref_weight_row_bytes(args->matmul.w);
}

static void matmul_prepare(const kernel_args *args, void *scratch)
{
    const args_matmul *a = &args->matmul;
    const int rows = rows_live(a->rows);
    if (!a->x)
        return;
    for (int r = 0; r < rows; r++)
        ref_prepare_row(a->w->form, a->x + (size_t)r * a->x_stride, a->w->cols, a->norm, a->eps,
                        panel_at(a->w->form, a->w->cols, scratch, r));
}

void ref_read_weights(const packed_weight *w, int group, int lane, void *out)
{
    if (panel_is_float(w->form)) {
        weight_read_row(w, group, lane, out);
        return;
    }
    if (w->form == ACTIVATION_I8) {
        i8_row *row = out;
        row->scale = scaled_read_codes(w, group, lane, row->q);
        return;
    }
    weight_block *block = out;
    for (int b = 0; b < w->cols / BLOCK; b++)
        weight_read_block(w, group, lane, b, &block[b]);
}

static float dot_plain(const float *w, const float *x, int cols)
{
    float acc = 0;
    for (int k = 0; k < cols; k++)
        acc = fmaf(w[k], x[k], acc);
    return acc;
}

static int dot_integers(const int8_t *w, const int8_t *x, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += w[i] * x[i];
    return sum;
}

static float dot_blocks(dtype type, const weight_block *w, const q8_block *x, int blocks)
{
    const bool min = type == DTYPE_Q4_1 || type == DTYPE_Q5_1 || type == DTYPE_Q4_K || type == DTYPE_Q5_K;
    const int chunk = type == DTYPE_Q6_K ? BLOCK / 2 : BLOCK;
    float acc = 0;
    for (int b = 0; b < blocks; b++) {
        if (min)
            acc = fmaf(w[b].min, x[b].sum, acc);
        for (int at = 0; at < BLOCK; at += chunk) {
            const int i = dot_integers(w[b].q + at, x[b].q + at, chunk);
            acc = fmaf((float)i, w[b].scale[at / 16] * x[b].scale, acc);
        }
    }
    return acc;
}

float ref_dot(const packed_weight *w, const void *weights, const void *x)
{
    if (w->form == ACTIVATION_I8) {
        const i8_row *row = weights;
        const i8_head *head = x;
        const int sum = dot_integers(row->q, (const int8_t *)(head + 1), w->cols);
        return ((float)sum * head->scale) * row->scale;
    }
    return panel_is_float(w->form) ? dot_plain(weights, x, w->cols)
                                   : dot_blocks(w->type, weights, x, w->cols / BLOCK);
}

static void matmul_run(const kernel_args *args, int tile, void *scratch)
{
    const args_matmul *a = &args->matmul;
    const packed_weight *w = a->w;
    const layout l = lay_out(a, scratch);
    const int rows = rows_live(a->rows), gated = is_gated(a), outputs = gated ? w->rows / 2 : w->rows;
    for (int lane = 0; lane < w->lanes; lane++) {
        const int n = tile * w->lanes + lane;
        if (n >= outputs)
            break;
        for (int half = 0; half <= gated; half++)
            ref_read_weights(w, gated ? 2 * tile + half : tile, lane, l.weights[half]);
        for (int r = 0; r < rows; r++) {
            const void *x = panel_at(w->form, w->cols, l.rows, r);
            float *out = a->out + (size_t)r * a->out_stride + n;
            float y = ref_dot(w, l.weights[0], x);
            if (a->bias)
                y += a->bias[n];
            if (gated) {
                float up = ref_dot(w, l.weights[1], x);
                if (a->bias)
                    up += a->bias[outputs + n];
                y = a->epilogue == EPILOGUE_SWIGLU ? vmath_swiglu(y, up, a->limit) : vmath_gelu(y) * up;
            }
            *out = a->epilogue == EPILOGUE_ADD ? *out + y : y;
        }
    }
}

const kernel_impl ref_matmul = {
    .tiles = matmul_tiles, .scratch = matmul_scratch, .prepare = matmul_prepare, .run = matmul_run
};

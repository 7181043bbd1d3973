/* quant.c (ref): defines what a quantised activation is, and RMSNorm in front of it.
 *
 * One block of 32 values v (of (x s) w after a norm, s of kernel/ref/reduce.h):
 *
 *   top    = the largest |v| by its bits, so that a NaN beats everything
 *   scale  = top / 127; 0 where top < 2^-100: such a block is zeros, and no product with it is a denormal
 *   q      = round to nearest even of v (127 / top): -127 … 127, and -127 where that product is a NaN
 *   sum    = scale * (exact sum of q)
 *
 * So an infinity or NaN in a row gives infinities or NaN in every output of the row, and no crash.
 * Panels of one row (kernel/panel.h). Threads: tiles are rows.
 */
#include "kernel/ref/prepare.h"

#include <string.h>

#include "kernel/cpu/entries.h"
#include "kernel/panel.h"
#include "kernel/ref/reduce.h"
#include "kernel/ref/vmath.h"

enum { BLOCK = 32 };

static void quant_block(const float v[BLOCK], q8_block *out)
{
    uint32_t top_bits = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint32_t bits = vmath_bits(v[i]) & 0x7fffffff;
        top_bits = bits > top_bits ? bits : top_bits;
    }
    const float top = vmath_float(top_bits);
    const bool tiny = top < 0x1p-100f;
    const float inverse = tiny ? 0.0f : 127.0f / top;
    int sum = 0, first = 0;
    for (int i = 0; i < BLOCK; i++) {
        float q = v[i] * inverse;
        q = q > -127.0f ? q : -127.0f;
        out->q[i] = (int8_t)((q + VMATH_ROUND) - VMATH_ROUND);
        sum += out->q[i];
        first += i < BLOCK / 2 ? out->q[i] : 0;
    }
    out->scale = tiny ? 0.0f : top / 127.0f;
    out->sum = out->scale * (float)sum;
    out->offset[0] = -128 * sum;
    out->offset[1] = -128 * first;
}

void ref_prepare_row(activation_form form, const float *x, int cols, const float *norm, float eps, void *out)
{
    const float s = norm ? reduce_rms_scale(reduce_sum_squares(x, cols), cols, eps) : 1.0f;
    if (form == ACTIVATION_F32) {
        float *y = out;
        for (int i = 0; i < cols; i++)
            y[i] = norm ? (x[i] * s) * norm[i] : x[i];
        return;
    }
    q8_block *block = out;
    for (int k = 0; k < cols; k += BLOCK) {
        float v[BLOCK];
        for (int i = 0; i < BLOCK; i++)
            v[i] = norm ? (x[k + i] * s) * norm[k + i] : x[k + i];
        quant_block(v, block++);
    }
}

static int quant_tiles(const kernel_args *args)
{
    return rows_live(args->quant.rows);
}

static void quant_run(const kernel_args *args, int tile, void *scratch)
{
    const args_quant *a = &args->quant;
    (void)scratch;
    ref_prepare_row(a->form, a->x + (size_t)tile * a->x_stride, a->cols, a->norm, a->eps,
                    panel_at(a->form, a->cols, a->out.data, tile));
}

const kernel_impl ref_quant = { .tiles = quant_tiles, .run = quant_run };

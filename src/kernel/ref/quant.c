/* quant.c (ref): defines what a quantised activation is, and RMSNorm in front of it.
 *
 * One block of 32 values v (of (x s) w after a norm, s of kernel/ref/reduce.h):
 *
 *   top    = the largest |v| by its bits, so that a NaN beats everything
 *   scale  = top / 127; 0 where top < 2^-100: such a block is zeros, and no product with it is a denormal
 *   q      = round to nearest even of v (127 / top): -127 … 127, and -127 where that product is a NaN
 *   sum    = scale * (exact sum of q)
 *
 * F8: groups of 128 columns (the last may be shorter) rounded to e4m3, kernel/ref/round.h. I8: the whole row v,
 *
 *   scale  = top / 127, top as above; 0 is 0
 *   q      = round to nearest even of v / scale: -127 … 127, -127 where that is a NaN; 0 where the scale is 0
 *
 * So an infinity or NaN in a row gives infinities or NaN in every output of the row, and no crash.
 * Panels of one row (kernel/panel.h). Threads: tiles are rows.
 */
#include "kernel/ref/prepare.h"

#include <string.h>

#include "kernel/cpu/entries.h"
#include "kernel/panel.h"
#include "kernel/ref/reduce.h"
#include "kernel/ref/round.h"
#include "kernel/ref/vmath.h"

enum { BLOCK = 32, F8_GROUP = 128 };

static void quant_block(const float v[BLOCK], q8_block *out)
{
    const float top = vmath_float(round_top(v, BLOCK));
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

/* A row: its value i after the norm, if there is one. */
typedef struct {
    const float *x, *norm;
    float s;
} source;

static float value_at(const source *r, int i)
{
    return r->norm ? (r->x[i] * r->s) * r->norm[i] : r->x[i];
}

static void prepare_q8(const source *r, int cols, q8_block *block)
{
    for (int k = 0; k < cols; k += BLOCK) {
        float v[BLOCK];
        for (int i = 0; i < BLOCK; i++)
            v[i] = value_at(r, k + i);
        quant_block(v, block++);
    }
}

static void prepare_i8(const source *r, int cols, i8_head *head)
{
    int8_t *q = (int8_t *)(head + 1);
    uint32_t top = 0;
    int sum = 0;
    for (int i = 0; i < cols; i++) {
        const float v = value_at(r, i);
        const uint32_t bits = round_top(&v, 1);
        top = bits > top ? bits : top;
    }
    head->scale = vmath_float(top) / 127.0f;
    for (int i = 0; i < cols; i++) {
        float v = head->scale == 0 ? 0 : value_at(r, i) / head->scale;
        v = v > -127.0f ? v : -127.0f;
        v = v < 127.0f ? v : 127.0f;
        q[i] = (int8_t)((v + VMATH_ROUND) - VMATH_ROUND);
        sum += q[i];
    }
    for (int i = cols; i % 4 != 0; i++)
        q[i] = 0;
    head->offset = -128 * sum;
}

void ref_prepare_row(activation_form form, const float *x, int cols, const float *norm, float eps, void *out)
{
    const source r = { x, norm, norm ? reduce_rms_scale(reduce_sum_squares(x, cols), cols, eps) : 1.0f };
    if (form == ACTIVATION_Q8) {
        prepare_q8(&r, cols, out);
        return;
    }
    if (form == ACTIVATION_I8) {
        prepare_i8(&r, cols, out);
        return;
    }
    float *y = out;
    for (int i = 0; i < cols; i++)
        y[i] = value_at(&r, i);
    for (int k = 0; form == ACTIVATION_F8 && k < cols; k += F8_GROUP)
        round_group_f8(y + k, cols - k < F8_GROUP ? cols - k : F8_GROUP, y + k);
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

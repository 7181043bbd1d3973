/* latent.c: norm, rotation and rounding of latents, heads and compressed entries, one value at a time. latent.h says
 * what they are. Threads: any, on different vectors.
 */
#include "kernel/ref/latent.h"

#include <assert.h>
#include <math.h>

#include "kernel/ref/reduce.h"
#include "kernel/ref/round.h"

void latent_norm(const float *x, int width, const float *weight, float eps, float *y)
{
    const float scale = reduce_rms_scale(reduce_sum_squares(x, width), width, eps);
    for (int i = 0; i < width; i++)
        y[i] = weight ? x[i] * scale * weight[i] : x[i] * scale;
}

void latent_rotate(float *x, int width, int rope_dim, const float *cos_sin, bool inverse)
{
    const int half = rope_dim / 2;
    float *tail = x + width - rope_dim;
    for (int i = 0; i < half; i++) {
        const float a = tail[2 * i], b = tail[2 * i + 1];
        const float c = cos_sin[i], s = inverse ? -cos_sin[half + i] : cos_sin[half + i];
        tail[2 * i] = fmaf(a, c, -(b * s));
        tail[2 * i + 1] = fmaf(b, c, a * s);
    }
}

static void hadamard(float *x, int width)
{
    assert((width & (width - 1)) == 0);
    for (int half = 1; half < width; half *= 2)
        for (int i = 0; i < width; i++)
            if (!(i & half)) {
                const float a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
    const float scale = 1.0f / sqrtf((float)width);
    for (int i = 0; i < width; i++)
        x[i] *= scale;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

void latent_round(float *x, int width, int rope_dim, vector_rounding rounding)
{
    if (rounding == ROUND_F8) {
        const int n = width - rope_dim;
        for (int i = 0; i < n; i += LATENT_F8_GROUP)
            round_group_f8(x + i, smaller(LATENT_F8_GROUP, n - i), x + i);
    }
    if (rounding == ROUND_HADAMARD || rounding == ROUND_HADAMARD_FP4)
        hadamard(x, width);
    if (rounding == ROUND_HADAMARD_FP4)
        for (int i = 0; i < width; i += LATENT_FP4_GROUP)
            round_group_fp4(x + i, smaller(LATENT_FP4_GROUP, width - i), x + i);
}

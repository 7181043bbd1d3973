/* sample.h: how a row of logits becomes a token: what every implementation shares (design.md 5).
 *
 * A row goes through these steps; every sum is in the lanes and tree of kernel/ref/reduce.h, by token id.
 *   1 clean    a NaN logit counts as -inf, +inf as the largest float
 *   2 logprob  if wanted, of the raw row: (z - max) - log sum exp(z - max); -inf where no logit is above -inf
 *   3 adjust   bias, then penalties, then bans, in place (sample_adjust)
 *   4 greedy   temperature below 1e-6: the largest logit, the lowest id of equals. Also where no logit is
 *              above -inf: that gives id 0
 *   5 scale    y = (z - max) * (1 / temperature)
 *   6 filter   tokens in the order (z descending, id ascending); each filter keeps a beginning of that order:
 *              top_k   its first k tokens                              off: k <= 0 or k >= vocab
 *              top_p   the shortest beginning with at least one token whose mass, the sum of exp(y), reaches
 *                      top_p times the mass of what top_k left         off: top_p >= 1 or NaN
 *              min_p   those with y >= log(min_p), min_p at most 1     off: min_p <= 0 or NaN
 *   7 choose   the largest y + g, the lowest id of equals, g = sample_gumbel of Philox at (seed, position, the
 *              launch's use, 0, id / 4), word id mod 4. A draft x on trial: x if u q(x) < p(x), else the largest
 *              log (p - q)+ + g of RNG_RECOVER; p = exp(y) over the mass of what 6 left, u of RNG_ACCEPT
 *   8 keep     if asked for and not greedy: p of step 7; a single 1 where step 4 found no logit above -inf
 * Pure, except where a row is written. Threads: any, on different rows.
 */
#ifndef FORAY_KERNEL_REF_SAMPLE_H
#define FORAY_KERNEL_REF_SAMPLE_H

#include <float.h>

#include "base/rng.h"
#include "kernel/kernel.h"
#include "kernel/ref/vmath.h"

/* Step 1, for one logit. */
static inline float sample_clean(float z)
{
    const float low = z > -INFINITY ? z : -INFINITY;
    return low < FLT_MAX ? low : FLT_MAX;
}

static inline bool sample_is_greedy(const sample_params *p)
{
    return !(p->temperature >= 1e-6f);
}

/* The factor of step 5. Temperatures above the largest float count as it. */
static inline float sample_scale(const sample_params *p)
{
    return 1.0f / (p->temperature < FLT_MAX ? p->temperature : FLT_MAX);
}

static inline bool sample_has_top_k(const sample_params *p, int vocab)
{
    return p->top_k > 0 && p->top_k < vocab;
}

static inline bool sample_has_top_p(const sample_params *p)
{
    return p->top_p < 1.0f;
}

static inline bool sample_has_min_p(const sample_params *p)
{
    return p->min_p > 0.0f;
}

/* The least y that min_p keeps. */
static inline float sample_min_p_cut(const sample_params *p)
{
    return sample_has_min_p(p) ? vmath_log(p->min_p < 1.0f ? p->min_p : 1.0f) : -INFINITY;
}

/* Sorting these ascending gives the order of step 6. z is clean. */
static inline uint64_t sample_key(float z, int id)
{
    const uint32_t u = vmath_bits(z + 0.0f); /* -0 and +0 are equals */
    const uint32_t ascending = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (uint64_t)(~ascending) << 32 | (uint32_t)id;
}

static inline int sample_key_id(uint64_t key)
{
    return (int)(key & 0xffffffffu);
}

/* Standard Gumbel noise -log E, E = -log(1 - v) standard exponential, v = (w + 1/2) / 2^31 with the upper 31
 * bits of the word: small words give large noise, where v is finest. Range about -2.8 … 22.2. E is taken as
 * v (log u / (u - 1)) with u = 1 - v rounded, in which the rounding of u cancels. Never decreases as v falls
 * by more than rounding; g <= -log v + 1e-5 always (the fast scans rely on it; tested). */
static inline float sample_gumbel(uint32_t word)
{
    const float drawn = fmaf((float)(int32_t)(word >> 1), 0x1p-31f, 0x1p-32f);
    const float v = drawn < 1.0f - 0x1p-24f ? drawn : 1.0f - 0x1p-24f;
    const float u = 1.0f - v;
    const float e = u < 1.0f ? v * (vmath_log(u) / (u - 1.0f)) : v;
    return -vmath_log(e);
}

static inline float sample_noise(const sample_params *p, int32_t position, rng_use use, int id)
{
    const rng_block b = rng_at(p->seed, (uint32_t)position, use, 0, (uint32_t)id / 4);
    return sample_gumbel(b.word[id % 4]);
}

/* u of step 7: 24 bits, below 1. */
static inline float sample_uniform(const sample_params *p, int32_t position)
{
    return (float)(rng_at(p->seed, (uint32_t)position, RNG_ACCEPT, 0, 0).word[0] >> 8) * 0x1p-24f;
}

/* Whether step 3 would change anything. */
bool sample_needs_adjust(const sample_params *p, const sample_history *h);

/* Step 3 on one row, in place. For each distinct token seen before (committed or drafted), after the bias:
 * z > 0 ? z / repeat_penalty : z * repeat_penalty; then, if it was generated (not only part of the prompt),
 * z = fma(-frequency_penalty, times generated, z) - presence_penalty. Bans come last. Ids outside the vocabulary are passed over.
 * counts: [vocab] of scratch, any content. */
void sample_adjust(float *z, int vocab, const sample_params *p, const sample_history *h, int32_t *counts);

/* Step 7 of a row on trial: the draft itself exactly when it stands. mass: [vocab] exp(y) of what step 6 left, 0
 * elsewhere; total: their sum. Where p and q are the same but for rounding nothing is left to replace a draft: it stands. */
int sample_try(const float *mass, float total, int vocab, const sample_params *p, const sample_history *h,
               int32_t position);

/* Step 8. mass, total: as above; NULL where step 4 found no logit above -inf. */
void sample_keep(const float *mass, float total, int vocab, int token, float *distribution);

#endif

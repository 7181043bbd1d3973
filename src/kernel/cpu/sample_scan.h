/* sample_scan.h: what the scan of a whole row for its coupled token needs to know, and the bound that spares
 * it nearly all logarithms.
 *
 * A token can only beat the best score so far if y + g >= best, and g <= -log v for its v = (k + 1/2) / 2^31
 * of the random word (kernel/ref/sample.h): so only if k < 2^31 exp(y - best). The exponential is bounded
 * from above by putting its binary exponent into a float's exponent field, a straight line between powers of
 * two that lies up to 6 % too high; SLACK covers all rounding, so no winner is ever passed over. Survivors
 * are computed exactly. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_SAMPLE_SCAN_H
#define FORAY_KERNEL_CPU_SAMPLE_SCAN_H

#include "kernel/ref/sample.h"

enum { SAMPLE_BLOCK = 64 }; /* logits per block maximum; a multiple of 32 */

#define SAMPLE_NOISE_MAX 22.25f /* no noise is larger, and neither is y + noise by more than rounding */

typedef struct {
    const sample_params *params;
    int32_t position;
    rng_use use;      /* of the noise */
    int first;        /* the lowest id whose logit is max */
    float max, scale; /* y = (z - max) * scale */
    uint64_t last;    /* the filter: keys up to this and y from `least` up are admitted; `first` always is */
    float least;
} sample_scan;

/* Whether the filter admits a token. */
static inline bool sample_admits(const sample_scan *scan, float z, int id)
{
    return sample_key(z, id) <= scan->last && (z - scan->max) * scan->scale >= scan->least;
}

/* Bits of the bound as a float: (z - max) * slope + offset, rounded to an integer. */
typedef struct {
    float slope, offset;
} sample_bound;

static inline sample_bound sample_bound_at(const sample_scan *scan, float best)
{
    const float unit = 0x1p23f * VMATH_LOG2E, slack = 0x1p13f; /* 2^-10 of a binary exponent */
    return (sample_bound) { scan->scale * unit, 0x1p23f * (127 + 31) - best * unit + slack };
}

/* What the first rounds of Philox-4x32 over counters (position, use, 0, group) come to: everything
 * that does not depend on the group. After round 3:
 *   b = M1 * (low32)(group ^ mix), c0 = high32(b) ^ key0, a = M0 * c0, then
 *   state = { low32(b) ^ after0, after1, high32(a) ^ after2, low32(a) } */
typedef struct {
    uint32_t mix, key0, after0, after1, after2;
    uint32_t key[10][2]; /* of each round */
} sample_philox;

static inline sample_philox sample_philox_at(const sample_scan *scan)
{
    sample_philox p;
    const uint64_t seed = scan->params->seed;
    for (uint32_t i = 0; i < 10; i++) {
        p.key[i][0] = (uint32_t)seed + i * 0x9E3779B9u;
        p.key[i][1] = (uint32_t)(seed >> 32) + i * 0xBB67AE85u;
    }
    const uint64_t first = (uint64_t)0xD2511F53u * (uint32_t)scan->position;
    const uint32_t c0 = (uint32_t)scan->use ^ p.key[0][0], c3 = (uint32_t)first;
    p.mix = (uint32_t)(first >> 32) ^ p.key[0][1];
    const uint64_t second = (uint64_t)0xD2511F53u * c0;
    p.key0 = p.key[1][0];
    const uint32_t c2 = (uint32_t)(second >> 32) ^ c3 ^ p.key[1][1];
    const uint64_t third = (uint64_t)0xCD9E8D57u * c2;
    p.after0 = (uint32_t)(third >> 32) ^ p.key[2][0];
    p.after1 = (uint32_t)third;
    p.after2 = (uint32_t)second ^ p.key[2][1];
    return p;
}

#endif

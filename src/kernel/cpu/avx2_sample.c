/* avx2_sample.c: the whole-row passes of sampling, eight logits at a time; the rest is sample_row.inc.
 *
 * Threads: rows at once, each in its worker's scratch.
 */
#include <immintrin.h>
#include <string.h>

#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/avx2_vmath.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/sample_scan.h"

/* Up to 8 logits from z on, those past n as -inf. */
static inline __m256 load_some(const float *z, int n)
{
    const __m256i m = avx2_mask_below(n);
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_maskload_ps(z, m), _mm256_castsi256_ps(m));
}

static inline float largest(__m256 x)
{
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static float pass_max(const float *z, int n, float *block)
{
    const __m256 none = _mm256_set1_ps(-INFINITY);
    __m256 all = none;
    for (int i = 0; i < n; i += SAMPLE_BLOCK) {
        __m256 a = none, b = none; /* the second operand of max stays where the first is NaN */
        for (int j = i; j < i + SAMPLE_BLOCK; j += 16) {
            const bool whole = i + SAMPLE_BLOCK <= n;
            a = _mm256_max_ps(whole ? _mm256_loadu_ps(z + j) : load_some(z + j, n - j), a);
            b = _mm256_max_ps(whole ? _mm256_loadu_ps(z + j + 8) : load_some(z + j + 8, n - j - 8), b);
        }
        a = _mm256_max_ps(a, b);
        block[i / SAMPLE_BLOCK] = largest(a);
        all = _mm256_max_ps(a, all);
    }
    return largest(all);
}

static inline __m256 mass_of(__m256 z, __m256 max, __m256 scale)
{
    const __m256 clean = _mm256_max_ps(z, _mm256_set1_ps(-INFINITY));
    return avx2_exp(_mm256_mul_ps(_mm256_sub_ps(clean, max), scale));
}

static float pass_mass(const float *z, int n, float max, float scale, float *mass)
{
    const __m256 top = _mm256_set1_ps(max), factor = _mm256_set1_ps(scale);
    __m256 low = _mm256_setzero_ps(), high = low;
    for (int i = 0; i < n; i += 16) {
        const bool whole = i + 16 <= n;
        const __m256 a = mass_of(whole ? _mm256_loadu_ps(z + i) : load_some(z + i, n - i), top, factor);
        const __m256 b =
            mass_of(whole ? _mm256_loadu_ps(z + i + 8) : load_some(z + i + 8, n - i - 8), top, factor);
        low = _mm256_add_ps(low, a);
        high = _mm256_add_ps(high, b);
        if (mass) {
            _mm256_maskstore_ps(mass + i, avx2_mask_below(n - i), a);
            _mm256_maskstore_ps(mass + i + 8, avx2_mask_below(n - i - 8), b);
        }
    }
    return avx2_tree(low, high);
}

/* The masses of the eight tokens from id on that are above the cut, or equal to it and not past `last`. */
static inline __m256 mass_above(const float *z, const float *mass, int n, int id, __m256 cut, int last)
{
    const __m256i inside = avx2_mask_below(n - id);
    const __m256 x = _mm256_maskload_ps(z + id, inside);
    const __m256 equal =
        _mm256_and_ps(_mm256_cmp_ps(x, cut, _CMP_EQ_OQ), _mm256_castsi256_ps(avx2_mask_below(last + 1 - id)));
    const __m256 taken = _mm256_or_ps(_mm256_cmp_ps(x, cut, _CMP_GT_OQ), equal);
    return _mm256_and_ps(_mm256_maskload_ps(mass + id, inside), taken);
}

static float pass_mass_above(const float *z, const float *mass, int n, float cut, int last)
{
    const __m256 least = _mm256_set1_ps(cut);
    __m256 low = _mm256_setzero_ps(), high = low;
    for (int i = 0; i < n; i += 16) {
        low = _mm256_add_ps(low, mass_above(z, mass, n, i, least, last));
        high = _mm256_add_ps(high, mass_above(z, mass, n, i + 8, least, last));
    }
    return avx2_tree(low, high);
}

static int pass_count(const float *z, int n, float cut)
{
    const __m256 least = _mm256_set1_ps(cut);
    int count = 0, i = 0;
    for (; i + 8 <= n; i += 8)
        count += __builtin_popcount(
            (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(z + i), least, _CMP_GE_OQ)));
    for (; i < n; i++)
        count += z[i] >= cut;
    return count;
}

static int pass_collect(const float *z, int n, const float *block, float cut, int32_t *ids)
{
    const __m256 least = _mm256_set1_ps(cut);
    int count = 0;
    for (int i = 0; i < n; i += SAMPLE_BLOCK) {
        if (!(block[i / SAMPLE_BLOCK] >= cut))
            continue;
        for (int j = i; j < i + SAMPLE_BLOCK && j < n; j += 8) {
            const __m256 reach = _mm256_cmp_ps(load_some(z + j, n - j), least, _CMP_GE_OQ);
            unsigned m = (unsigned)_mm256_movemask_ps(reach);
            if (n - j < 8)
                m &= (1u << (n - j)) - 1;
            for (; m; m &= m - 1)
                ids[count++] = j + __builtin_ctz(m);
        }
    }
    return count;
}

/* Four Philox states, each number in the low half of a 64-bit lane; the upper halves hold anything. */
typedef struct {
    __m256i c0, c1, c2, c3;
} philox_state;

/* A shuffle, not a shift: the multiplications keep the shifter's ports busy. */
static inline __m256i high_half(__m256i x)
{
    return _mm256_shuffle_epi32(x, 0xf5);
}

static inline __m256i broadcast(uint32_t x)
{
    return _mm256_set1_epi64x((long long)x);
}

static inline __m256i xor3(__m256i a, __m256i b, __m256i c)
{
    return _mm256_xor_si256(a, _mm256_xor_si256(b, c));
}

/* Low halves of a in even 32-bit lanes, of b in odd ones. */
static inline __m256i join(__m256i a, __m256i b)
{
    return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa);
}

/* sample_philox in every lane: once per row, so that the loop finds its keys as operands in memory. */
typedef struct {
    __m256i mix, key0, after0, after1, after2, key[10][2];
} philox_lanes;

static philox_lanes spread(const sample_philox *p)
{
    philox_lanes l = { .mix = broadcast(p->mix),
                       .key0 = broadcast(p->key0),
                       .after0 = broadcast(p->after0),
                       .after1 = broadcast(p->after1),
                       .after2 = broadcast(p->after2) };
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 2; j++)
            l.key[i][j] = broadcast(p->key[i][j]);
    return l;
}

/* The random words of ids 4 group … 4 group + 31. Two sets of states go side by side: one alone would wait for
 * its own products. */
static inline void draw_words(const philox_lanes *p, uint32_t group, __m256i word[4])
{
    const __m256i m0 = broadcast(0xD2511F53u), m1 = broadcast(0xCD9E8D57u);
    philox_state s[2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
        /* groups 0, 1 in even lanes, 2, 3 in odd ones: so unpacking below puts ids in order */
        const __m256i groups =
            _mm256_add_epi64(broadcast(group + 4 * (uint32_t)j), _mm256_setr_epi64x(0, 2, 1, 3));
        const __m256i b = _mm256_mul_epu32(m1, _mm256_xor_si256(groups, p->mix));
        const __m256i a = _mm256_mul_epu32(m0, _mm256_xor_si256(high_half(b), p->key0));
        s[j] = (philox_state) { _mm256_xor_si256(b, p->after0), p->after1,
                                _mm256_xor_si256(high_half(a), p->after2), a };
    }
#pragma GCC unroll 7
    for (int i = 3; i < 10; i++)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const __m256i x = _mm256_mul_epu32(m0, s[j].c0), y = _mm256_mul_epu32(m1, s[j].c2);
            s[j] = (philox_state) { xor3(high_half(y), s[j].c1, p->key[i][0]), y,
                                    xor3(high_half(x), s[j].c3, p->key[i][1]), x };
        }
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
        const __m256i low = join(s[j].c0, s[j].c1), high = join(s[j].c2, s[j].c3);
        word[2 * j] = _mm256_unpacklo_epi64(low, high);
        word[2 * j + 1] = _mm256_unpackhi_epi64(low, high);
    }
}

/* Which of 8 tokens may reach the best score (sample_scan.h). */
static inline unsigned may_win(__m256 z, __m256i word, __m256 max, sample_bound b)
{
    const __m256 bits =
        _mm256_fmadd_ps(_mm256_sub_ps(z, max), _mm256_set1_ps(b.slope), _mm256_set1_ps(b.offset));
    const __m256 limit = _mm256_castsi256_ps(_mm256_cvtps_epi32(bits));
    const __m256 k = _mm256_cvtepi32_ps(_mm256_srli_epi32(word, 1));
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(k, limit, _CMP_LT_OQ));
}

static int pass_choose(const float *z, int n, const float *block, const sample_scan *scan)
{
    const sample_philox keys = sample_philox_at(scan);
    const philox_lanes philox = spread(&keys);
    const __m256 max = _mm256_set1_ps(scan->max);
    int best = scan->first;
    float best_score = sample_noise(scan->params, scan->position, scan->use, best);
    sample_bound bound = sample_bound_at(scan, best_score);
    for (int i = 0; i < n; i += 32) {
        if ((block[i / SAMPLE_BLOCK] - scan->max) * scan->scale + SAMPLE_NOISE_MAX < best_score)
            continue;
        __m256i word[4];
        draw_words(&philox, (uint32_t)i / 4, word);
        uint32_t left = 0;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const int at = i + 8 * j;
            const __m256 x = i + 32 <= n ? _mm256_loadu_ps(z + at) : load_some(z + at, n - at);
            left |= (uint32_t)may_win(x, word[j], max, bound) << 8 * j;
        }
        if (!left)
            continue;
        uint32_t words[32];
        memcpy(words, word, sizeof words);
        for (; left; left &= left - 1) {
            const int j = __builtin_ctz(left);
            if (!sample_admits(scan, z[i + j], i + j))
                continue;
            const float score = (z[i + j] - scan->max) * scan->scale + sample_gumbel(words[j]);
            if (score > best_score || (score == best_score && i + j < best)) {
                best = i + j;
                best_score = score;
                bound = sample_bound_at(scan, best_score);
            }
        }
    }
    return best;
}

#include "kernel/cpu/sample_row.inc"

const kernel_impl avx2_sample = { .tiles = sample_tiles, .scratch = sample_scratch, .run = sample_run };

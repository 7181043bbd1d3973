/* avx512_sample.c: the whole-row passes of sampling, sixteen logits at a time; the rest is sample_row.inc.
 *
 * Threads: rows at once, each in its worker's scratch.
 */
#include <immintrin.h>
#include <string.h>

#include "kernel/cpu/avx512_reduce.h"
#include "kernel/cpu/avx512_vmath.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/sample_scan.h"

/* Lanes 0 … n - 1; none if n is negative, all if it is above 15. */
static inline __mmask16 lanes_below(int n)
{
    return n >= 16 ? 0xffff : n > 0 ? avx512_mask_below(n) : 0;
}

/* Up to 16 logits from z on, those past n as -inf. */
static inline __m512 load_some(const float *z, int n)
{
    return _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), lanes_below(n), z);
}

static float pass_max(const float *z, int n, float *block)
{
    __m512 all = _mm512_set1_ps(-INFINITY);
    for (int i = 0; i < n; i += SAMPLE_BLOCK) {
        __m512 max = _mm512_set1_ps(-INFINITY); /* the second operand stays where the first is NaN */
        for (int j = i; j < i + SAMPLE_BLOCK; j += 16)
            max =
                _mm512_max_ps(i + SAMPLE_BLOCK <= n ? _mm512_loadu_ps(z + j) : load_some(z + j, n - j), max);
        block[i / SAMPLE_BLOCK] = _mm512_reduce_max_ps(max);
        all = _mm512_max_ps(max, all);
    }
    return _mm512_reduce_max_ps(all);
}

static float pass_mass(const float *z, int n, float max, float scale, float *mass)
{
    const __m512 top = _mm512_set1_ps(max), factor = _mm512_set1_ps(scale), none = _mm512_set1_ps(-INFINITY);
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        const __m512 clean =
            _mm512_max_ps(i + 16 <= n ? _mm512_loadu_ps(z + i) : load_some(z + i, n - i), none);
        const __m512 e = avx512_exp(_mm512_mul_ps(_mm512_sub_ps(clean, top), factor));
        sum = _mm512_add_ps(sum, e);
        if (mass)
            _mm512_mask_storeu_ps(mass + i, lanes_below(n - i), e);
    }
    return avx512_tree(sum);
}

static float pass_mass_above(const float *z, const float *mass, int n, float cut, int last)
{
    const __m512 least = _mm512_set1_ps(cut);
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        const __mmask16 inside = lanes_below(n - i), equal_too = lanes_below(last + 1 - i);
        const __m512 x = load_some(z + i, n - i);
        const __mmask16 above = _mm512_mask_cmp_ps_mask(inside, x, least, _CMP_GT_OQ);
        const __mmask16 equal = _mm512_mask_cmp_ps_mask(inside & equal_too, x, least, _CMP_EQ_OQ);
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(above | equal, mass + i));
    }
    return avx512_tree(sum);
}

static int pass_count(const float *z, int n, float cut)
{
    const __m512 least = _mm512_set1_ps(cut);
    int count = 0;
    for (int i = 0; i < n; i += 16)
        count += __builtin_popcount(
            _mm512_mask_cmp_ps_mask(lanes_below(n - i), load_some(z + i, n - i), least, _CMP_GE_OQ));
    return count;
}

static int pass_collect(const float *z, int n, const float *block, float cut, int32_t *ids)
{
    const __m512 least = _mm512_set1_ps(cut);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int count = 0;
    for (int i = 0; i < n; i += SAMPLE_BLOCK) {
        if (!(block[i / SAMPLE_BLOCK] >= cut))
            continue;
        for (int j = i; j < i + SAMPLE_BLOCK && j < n; j += 16) {
            const __mmask16 m =
                _mm512_mask_cmp_ps_mask(lanes_below(n - j), load_some(z + j, n - j), least, _CMP_GE_OQ);
            _mm512_mask_compressstoreu_epi32(ids + count, m, _mm512_add_epi32(lane, _mm512_set1_epi32(j)));
            count += __builtin_popcount(m);
        }
    }
    return count;
}

/* Eight Philox states, each number in the low half of a 64-bit lane; the upper halves hold anything. */
typedef struct {
    __m512i c0, c1, c2, c3;
} philox_state;

/* A shuffle, not a shift: the multiplications keep the shifter's ports busy. */
static inline __m512i high_half(__m512i x)
{
    return _mm512_shuffle_epi32(x, _MM_PERM_DDBB);
}

static inline __m512i broadcast(uint32_t x)
{
    return _mm512_set1_epi64((long long)x);
}

static inline __m512i xor3(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

/* sample_philox in every lane: once per row, so that the loop finds its keys as operands in memory. */
typedef struct {
    __m512i mix, key0, after0, after1, after2, key[10][2];
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

/* The random words of ids 4 group … 4 group + 63. Two sets of states go side by side: one alone would wait for
 * its own products. */
static inline void draw_words(const philox_lanes *p, uint32_t group, __m512i word[4])
{
    const __m512i m0 = broadcast(0xD2511F53u), m1 = broadcast(0xCD9E8D57u);
    philox_state s[2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
        /* groups 0 … 3 in even lanes, 4 … 7 in odd ones: so unpacking below puts ids in order */
        const __m512i groups =
            _mm512_add_epi64(broadcast(group + 8 * (uint32_t)j), _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7));
        const __m512i b = _mm512_mul_epu32(m1, _mm512_xor_si512(groups, p->mix));
        const __m512i a = _mm512_mul_epu32(m0, _mm512_xor_si512(high_half(b), p->key0));
        s[j] = (philox_state) { _mm512_xor_si512(b, p->after0), p->after1,
                                _mm512_xor_si512(high_half(a), p->after2), a };
    }
#pragma GCC unroll 7
    for (int i = 3; i < 10; i++)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const __m512i x = _mm512_mul_epu32(m0, s[j].c0), y = _mm512_mul_epu32(m1, s[j].c2);
            s[j] = (philox_state) { xor3(high_half(y), s[j].c1, p->key[i][0]), y,
                                    xor3(high_half(x), s[j].c3, p->key[i][1]), x };
        }
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
        const __m512i low = _mm512_mask_shuffle_epi32(s[j].c0, 0xaaaa, s[j].c1, _MM_PERM_CCAA);
        const __m512i high = _mm512_mask_shuffle_epi32(s[j].c2, 0xaaaa, s[j].c3, _MM_PERM_CCAA);
        word[2 * j] = _mm512_unpacklo_epi64(low, high);
        word[2 * j + 1] = _mm512_unpackhi_epi64(low, high);
    }
}

/* Which of 16 tokens may reach the best score (sample_scan.h). */
static inline __mmask16 may_win(__m512 z, __m512i word, __m512 max, sample_bound b)
{
    const __m512 bits =
        _mm512_fmadd_ps(_mm512_sub_ps(z, max), _mm512_set1_ps(b.slope), _mm512_set1_ps(b.offset));
    const __m512 limit = _mm512_castsi512_ps(_mm512_cvtps_epi32(bits));
    return _mm512_cmp_ps_mask(_mm512_cvtepi32_ps(_mm512_srli_epi32(word, 1)), limit, _CMP_LT_OQ);
}

static int pass_choose(const float *z, int n, const float *block, const sample_scan *scan)
{
    const sample_philox keys = sample_philox_at(scan);
    const philox_lanes philox = spread(&keys);
    const __m512 max = _mm512_set1_ps(scan->max);
    int best = scan->first;
    float best_score = sample_noise(scan->params, scan->position, scan->use, best);
    sample_bound bound = sample_bound_at(scan, best_score);
    for (int i = 0; i < n; i += 64) {
        if ((block[i / SAMPLE_BLOCK] - scan->max) * scan->scale + SAMPLE_NOISE_MAX < best_score)
            continue;
        __m512i word[4];
        draw_words(&philox, (uint32_t)i / 4, word);
        uint64_t left = 0;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const int at = i + 16 * j;
            const __m512 x = i + 64 <= n ? _mm512_loadu_ps(z + at) : load_some(z + at, n - at);
            left |= (uint64_t)may_win(x, word[j], max, bound) << 16 * j;
        }
        if (!left)
            continue;
        uint32_t words[64];
        memcpy(words, word, sizeof words);
        for (; left; left &= left - 1) {
            const int j = __builtin_ctzll(left);
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

const kernel_impl avx512_sample = { .tiles = sample_tiles, .scratch = sample_scratch, .run = sample_run };

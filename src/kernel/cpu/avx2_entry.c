/* avx2_entry.c: unpacking entries. An e4m3 code, moved up by seven bits, is an f16 number 256 times too small, subnormals
 * included; an e2m1 code picks one of eight magnitudes. All products are by powers of two, so they are exact.
 * Threads: any, on different entries.
 */
#include "kernel/cpu/avx2_entry.h"

#include <immintrin.h>

#include "kernel/ref/entry_pack.h"

static __m256 decode_e4m3(const uint8_t *codes)
{
    const __m128i c = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)codes));
    const __m128i magnitude = _mm_slli_epi16(_mm_and_si128(c, _mm_set1_epi16(0x7f)), 7);
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(c, _mm_set1_epi16(0x80)), 8);
    return _mm256_cvtph_ps(_mm_or_si128(magnitude, sign));
}

static __m256 decode_e2m1(const uint8_t *codes)
{
    const __m256 magnitudes = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
    int32_t word;
    memcpy(&word, codes, sizeof word);
    const __m256i c =
        _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(c, _mm256_set1_epi32(8)), 28);
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(magnitudes, c), _mm256_castsi256_ps(sign));
}

const float *avx2_entry_load(const entry_rows *e, int slot, int entry, float *room)
{
    const int coded = entry_coded(e), group = entry_group(e);
    if (e->packing == ENTRY_F32 || coded % 8 != 0)
        return entry_load(e, slot, entry, room);
    const uint8_t *from = entry_bytes_at(e, slot, entry), *scale = from + entry_code_bytes(e);
    for (int i = 0; i < coded; i += 8) {
        const uint8_t b = scale[i / group];
        const __m256 s = _mm256_set1_ps(b == 255 ? NAN : vmath_float((uint32_t)b << 23));
        /* 256 first: no scale that there is makes the product of both overflow, or s * 256 */
        const __m256 v = e->packing == ENTRY_F8 ? _mm256_mul_ps(decode_e4m3(from + i), _mm256_set1_ps(256))
                                                : decode_e2m1(from + i / 2);
        _mm256_storeu_ps(room + i, _mm256_mul_ps(v, s));
    }
    memcpy(room + coded, from + e->stride - (size_t)(e->width - coded) * sizeof *room,
           (size_t)(e->width - coded) * sizeof *room);
    return room;
}

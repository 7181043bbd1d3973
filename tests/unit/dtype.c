/* Tests of format/dtype: every type's values against vectors from another implementation, the 16-bit floats
 * over all their bit patterns, sizes without overflow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/dtype.h"

#include "dtype_vectors.h"

static uint32_t bits_of(float f)
{
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

static void every_quantised_type_has_the_values_of_the_format(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
        float out[512];
        uint64_t bytes = 0;
        assert_true(dtype_bytes(vectors[v].type, (uint64_t)vectors[v].count, &bytes));
        assert_int_equal(bytes, vectors[v].bytes);
        dtype_to_f32(vectors[v].type, vectors[v].block, (size_t)vectors[v].count, out);
        for (int i = 0; i < vectors[v].count; i++)
            if (bits_of(out[i]) != vectors[v].value[i])
                fail_msg("%s element %d: %.9g has bits %08x, expected %08x", dtype_get(vectors[v].type)->name,
                         i, (double)out[i], bits_of(out[i]), vectors[v].value[i]);
    }
}

/* The value of an f16 from its definition, in double. */
static double f16_by_definition(uint32_t h)
{
    double fraction = h & 0x3ff, value;
    int exponent = (h >> 10) & 31;
    if (exponent == 0)
        value = fraction * 0x1p-24;
    else {
        value = 1 + fraction / 1024;
        for (int e = exponent; e < 15; e++)
            value /= 2;
        for (int e = exponent; e > 15; e--)
            value *= 2;
    }
    return h & 0x8000 ? -value : value;
}

static void f16_means_what_its_definition_says_and_comes_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = dtype_f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00) {
            assert_true((h & 0x3ff) ? f != f : f == (h & 0x8000 ? -__builtin_inff() : __builtin_inff()));
            if ((h & 0x3ff) == 0)
                assert_int_equal(dtype_f32_to_f16(f), h);
            continue;
        }
        assert_true((double)f == f16_by_definition(h));
        assert_int_equal(dtype_f32_to_f16(f), h);
        assert_int_equal(bits_of(dtype_bf16_to_f32((uint16_t)h)), h << 16);
    }
}

static void f32_rounds_to_the_nearest_f16_and_ties_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float low = dtype_f16_to_f32((uint16_t)h), high = dtype_f16_to_f32((uint16_t)(h + 1));
        float middle = low + (high - low) / 2; /* exact: one bit more */
        float below, above;
        uint32_t b = bits_of(middle) - 1;
        memcpy(&below, &b, 4);
        b += 2;
        memcpy(&above, &b, 4);
        assert_int_equal(dtype_f32_to_f16(middle), h & 1 ? h + 1 : h);
        assert_int_equal(dtype_f32_to_f16(below), h);
        assert_int_equal(dtype_f32_to_f16(above), h + 1);
        assert_int_equal(dtype_f32_to_f16(-above), (h + 1) | 0x8000);
    }
    assert_int_equal(dtype_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(dtype_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(dtype_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(dtype_f32_to_f16(__builtin_nanf("")) & 0x7e00, 0x7e00);
}

static void plain_types_expand_from_any_address(void **state)
{
    (void)state;
    uint8_t raw[64] = { 0 };
    float out[2];
    const float f32[2] = { -1.5f, 3.25f };
    memcpy(raw + 1, f32, 8);
    dtype_to_f32(DTYPE_F32, raw + 1, 2, out);
    assert_memory_equal(out, f32, 8);
    const uint16_t f16[2] = { 0x3c00, 0xc000 };
    memcpy(raw + 1, f16, 4);
    dtype_to_f32(DTYPE_F16, raw + 1, 2, out);
    assert_true(out[0] == 1 && out[1] == -2);
    const int64_t i64[2] = { -7, (int64_t)1 << 40 };
    memcpy(raw + 3, i64, 16);
    dtype_to_f32(DTYPE_I64, raw + 3, 2, out);
    assert_true(out[0] == -7 && out[1] == 0x1p40f);
}

/* Columns 0 … 15 are the low nibbles of the sixteen bytes, 16 … 31 the high ones; e2m1 pairs have the even column low. */
static void fp4_nibbles_stand_where_their_formats_say(void **state)
{
    (void)state;
    static const float values[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    uint8_t block[17] = { 127 + 3 };
    float out[32];
    for (int i = 0; i < 16; i++)
        block[1 + i] = (uint8_t)(i | (15 - i) << 4);
    dtype_to_f32(DTYPE_MXFP4, block, 32, out);
    for (int i = 0; i < 16; i++) {
        const float low = 8 * values[i % 8], high = 8 * values[(15 - i) % 8];
        assert_int_equal(bits_of(out[i]), bits_of(i < 8 ? low : -low));
        assert_int_equal(bits_of(out[i + 16]), bits_of(i >= 8 ? high : -high));
    }
    dtype_to_f32(DTYPE_F4_E2M1, block + 1, 32, out);
    for (int i = 0; i < 16; i++)
        assert_int_equal(bits_of(out[2 * i]), bits_of(i < 8 ? values[i % 8] : -values[i % 8]));

    block[0] = 0; /* 2^-127, a denormal */
    dtype_to_f32(DTYPE_MXFP4, block, 32, out);
    assert_true(out[7] == 6 * 0x1p-127f && out[1] == 0x1p-128f);
    block[0] = 255;
    dtype_to_f32(DTYPE_MXFP4, block, 32, out);
    assert_true(out[0] != out[0]);
}

/* Every type, by its own definition: a block is odd where one of its values is, wherever it stands. */
static void odd_values_are_found_where_they_stand(void **state)
{
    (void)state;
    enum { BLOCKS = 5000, BYTES = BLOCKS * 210 };
    static uint8_t data[BYTES];
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const dtype_info *info = dtype_get((dtype)t);
        const size_t block = (size_t)info->block, n = BLOCKS * block;
        int found = 0;
        memset(data, 0, sizeof data);
        assert_int_equal(dtype_find_odd((dtype)t, data, n), n);
        for (uint32_t i = 0; i < 3000; i++) { /* one byte, or two, somewhere */
            const size_t bytes = (size_t)info->bytes, b = i * 2654435761u % BLOCKS;
            const size_t end = i % 2 ? bytes - 1 : i / 2 % 4; /* scales stand at the ends */
            const size_t at = (i % 5 ? i * 40503u >> 4 : end) % bytes;
            uint8_t *p = data + b * (size_t)info->bytes, saved[256];
            float value[256];
            bool odd = false;
            memcpy(saved, p, (size_t)info->bytes);
            p[at] = i % 3 == 0 ? 0xff : i % 3 == 1 ? 0x7f : (uint8_t)(i >> 3);
            if ((at ^ 1) < bytes && i % 2)
                p[at ^ 1] = 0xff;
            dtype_to_f32((dtype)t, p, block, value);
            for (size_t k = 0; k < block; k++)
                odd = odd || !isfinite(value[k]);
            /* Integers of zero hide a scale that is no number from nobody: 0 x inf is none. */
            assert_int_equal(dtype_find_odd((dtype)t, data, n), odd ? b * block : n);
            found += odd;
            memcpy(p, saved, (size_t)info->bytes);
        }
        bool can = info->weight || t == DTYPE_F8_E4M3 || t == DTYPE_F8_E8M0;
        assert_int_equal(found > 10, can);
    }
}

static void sizes_never_overflow_and_never_split_a_block(void **state)
{
    (void)state;
    uint64_t bytes = 7;
    assert_true(dtype_bytes(DTYPE_Q4_1, 64, &bytes) && bytes == 40);
    assert_true(dtype_bytes(DTYPE_Q6_K, 0, &bytes) && bytes == 0);
    assert_false(dtype_bytes(DTYPE_Q4_1, 33, &bytes));
    assert_false(dtype_bytes(DTYPE_Q6_K, 32, &bytes));
    assert_false(dtype_bytes(DTYPE_F32, UINT64_MAX / 2, &bytes));
    assert_false(dtype_bytes(DTYPE_Q8_0, UINT64_MAX & ~31ull, &bytes));
    assert_false(dtype_bytes(DTYPE_UNKNOWN, 32, &bytes));
    assert_string_equal(dtype_get(DTYPE_UNKNOWN)->name, "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_quantised_type_has_the_values_of_the_format),
        cmocka_unit_test(f16_means_what_its_definition_says_and_comes_back),
        cmocka_unit_test(f32_rounds_to_the_nearest_f16_and_ties_to_even),
        cmocka_unit_test(plain_types_expand_from_any_address),
        cmocka_unit_test(fp4_nibbles_stand_where_their_formats_say),
        cmocka_unit_test(odd_values_are_found_where_they_stand),
        cmocka_unit_test(sizes_never_overflow_and_never_split_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

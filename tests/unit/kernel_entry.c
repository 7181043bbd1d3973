/* Packed entries: what rounding left of a vector comes back as the very floats, whatever the instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel/cpu/avx2_entry.h"
#include "kernel/impl.h"
#include "kernel/ref/entry_pack.h"
#include "support/kernel_runner.h"

enum { MOST = 512, ENTRIES = 8 };

static const int32_t one_page[] = { 0 };

static bool has_avx2(void)
{
    const kernel_table *table;
    return kernel_table_get("avx2", &table, NULL) == 0;
}

/* Rounded vectors of many sizes, stored among others, unpacked by each way. */
static void check(entry_packing packing, int width, int plain, float size, uint32_t *counter)
{
    static uint8_t memory[ENTRIES * 4 * (MOST + 8)];
    static float x[ENTRIES][MOST], room[MOST];
    entry_rows e = { .base = memory,
                     .table = one_page,
                     .page_rows = ENTRIES,
                     .width = width,
                     .packing = packing,
                     .plain = plain,
                     .stride = entry_packed_bytes(packing, width, plain) };
    memset(memory, 0x7f, sizeof memory);
    for (int i = 0; i < ENTRIES; i++) {
        for (int c = 0; c < width; c++)
            x[i][c] = c % 7 == 6 ? -0.0f : size * runner_float(2, counter);
        if (packing == ENTRY_FP4)
            for (int c = 0; c < width; c += LATENT_FP4_GROUP)
                round_group_fp4(x[i] + c, width - c < 32 ? width - c : 32, x[i] + c);
        else
            latent_round(x[i], width, plain, ROUND_F8);
        entry_store(&e, 0, i, x[i]);
    }
    for (int i = 0; i < ENTRIES; i++) {
        assert_memory_equal(entry_load(&e, 0, i, room), x[i], (size_t)width * sizeof(float));
        if (has_avx2())
            assert_memory_equal(avx2_entry_load(&e, 0, i, room), x[i], (size_t)width * sizeof(float));
    }
}

static void unpacked_entries_are_the_rounded_floats(void **state)
{
    (void)state;
    uint32_t counter = 0;
    for (int exponent = -60; exponent <= 60; exponent += 3) {
        const float size = vmath_float((uint32_t)(127 + exponent) << 23);
        check(ENTRY_F8, 512, 64, size, &counter);
        check(ENTRY_F8, 128, 64, size, &counter);
        check(ENTRY_F8, 80, 16, size, &counter);
        check(ENTRY_F8, 77, 10, size, &counter);
        check(ENTRY_FP4, 128, 0, size, &counter);
        check(ENTRY_FP4, 32, 0, size, &counter);
        check(ENTRY_FP4, 44, 0, size, &counter);
    }
}

/* Spec: DeepSeek-V4 7.3, but that rotated channels stay f32 here: bf16 would round them once more. */
static void entries_are_small(void **state)
{
    (void)state;
    assert_int_equal(entry_packed_bytes(ENTRY_F8, 512, 64), 448 + 7 + 1 + 4 * 64);
    assert_int_equal(entry_packed_bytes(ENTRY_FP4, 128, 0), 64 + 4);
    assert_int_equal(entry_packed_bytes(ENTRY_F32, 512, 64), 4 * 512);
}

static void a_nan_makes_its_group_nan(void **state)
{
    (void)state;
    uint8_t memory[1024];
    float x[128] = { 0 }, room[128];
    entry_rows e = { .base = memory,
                     .table = one_page,
                     .page_rows = 1,
                     .width = 128,
                     .packing = ENTRY_FP4,
                     .stride = entry_packed_bytes(ENTRY_FP4, 128, 0) };
    x[40] = NAN;
    entry_store(&e, 0, 0, x);
    const float *y = entry_load(&e, 0, 0, room);
    for (int c = 0; c < 128; c++)
        assert_true(c / 32 == 1 ? isnan(y[c]) : y[c] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unpacked_entries_are_the_rounded_floats),
        cmocka_unit_test(entries_are_small),
        cmocka_unit_test(a_nan_makes_its_group_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Fuzzes the safetensors reader: whatever the bytes, it answers with an error or with views that lie inside them. The
 * bytes end at an unmapped page. The same mutations in every run. */
#include "format/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/guard.h"
#include "support/mutate.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":"
    "[8,20]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"z\":{\"dtype\":\"I8\","
    "\"shape\":[4],\"data_offsets\":[20,24]}}";

enum { HEADER = sizeof header - 1, FILE_BYTES = 8 + HEADER + 24, ROOM = 2 * FILE_BYTES + 64 };

/* Changes that keep the JSON well-formed: up to three digits become others. */
static size_t mutate_digits(uint32_t number, const uint8_t *good, uint8_t *out)
{
    memcpy(out, good, FILE_BYTES);
    for (uint32_t change = 0; change <= number % 3; change++) {
        rng_block b = rng_philox(number, change, 0x64696769, 0, 1, 0);
        size_t at = 8 + b.word[0] % HEADER;
        while (out[at] < '0' || out[at] > '9')
            at = at + 1 < 8 + HEADER ? at + 1 : 8;
        out[at] = (uint8_t)('0' + b.word[1] % 10);
    }
    return FILE_BYTES;
}

static void any_bytes_give_an_error_or_views_inside_them(void **state)
{
    (void)state;
    uint8_t good[FILE_BYTES] = { HEADER & 255, HEADER >> 8 }, *bad = malloc(ROOM);
    guard g;
    uint32_t accepted = 0, tries = mutate_count(20000, 5000000);
    uint64_t sum = 0;
    memcpy(good + 8, header, HEADER);
    assert_non_null(bad);
    guard_init(&g, ROOM);
    int64_t blocks = mem_get_stats().blocks;
    for (uint32_t i = 0; i < tries; i++) {
        size_t n = i % 4 == 0 ? mutate_digits(i, good, bad) : mutate(1, i, good, FILE_BYTES, 8 + HEADER, bad);
        const uint8_t *bytes = guard_copy(&g, bad, n);
        arena a;
        tensor_view *v;
        size_t count;
        foray_error err = { 0 };
        arena_init(&a, MEM_GENERAL, 4096);
        if (safetensors_parse(bytes, n, "fuzz", &a, &v, &count, &err) == 0) {
            accepted++;
            for (size_t t = 0; t < count; t++) {
                const uint8_t *data = v[t].data;
                assert_true(data >= bytes && v[t].bytes <= n - (size_t)(data - bytes));
                for (uint64_t k = 0; k < v[t].bytes; k++)
                    sum += data[k];
                uint64_t elements = 1, size = 0;
                for (int d = 0; d < 4; d++)
                    elements *= (uint64_t)v[t].shape[d];
                assert_true(v[t].type == DTYPE_UNKNOWN ||
                            (dtype_bytes(v[t].type, elements, &size) && size == v[t].bytes));
                sum += strlen(v[t].name) + strlen(v[t].type_name);
            }
        } else {
            assert_true(err.code < 0 && err.text[0]);
        }
        assert_true(a.used_bytes < 64 << 10);
        arena_free(&a);
    }
    assert_int_equal(mem_get_stats().blocks, blocks);
    assert_true(sum > 0 && accepted > tries / 100 && accepted < tries / 2);
    guard_free(&g);
    free(bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_give_an_error_or_views_inside_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

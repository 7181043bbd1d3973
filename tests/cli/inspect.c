/* inspect.c: `foray inspect` over files that foray cannot run: it still says what is in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <string.h>

#include "support/cli_program.h"
#include "support/gguf_write.h"
#include "support/tiny.h"

#define RUN(setting, ...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, setting)

static void types_that_foray_does_not_know_are_listed_by_the_files_name(void **state)
{
    (void)state;
    enum { GGUF_F32 = 0, GGUF_IQ2_XS = 17, GGUF_NEXT = 99 };
    const int64_t shape[] = { 2, 256 }, small[] = { 4 };
    static const uint8_t data[148] = { 0 };
    const char *path = tiny_path(tiny_folder(), "strange.gguf");
    gguf_writer w = { 0 };
    gguf_key_string(&w, "general.architecture", "llama");
    gguf_tensor(&w, "known", GGUF_F32, 1, small, data, 16);
    gguf_tensor(&w, "two.bits", GGUF_IQ2_XS, 2, shape, data, sizeof data);
    gguf_tensor(&w, "future", GGUF_NEXT, 1, small, data, 32);
    gguf_finish_file(&w, path);

    cli_result text = RUN(NULL, "inspect", path), r = RUN(NULL, "inspect", path, "--json");
    assert_int_equal(text.status, 0);
    assert_non_null(strstr(text.out.data, "\"IQ2_XS\" [2,256] "));
    assert_non_null(strstr(text.out.data, "\"type 99\" [4] "));
    assert_non_null(strstr(text.out.data, "2 of types that foray does not know"));
    assert_int_equal(r.status, 0);
    json_t *all = json_loadb(r.out.data, r.out.len, 0, NULL);
    json_t *tensors = json_object_get(all, "tensors"), *tensor;
    static const char *const types[] = { "F32", "IQ2_XS", "type 99" };
    size_t i;
    assert_int_equal(json_array_size(tensors), 3);
    json_array_foreach(tensors, i, tensor)
        assert_string_equal(json_string_value(json_object_get(tensor, "type")), types[i]);
    json_decref(all);
    cli_free(&text);
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_that_foray_does_not_know_are_listed_by_the_files_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

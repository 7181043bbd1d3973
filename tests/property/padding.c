/* What lies behind the live rows of a pass changes nothing and is left alone (model/pass.h): before every kernel of every pass,
 * the drafter's too, all of it is filled with bytes that are no numbers, or ids, positions, slots and addresses far out of
 * range. Texts, log-probabilities and graphs that replay are those without. Passes of the target (plain and verifying) and of
 * chain drafters (drafts and extend) of both families. cases.md F01, F05: padding need not be neutral, as nobody reads it.
 */
#include "support/padding.h"

#include <stdio.h>
#include <string.h>

#include "device/cpu/hooks.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"
#include "support/varied_run.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { REQUESTS = 3 }; /* of a tier of 4 */

static stack_config config_of(const char *spec, bool eager)
{
    return (stack_config) { .slots = REQUESTS,
                            .drafter = spec,
                            .spec_tokens = VARIED_DRAFTS,
                            .spec_budget = VARIED_DRAFTS,
                            .eager = eager };
}

static void say_over(const char *path, const char *spec, bool eager, uint8_t garbage, varied_text *out)
{
    stack s;
    foray_error err;
    const kernel_table *own;
    memset(out, 0, sizeof *out);
    stack_open(&s, path, config_of(spec, eager));
    assert_int_equal(kernel_table_get(device_isa(s.device), &own, &err), 0);
    device_set_kernels(s.device, padding_table(own, garbage));
    varied_run(&s, REQUESTS, false, out);
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        const graph_counters *c = round_graph_counters(s.round, (graph_family)f);
        assert_true(eager ? c->replays == 0 : c->replays > 4);
        assert_true(eager || c->rows_live < c->rows_launched);
    }
    stack_close(&s);
}

static void check_model(const char *path, const char *spec, const kernel_id *kernels, int count)
{
    static varied_text want, got;
    stack s;
    stack_open(&s, path, config_of(spec, true));
    memset(&want, 0, sizeof want);
    varied_run(&s, REQUESTS, false, &want);
    stack_close(&s);
    static const uint8_t garbage[] = { 0x7f, 0xff };
    for (int i = 0; i < 4; i++) {
        say_over(path, spec, i / 2, garbage[i % 2], &got);
        if (memcmp(&got, &want, sizeof want) != 0)
            fail_msg("%s, %s, 0x%02x: another text", spec, i / 2 ? "eager" : "replayed", garbage[i % 2]);
        for (int k = 0; k < count; k++)
            if (padding_met(kernels[k]) == 0)
                fail_msg("%s never had padding", kernel_name(kernels[k], NULL));
    }
}

static void padding_may_hold_anything_for_any_family(void **state)
{
    (void)state;
    static const kernel_id kernels[] = { KERNEL_EMBED,       KERNEL_QUANT,      KERNEL_MATMUL,
                                         KERNEL_ROPE_ANGLES, KERNEL_ROPE_STORE, KERNEL_ATTENTION,
                                         KERNEL_GATHER,      KERNEL_SAMPLE };
    for (int arch = 0; arch < MODEL_ARCH_COUNT; arch++) {
        tiny_spec made = tiny_family((model_arch)arch);
        made.type = arch % 2 ? DTYPE_F16 : DTYPE_Q4_1;
        made.no_text = true;
        check_model(tiny_gguf(&made), "draft", kernels, sizeof kernels / sizeof *kernels);
    }
}

static void padding_may_hold_anything_for_deepseek4(void **state)
{
    (void)state;
    static const kernel_id kernels[] = { KERNEL_EMBED,        KERNEL_QUANT,        KERNEL_MATMUL,
                                         KERNEL_ROPE_ANGLES,  KERNEL_GATHER,       KERNEL_SAMPLE,
                                         KERNEL_HYPER_PRE,    KERNEL_HYPER_POST,   KERNEL_HEAD_ROPE,
                                         KERNEL_LATENT_STORE, KERNEL_STATE_STORE,  KERNEL_COMPRESS,
                                         KERNEL_INDEX_SCORE,  KERNEL_INDEX_SELECT, KERNEL_SPARSE_ATTENTION,
                                         KERNEL_ENTRY_STORE,  KERNEL_ENTRY_LOAD,   KERNEL_ROUTE,
                                         KERNEL_GROUP,        KERNEL_EXPERTS,      KERNEL_COMBINE };
    static const tiny_v4_format formats[] = { TINY_V4_PLAIN, TINY_V4_QUANT };
    for (int i = 0; i < 2; i++) {
        tiny_v4_spec made = i == 0 ? tiny_v4_small() : tiny_v4_default();
        made.no_text = true;
        check_model(tiny_v4_model(&made, formats[i]), "nextn", kernels, sizeof kernels / sizeof *kernels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_may_hold_anything_for_any_family),
        cmocka_unit_test(padding_may_hold_anything_for_deepseek4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* inspect_deepseek4.c: a config of the DeepSeek-V4 family for people and as JSON. Layers are told by their kinds, as a
 * large model has many and few kinds. Threads: any; no state.
 */
#include "cli/inspect_deepseek4.h"

#include <inttypes.h>
#include <string.h>

#include "model/deepseek4_roles.h"

static const char *const drafters[] = {
    [DEEPSEEK4_NO_DRAFTER] = "none", [DEEPSEEK4_NEXTN] = "nextn", [DEEPSEEK4_DSPARK] = "dspark"
};
static const char *const roundings[] = {
    [DEEPSEEK4_ROUND_NOTHING] = "off", [DEEPSEEK4_ROUND_FP8_FP4] = "fp8-fp4", [DEEPSEEK4_ROUND_INT8] = "int8"
};

/* "2 of a window only, 21 of ratio 4, 20 of ratio 128", in the order in which the kinds come. */
static void put_kinds(const deepseek4_config *c, buf *out)
{
    const char *between = "";
    for (int i = 0; i < c->layers; i++) {
        int count = 0, before = 0;
        for (int k = 0; k < c->layers; k++) {
            count += c->ratio[k] == c->ratio[i];
            before += k < i && c->ratio[k] == c->ratio[i];
        }
        if (before > 0)
            continue;
        if (c->ratio[i] == 0)
            buf_printf(out, "%s%d of a window only", between, count);
        else
            buf_printf(out, "%s%d of ratio %d", between, count, c->ratio[i]);
        between = ", ";
    }
}

void inspect_deepseek4_put(const deepseek4_config *c, buf *out)
{
    buf_json_string(out, c->name, strlen(c->name));
    buf_printf(
        out,
        " · deepseek4 · %d layers · width %d, %d streams · %d heads of %d · vocabulary %d · context %d\n",
        c->layers, c->dim, c->streams, c->heads, c->head_dim, c->vocab, c->context);
    buf_puts(out, "           layers: ");
    put_kinds(c, out);
    buf_printf(out, " · window %d", c->window);
    if (c->index_heads > 0)
        buf_printf(out, " · index of %d heads of %d, top %d", c->index_heads, c->index_dim, c->index_top);
    buf_printf(out,
               "\n           ranks: query %d, output %d x %d · %d experts of %d, %d chosen, in %d layers by "
               "token id\n",
               c->q_rank, c->groups, c->o_rank, c->experts, c->ffn, c->chosen, c->hash_layers);
    buf_printf(out, "           rope base %g, compressed %g, %d of a head's dimensions%s · drafter %s",
               c->theta, c->compress_theta, c->rope_dim, c->yarn ? ", yarn" : "", drafters[c->drafter]);
    if (c->drafter_stages > 1)
        buf_printf(out, " of %d layers", c->drafter_stages);
    buf_printf(out, " · rounding of activations %s%s\n", roundings[c->rounding],
               c->tied ? " · tied output" : "");
}

void inspect_deepseek4_json(const deepseek4_config *c, buf *out)
{
    buf_puts(out, "{\"name\":");
    buf_json_string(out, c->name, strlen(c->name));
    buf_printf(
        out,
        ",\"architecture\":\"deepseek4\",\"layers\":%d,\"dim\":%d,\"ffn\":%d,\"vocab\":%d,\"heads\":%d,"
        "\"kv_heads\":1,\"head_dim\":%d,\"context\":%d,\"rope_dim\":%d,\"rope_theta\":%.17g,"
        "\"compress_rope_theta\":%.17g,\"rms_eps\":%.9g,\"tied\":%s,",
        c->layers, c->dim, c->ffn, c->vocab, c->heads, c->head_dim, c->context, c->rope_dim, c->theta,
        c->compress_theta, (double)c->rms_eps, c->tied ? "true" : "false");
    buf_printf(out,
               "\"streams\":%d,\"q_rank\":%d,\"groups\":%d,\"o_rank\":%d,\"window\":%d,\"index_heads\":%d,"
               "\"index_dim\":%d,\"index_top\":%d,\"experts\":%d,\"experts_chosen\":%d,\"hash_layers\":%d,"
               "\"drafter\":\"%s\",\"drafter_layers\":%d,\"act_quant\":\"%s\",\"ratios\":[",
               c->streams, c->q_rank, c->groups, c->o_rank, c->window, c->index_heads, c->index_dim,
               c->index_top, c->experts, c->chosen, c->hash_layers, drafters[c->drafter], c->drafter_stages,
               roundings[c->rounding]);
    for (int i = 0; i < c->layers; i++)
        buf_printf(out, "%s%d", i ? "," : "", c->ratio[i]);
    buf_puts(out, "]}");
}

/* A matrix with its scales. */
static uint64_t matrix_bytes(const weight_source *s)
{
    uint64_t bytes = 0, rows = (uint64_t)s->rows;
    dtype_bytes(s->type, rows * (uint64_t)s->cols, &bytes);
    switch (s->type) {
    case DTYPE_F8_E4M3:
        return bytes + (rows + 127) / 128 * s->scale_stride;
    case DTYPE_F4_E2M1:
        return bytes + rows * s->scale_stride;
    case DTYPE_I8:
        return bytes + rows * sizeof(float);
    default:
        return bytes;
    }
}

uint64_t inspect_deepseek4_step_bytes(const model_file *f, const deepseek4_config *c)
{
    uint64_t sum = 0;
    for (int role = 0; role < V4_ROLE_COUNT; role++) {
        if (v4_role_form((v4_role)role) != V4_MATRIX)
            continue;
        for (int layer = 0; layer < (v4_role_of_model((v4_role)role) ? 1 : c->layers); layer++) {
            if (!v4_role_used(c, (v4_role)role, layer))
                continue;
            weight_source s = v4_matrix(f, c, (v4_role)role, layer, 0);
            sum += matrix_bytes(&s) * (uint64_t)(v4_role_of_expert((v4_role)role) ? c->chosen : 1);
        }
    }
    return sum;
}

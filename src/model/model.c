/* model.c: which family, and on to it. See model.h. */
#include "model/model.h"

#include "base/mem.h"
#include "model/deepseek4.h"
#include "model/llama.h"

static void describe_llama(model *m)
{
    const model_config *c = &m->llama->config;
    m->info = (model_info) { .name = c->name,
                             .architecture = c->arch_name,
                             .layers = c->layers,
                             .dim = c->dim,
                             .vocab = c->vocab,
                             .context = c->context,
                             .end_ids = c->end_ids,
                             .end_count = c->end_count,
                             .chat_template = c->chat_template,
                             .chat_template_bytes = c->chat_template_bytes,
                             .weight_bytes = m->llama->weight_bytes,
                             .bytes_per_token = m->llama->bytes_per_token,
                             .products = m->llama->products };
}

static void describe_deepseek4(model *m)
{
    static const char *const rounding[] = {
        [DEEPSEEK4_ROUND_FP8_FP4] = "fp8+fp4", [DEEPSEEK4_ROUND_INT8] = "int8"
    };
    const deepseek4_config *c = &m->deepseek4->config;
    m->info = (model_info) { .name = c->name,
                             .architecture = "deepseek4",
                             .layers = c->layers,
                             .dim = c->dim,
                             .vocab = c->vocab,
                             .context = c->context,
                             .end_ids = c->end_ids,
                             .end_count = c->end_count,
                             .weight_bytes = m->deepseek4->weight_bytes,
                             .bytes_per_token = m->deepseek4->bytes_per_token,
                             .products = m->deepseek4->products,
                             .own_drafter = m->deepseek4->nextn ? "nextn" : NULL,
                             .undriven = c->drafter == DEEPSEEK4_DSPARK
                                             ? "a DSpark drafter, which foray does not drive"
                                             : NULL,
                             .rounding = m->deepseek4->rounded ? rounding[c->rounding] : NULL };
}

int model_load(const model_file *f, const model_options *o, model **out, foray_error *err)
{
    model *m = mem_alloc_zeroed(MEM_GENERAL, sizeof *m);
    if (!m)
        return fail(err, FORAY_ENOMEM, "%s: no memory", model_file_path(f));
    int rc;
    if (deepseek4_recognise(f)) {
        rc = deepseek4_load(f, o, &m->deepseek4, err);
        if (rc == 0)
            describe_deepseek4(m);
    } else {
        rc = llama_load(f, o, &m->llama, err);
        if (rc == 0)
            describe_llama(m);
    }
    if (rc != 0) {
        model_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

void model_free(model *m)
{
    if (!m)
        return;
    llama_free(m->llama);
    deepseek4_free(m->deepseek4);
    mem_free(MEM_GENERAL, m, sizeof *m);
}

int model_pools(const model *m, int most_rows, pool_desc out[CACHE_MAX_POOLS])
{
    if (m->llama) {
        out[0] = kv_pool(&m->llama->kv);
        return 1;
    }
    return sparse_pools(&m->deepseek4->shape, most_rows, out);
}

int model_pass_create(const model *m, device *d, int max_rows, int max_spans, int max_heads, int max_length,
                      pass *out, foray_error *err)
{
    int rc = pass_create(d, m->info.dim, m->info.vocab, max_rows, max_spans, max_heads, out, err);
    if (rc != 0)
        return rc;
    rc = m->llama ? llama_buffers_create(m->llama, d, max_rows, &out->llama, err)
                  : deepseek4_buffers_create(m->deepseek4, d, max_rows, max_heads, max_length,
                                             &out->deepseek4, err);
    if (rc != 0)
        model_pass_destroy(m, d, out);
    return rc;
}

void model_pass_destroy(const model *m, device *d, pass *p)
{
    if (m->llama)
        llama_buffers_destroy(d, p->llama);
    else
        deepseek4_buffers_destroy(d, p->deepseek4);
    pass_destroy(d, p);
}

int model_sides(const model *m, const char *const **names)
{
    *names = deepseek4_sides;
    return m->deepseek4 ? V4_SIDES : 0;
}

int model_trunk(const model *m, const pass *p, const cache *c, int rows, int spans, int max_length, stream *s,
                fork_streams *fork, foray_error *err)
{
    return m->llama ? llama_trunk(m->llama, p, c, rows, spans, max_length, s, err)
                    : deepseek4_trunk(m->deepseek4, p, c, rows, max_length, s, fork, err);
}

int model_distinct_experts(const model *m, const pass *p)
{
    int sum = 0;
    for (int i = 0; m->deepseek4 && i < m->deepseek4->config.layers; i++)
        sum += p->deepseek4->distinct[i];
    return sum;
}

double model_attention_products(const model *m, int first, int rows)
{
    return m->llama ? llama_attention_products(m->llama, first, rows)
                    : deepseek4_attention_products(m->deepseek4, first, rows);
}

int model_head(const model *m, const pass *p, int heads, stream *s, foray_error *err)
{
    return m->llama ? llama_head(m->llama, p, heads, s, err) : deepseek4_head(m->deepseek4, p, heads, s, err);
}

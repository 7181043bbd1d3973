/* cmd_inspect.c: `foray inspect MODEL`: what a model's files say, and what running it would take.
 *
 * Opens the files only; nothing is packed or run, except with --graph, which prints the graphs of a round. A model
 * that foray cannot run is inspected all the same: the reason stands where its config or tokenizer would. Strings
 * of the file are printed as JSON strings, so that no control byte of a hostile file reaches the terminal.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cache/kv.h"
#include "cli/cache_plan.h"
#include "cli/commands.h"
#include "cli/inspect_deepseek4.h"
#include "cli/model_path.h"
#include "cli/setup.h"
#include "engine/score.h"
#include "model/deepseek4_names.h"
#include "model/deepseek4_pools.h"
#include "model/names.h"
#include "spec/round.h"
#include "text/chat.h"
#include "text/tokenizer.h"

enum { SHOWN_STRING = 72, SHAPE_BYTES = 96, PASS_ROWS = 256 };

/* Everything that is inspected. config (or v4, for a model of that family) and words are valid where their fault is
 * empty; v4 also where only the tensors are at fault. */
typedef struct {
    model_file *file;
    model_config config;
    deepseek4_config v4;
    bool is_v4, v4_read;
    tokenizer *words;
    foray_error config_fault, words_fault; /* code 0: none */
    int context;                           /* tokens of the memory plan */
    kv_shape kv;                           /* of full attention; the pools borrow it */
    pool_desc pools[CACHE_MAX_POOLS];
    int pool_count; /* 0: the config says nothing of caches that foray knows */
} inspection;

/* Appends the value of a key as JSON; arrays as their length in brackets, or in full as JSON asks for it. */
static void put_value(const model_file *f, const char *key, buf *out)
{
    int64_t whole;
    double number;
    bool flag;
    const char *text;
    size_t bytes, count;
    if (model_file_int(f, key, &whole)) {
        buf_printf(out, "%" PRId64, whole);
    } else if (model_file_float(f, key, &number)) {
        buf_json_double(out, number);
    } else if (model_file_bool(f, key, &flag)) {
        buf_puts(out, flag ? "true" : "false");
    } else if (model_file_string(f, key, &text, &bytes)) {
        buf_json_string(out, text, bytes < SHOWN_STRING ? bytes : SHOWN_STRING);
        if (bytes > SHOWN_STRING)
            buf_printf(out, " … %zu bytes", bytes);
    } else if (model_file_array(f, key, &count)) {
        buf_printf(out, "[%zu]", count);
    } else {
        buf_puts(out, "null");
    }
}

static void put_settings(const model_file *f, buf *out)
{
    const char *key;
    buf_puts(out, "\nsettings\n");
    for (size_t i = 0; (key = model_file_key_at(f, i)); i++) {
        buf_puts(out, "  ");
        buf_json_string(out, key, strlen(key));
        buf_puts(out, ": ");
        put_value(f, key, out);
        buf_puts(out, "\n");
    }
}

static void put_shape(const tensor_view *t, buf *out)
{
    for (int d = 0; d < t->dims; d++)
        buf_printf(out, "%s%" PRId64, d ? "," : "", t->shape[d]);
}

/* The name of a tensor's type. One that foray does not know has the file's own, whose bytes may be anything. */
static void put_type(const tensor_view *t, buf *out)
{
    if (t->type != DTYPE_UNKNOWN)
        buf_printf(out, "%-6s", dtype_get(t->type)->name);
    else
        buf_json_string(out, t->type_name, strlen(t->type_name));
}

static void put_tensors(const model_file *f, buf *out)
{
    buf_puts(out, "\ntensors\n");
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *t = model_file_tensor_at(f, i);
        buf shape = { 0 };
        put_shape(t, &shape);
        buf_puts(out, "  ");
        put_type(t, out);
        buf_printf(out, " [%s] %" PRIu64 " bytes ", shape.data ? shape.data : "", t->bytes);
        buf_json_string(out, t->name, strlen(t->name));
        buf_puts(out, "\n");
        buf_free(&shape);
    }
}

/* The bytes of all tensors, and of those of each type; types that foray does not know are the last entry. */
static uint64_t sum_types(const model_file *f, uint64_t bytes[DTYPE_COUNT + 1], size_t count[DTYPE_COUNT + 1])
{
    uint64_t all = 0;
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *t = model_file_tensor_at(f, i);
        int type = t->type == DTYPE_UNKNOWN ? DTYPE_COUNT : (int)t->type;
        bytes[type] += t->bytes;
        count[type]++;
        all += t->bytes;
    }
    return all;
}

/* Bytes of weights that a plain decode step reads: every role but the embedding, which gives one row. */
static uint64_t step_bytes(const inspection *in)
{
    uint64_t sum = 0;
    if (in->is_v4)
        return inspect_deepseek4_step_bytes(in->file, &in->v4);
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (role == ROLE_TOKEN_EMBD || !model_role_used(&in->config, (model_role)role))
            continue;
        int layers = model_role_per_layer((model_role)role) ? in->config.layers : 1;
        for (int layer = 0; layer < layers; layer++) {
            const tensor_view *t = model_names_find(in->file, &in->config, (model_role)role, layer);
            sum += t ? t->bytes : 0;
        }
    }
    return sum;
}

/* The caches of a model, loaded or not, for a context of `wanted` tokens (0: its own): rings for passes of the rows that
 * prompts have by default. */
static void set_pools(inspection *in, int wanted)
{
    const model_config *c = &in->config;
    if (!in->is_v4 && !in->config_fault.code) {
        in->kv = (kv_shape) {
            .layers = c->layers, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .page_rows = 16
        };
        in->pools[in->pool_count++] = kv_pool(&in->kv);
        in->context = wanted > 0 ? wanted : c->context;
    } else if (in->v4_read) {
        sparse_shape shape = deepseek4_shape(&in->v4, in->v4.drafter == DEEPSEEK4_NEXTN, true);
        in->pool_count = sparse_pools(&shape, PASS_ROWS, in->pools);
        in->context = wanted > 0 ? wanted : in->v4.context;
    }
}

static void put_config(const inspection *in, buf *out)
{
    const model_config *c = &in->config;
    buf_puts(out, "config     ");
    if (in->config_fault.code) {
        buf_printf(out, "foray cannot run this model: %s\n", in->config_fault.text);
        return;
    }
    if (in->is_v4) {
        inspect_deepseek4_put(&in->v4, out);
        return;
    }
    int windowed = 0;
    for (int i = 0; i < c->layers; i++)
        windowed += c->window[i] > 0;
    buf_json_string(out, c->name, strlen(c->name));
    buf_printf(
        out,
        " · %s · %d layers · width %d, FFN %d · %d heads, %d of K/V, of %d · vocabulary %d · context %d\n",
        model_arch_name(c->arch), c->layers, c->dim, c->ffn, c->heads, c->kv_heads, c->head_dim, c->vocab,
        c->context);
    buf_printf(out, "           rope base %g, %d of a head's dimensions%s%s%s%s", c->rope_theta, c->rope_dim,
               c->rope.kind == ROPE_PLAIN ? "" : ", scaled", c->qkv_bias ? " · q, k, v bias" : "",
               c->qk_norm ? " · q, k norm" : "", c->tied ? " · tied output" : "");
    if (windowed)
        buf_printf(out, " · %d layers with a window", windowed);
    buf_puts(out, "\n");
}

/* The name of the model's chat format, or NULL. */
static const char *chat_name(const inspection *in)
{
    const chat_format *format = chat_format_of_model(in->file);
    return format ? chat_format_name(format) : NULL;
}

static void put_tokenizer(const inspection *in, buf *out)
{
    buf_puts(out, "tokenizer  ");
    if (in->words_fault.code) {
        buf_printf(out, "foray cannot use it: %s\n", in->words_fault.text);
        return;
    }
    size_t count;
    const int32_t *ends = tokenizer_end_ids(in->words, &count);
    buf_printf(out, "%s · %d tokens · begins with ", tokenizer_kind(in->words), tokenizer_vocab(in->words));
    if (tokenizer_begin_id(in->words) < 0)
        buf_puts(out, "none");
    else
        buf_printf(out, "%d", tokenizer_begin_id(in->words));
    buf_puts(out, " · ends with");
    for (size_t i = 0; i < count; i++)
        buf_printf(out, " %d", ends[i]);
    buf_printf(out, " · chat format %s\n", chat_name(in) ? chat_name(in) : "not recognised");
}

static void put_memory(const inspection *in, buf *out)
{
    uint64_t bytes[DTYPE_COUNT + 1] = { 0 };
    size_t count[DTYPE_COUNT + 1] = { 0 };
    uint64_t all = sum_types(in->file, bytes, count);
    buf_printf(out, "memory     tensors %.1f MB:", (double)all / 1e6);
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (count[t])
            buf_printf(out, " %zu %s %.1f MB", count[t], dtype_get((dtype)t)->name, (double)bytes[t] / 1e6);
    if (count[DTYPE_COUNT])
        buf_printf(out, " %zu of types that foray does not know %.1f MB", count[DTYPE_COUNT],
                   (double)bytes[DTYPE_COUNT] / 1e6);
    buf_puts(out, "\n");
    if (!in->config_fault.code)
        buf_printf(out, "           a step reads %.1f MB of weights\n", (double)step_bytes(in) / 1e6);
    if (in->pool_count == 0)
        return;
    uint64_t rings = pools_ring_bytes(in->pools, in->pool_count);
    buf_printf(out, "           K/V takes %.10g bytes a token",
               pools_bytes_per_token(in->pools, in->pool_count));
    if (rings)
        buf_printf(out, " and %.1f MB of rings a request", (double)rings / 1e6);
    buf_printf(out, ", %.1f MB for a context of %d\n",
               (double)pools_bytes(in->pools, in->pool_count, in->context) / 1e6, in->context);
    cache_plan_put(in->pools, in->pool_count, out);
}

static void put_text(const inspection *in, buf *out)
{
    const char *path = model_file_path(in->file);
    buf_puts(out, "file       ");
    buf_json_string(out, path, strlen(path));
    buf_printf(out, " · %s · %zu tensors · checksum %016" PRIx64 "\n",
               model_file_get_kind(in->file) == MODEL_FILE_GGUF ? "GGUF" : "Hugging Face folder",
               model_file_tensor_count(in->file), model_file_checksum(in->file));
    put_config(in, out);
    put_tokenizer(in, out);
    put_memory(in, out);
    put_settings(in->file, out);
    put_tensors(in->file, out);
}

static void json_pair(buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":", name);
    if (text)
        buf_json_string(out, text, strlen(text));
    else
        buf_puts(out, "null");
}

static void json_config(const inspection *in, buf *out)
{
    const model_config *c = &in->config;
    buf_puts(out, "\"config\":");
    if (in->config_fault.code) {
        buf_puts(out, "null,");
        json_pair(out, "config_fault", in->config_fault.text);
        return;
    }
    if (in->is_v4) {
        inspect_deepseek4_json(&in->v4, out);
        return;
    }
    buf_puts(out, "{");
    json_pair(out, "name", c->name);
    buf_puts(out, ",");
    json_pair(out, "architecture", model_arch_name(c->arch));
    buf_printf(
        out,
        ",\"layers\":%d,\"dim\":%d,\"ffn\":%d,\"vocab\":%d,\"heads\":%d,\"kv_heads\":%d,\"head_dim\":%d,"
        "\"context\":%d,\"rope_dim\":%d,\"rope_theta\":%.17g,\"rms_eps\":%.9g,\"tied\":%s}",
        c->layers, c->dim, c->ffn, c->vocab, c->heads, c->kv_heads, c->head_dim, c->context, c->rope_dim,
        c->rope_theta, (double)c->rms_eps, c->tied ? "true" : "false");
}

static void json_memory(const inspection *in, buf *out)
{
    if (in->pool_count == 0)
        return;
    buf_puts(out, ",\"memory\":{");
    if (!in->config_fault.code)
        buf_printf(out, "\"step_bytes\":%" PRIu64 ",", step_bytes(in));
    cache_plan_json(in->pools, in->pool_count, in->context, out);
    buf_puts(out, "}");
}

static void json_tokenizer(const inspection *in, buf *out)
{
    buf_puts(out, "\"tokenizer\":");
    if (in->words_fault.code) {
        buf_puts(out, "null,");
        json_pair(out, "tokenizer_fault", in->words_fault.text);
        return;
    }
    size_t count;
    const int32_t *ends = tokenizer_end_ids(in->words, &count);
    buf_puts(out, "{");
    json_pair(out, "kind", tokenizer_kind(in->words));
    buf_printf(out, ",\"vocab\":%d,\"begin_id\":%d,\"end_ids\":[", tokenizer_vocab(in->words),
               tokenizer_begin_id(in->words));
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s%d", i ? "," : "", ends[i]);
    buf_puts(out, "],");
    json_pair(out, "chat_format", chat_name(in));
    buf_puts(out, "}");
}

static void put_json(const inspection *in, buf *out)
{
    const model_file *f = in->file;
    buf_puts(out, "{");
    json_pair(out, "path", model_file_path(f));
    buf_printf(out, ",\"kind\":\"%s\",\"checksum\":\"%016" PRIx64 "\",",
               model_file_get_kind(f) == MODEL_FILE_GGUF ? "gguf" : "hf", model_file_checksum(f));
    json_config(in, out);
    json_memory(in, out);
    buf_puts(out, ",");
    json_tokenizer(in, out);
    buf_puts(out, ",\"tensors\":[");
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *t = model_file_tensor_at(f, i);
        buf_puts(out, i ? ",{" : "{");
        json_pair(out, "name", t->name);
        buf_puts(out, ",");
        json_pair(out, "type", t->type == DTYPE_UNKNOWN ? t->type_name : dtype_get(t->type)->name);
        buf_puts(out, ",\"shape\":[");
        put_shape(t, out);
        buf_printf(out, "],\"bytes\":%" PRIu64 "}", t->bytes);
    }
    buf_puts(out, "]}\n");
}

static int choose_model(const options *o, const char **name, foray_error *err)
{
    *name = o->operand_count > 0 ? o->operands[0] : NULL;
    if (o->operand_count > 1)
        return fail(err, FORAY_EUSAGE, "inspect: one model at a time (got %s and %s)", o->operands[0],
                    o->operands[1]);
    if (!*name)
        return fail(err, FORAY_EUSAGE, "inspect: which model? (a GGUF file, a folder, or a known name: %s)",
                    model_path_known_names());
    return 0;
}

/* The graphs that rounds of one request replay. */
static int put_graphs(const options *o, const char *path, buf *out, foray_error *err)
{
    foray_config c;
    foray_engine *e;
    int rc = setup_config(o, path, &c, err);
    c.progress = NULL;
    rc = rc == 0 ? foray_open(&c, &e, err) : rc;
    if (rc != 0)
        return rc;
    rc = round_capture_all(engine_round(e), 1, err);
    buf_puts(out, "{\"graphs\":");
    round_graphs_json(engine_round(e), out);
    buf_puts(out, "}\n");
    foray_close(e);
    return rc;
}

/* The config and the tensors of a model of either family. */
static void read_config(inspection *in)
{
    foray_error *fault = &in->config_fault;
    in->is_v4 = deepseek4_recognise(in->file);
    if (!in->is_v4) {
        if (model_config_read(in->file, &in->config, fault) == 0)
            model_names_check(in->file, &in->config, fault);
        return;
    }
    in->v4_read = deepseek4_config_read(in->file, &in->v4, fault) == 0;
    if (in->v4_read)
        v4_names_check(in->file, &in->v4, fault);
}

int cmd_inspect(const options *o)
{
    foray_error err;
    buf path = { 0 }, text = { 0 };
    inspection in = { 0 };
    const char *name;
    int rc = choose_model(o, &name, &err);
    if (rc || (rc = model_path_find(name, &path, &err)))
        goto done;
    if (options_flag(o, OPT_INSPECT_GRAPH)) {
        rc = put_graphs(o, path.data, &text, &err);
        rc = rc ? rc : commands_print(&text, &err);
        goto done;
    }
    if ((rc = model_file_open(path.data, &in.file, &err)))
        goto done;
    read_config(&in);
    tokenizer_load(in.file, &in.words, &in.words_fault);
    set_pools(&in, options_int(o, OPT_CONTEXT));
    if (options_flag(o, OPT_JSON))
        put_json(&in, &text);
    else
        put_text(&in, &text);
    rc = commands_print(&text, &err);
done:
    if (in.words)
        tokenizer_free(in.words);
    if (in.file)
        model_file_close(in.file);
    buf_free(&text);
    buf_free(&path);
    return rc ? commands_fail(&err) : STATUS_OK;
}

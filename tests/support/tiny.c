/* tiny.c: one walk over a model's tensors, given to a writer for GGUF and to one for safetensors.
 *
 * Element i of tensor t is a function of (seed, t, i): Philox, uniform, scaled per role. t numbers roles and layers,
 * so that both writers agree however they name things. Vectors are rounded to the folder's type first, so that
 * GGUF's F32 copies of them have the same values.
 */
#include "support/tiny.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"
#include "model/names.h"
#include "support/gguf_write.h"
#include "support/quantise.h"
#include "support/safetensors_write.h"
#include "support/tiny_text.h"

tiny_spec tiny_default(void)
{
    return (tiny_spec) { .arch = MODEL_LLAMA,
                         .layers = 3,
                         .dim = 64,
                         .ffn = 128,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_dim = 16,
                         .vocab = 512,
                         .context = 512,
                         .type = DTYPE_F32,
                         .embd_type = DTYPE_F32,
                         .seed = 1 };
}

tiny_spec tiny_family(model_arch arch)
{
    tiny_spec s = tiny_default();
    s.arch = arch;
    if (arch == MODEL_MISTRAL || arch == MODEL_GEMMA3)
        s.window = 16;
    if (arch == MODEL_GEMMA3)
        s.layers = 6;
    return s;
}

/* Weights ----------------------------------------------------------------------------------------- */

/* What names.c needs to know to say names and shapes. */
static model_config config_of(const tiny_spec *s, model_file_kind kind)
{
    model_config c = { .arch = s->arch,
                       .kind = kind,
                       .layers = s->layers,
                       .dim = s->dim,
                       .ffn = s->ffn,
                       .vocab = s->vocab,
                       .heads = s->heads,
                       .kv_heads = s->kv_heads,
                       .head_dim = s->head_dim,
                       .rope_dim = s->head_dim };
    c.qkv_bias = s->arch == MODEL_QWEN2;
    c.qk_norm = s->arch == MODEL_QWEN3 || s->arch == MODEL_GEMMA3;
    c.post_norms = s->arch == MODEL_GEMMA3;
    c.tied = !s->untied;
    c.qk_interleaved = kind == MODEL_FILE_GGUF && (s->arch == MODEL_LLAMA || s->arch == MODEL_MISTRAL);
    return c;
}

/* Half the width of a role's uniform distribution. The residual stream is mostly what attention and FFN add, so that
 * the next token is not simply the last one again. */
static float spread(const tiny_spec *s, model_role role)
{
    float unit = sqrtf(3); /* of a uniform distribution with deviation 1 */
    switch (role) {
    case ROLE_TOKEN_EMBD:
    case ROLE_OUTPUT:
        return 2 * unit / sqrtf((float)s->dim);
    case ROLE_O:
        return 2 * unit / sqrtf((float)(s->heads * s->head_dim));
    case ROLE_DOWN:
        return 2 * unit / sqrtf((float)s->ffn);
    case ROLE_Q:
    case ROLE_K:
        return 1.5f * unit / sqrtf((float)s->dim);
    case ROLE_V:
    case ROLE_GATE:
    case ROLE_UP:
        return unit / sqrtf((float)s->dim);
    default:
        return 0.25f; /* biases, and norms around 1 */
    }
}

static bool is_norm(model_role role)
{
    return role == ROLE_OUTPUT_NORM || role == ROLE_ATTN_NORM || role == ROLE_Q_NORM || role == ROLE_K_NORM ||
           role == ROLE_POST_ATTN_NORM || role == ROLE_FFN_NORM || role == ROLE_POST_FFN_NORM;
}

/* Values as the model means them (a norm's around 1, or around 0 where folders leave the 1 out), in the order of
 * half-split rotation. out: [n] */
static void make_values(const tiny_spec *s, model_role role, int layer, size_t n, float *out)
{
    float half = spread(s, role), centre = is_norm(role) ? 1 : 0;
    if (s->arch == MODEL_GEMMA3) {
        /* Its embedding is scaled up on the way in: a third of the size, and three times the last norm. */
        half = role == ROLE_TOKEN_EMBD ? half / 3 : half;
        centre = role == ROLE_OUTPUT_NORM ? 2 : 0;
    }
    uint32_t tensor = (uint32_t)(layer * ROLE_COUNT) + role;
    for (size_t i = 0; i < n; i += 4) {
        rng_block b = rng_philox((uint32_t)(i / 4), tensor, 0x74696e79, 0, (uint32_t)s->seed,
                                 (uint32_t)(s->seed >> 32));
        for (size_t k = 0; k < 4 && i + k < n; k++)
            out[i + k] = centre + half * ((float)(int32_t)b.word[k] * 0x1p-31f);
    }
}

/* The tensor as a file of this kind holds it. Returns its bytes, which the arena keeps. */
typedef struct {
    char name[MODEL_NAME_BYTES];
    dtype type;
    int dims;
    int64_t shape[2];
    uint8_t *data;
    size_t bytes;
} tiny_tensor;

static tiny_tensor make_tensor(const tiny_spec *s, const model_config *c, model_role role, int layer,
                               arena *a)
{
    tiny_tensor t = { .type = role == ROLE_TOKEN_EMBD || role == ROLE_OUTPUT ? s->embd_type : s->type };
    t.dims = model_role_shape(c, role, t.shape);
    model_role_name(c, role, layer, t.name);
    size_t n = (size_t)(t.shape[0] * t.shape[1]), cols = (size_t)t.shape[1];
    float *x = arena_array(a, n, sizeof *x);
    assert_non_null(x);
    make_values(s, role, layer, n, x);
    if (t.dims == 1) {
        bool plain = dtype_get(s->type)->block == 1;
        uint8_t rounded[8];
        for (size_t i = 0; plain && i < n; i++) {
            quantise(s->type, &x[i], 1, rounded);
            dtype_to_f32(s->type, rounded, 1, &x[i]);
        }
        if (c->kind == MODEL_FILE_GGUF || !plain)
            t.type = DTYPE_F32;
        for (size_t i = 0; c->kind == MODEL_FILE_GGUF && s->arch == MODEL_GEMMA3 && i < n; i++)
            x[i] += 1; /* every vector of Gemma is a norm */
    }
    if (c->qk_interleaved && (role == ROLE_Q || role == ROLE_K)) {
        /* Neighbouring pairs: rows 2i and 2i+1 of a head are rows i and i + d/2 of the half-split order. */
        float *y = arena_array(a, n, sizeof *y);
        size_t d = (size_t)s->head_dim;
        assert_non_null(y);
        for (size_t row = 0; row < (size_t)t.shape[0]; row++) {
            size_t in = row % d, from = row - in + (in % 2 ? d / 2 : 0) + in / 2;
            memcpy(y + row * cols, x + from * cols, cols * sizeof *y);
        }
        x = y;
    }
    uint64_t bytes = 0;
    assert_true(cols % (size_t)dtype_get(t.type)->block == 0 || t.dims == 1);
    assert_true(dtype_bytes(t.type, n, &bytes));
    t.bytes = (size_t)bytes;
    t.data = arena_alloc(a, t.bytes);
    assert_non_null(t.data);
    quantise(t.type, x, n, t.data);
    return t;
}

/* Calls write for every tensor that the model has. */
static void each_tensor(const tiny_spec *s, model_file_kind kind,
                        void (*write)(void *user, const tiny_tensor *t), void *user)
{
    model_config c = config_of(s, kind);
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (!model_role_used(&c, (model_role)role) || (role == ROLE_OUTPUT && c.tied))
            continue;
        for (int layer = 0; layer < (model_role_per_layer((model_role)role) ? s->layers : 1); layer++) {
            arena a;
            arena_init(&a, MEM_GENERAL, 0);
            tiny_tensor t = make_tensor(s, &c, (model_role)role, layer, &a);
            write(user, &t);
            arena_free(&a);
        }
    }
}

/* GGUF -------------------------------------------------------------------------------------------- */

static void gguf_one(void *user, const tiny_tensor *t)
{
    gguf_tensor(user, t->name, quantise_gguf_number(t->type), t->dims, t->shape, t->data, t->bytes);
}

static void key(gguf_writer *w, const tiny_spec *s, const char *name, uint32_t value)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", s->arch == MODEL_MISTRAL ? "llama" : model_arch_name(s->arch), name);
    gguf_key_u32(w, full, value);
}

static void key_float(gguf_writer *w, const tiny_spec *s, const char *name, double value)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", s->arch == MODEL_MISTRAL ? "llama" : model_arch_name(s->arch), name);
    gguf_key_f32(w, full, (float)value);
}

static double theta_of(const tiny_spec *s)
{
    return s->rope_theta != 0 ? s->rope_theta : 10000;
}

enum { LOW_FREQ = 1, HIGH_FREQ = 4, FACTOR = 4 };

/* The divisors of llama3 scaling, from its definition. */
static void gguf_rope(gguf_writer *w, const tiny_spec *s)
{
    char full[96];
    int original = s->context / 4;
    key_float(w, s, "rope.freq_base", theta_of(s));
    if (s->rope == ROPE_LINEAR || s->rope == ROPE_YARN) {
        snprintf(full, sizeof full, "%s.rope.scaling.type",
                 s->arch == MODEL_MISTRAL ? "llama" : model_arch_name(s->arch));
        gguf_key_string(w, full, s->rope == ROPE_LINEAR ? "linear" : "yarn");
        key_float(w, s, "rope.scaling.factor", FACTOR);
        key(w, s, "rope.scaling.original_context_length", (uint32_t)original);
    }
    if (s->rope == ROPE_LLAMA3) {
        float divisor[MODEL_MAX_HEAD_DIM / 2];
        int64_t pairs = s->head_dim / 2;
        for (int i = 0; i < pairs; i++) {
            double wave = 2 * M_PI * pow(theta_of(s), 2.0 * i / s->head_dim), turns = original / wave;
            double smooth = (turns - LOW_FREQ) / (HIGH_FREQ - LOW_FREQ);
            smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
            divisor[i] = (float)(1 / ((1 - smooth) / FACTOR + smooth));
        }
        gguf_tensor(w, "rope_freqs.weight", 0, 1, &pairs, divisor, (size_t)pairs * 4);
    }
}

void tiny_gguf_text(gguf_writer *w, int vocab, const char *chat_template)
{
    arena a;
    arena_init(&a, MEM_GENERAL, 0);
    tiny_vocabulary v = tiny_vocabulary_make(&a, vocab);
    int32_t *kinds = arena_array(&a, (size_t)vocab, sizeof *kinds);
    assert_non_null(kinds);
    for (int i = 0; i < vocab; i++)
        kinds[i] = i < TINY_FIRST_BYTE ? 3 : 1; /* control, normal */
    gguf_key_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_key_string(w, "tokenizer.ggml.pre", "gpt-2");
    gguf_key_strings(w, "tokenizer.ggml.tokens", v.tokens, (size_t)v.count);
    gguf_key_i32s(w, "tokenizer.ggml.token_type", kinds, (size_t)v.count);
    gguf_key_strings(w, "tokenizer.ggml.merges", v.merges, (size_t)v.merge_count);
    gguf_key_u32(w, "tokenizer.ggml.bos_token_id", TINY_IM_START);
    gguf_key_u32(w, "tokenizer.ggml.eos_token_id", TINY_IM_END);
    gguf_key_bool(w, "tokenizer.ggml.add_bos_token", false);
    if (chat_template)
        gguf_key_string(w, "tokenizer.chat_template", chat_template);
    arena_free(&a);
}

void tiny_write_gguf(const tiny_spec *s, const char *path)
{
    gguf_writer w = { 0 };
    gguf_key_string(&w, "general.architecture",
                    s->arch == MODEL_MISTRAL ? "llama" : model_arch_name(s->arch));
    gguf_key_string(&w, "general.name", "tiny");
    key(&w, s, "block_count", (uint32_t)s->layers);
    key(&w, s, "context_length", (uint32_t)s->context);
    key(&w, s, "embedding_length", (uint32_t)s->dim);
    key(&w, s, "feed_forward_length", (uint32_t)s->ffn);
    key(&w, s, "attention.head_count", (uint32_t)s->heads);
    key(&w, s, "attention.head_count_kv", (uint32_t)s->kv_heads);
    key(&w, s, "attention.key_length", (uint32_t)s->head_dim);
    key(&w, s, "attention.value_length", (uint32_t)s->head_dim);
    key(&w, s, "vocab_size", (uint32_t)s->vocab);
    key(&w, s, "rope.dimension_count", (uint32_t)s->head_dim);
    key_float(&w, s, "attention.layer_norm_rms_epsilon", 1e-5);
    if (s->window > 0)
        key(&w, s, "attention.sliding_window", (uint32_t)s->window);
    gguf_rope(&w, s);
    if (!s->no_text)
        tiny_gguf_text(&w, s->vocab, tiny_chat_template);
    each_tensor(s, MODEL_FILE_GGUF, gguf_one, &w);
    gguf_finish_file(&w, path);
}

/* Hugging Face ------------------------------------------------------------------------------------ */

static void write_file(const char *folder, const char *name, const buf *b)
{
    FILE *f = fopen(tiny_path(folder, name), "wb");
    assert_non_null(f);
    assert_false(b->failed);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
}

static void hf_one(void *user, const tiny_tensor *t)
{
    safetensors_add(user, t->name, dtype_get(t->type)->name, t->dims, t->shape, t->data, t->bytes);
}

static void write_safetensors(const tiny_spec *s, const char *folder)
{
    safetensors_writer w = { 0 };
    each_tensor(s, MODEL_FILE_HF, hf_one, &w);
    safetensors_finish_file(&w, tiny_path(folder, "model.safetensors"));
}

static void write_config(const tiny_spec *s, const char *folder)
{
    static const char *const classes[MODEL_ARCH_COUNT] = {
        [MODEL_LLAMA] = "LlamaForCausalLM",   [MODEL_MISTRAL] = "MistralForCausalLM",
        [MODEL_QWEN2] = "Qwen2ForCausalLM",   [MODEL_QWEN3] = "Qwen3ForCausalLM",
        [MODEL_GEMMA3] = "Gemma3ForCausalLM",
    };
    static const char *const kinds[] = {
        [ROPE_LINEAR] = "linear", [ROPE_LLAMA3] = "llama3", [ROPE_YARN] = "yarn"
    };
    buf b = { 0 };
    buf_printf(
        &b,
        "{\"architectures\":[\"%s\"],\"num_hidden_layers\":%d,\"hidden_size\":%d,\"intermediate_size\":%d,",
        classes[s->arch], s->layers, s->dim, s->ffn);
    buf_printf(&b, "\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,",
               s->heads, s->kv_heads, s->head_dim, s->vocab);
    buf_printf(&b, "\"max_position_embeddings\":%d,\"rms_norm_eps\":1e-5,\"rope_theta\":%.17g,", s->context,
               theta_of(s));
    if (s->arch == MODEL_GEMMA3)
        buf_printf(&b, "\"hidden_activation\":\"gelu_pytorch_tanh\",\"query_pre_attn_scalar\":%d,",
                   s->head_dim);
    else
        buf_puts(&b, "\"hidden_act\":\"silu\",");
    if (s->arch == MODEL_MISTRAL && s->window == 0)
        buf_puts(&b, "\"sliding_window\":null,");
    if (s->window > 0)
        buf_printf(&b, "\"sliding_window\":%d,", s->window);
    if (s->rope != ROPE_PLAIN)
        buf_printf(&b,
                   "\"rope_scaling\":{\"rope_type\":\"%s\",\"factor\":%d,\"low_freq_factor\":%d,\"high_freq_"
                   "factor\":%d,"
                   "\"original_max_position_embeddings\":%d},",
                   kinds[s->rope], FACTOR, LOW_FREQ, HIGH_FREQ, s->context / 4);
    buf_printf(&b, "\"bos_token_id\":%d,\"eos_token_id\":%d,\"tie_word_embeddings\":%s}\n", TINY_IM_START,
               TINY_IM_END, s->untied ? "false" : "true");
    write_file(folder, "config.json", &b);
    buf_free(&b);
}

/* tokenizer.json as the `tokenizers` library writes byte-level BPE, and tokenizer_config.json. */
void tiny_write_text(const char *folder, int vocab, const char *chat_template)
{
    arena a;
    buf b = { 0 };
    arena_init(&a, MEM_GENERAL, 0);
    tiny_vocabulary v = tiny_vocabulary_make(&a, vocab);
    buf_puts(&b, "{\"version\":\"1.0\",\"added_tokens\":[");
    for (int i = 0; i < TINY_FIRST_BYTE; i++)
        buf_printf(&b,
                   "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                   "\"normalized\":false,\"special\":true}",
                   i ? "," : "", i, v.tokens[i]);
    buf_puts(
        &b,
        "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":"
        "\"ByteLevel\","
        "\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\","
        "\"dropout\":null,\"unk_token\":null,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{");
    for (int i = 0; i < v.count; i++) {
        buf_puts(&b, i ? "," : "");
        buf_json_string(&b, v.tokens[i], strlen(v.tokens[i]));
        buf_printf(&b, ":%d", i);
    }
    buf_puts(&b, "},\"merges\":[");
    for (int i = 0; i < v.merge_count; i++) {
        buf_puts(&b, i ? "," : "");
        buf_json_string(&b, v.merges[i], strlen(v.merges[i]));
    }
    buf_puts(&b, "]}}\n");
    write_file(folder, "tokenizer.json", &b);
    buf_clear(&b);
    buf_printf(&b,
               "{\"bos_token\":\"%s\",\"eos_token\":\"%s\",\"add_bos_token\":false,\"tokenizer_class\":"
               "\"GPT2Tokenizer\"",
               v.tokens[TINY_IM_START], v.tokens[TINY_IM_END]);
    if (chat_template) {
        buf_puts(&b, ",\"chat_template\":");
        buf_json_string(&b, chat_template, strlen(chat_template));
    }
    buf_puts(&b, "}\n");
    write_file(folder, "tokenizer_config.json", &b);
    buf_free(&b);
    arena_free(&a);
}

void tiny_write_hf(const tiny_spec *s, const char *folder)
{
    assert_true(s->type == s->embd_type && dtype_get(s->type)->block == 1);
    mkdir(folder, 0700);
    write_safetensors(s, folder);
    write_config(s, folder);
    if (!s->no_text)
        tiny_write_text(folder, s->vocab, tiny_chat_template);
}

/* Places ------------------------------------------------------------------------------------------ */

enum { MAX_FOLDERS = 64, PATHS = 8, PATH_LENGTH = 512 };

static char folders[MAX_FOLDERS][PATH_LENGTH];
static int folder_count;
static pid_t folder_owner; /* a forked child leaves the folders alone */

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        char inner[PATH_LENGTH + 256];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0)
            remove_tree(inner);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static void remove_folders(void)
{
    while (folder_count > 0 && folder_owner == getpid())
        remove_tree(folders[--folder_count]);
}

const char *tiny_folder(void)
{
    const char *base = getenv("TMPDIR");
    assert_true(folder_count < MAX_FOLDERS);
    char *path = folders[folder_count];
    snprintf(path, PATH_LENGTH, "%s/foray-test-XXXXXX", base && base[0] ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    if (folder_count++ == 0) {
        folder_owner = getpid();
        atexit(remove_folders);
    }
    return path;
}

const char *tiny_path(const char *folder, const char *name)
{
    static char paths[PATHS][PATH_LENGTH];
    static int next;
    char *path = paths[next++ % PATHS];
    snprintf(path, PATH_LENGTH, "%s/%s", folder, name);
    return path;
}

const char *tiny_gguf(const tiny_spec *s)
{
    const char *path = tiny_path(tiny_folder(), "tiny.gguf");
    tiny_write_gguf(s, path);
    return path;
}

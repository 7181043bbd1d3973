/* open.c: an engine comes up and goes down. See engine.h. */
#include "engine/engine.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "spec/nextn.h"

/* At most this share of the machine's memory for the cache when the user does not say how much context. */
enum { CACHE_SHARE = 4 };

static void load_progress(void *user, uint64_t done, uint64_t total)
{
    const foray_config *c = user;
    if (c->progress)
        c->progress(c->progress_user, "packing weights", done, total);
}

/* Whether another model drafts. */
static bool wants_draft(const foray_config *c)
{
    return strcmp(c->spec, "draft") == 0 || (strcmp(c->spec, "auto") == 0 && c->draft_model);
}

static int load_model(foray_engine *e, foray_error *err)
{
    const foray_config *c = &e->config;
    const bool automatic = strcmp(c->spec, "auto") == 0 && !wants_draft(c);
    model_options o = { .lanes = device_lanes(e->device),
                        .page_rows = ENGINE_PAGE_ROWS,
                        .act_quant = strcmp(c->act_quant, "model") == 0,
                        .drafter = automatic || strcmp(c->spec, "nextn") == 0,
                        .progress = load_progress,
                        .user = &e->config };
    return model_load(e->file, &o, &e->model, err);
}

static int resolve(foray_config *c, foray_error *err)
{
    if (!c->model)
        return fail(err, FORAY_EUSAGE, "no model was named (-m FILE, a folder, or a known name)");
    if (c->max_requests < 0 || c->max_requests > PLAN_MAX_MEMBERS)
        return fail(err, FORAY_EUSAGE, "%d requests at once cannot be (1 to %d)", c->max_requests,
                    PLAN_MAX_MEMBERS);
    if (c->spec_tokens < 0 || c->spec_tokens > DRAFT_MAX)
        return fail(err, FORAY_EUSAGE, "--spec-tokens %d cannot be (1 to %d)", c->spec_tokens, DRAFT_MAX);
    if (c->spec_budget < 0 || c->spec_budget > DRAFT_MAX)
        return fail(err, FORAY_EUSAGE, "--spec-budget %d cannot be (1 to %d, or auto)", c->spec_budget,
                    DRAFT_MAX);
    if (c->option_count > ENGINE_MOST_OPTIONS)
        return fail(err, FORAY_EUSAGE, "more than %d options for the manifest", ENGINE_MOST_OPTIONS);
    if (c->graph_memory < 0)
        return fail(err, FORAY_EUSAGE, "--graph-memory %d: it cannot be negative (0: chosen)",
                    c->graph_memory);
    if (c->context < 0 || c->threads < 0 || c->prefill_chunk < 0)
        return fail(err, FORAY_EUSAGE,
                    "context %d, threads %d, prefill chunk %d: none can be negative (0: chosen)", c->context,
                    c->threads, c->prefill_chunk);
    c->max_requests = c->max_requests ? c->max_requests : 1;
    c->prefill_chunk = c->prefill_chunk ? c->prefill_chunk : ENGINE_CHUNK;
    c->verify = c->verify ? c->verify : "ragged";
    c->graph = c->graph ? c->graph : "auto";
    c->graph_phases = c->graph_phases ? c->graph_phases : ENGINE_GRAPH_PHASES;
    c->graph_memory = c->graph_memory ? c->graph_memory : ENGINE_GRAPH_MB;
    c->multi_stream_rows = c->multi_stream_rows ? c->multi_stream_rows : ENGINE_MULTI_STREAM_ROWS;
    c->spec = c->spec ? c->spec : "auto";
    c->accept = c->accept ? c->accept : "coupled";
    c->thinking = c->thinking ? c->thinking : "auto";
    c->act_quant = c->act_quant ? c->act_quant : "model";
    if (strcmp(c->act_quant, "model") != 0 && strcmp(c->act_quant, "off") != 0)
        return fail(err, FORAY_EUSAGE, "--act-quant %s: no such mode (model, off)", c->act_quant);
    if (strcmp(c->verify, "ragged") != 0 && strcmp(c->verify, "static") != 0)
        return fail(err, FORAY_EUSAGE, "--verify %s: no such shape (ragged, static)", c->verify);
    if (strcmp(c->graph, "auto") != 0 && strcmp(c->graph, "off") != 0)
        return fail(err, FORAY_EUSAGE, "--graph %s: no such mode (auto, off)", c->graph);
    if (strcmp(c->thinking, "auto") != 0 && strcmp(c->thinking, "on") != 0 && strcmp(c->thinking, "off") != 0)
        return fail(err, FORAY_EUSAGE, "--thinking %s: no such mode (auto, on, off)", c->thinking);
    return 0;
}

/* The model's context, or the user's, within what memory allows. */
static int resolve_context(foray_engine *e, foray_error *err)
{
    const model_info *m = &e->model->info;
    int wanted = e->config.context;
    if (wanted > m->context)
        return fail(err, FORAY_ELIMIT, "-c %d: the model was made for %d tokens (lower -c, or leave it out)",
                    wanted, m->context);
    pool_desc pools[CACHE_MAX_POOLS];
    if (e->config.prefill_chunk > m->context) /* no prompt is longer */
        e->config.prefill_chunk = m->context;
    int count = model_pools(e->model, round_most_rows(e->config.prefill_chunk), pools);
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / CACHE_SHARE;
    double room = memory / (e->slots + 1) - (double)pools_ring_bytes(pools, count);
    double per_token = pools_bytes_per_token(pools, count); /* 0: nothing but rings grows with the text */
    double fits = room <= 0 ? 0 : per_token > 0 ? room / per_token : m->context;
    int least = m->context < 512 ? m->context : 512;
    e->context = wanted ? wanted : m->context;
    if (!wanted && e->context > fits && e->context > least) {
        e->context = fits < least ? least : (int)fits;
        log_info(
            "context: %d of the model's %d tokens, so that the cache stays below a quarter of memory (-c)",
            e->context, m->context);
    }
    if (e->config.prefill_chunk > e->context)
        e->config.prefill_chunk = e->context;
    return 0;
}

chain_drawing engine_drawing(const foray_engine *e)
{
    return (chain_drawing) { .accept = e->accept, .most = e->config.spec_tokens };
}

static int open_nextn(foray_engine *e, foray_error *err)
{
    const model_info *m = &e->model->info;
    if (!m->own_drafter)
        return fail(err, FORAY_EUSAGE, "--spec nextn: %s has %s (ngram drafts for any model)",
                    e->config.model, m->undriven ? m->undriven : "no NextN layer");
    nextn_config n = { .device = e->device,
                       .model = e->model,
                       .cache = e->cache,
                       .slots = e->slots + 1,
                       .max_requests = e->slots,
                       .max_rows = round_most_rows(e->config.prefill_chunk),
                       .drawing = engine_drawing(e) };
    return nextn_open(&n, &e->drafter, err);
}

static int open_drafter(foray_engine *e, foray_error *err)
{
    foray_config *c = &e->config;
    if (strcmp(c->spec, "off") == 0)
        return 0;
    const char *own = wants_draft(c) ? "draft" : e->model->info.own_drafter;
    const char *name = strcmp(c->spec, "auto") != 0 ? c->spec : own ? own : "ngram";
    int rc = strcmp(name, "nextn") == 0   ? open_nextn(e, err)
             : strcmp(name, "draft") == 0 ? engine_open_draft(e, err)
                                          : drafter_open(name, &e->drafter, err);
    if (rc == 0 && c->spec_tokens == 0)
        c->spec_tokens = e->drafter->default_tokens;
    return rc;
}

/* The form of the chat format that reasons or does not, where the caller says which. */
static int choose_thinking(foray_engine *e, foray_error *err)
{
    const char *mode = e->config.thinking;
    if (strcmp(mode, "auto") == 0)
        return 0;
    if (!e->chat)
        return fail(err, FORAY_EUSAGE, "--thinking %s: the model has no chat format that foray knows", mode);
    const chat_format *chosen = chat_format_thinking(e->chat, strcmp(mode, "on") == 0);
    if (!chosen)
        return fail(err, FORAY_EUSAGE, "--thinking %s: the chat format %s of this model has no such form",
                    mode, chat_format_name(e->chat));
    e->chat = chosen;
    return 0;
}

bool engine_has_tokens(const model_file *f)
{
    size_t bytes;
    return model_file_get_kind(f) == MODEL_FILE_GGUF ? model_file_array(f, "tokenizer.ggml.tokens", &bytes)
                                                     : model_file_tokenizer_json(f, &bytes) != NULL;
}

/* Before the weights are read, so that what is missing is said at once. */
static int open_text(foray_engine *e, foray_error *err)
{
    if (engine_has_tokens(e->file)) {
        int rc = tokenizer_load(e->file, &e->tokenizer, err);
        if (rc != 0)
            return rc;
    }
    if (e->config.chat_template) {
        e->chat = chat_format_named(e->config.chat_template);
        if (!e->chat)
            return fail(err, FORAY_EUSAGE, "--chat-template %s: no such format (%s)", e->config.chat_template,
                        chat_format_names());
    } else {
        e->chat = chat_format_of_model(e->file);
    }
    int rc = engine_check_input(e, e->config.input, err);
    return rc == 0 ? choose_thinking(e, err) : rc;
}

/* What text and model must agree on. */
static int fit_text(foray_engine *e, foray_error *err)
{
    const model_info *m = &e->model->info;
    if (e->tokenizer && tokenizer_vocab(e->tokenizer) > m->vocab)
        return fail(err, FORAY_EFILE, "%s: the tokenizer has %d tokens, the model %d", e->config.model,
                    tokenizer_vocab(e->tokenizer), m->vocab);
    if (e->chat && m->chat_template)
        chat_default_system(m->chat_template, m->chat_template_bytes, &e->system_default);
    return 0;
}

static int open_cache(foray_engine *e, foray_error *err)
{
    pool_desc pools[CACHE_MAX_POOLS];
    int count = model_pools(e->model, round_most_rows(e->config.prefill_chunk), pools);
    int slots = e->slots + 1; /* the last one is for measuring and scoring */
    return cache_create(e->device, pools, count, slots, e->context, (int64_t)e->context * slots, &e->cache,
                        err);
}

static int open_round(foray_engine *e, foray_error *err)
{
    const foray_config *c = &e->config;
    round_config r = { .device = e->device,
                       .model = e->model,
                       .cache = e->cache,
                       .drafter = e->drafter,
                       .spec_tokens = c->spec_tokens,
                       .spec_budget = c->spec_budget ? c->spec_budget : -1,
                       .accept = e->accept,
                       .max_requests = e->slots,
                       .prefill_chunk = c->prefill_chunk,
                       .multi_stream_rows = c->multi_stream_rows,
                       .fixed_width = strcmp(c->verify, "static") == 0,
                       .rules = { .graphs = strcmp(c->graph, "auto") == 0, .families = e->graph_families },
                       .graph_bytes = (size_t)c->graph_memory * 1000000 };
    int rc = round_create(&r, &e->round, err);
    if (rc != 0)
        return rc;
    batch_config b = { .device = e->device,
                       .cache = e->cache,
                       .round = e->round,
                       .slots = e->slots,
                       .prefill_chunk = c->prefill_chunk,
                       .record = engine_write_step,
                       .user = e };
    return batch_create(&b, &e->batch, err);
}

/* The caller's strings need not outlive the call. */
static int keep_strings(foray_engine *e, foray_error *err)
{
    foray_config *c = &e->config;
    const char **strings[] = { &c->model,       &c->isa,           &c->spec,     &c->accept,
                               &c->graph,       &c->chat_template, &c->thinking, &c->act_quant,
                               &c->draft_model, &c->graph_phases };
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        if (*strings[i] && !(*strings[i] = arena_strndup(&e->memory, *strings[i], strlen(*strings[i]))))
            return fail(err, FORAY_ENOMEM, "no memory for an engine");
    for (size_t i = 0; i < c->option_count; i++)
        if (!(e->option_names[i] =
                  arena_strndup(&e->memory, c->option_names[i], strlen(c->option_names[i]))) ||
            !(e->option_values[i] =
                  arena_strndup(&e->memory, c->option_values[i], strlen(c->option_values[i]))))
            return fail(err, FORAY_ENOMEM, "no memory for an engine");
    return 0;
}

static int open_all(foray_engine *e, foray_error *err)
{
    const foray_config *c = &e->config;
    int rc = keep_strings(e, err);
    if (rc == 0)
        rc = accept_rule_named(c->accept, &e->accept, err);
    if (rc == 0)
        rc = model_file_open(c->model, &e->file, err);
    if (rc == 0 && c->record)
        rc = ring_create(ENGINE_RING_TASKS, &e->ring, err);
    device_config d = { .threads = c->threads, .isa = c->isa, .records = e->ring };
    if (rc == 0)
        rc = device_open(&d, &e->device, err);
    if (rc == 0)
        e->config.threads = device_threads(e->device);
    if (rc == 0)
        rc = open_text(e, err);
    if (rc == 0 && wants_draft(c))
        rc = engine_find_draft(e, err);
    if (rc == 0)
        rc = load_model(e, err);
    if (rc == 0)
        rc = fit_text(e, err);
    if (rc == 0)
        rc = resolve_context(e, err);
    if (rc == 0)
        rc = open_cache(e, err);
    if (rc == 0)
        rc = open_drafter(e, err);
    if (rc == 0)
        rc = open_round(e, err);
    if (rc == 0)
        rc = engine_capture_graphs(e, err);
    if (rc == 0)
        rc = engine_measure_costs(e, err);
    if (rc == 0)
        model_file_rest(e->file);
    if (rc == 0 && e->draft_file)
        model_file_rest(e->draft_file);
    e->ready_ns = clock_fast_ns();
    return rc;
}

int foray_open(const foray_config *config, foray_engine **out, foray_error *err)
{
    foray_config resolved = *config;
    unsigned families = 0;
    int rc = resolve(&resolved, err);
    if (rc == 0)
        rc = engine_parse_phases(resolved.graph_phases, &families, err);
    if (rc != 0)
        return rc;
    foray_engine *e = mem_alloc_zeroed(MEM_GENERAL, sizeof *e);
    if (!e)
        return fail(err, FORAY_ENOMEM, "no memory for an engine");
    arena_init(&e->memory, MEM_GENERAL, 4096);
    e->config = resolved;
    e->graph_families = families;
    e->slots = resolved.max_requests;
    rc = open_all(e, err);
    if (rc != 0) {
        foray_close(e);
        return rc;
    }
    *out = e;
    return 0;
}

void foray_close(foray_engine *e)
{
    if (!e)
        return;
    batch_destroy(e->batch); /* rounds in flight still have their records */
    engine_close_steps(e);
    round_destroy(e->round);
    if (e->drafter)
        e->drafter->destroy(e->drafter);
    cache_destroy(e->cache);
    model_free(e->draft_model);
    model_file_close(e->draft_file);
    tokenizer_free(e->tokenizer);
    model_free(e->model);
    if (e->device)
        device_close(e->device);
    ring_free(e->ring);
    model_file_close(e->file);
    buf_free(&e->system_default);
    buf_free(&e->graph_line);
    arena_free(&e->memory);
    mem_free(MEM_GENERAL, e, sizeof *e);
}

foray_info foray_engine_info(const foray_engine *e)
{
    const model_info *m = &e->model->info;
    return (foray_info) { .name = m->name,
                          .architecture = m->architecture,
                          .isa = device_isa(e->device),
                          .chat_format = e->chat ? chat_format_name(e->chat) : NULL,
                          .reasons = e->chat && chat_format_reasons(e->chat),
                          .spec = e->drafter ? e->drafter->name : "off",
                          .accept = e->config.accept,
                          .spec_tokens = e->drafter ? e->config.spec_tokens : 0,
                          .vocab = m->vocab,
                          .context = e->context,
                          .layers = m->layers,
                          .threads = device_threads(e->device),
                          .graphs = e->graph_line.data,
                          .weight_bytes = m->weight_bytes,
                          .bytes_per_token = m->bytes_per_token,
                          .products_per_token = m->products,
                          .cache_bytes = cache_bytes(e->cache),
                          .graph_bytes = round_graph_bytes(e->round) };
}

/* setup.c: reads the options that say how an engine is opened and how a request samples.
 *
 * Nothing is decided here: an option that was not set leaves the engine's or the model's own default.
 */
#include "cli/setup.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "cli/model_path.h"
#include "cli/terminal.h"

/* Does --spec name this drafter, or leave the choice? */
static bool spec_may_be(const options *o, const char *drafter)
{
    const char *spec = options_string(o, OPT_SPEC);
    return strcmp(spec, "auto") == 0 || strcmp(spec, drafter) == 0;
}

static void announce(const foray_engine *engine)
{
    foray_info info = foray_engine_info(engine);
    log_info("%s: %s, %d layers, %.1f MB of weights; %s, %d thread%s; context %d; speculation %s", info.name,
             info.architecture, info.layers, (double)info.weight_bytes / 1e6, info.isa, info.threads,
             info.threads == 1 ? "" : "s", info.context, info.spec);
    log_info("graphs: %s", info.graphs);
}

int setup_config(const options *o, const char *path, foray_config *out, foray_error *err)
{
    static const char *names[OPT_COUNT], *values[OPT_COUNT];
    static buf draft_path;
    size_t count = options_list(o, names, values);
    const bool drafts = options_has(o, OPT_DRAFT_MODEL) && spec_may_be(o, "draft");
    buf_free(&draft_path);
    int rc = drafts ? model_path_find(options_string(o, OPT_DRAFT_MODEL), &draft_path, err) : 0;
    *out = (foray_config) {
        .model = path,
        .context = options_int(o, OPT_CONTEXT),
        .threads = options_int(o, OPT_THREADS),
        .isa = options_has(o, OPT_ISA) ? options_string(o, OPT_ISA) : NULL,
        .spec = options_string(o, OPT_SPEC),
        .draft_model = drafts ? draft_path.data : NULL,
        .spec_tokens = options_int(o, OPT_SPEC_TOKENS),
        .spec_budget = options_int(o, OPT_SPEC_BUDGET),
        .accept = options_string(o, OPT_ACCEPT),
        .verify = options_string(o, OPT_VERIFY),
        .graph = options_string(o, OPT_GRAPH),
        .graph_phases = options_string(o, OPT_GRAPH_PHASES),
        .graph_memory = options_int(o, OPT_GRAPH_MEMORY),
        .multi_stream_rows = options_int(o, OPT_MULTI_STREAM_ROWS),
        .chat_template = options_string(o, OPT_CHAT_TEMPLATE),
        .thinking = options_string(o, OPT_THINKING),
        .act_quant = options_string(o, OPT_ACT_QUANT),
        .record = options_has(o, OPT_TIMELINE),
        .option_names = names,
        .option_values = values,
        .option_count = count,
        .progress = terminal_progress,
    };
    return rc;
}

/* One line that an option that was given does nothing. */
static void warn_unused(const options *o, option_id id, const char *name, const char *why)
{
    if (options_has(o, id))
        log_warning("--%s has no effect: %s", name, why);
}

void setup_warn_unused(const options *o)
{
    if (!spec_may_be(o, "draft"))
        warn_unused(o, OPT_DRAFT_MODEL, "draft-model", "--spec names another drafter");
    if (strcmp(options_string(o, OPT_GRAPH), "off") == 0) {
        warn_unused(o, OPT_GRAPH_PHASES, "graph-phases", "--graph is off");
        warn_unused(o, OPT_GRAPH_MEMORY, "graph-memory", "--graph is off");
    }
    if (strcmp(options_string(o, OPT_SPEC), "off") != 0)
        return;
    warn_unused(o, OPT_SPEC_TOKENS, "spec-tokens", "--spec is off");
    warn_unused(o, OPT_SPEC_BUDGET, "spec-budget", "--spec is off");
    warn_unused(o, OPT_ACCEPT, "accept", "--spec is off");
    warn_unused(o, OPT_VERIFY, "verify", "--spec is off");
}

static void warn_sampling(const options *o, const foray_engine *engine)
{
    foray_request_config c;
    setup_request(o, engine, &c);
    if (c.sampling.temperature > 0)
        return;
    const char *why = options_has(o, OPT_TEMP) ? "--temp 0 is greedy" : "the model's own --temp 0 is greedy";
    warn_unused(o, OPT_TOP_K, "top-k", why);
    warn_unused(o, OPT_TOP_P, "top-p", why);
    warn_unused(o, OPT_MIN_P, "min-p", why);
    warn_unused(o, OPT_SEED, "seed", why);
}

/* What is written at the end must not turn out to be impossible only then. */
static int check_outputs(const options *o, foray_error *err)
{
    const char *timeline = options_string(o, OPT_TIMELINE), *steps = options_string(o, OPT_STEPS);
    file_writer probe;
    if (!options_has(o, OPT_TIMELINE))
        return 0;
    if (options_has(o, OPT_STEPS) && strcmp(timeline, steps) == 0 && strncmp(timeline, "/dev/", 5) != 0)
        return fail(err, FORAY_EUSAGE, "--steps and --timeline both name %s (give each a file of its own)",
                    steps);
    int rc = file_create(timeline, &probe, err);
    if (rc == 0)
        file_abandon(&probe);
    return rc;
}

int setup_open(const options *o, foray_input input, foray_engine **out, foray_error *err)
{
    const char *model = options_string(o, OPT_MODEL);
    buf path = { 0 };
    int rc = check_outputs(o, err);
    if (rc)
        goto done;
    rc = model_path_find(model ? model : MODEL_PATH_DEFAULT, &path, err);
    if (rc)
        goto done;
    foray_config config;
    rc = setup_config(o, path.data, &config, err);
    if (rc)
        goto done;
    config.input = input;
    foray_engine *engine = NULL;
    if ((rc = foray_open(&config, &engine, err)))
        goto done;
    announce(engine);
    setup_warn_unused(o);
    warn_sampling(o, engine);
    if (options_has(o, OPT_STEPS) && (rc = foray_steps_open(engine, options_string(o, OPT_STEPS), err))) {
        foray_close(engine);
        goto done;
    }
    *out = engine;
done:
    buf_free(&path);
    return rc;
}

static void override_float(const options *o, option_id id, float *value)
{
    if (options_has(o, id))
        *value = (float)options_float(o, id);
}

void setup_request(const options *o, const foray_engine *engine, foray_request_config *out)
{
    foray_sampling s = foray_sampling_default(engine);
    override_float(o, OPT_TEMP, &s.temperature);
    override_float(o, OPT_TOP_P, &s.top_p);
    override_float(o, OPT_MIN_P, &s.min_p);
    override_float(o, OPT_REPEAT_PENALTY, &s.repeat_penalty);
    override_float(o, OPT_PRESENCE_PENALTY, &s.presence_penalty);
    override_float(o, OPT_FREQUENCY_PENALTY, &s.frequency_penalty);
    if (options_has(o, OPT_TOP_K))
        s.top_k = options_int(o, OPT_TOP_K);
    /* A drawn seed has 53 bits, so that every JSON reader can give it back exactly. */
    s.seed = options_has(o, OPT_SEED) ? options_seed(o, OPT_SEED) : rng_fresh_seed() >> 11;
    *out = (foray_request_config) {
        .max_tokens = options_int(o, OPT_MAX_TOKENS),
        .ignore_eos = options_flag(o, OPT_IGNORE_EOS),
        .sampling = s,
        .logprobs = -1,
    };
    out->stop = options_strings(o, OPT_STOP, &out->stop_count);
}

int setup_close(const options *o, foray_engine *engine, foray_error *err)
{
    return options_has(o, OPT_TIMELINE) ? foray_timeline_write(engine, options_string(o, OPT_TIMELINE), err)
                                        : 0;
}

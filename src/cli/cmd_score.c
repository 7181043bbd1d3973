/* cmd_score.c: `foray score`: how likely a model finds a text, teacher forced.
 *
 * Windows: with -c N --stride S the text is cut into windows of N tokens that start every S; every token but a
 * window's first is scored once, with what stands before it in its window. Without -c and --stride there is one
 * window, the whole text. Prints {"tokens", "nll", "ppl", "wall_ns"}; --logits writes the raw rows.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/setup.h"
#include "engine/score.h"
#include "kernel/ref/vmath.h"
#include "text/tokenizer.h"

enum { MOST_TEXT = 1 << 30 };

/* What one window's rows are asked for. */
typedef struct {
    const int32_t *ids;  /* of the window */
    size_t count, first; /* tokens of the window; the first one that is scored */
    int vocab;
    double nll;
    size_t scored;
    bool want_logits, last_only;
    file_writer logits; /* open where logits are wanted */
    foray_error *err;
} scoring;

/* log of the sum of exp(logits), in double where it adds up. */
static double log_sum_exp(const float *logits, int vocab)
{
    float max = logits[0];
    for (int i = 1; i < vocab; i++)
        max = logits[i] > max ? logits[i] : max;
    double sum = 0;
    for (int i = 0; i < vocab; i++)
        sum += (double)vmath_exp(logits[i] - max);
    return (double)max + log(sum);
}

static int take_row(void *user, size_t position, const float *logits)
{
    scoring *s = user;
    bool wanted = !s->last_only || position + 1 == s->count;
    if (s->want_logits && wanted) {
        buf_append(&s->logits.pending, logits, sizeof *logits * (size_t)s->vocab);
        int rc = file_flush(&s->logits, false, s->err);
        if (rc != 0)
            return rc;
    }
    if (position + 1 >= s->first && position + 1 < s->count) {
        s->nll += log_sum_exp(logits, s->vocab) - (double)logits[s->ids[position + 1]];
        s->scored++;
    }
    return 0;
}

/* The ids as they were given. */
static int take_ids(const options *o, id_list *out, foray_error *err)
{
    size_t count;
    const int64_t *ids = options_ints(o, OPT_IDS, &count);
    for (size_t i = 0; i < count; i++)
        if (id_list_push(out, (int32_t)ids[i]))
            return fail(err, FORAY_ENOMEM, "--ids: no memory");
    return 0;
}

/* The ids to score: given, or those of a file's text (begin-of-text only if the model asks for it). */
static int read_ids(foray_engine *e, const options *o, id_list *out, foray_error *err)
{
    if (options_has(o, OPT_IDS))
        return take_ids(o, out, err);
    if (!options_has(o, OPT_FILE))
        return fail(err, FORAY_EUSAGE, "score: nothing to score (-f FILE or --ids 1,2,…)");
    char *text;
    size_t bytes, count;
    int32_t *ids;
    int rc = file_read(options_string(o, OPT_FILE), MOST_TEXT, &text, &bytes, err);
    if (rc != 0)
        return rc;
    rc = foray_encode(e, text, bytes, false, true, &ids, &count, err);
    mem_free(MEM_GENERAL, text, bytes + 1);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = id_list_push(out, ids[i]);
    foray_free(ids);
    if (rc == 0 && count == 0)
        rc = fail(err, FORAY_EUSAGE, "%s: the file is empty", options_string(o, OPT_FILE));
    return rc;
}

static int score_windows(foray_engine *e, const options *o, const id_list *list, scoring *s)
{
    size_t window = options_has(o, OPT_CONTEXT) ? (size_t)options_int(o, OPT_CONTEXT) : list->count;
    size_t stride = options_has(o, OPT_STRIDE) ? (size_t)options_int(o, OPT_STRIDE) : window;
    if (stride > window)
        return fail(s->err, FORAY_EUSAGE, "--stride %zu: longer than the window of %zu leaves tokens out",
                    stride, window);
    for (size_t from = 0; from < list->count; from += stride) {
        s->ids = list->ids + from;
        s->count = list->count - from < window ? list->count - from : window;
        s->first = from == 0 || stride == window ? 1 : window - stride;
        size_t first_row = s->want_logits ? 0 : s->first - 1;
        if (s->count > s->first || s->want_logits) {
            int rc = engine_score(e, s->ids, s->count, options_int(o, OPT_CHUNK), first_row, take_row, s,
                                  NULL, s->err);
            if (rc != 0)
                return rc;
        }
        log_note("%zu of %zu tokens", from + s->count, list->count);
        if (from + s->count == list->count)
            break;
    }
    return 0;
}

static int open_logits(const options *o, scoring *s)
{
    s->last_only = strcmp(options_string(o, OPT_LOGITS_ROWS), "last") == 0;
    if (!options_has(o, OPT_LOGITS)) {
        if (options_has(o, OPT_LOGITS_ROWS))
            log_warning("--logits-rows has no effect without --logits");
        return 0;
    }
    int rc = file_create(options_string(o, OPT_LOGITS), &s->logits, s->err);
    s->want_logits = rc == 0;
    return rc;
}

static int score(foray_engine *e, const options *o, foray_error *err)
{
    id_list list = { 0 };
    scoring s = { .vocab = foray_engine_info(e).vocab, .err = err };
    int rc = read_ids(e, o, &list, err);
    if (rc == 0)
        rc = open_logits(o, &s);
    int64_t start = clock_ns();
    if (rc == 0)
        rc = score_windows(e, o, &list, &s);
    int64_t wall = clock_ns() - start;
    if (s.want_logits && rc == 0)
        rc = file_commit(&s.logits, err);
    else if (s.want_logits)
        file_abandon(&s.logits);
    id_list_free(&list);
    if (rc != 0)
        return rc;
    buf line = { 0 };
    buf_printf(&line, "{\"tokens\":%zu,\"nll\":", s.scored);
    buf_json_double(&line, s.nll);
    buf_puts(&line, ",\"ppl\":");
    buf_json_double(&line, s.scored > 0 ? exp(s.nll / (double)s.scored) : NAN);
    buf_printf(&line, ",\"wall_ns\":%lld}\n", (long long)wall);
    rc = commands_print(&line, err);
    buf_free(&line);
    return rc;
}

int cmd_score(const options *o)
{
    foray_error err;
    foray_engine *e;
    buf path = { 0 };
    const char *name = options_has(o, OPT_MODEL) ? options_string(o, OPT_MODEL) : MODEL_PATH_DEFAULT;
    int rc = model_path_find(name, &path, &err);
    if (rc == 0) {
        foray_config c;
        rc = setup_config(o, path.data, &c, &err);
        c.spec = "off";
        c.context = 0; /* -c is the window here */
        c.input = options_has(o, OPT_IDS) ? FORAY_IDS : FORAY_TEXT;
        rc = rc == 0 ? foray_open(&c, &e, &err) : rc;
    }
    if (rc == 0) {
        rc = score(e, o, &err);
        foray_close(e);
    }
    buf_free(&path);
    return rc == 0 ? STATUS_OK : commands_fail(&err);
}

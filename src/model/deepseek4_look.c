/* deepseek4_look.c: names are taken apart into "which list, which number, what": `mtp.0.attn.wkv.weight` is of the
 * drafter's list, `model.layers.3.…` and `blk.3.…` of the trunk's, which may hold the drafter at its end.
 *
 * The drafter's kind is told by the tensors that only one kind has: e_proj, h_proj and their norms (NextN), or main_proj
 * and a Markov head (DSpark); num_nextn_predict_layers is 1 in files with three DSpark stages.
 * Threads: any; no state.
 */
#include "model/deepseek4_look.h"

#include <stdlib.h>
#include <string.h>

typedef enum { LIST_NONE, LIST_LAYERS, LIST_DRAFTER } list_kind;

static bool skip(const char **p, const char *prefix)
{
    size_t bytes = strlen(prefix);
    if (strncmp(*p, prefix, bytes) != 0)
        return false;
    *p += bytes;
    return true;
}

/* Takes the list and the number off a name; *rest is what stands behind them. Numbers that no model has are not
 * numbers. */
static list_kind split(const char *name, int *number, const char **rest)
{
    const char *p = name;
    list_kind list = LIST_NONE;
    skip(&p, "model.");
    if (skip(&p, "layers.") || skip(&p, "blk."))
        list = LIST_LAYERS;
    else if (skip(&p, "mtp."))
        list = LIST_DRAFTER;
    if (list == LIST_NONE || *p < '0' || *p > '9')
        return LIST_NONE;
    char *end;
    unsigned long n = strtoul(p, &end, 10);
    if (*end != '.' || n > MODEL_MAX_LAYERS)
        return LIST_NONE;
    *number = (int)n;
    *rest = end + 1;
    return list;
}

bool deepseek4_name_layer(const char *name, int *number, bool *drafter)
{
    const char *rest;
    list_kind list = split(name, number, &rest);
    *drafter = list == LIST_DRAFTER;
    return list != LIST_NONE;
}

static bool any_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strstr(text, *words))
            return true;
    return false;
}

static deepseek4_drafter sign_of(const char *rest)
{
    static const char *const dspark[] = { "main_proj", "main_norm", "markov", "dflash", NULL };
    static const char *const nextn[] = { "e_proj.", "h_proj.", "eh_proj.", "enorm.", "hnorm.", NULL };
    if (any_of(rest, dspark))
        return DEEPSEEK4_DSPARK;
    const char *last = rest; /* "gate_proj." holds "e_proj." too */
    skip(&last, "nextn.");
    for (int i = 0; nextn[i]; i++)
        if (strncmp(last, nextn[i], strlen(nextn[i])) == 0)
            return DEEPSEEK4_NEXTN;
    return DEEPSEEK4_NO_DRAFTER;
}

/* The kinds of weights; and where in the trunk's list the drafter begins. */
static void look_first(const model_file *f, deepseek4_contents *out)
{
    const char *rest;
    int n;
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *v = model_file_tensor_at(f, i);
        out->fp8 = out->fp8 || v->type == DTYPE_F8_E4M3 || (v->type == DTYPE_I8 && !model_file_described(f));
        out->int8 = out->int8 || (v->type == DTYPE_I8 && model_file_described(f));
        list_kind list = split(v->name, &n, &rest);
        deepseek4_drafter sign = list == LIST_NONE ? DEEPSEEK4_NO_DRAFTER : sign_of(rest);
        if (sign > out->drafter)
            out->drafter = sign;
        if (sign != DEEPSEEK4_NO_DRAFTER && list == LIST_LAYERS &&
            (out->drafter_at < 0 || n < out->drafter_at))
            out->drafter_at = n;
    }
}

deepseek4_contents deepseek4_look(const model_file *f)
{
    deepseek4_contents out = { .drafter_at = -1, .experts = DTYPE_UNKNOWN };
    static const char *const compressed[] = { "compressor", "indexer", NULL };
    bool stage[MODEL_MAX_LAYERS + 1] = { false }, hash[MODEL_MAX_LAYERS + 1] = { false };
    look_first(f, &out);
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *v = model_file_tensor_at(f, i);
        const char *rest;
        int n;
        list_kind list = split(v->name, &n, &rest);
        bool drafts =
            list == LIST_DRAFTER || (list == LIST_LAYERS && out.drafter_at >= 0 && n >= out.drafter_at);
        if (drafts)
            stage[n] = true;
        else if (list == LIST_LAYERS && n >= out.layers)
            out.layers = n + 1;
        if (list != LIST_LAYERS || drafts)
            continue;
        hash[n] = hash[n] || strstr(rest, "tid2eid");
        out.compressed[n] = out.compressed[n] || any_of(rest, compressed);
        if (strstr(rest, ".experts.") && !strstr(rest, "scale"))
            out.experts = v->type;
    }
    for (int i = 0; i <= MODEL_MAX_LAYERS; i++) {
        out.stages += stage[i];
        out.hash_layers += hash[i];
    }
    if (out.stages > 0 && out.drafter == DEEPSEEK4_NO_DRAFTER) /* its own tensors are what is missing */
        out.drafter = out.stages > 1 ? DEEPSEEK4_DSPARK : DEEPSEEK4_NEXTN;
    return out;
}

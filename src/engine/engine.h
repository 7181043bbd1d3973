/* engine.h: what stands behind foray.h: one model, one device, its cache, its round and its requests.
 *
 * Files: open.c builds and takes down, draft.c opens the drafter's model, graphs.c captures, text.c turns text into ids,
 * steps.c runs requests, records.c writes what was recorded, score.c runs the model without a request, timing.c
 * measures it. Only this room includes this header.
 * Threads: one at a time per engine.
 */
#ifndef FORAY_ENGINE_ENGINE_H
#define FORAY_ENGINE_ENGINE_H

#include "base/file.h"
#include "batch/batch.h"
#include "observe/ring.h"
#include "spec/chain.h"
#include "text/chat.h"

#ifdef FORAY_TORTURE
enum {
    ENGINE_RING_TASKS = 1024,
    ENGINE_CHUNK = 3
}; /* so that the ring overflows, and prompts have many chunks */
#else
enum {
    ENGINE_RING_TASKS = 1 << 16,
    ENGINE_CHUNK = 256
}; /* tasks recorded; prompt rows per pass by default */
#endif
enum { ENGINE_PAGE_ROWS = 16, ENGINE_MULTI_STREAM_ROWS = 64, ENGINE_MOST_OPTIONS = 64, ENGINE_GRAPH_MB = 32 };

#define ENGINE_GRAPH_PHASES "decode,verify,draft,draft-extend"

struct foray_engine {
    foray_config config; /* resolved: no zeros or NULLs that mean a default; its strings are in memory */
    arena memory;        /* lives as long as the engine */
    model_file *file;
    device *device;
    ring *ring; /* NULL: not recorded */
    model *model;
    tokenizer *tokenizer; /* NULL: ids only */
    const chat_format *chat;
    buf system_default; /* what the template says when no system message is given; empty: none */
    cache *cache;
    drafter *drafter; /* NULL: off */
    accept_rule accept;
    buf graph_line;          /* which phases replay, for people */
    unsigned graph_families; /* config.graph_phases as bits 1 << graph_family */
    model_file *draft_file;
    model *draft_model; /* NULL: none */
    round_loop *round;
    batch *batch;
    int64_t ready_ns; /* clock_fast_ns: from here on what runs is the caller's, not the measuring of costs */
    int context, slots; /* slots: requests at once; the cache has one more, for measuring and scoring */
    foray_event events[PLAN_MAX_MEMBERS];
    const char *option_names[ENGINE_MOST_OPTIONS], *option_values[ENGINE_MOST_OPTIONS]; /* for the manifest */
    file_writer steps; /* where writes_steps */
    bool writes_steps;
};

/* open.c: how the engine's drafter is to draw. */
chain_drawing engine_drawing(const foray_engine *e);
/* open.c: whether a model's files bring a tokenizer. */
bool engine_has_tokens(const model_file *f);
/* draft.c: opens the files of the model that drafts and sees whether it speaks the target's vocabulary: before the
 * weights of either are read. */
int engine_find_draft(foray_engine *e, foray_error *err);
/* draft.c: loads that model, sees whether it is large enough, and makes it the drafter. */
int engine_open_draft(foray_engine *e, foray_error *err);
/* text.c: whether the model's files have what such input needs. EUNSUPPORTED says what is missing. */
int engine_check_input(const foray_engine *e, foray_input input, foray_error *err);
/* score.c: the pass's inputs for rows [from, from + n) of ids, as one span of the scratch slot. */
void engine_plan_rows(foray_engine *e, const int32_t *ids, int from, int n);
/* timing.c: gives the budget its first table of costs. */
int engine_measure_costs(foray_engine *e, foray_error *err);
/* graphs.c: "decode,verify" as bits 1 << graph_family. EUSAGE: no such phase, or one without another that it needs. */
int engine_parse_phases(const char *list, unsigned *families, foray_error *err);
/* graphs.c: captures the graphs of usual rounds; graph_line says what was asked for and what came of it. */
int engine_capture_graphs(foray_engine *e, foray_error *err);
/* graphs.c: "decode on, verify off (nobody drafts), …", for the manifest. */
void engine_graph_states(const foray_engine *e, buf *out);
/* records.c: appends a step to the steps file, if there is one; user: the engine. EFILE: it could not, and is given up. */
int engine_write_step(void *user, const step_record *s, foray_error *err);
/* records.c: puts the steps file, if there is one, in its place. */
void engine_close_steps(foray_engine *e);
/* records.c: the manifest's line. */
void engine_manifest(const foray_engine *e, buf *out);

#endif

/* model.h: a model, whichever family it is of: the one face that rounds and the engine know.
 *
 * A family is a file of straight-line forward passes (llama.h, deepseek4.h) with buffers of its own; this file asks
 * which family a model file is of, and passes on. Threads: load may be called once; passes from the host thread of
 * the device.
 */
#ifndef FORAY_MODEL_MODEL_H
#define FORAY_MODEL_MODEL_H

#include "cache/cache.h"
#include "device/fork.h"
#include "format/model_file.h"
#include "model/pass.h"

struct llama;
struct deepseek4;

typedef struct {
    const char *name, *architecture; /* live as long as the model */
    int layers, dim, vocab;
    int context; /* tokens that the model was made for */
    const int32_t *end_ids;
    int end_count;
    const char *chat_template; /* borrowed from the file, no NUL at its end; NULL: none */
    size_t chat_template_bytes;
    uint64_t weight_bytes, bytes_per_token; /* packed; read by one decode step */
    double products;         /* multiply-adds of a row in the trunk's matrices, the chosen experts' */
    const char *own_drafter; /* the drafter in the model's own files: "nextn"; NULL: none */
    const char *undriven;    /* says which other one is there; NULL: none */
    const char *rounding;    /* what is done to activations: "fp8+fp4", "int8"; NULL: nothing */
} model_info;

typedef struct {
    model_info info;
    struct llama *llama; /* one of the two */
    struct deepseek4 *deepseek4;
} model;

typedef struct {
    int lanes;      /* of the device's kernels */
    int page_rows;  /* entries of a page of full attention */
    bool act_quant; /* round activations as the checkpoint expects it */
    bool drafter;   /* load the drafter in the model's files, if there is one */
    void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes packed; NULL: none */
    void *user;
} model_options;

/* Reads, checks and packs. f stays open as long as the model. *out is owned: model_free. */
int model_load(const model_file *f, const model_options *o, model **out, foray_error *err);
void model_free(model *m);

/* The pools of its cache, for passes of at most so many rows: rings keep so many entries more than are read. The model
 * outlives the cache. Returns how many. */
int model_pools(const model *m, int most_rows, pool_desc out[CACHE_MAX_POOLS]);

/* Buffers for passes of up to these sizes, for requests of up to max_length tokens. On error nothing is held. */
int model_pass_create(const model *m, device *d, int max_rows, int max_spans, int max_heads, int max_length,
                      pass *out, foray_error *err);
void model_pass_destroy(const model *m, device *d, pass *p);

/* Names of the side streams that the family's trunk can use beside the main one; returns how many (llama: none). */
int model_sides(const model *m, const char *const **names);

/* Launches the trunk over the pass's rows: what they leave behind is stored in the cache. `rows`, `spans` bound what is
 * live (a graph's tier); max_length bounds position + 1. fork: streams of model_sides, for branches of decode and verify
 * passes of at most max_heads rows; NULL: all on s, with the same bits. */
int model_trunk(const model *m, const pass *p, const cache *c, int rows, int spans, int max_length, stream *s,
                fork_streams *fork, foray_error *err);

/* Experts that had rows in the last trunk pass, all layers added up; 0: the family has none. Nothing is in flight. */
int model_distinct_experts(const model *m, const pass *p);

/* Multiply-adds of attention that `rows` rows at positions first, first + 1, … of one request need: what they see, times
 * queries and values (and the indexer's keys). */
double model_attention_products(const model *m, int first, int rows);

/* Launches the head over the rows named in p->head_row, at most `heads`: p->logits. */
int model_head(const model *m, const pass *p, int heads, stream *s, foray_error *err);

#endif

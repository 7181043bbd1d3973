/* hf.h: a Hugging Face folder: its JSON files as settings with dotted paths, and which tensor files it has.
 *
 * Reads config.json (required), generation_config.json, tokenizer_config.json, chat_template.jinja,
 * tokenizer.json (mapped, not parsed), quant_model_description.json and the index of the tensor files, which are called
 * model… or quant_model_weights…. Knows nothing of what the settings mean.
 * Threads: any, once open.
 */
#ifndef FORAY_FORMAT_HF_H
#define FORAY_FORMAT_HF_H

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"

typedef struct hf_folder hf_folder;

/* Opens the folder. Lists live in a. *out is owned: hf_close. */
int hf_open(const char *path, arena *a, hf_folder **out, foray_error *err);
void hf_close(hf_folder *h);

/* The tensor files, full paths; and the shard that each tensor is said to be in (count 0: no index, one file). */
size_t hf_shard_count(const hf_folder *h);
const char *hf_shard_path(const hf_folder *h, size_t i);
/* Number of the shard that the index assigns to a tensor; -1: the index does not list it, or there is none. */
int64_t hf_shard_of(const hf_folder *h, const char *tensor);
/* Name i of the index, or NULL past its end. */
const char *hf_index_at(const hf_folder *h, size_t i);
/* The index's file name, for messages. */
const char *hf_index_file(const hf_folder *h);

/* Whether there is a quant_model_description.json; and what it says of a tensor: NULL: nothing, or no text. */
bool hf_described(const hf_folder *h);
const char *hf_scheme(const hf_folder *h, const char *tensor);

/* Settings by dotted path, as model_file.h describes them. element: -1 for a single value, else the i-th of an
 * array. false: absent, null, another type, past the end. */
bool hf_int(const hf_folder *h, const char *key, int64_t element, int64_t *out);
bool hf_float(const hf_folder *h, const char *key, int64_t element, double *out);
bool hf_bool(const hf_folder *h, const char *key, int64_t element, bool *out);
bool hf_string(const hf_folder *h, const char *key, int64_t element, const char **out, size_t *bytes);
bool hf_array(const hf_folder *h, const char *key, size_t *count);

const char *hf_key_at(const hf_folder *h, size_t i); /* NULL past the end */
const char *hf_key_type(const hf_folder *h, const char *key);
bool hf_key_is_null(const hf_folder *h, const char *key);
const char *hf_tokenizer_json(const hf_folder *h, size_t *bytes); /* NULL, 0: none */

#endif

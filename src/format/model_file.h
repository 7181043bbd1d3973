/* model_file.h: a model's files, opened: tensors by name, settings by key, the tokenizer's data.
 *
 * Two back ends with one face: a GGUF file (format/gguf.c; shards too) and a Hugging Face folder
 * (format/safetensors.c for tensors, format/hf.c for its JSON files). Nothing is converted: tensors are views
 * into the mapped files. Every length, offset and type has been checked before a view is handed out.
 * Threads: any, after opening.
 */
#ifndef FORAY_FORMAT_MODEL_FILE_H
#define FORAY_FORMAT_MODEL_FILE_H

#include "base/error.h"
#include "format/dtype.h"

typedef struct model_file model_file;

/* A tensor as it stands in the file. shape is row-major, outermost first: a weight of a linear layer
 * y = W x is [outputs, inputs], whatever the file's own convention. */
typedef struct {
    const char *name;
    dtype type;            /* DTYPE_UNKNOWN: may be listed, not used */
    const char *type_name; /* as the file's format calls it, known or not: "Q4_1", "IQ2_XS", "type 99" */
    int dims;
    int64_t shape[4]; /* 1 beyond dims */
    const void *data; /* unaligned */
    uint64_t bytes;   /* 0 where the type's size is not known */
    const char *file; /* path, for messages */
} tensor_view;

typedef enum { MODEL_FILE_GGUF, MODEL_FILE_HF } model_file_kind;

/* Opens a GGUF file or a Hugging Face folder, recognised by content. *out is owned: model_file_close. */
int model_file_open(const char *path, model_file **out, foray_error *err);
void model_file_close(model_file *f);
/* After loading: the mapped files' memory may go; views stay valid (file_map_rest). */
void model_file_rest(const model_file *f);

model_file_kind model_file_get_kind(const model_file *f);
const char *model_file_path(const model_file *f);

size_t model_file_tensor_count(const model_file *f);
const tensor_view *model_file_tensor_at(const model_file *f, size_t i);
const tensor_view *model_file_tensor(const model_file *f, const char *name); /* NULL: none */

/* Whether a folder has a quant_model_description.json, and the scheme that it gives a tensor ("W8A8_DYNAMIC", "FLOAT", …;
 * NULL: it does not say). */
bool model_file_described(const model_file *f);
const char *model_file_scheme(const model_file *f, const char *tensor);

/* Settings. Keys are GGUF's (`llama.block_count`), or for a folder the path inside config.json
 * (`num_hidden_layers`, `rope_scaling.factor`); `generation.KEY` reads generation_config.json and
 * `tokenizer.KEY` tokenizer_config.json. A getter returns false, leaving *out alone, when the key is absent
 * or null; a value of a wrong type is an error that was already reported at opening for GGUF arrays, and
 * here reads as absent. */
bool model_file_int(const model_file *f, const char *key, int64_t *out);
bool model_file_float(const model_file *f, const char *key, double *out);
bool model_file_bool(const model_file *f, const char *key, bool *out);
bool model_file_string(const model_file *f, const char *key, const char **out, size_t *bytes);

/* Arrays of numbers or strings: the length (false: absent or not an array), then elements. */
bool model_file_array(const model_file *f, const char *key, size_t *count);
bool model_file_array_int(const model_file *f, const char *key, size_t i, int64_t *out);
bool model_file_array_float(const model_file *f, const char *key, size_t i, double *out);
bool model_file_array_bool(const model_file *f, const char *key, size_t i, bool *out);
bool model_file_array_string(const model_file *f, const char *key, size_t i, const char **out, size_t *bytes);

/* Keys in file order, for `inspect`: NULL past the end. Of a folder: those of config.json and generation_config.json. */
const char *model_file_key_at(const model_file *f, size_t i);
/* What kind of value a key has, for messages and `inspect`: "uint32", "array of string", "integer", "object", …
 * NULL: absent. */
const char *model_file_key_type(const model_file *f, const char *key);
/* Whether a folder's key is there and says null. */
bool model_file_key_is_null(const model_file *f, const char *key);

/* The text of tokenizer.json in a folder (mapped; NULL, 0: none, or a GGUF file). */
const char *model_file_tokenizer_json(const model_file *f, size_t *bytes);

/* XXH3 (64 bit) over name, type, shape and data of every tensor: reads the whole file. For manifests. */
uint64_t model_file_checksum(const model_file *f);

#endif

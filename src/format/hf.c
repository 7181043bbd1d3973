/* hf.c: the JSON files of a Hugging Face folder.
 *
 * jansson parses them: strict JSON, no duplicate keys, positions in errors. Files are bounded in size before
 * they are read, and the lists below in depth. A name in the index may only be a plain file name: a path would
 * let a model read what it likes.
 * Threads: any, once open.
 */
#include "format/hf.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/name_index.h"

enum {
    MAX_CONFIG = 8 << 20,
    MAX_INDEX = 32 << 20,
    MAX_TEMPLATE = 4 << 20,
    MAX_DEPTH = 16,
    MAX_KEYS = 65536,
    PATH_BYTES = 4096
};

struct hf_folder {
    const char *path; /* in the arena, as is all else that has no other owner */
    json_t *config, *generation, *tokenizer, *index; /* index: weight_map's file */
    json_t *description;                             /* quant_model_description.json, or NULL */
    const char *index_file;                          /* its name */
    char *jinja;                                     /* chat_template.jinja, or NULL */
    size_t jinja_bytes;
    const char *chat_template; /* the one to use, or NULL; in jinja or in tokenizer */
    size_t chat_template_bytes;
    file_map tokenizer_json; /* path NULL: none */
    char **shards;           /* [shard_count] full paths */
    size_t shard_count;
    const char **index_names; /* [index_count] tensors that the index lists */
    size_t index_count;
    name_index index_lookup;
    int32_t *index_shards; /* [index_count] */
    const char **keys;     /* [key_count] */
    size_t key_count;
};

/* Opening ----------------------------------------------------------------------------------------- */

static char *join(arena *a, const char *folder, const char *name)
{
    size_t folder_bytes = strlen(folder), name_bytes = strlen(name);
    char *path = arena_alloc(a, folder_bytes + name_bytes + 2);
    if (path) {
        memcpy(path, folder, folder_bytes);
        path[folder_bytes] = '/';
        memcpy(path + folder_bytes + 1, name, name_bytes + 1);
    }
    return path;
}

/* Reads folder/name into *out; a missing file leaves it NULL unless required. */
static int load_json(const char *folder, const char *name, bool required, size_t max_bytes, arena *a,
                     json_t **out, foray_error *err)
{
    char *path = join(a, folder, name), *text = NULL;
    size_t bytes = 0;
    if (!path)
        return fail(err, FORAY_ENOMEM, "%s: no memory", folder);
    if (!file_exists(path))
        return required
                   ? fail(err, FORAY_EFILE, "%s: has no %s: not a Hugging Face model folder", folder, name)
                   : 0;
    int rc = file_read(path, max_bytes, &text, &bytes, err);
    if (rc < 0)
        return rc;
    json_error_t fault;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &fault);
    mem_free(MEM_GENERAL, text, bytes + 1);
    if (!root)
        return fail(err, FORAY_EFILE, "%s: line %d, column %d: %s", path, fault.line, fault.column,
                    fault.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return fail(err, FORAY_EFILE, "%s: is not a JSON object", path);
    }
    *out = root;
    return 0;
}

/* The file chat_template.jinja wins over tokenizer_config.json, whose entry is a string or a list of named ones. */
static int load_chat_template(hf_folder *h, arena *a, foray_error *err)
{
    char *path = join(a, h->path, "chat_template.jinja");
    if (!path)
        return fail(err, FORAY_ENOMEM, "%s: no memory", h->path);
    if (file_exists(path)) {
        int rc = file_read(path, MAX_TEMPLATE, &h->jinja, &h->jinja_bytes, err);
        h->chat_template = h->jinja;
        h->chat_template_bytes = h->jinja_bytes;
        return rc;
    }
    const json_t *t = json_object_get(h->tokenizer, "chat_template");
    for (size_t i = json_array_size(t); json_is_array(t) && i-- > 0;) {
        const json_t *entry = json_array_get(t, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (i == 0 || (name && strcmp(name, "default") == 0))
            t = json_object_get(entry, "template");
    }
    if (json_is_string(t)) {
        h->chat_template = json_string_value(t);
        h->chat_template_bytes = json_string_length(t);
    }
    return 0;
}

static bool plain_file_name(const char *name)
{
    return name[0] != 0 && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) < 256;
}

/* The number of the shard, added when it is new; linear, as there are few. */
static int32_t shard_number(hf_folder *h, arena *a, const char *file)
{
    size_t folder = strlen(h->path) + 1;
    for (size_t i = h->shard_count; i-- > 0;) /* the last one is the likely one */
        if (strcmp(h->shards[i] + folder, file) == 0)
            return (int32_t)i;
    h->shards[h->shard_count] = join(a, h->path, file);
    return h->shards[h->shard_count] ? (int32_t)h->shard_count++ : -1;
}

enum { MAX_SHARDS = 4096 };

static int read_index(hf_folder *h, arena *a, foray_error *err)
{
    const json_t *map = json_object_get(h->index, "weight_map");
    const char *path = h->index_file, *name;
    json_t *file;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return fail(err, FORAY_EFILE, "%s/%s: weight_map is missing, empty or not an object", h->path, path);
    size_t count = json_object_size(map);
    h->index_names = arena_array(a, count, sizeof *h->index_names);
    h->index_shards = arena_array(a, count, sizeof *h->index_shards);
    h->shards = arena_array(a, MAX_SHARDS, sizeof *h->shards);
    if (!h->index_names || !h->index_shards || !h->shards || !name_index_init(&h->index_lookup, a, count))
        return fail(err, FORAY_ENOMEM, "%s: no memory for its index", h->path);
    json_object_foreach((json_t *)map, name, file)
    {
        const char *text = json_string_value(file);
        if (!text || !plain_file_name(text))
            return fail(err, FORAY_EFILE, "%s/%s: weight_map: tensor %s: its file is not a plain file name",
                        h->path, path, name);
        if (h->shard_count == MAX_SHARDS)
            return fail(err, FORAY_ELIMIT, "%s/%s: names more than %d files", h->path, path, MAX_SHARDS);
        h->index_names[h->index_count] = name;
        h->index_shards[h->index_count] = shard_number(h, a, text);
        if (h->index_shards[h->index_count++] < 0)
            return fail(err, FORAY_ENOMEM, "%s: no memory for its index", h->path);
        name_index_add(&h->index_lookup, name);
    }
    name_index_finish(&h->index_lookup); /* jansson has refused duplicates */
    return 0;
}

/* The index STEM.safetensors.index.json, or the one file STEM.safetensors; neither leaves shard_count 0. */
static int find_stem(hf_folder *h, arena *a, const char *stem, foray_error *err)
{
    char index[64], file[64];
    snprintf(index, sizeof index, "%s.safetensors.index.json", stem);
    snprintf(file, sizeof file, "%s.safetensors", stem);
    int rc = load_json(h->path, index, false, MAX_INDEX, a, &h->index, err);
    if (rc < 0)
        return rc;
    char *path = join(a, h->path, file);
    h->index_file = arena_strndup(a, index, strlen(index));
    if (!path || !h->index_file)
        return fail(err, FORAY_ENOMEM, "%s: no memory", h->path);
    if (h->index)
        return read_index(h, a, err);
    if (!file_exists(path))
        return 0;
    h->shards = arena_array(a, 1, sizeof *h->shards);
    if (!h->shards)
        return fail(err, FORAY_ENOMEM, "%s: no memory", h->path);
    h->shards[0] = path;
    h->shard_count = 1;
    return 0;
}

/* ModelSlim's files have a stem of their own; where a description says that they are meant they go first, since the
 * folder may still hold the files that they were made from. */
static int find_tensor_files(hf_folder *h, arena *a, foray_error *err)
{
    static const char *const stems[] = { "model", "quant_model_weights" };
    for (int i = 0; i < 2; i++) {
        int rc = find_stem(h, a, stems[h->description ? 1 - i : i], err);
        if (rc < 0 || h->shard_count > 0)
            return rc;
    }
    return fail(err, FORAY_EFILE,
                "%s: has neither model.safetensors nor model.safetensors.index.json (foray reads "
                "safetensors only; was the download complete?)",
                h->path);
}

/* Lists the leaves below an object; arrays are leaves. */
static bool list_keys(hf_folder *h, arena *a, const json_t *object, const char *prefix, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        char name[512];
        int n = snprintf(name, sizeof name, "%s%s", prefix, key);
        if (n < 0 || n >= (int)sizeof name - 1 || h->key_count == MAX_KEYS)
            continue; /* a listing only: it may be incomplete for names that no model has */
        if (json_is_object(value) && depth < MAX_DEPTH) {
            name[n] = '.';
            name[n + 1] = 0;
            if (!list_keys(h, a, value, name, depth + 1))
                return false;
            continue;
        }
        h->keys[h->key_count] = arena_strndup(a, name, (size_t)n);
        if (!h->keys[h->key_count++])
            return false;
    }
    return true;
}

static size_t count_leaves(const json_t *value, int depth)
{
    const char *key;
    json_t *inner;
    size_t n = 0;
    if (!json_is_object(value) || depth > MAX_DEPTH)
        return 1;
    json_object_foreach((json_t *)value, key, inner) n += count_leaves(inner, depth + 1);
    return n;
}

static int open_parts(hf_folder *h, arena *a, foray_error *err)
{
    int rc = load_json(h->path, "config.json", true, MAX_CONFIG, a, &h->config, err);
    if (rc == 0)
        rc = load_json(h->path, "generation_config.json", false, MAX_CONFIG, a, &h->generation, err);
    if (rc == 0)
        rc = load_json(h->path, "tokenizer_config.json", false, MAX_CONFIG, a, &h->tokenizer, err);
    if (rc == 0)
        rc = load_chat_template(h, a, err);
    if (rc == 0)
        rc =
            load_json(h->path, "quant_model_description.json", false, 2 * MAX_INDEX, a, &h->description, err);
    if (rc == 0)
        rc = find_tensor_files(h, a, err);
    if (rc < 0)
        return rc;
    char *path = join(a, h->path, "tokenizer.json");
    size_t keys = count_leaves(h->config, 0) + count_leaves(h->generation, 0);
    h->keys = arena_array(a, keys < MAX_KEYS ? keys : MAX_KEYS, sizeof *h->keys);
    if (!path || !h->keys || !list_keys(h, a, h->config, "", 0) ||
        !list_keys(h, a, h->generation, "generation.", 0))
        return fail(err, FORAY_ENOMEM, "%s: no memory", h->path);
    return file_exists(path) ? file_map_open(path, &h->tokenizer_json, err) : 0;
}

int hf_open(const char *path, arena *a, hf_folder **out, foray_error *err)
{
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    if (bytes > PATH_BYTES)
        return fail(err, FORAY_EUSAGE, "model path: longer than %d bytes", PATH_BYTES);
    hf_folder *h = arena_alloc(a, sizeof *h);
    if (!h || !(h->path = arena_strndup(a, path, bytes)))
        return fail(err, FORAY_ENOMEM, "%s: no memory", path);
    int rc = open_parts(h, a, err);
    if (rc < 0)
        hf_close(h);
    else
        *out = h;
    return rc;
}

void hf_close(hf_folder *h)
{
    json_decref(h->config);
    json_decref(h->generation);
    json_decref(h->tokenizer);
    json_decref(h->index);
    json_decref(h->description);
    if (h->jinja)
        mem_free(MEM_GENERAL, h->jinja, h->jinja_bytes + 1);
    if (h->tokenizer_json.path)
        file_unmap(&h->tokenizer_json);
}

size_t hf_shard_count(const hf_folder *h)
{
    return h->shard_count;
}

const char *hf_shard_path(const hf_folder *h, size_t i)
{
    return h->shards[i];
}

int64_t hf_shard_of(const hf_folder *h, const char *tensor)
{
    int64_t i = h->index_count ? name_index_find(&h->index_lookup, tensor) : -1;
    return i < 0 ? -1 : h->index_shards[i];
}

const char *hf_index_at(const hf_folder *h, size_t i)
{
    return i < h->index_count ? h->index_names[i] : NULL;
}

const char *hf_index_file(const hf_folder *h)
{
    return h->index_file;
}

bool hf_described(const hf_folder *h)
{
    return h->description != NULL;
}

const char *hf_scheme(const hf_folder *h, const char *tensor)
{
    return json_string_value(json_object_get(h->description, tensor));
}

/* Settings ---------------------------------------------------------------------------------------- */

/* The value at a dotted path, or NULL. */
static const json_t *find(const hf_folder *h, const char *key)
{
    const json_t *at = h->config;
    if (strncmp(key, "generation.", 11) == 0) {
        at = h->generation;
        key += 11;
    } else if (strncmp(key, "tokenizer.", 10) == 0) {
        at = h->tokenizer;
        key += 10;
    }
    while (at) {
        const char *dot = strchr(key, '.');
        if (!dot)
            return json_object_get(at, key);
        char part[256];
        size_t bytes = (size_t)(dot - key);
        if (bytes >= sizeof part)
            return NULL;
        memcpy(part, key, bytes);
        part[bytes] = 0;
        at = json_object_get(at, part);
        key = dot + 1;
    }
    return NULL;
}

static const json_t *find_element(const hf_folder *h, const char *key, int64_t element)
{
    const json_t *v = find(h, key);
    return element < 0 ? v : json_array_get(v, (size_t)element);
}

bool hf_int(const hf_folder *h, const char *key, int64_t element, int64_t *out)
{
    const json_t *v = find_element(h, key, element);
    if (!json_is_integer(v))
        return false;
    *out = json_integer_value(v);
    return true;
}

bool hf_float(const hf_folder *h, const char *key, int64_t element, double *out)
{
    const json_t *v = find_element(h, key, element);
    if (!json_is_number(v))
        return false;
    *out = json_number_value(v);
    return true;
}

bool hf_bool(const hf_folder *h, const char *key, int64_t element, bool *out)
{
    const json_t *v = find_element(h, key, element);
    if (!json_is_boolean(v))
        return false;
    *out = json_is_true(v);
    return true;
}

bool hf_string(const hf_folder *h, const char *key, int64_t element, const char **out, size_t *bytes)
{
    if (element < 0 && strcmp(key, "tokenizer.chat_template") == 0) {
        if (!h->chat_template)
            return false;
        *out = h->chat_template;
        *bytes = h->chat_template_bytes;
        return true;
    }
    const json_t *v = find_element(h, key, element);
    if (!json_is_string(v))
        return false;
    *out = json_string_value(v);
    *bytes = json_string_length(v);
    return true;
}

bool hf_array(const hf_folder *h, const char *key, size_t *count)
{
    const json_t *v = find(h, key);
    if (!json_is_array(v))
        return false;
    *count = json_array_size(v);
    return true;
}

const char *hf_key_at(const hf_folder *h, size_t i)
{
    return i < h->key_count ? h->keys[i] : NULL;
}

const char *hf_key_type(const hf_folder *h, const char *key)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "real",   [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null",
    };
    const json_t *v = find(h, key);
    return v && !json_is_null(v) ? names[json_typeof(v)] : NULL;
}

bool hf_key_is_null(const hf_folder *h, const char *key)
{
    return json_is_null(find(h, key));
}

const char *hf_tokenizer_json(const hf_folder *h, size_t *bytes)
{
    *bytes = h->tokenizer_json.path ? h->tokenizer_json.size : 0;
    return h->tokenizer_json.path ? (const char *)h->tokenizer_json.data : NULL;
}

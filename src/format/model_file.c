/* model_file.c: the one face of a GGUF file (or its shards) and of a Hugging Face folder.
 *
 * Opening maps every file, lets the format's parser make views of it, and puts all views under one index, so
 * that a tensor that two shards hold, or that an index promises and no file has, is an error here.
 * Everything lives in one arena and in the maps. Threads: any, after opening.
 */
#include "format/model_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/file.h"
#include "format/gguf.h"
#include "format/hf.h"
#include "format/name_index.h"
#include "format/safetensors.h"

enum { MAX_FILES = 4096 };

struct model_file {
    arena a;
    model_file_kind kind;
    const char *path;
    file_map *maps; /* [map_count] */
    size_t map_count;
    tensor_view *tensors; /* [tensor_count] file by file */
    size_t tensor_count;
    name_index tensor_index;
    gguf_file gguf;       /* of the first shard: the settings */
    name_index key_index; /* GGUF only */
    hf_folder *hf;
};

/* Opening ----------------------------------------------------------------------------------------- */

static int no_memory(const model_file *f, foray_error *err)
{
    return fail(err, FORAY_ENOMEM, "%s: no memory to open it", f->path);
}

/* Indexes the views of count files, given as parts[i] with lengths[i], in one list. */
static int gather(model_file *f, tensor_view *const *parts, const size_t *lengths, size_t count,
                  foray_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += lengths[i];
    f->tensors = arena_array(&f->a, total + 1, sizeof *f->tensors);
    if (!f->tensors || !name_index_init(&f->tensor_index, &f->a, total + 1))
        return no_memory(f, err);
    for (size_t i = 0; i < count; i++) {
        for (size_t t = 0; t < lengths[i]; t++) {
            name_index_add(&f->tensor_index, parts[i][t].name);
            f->tensors[f->tensor_count++] = parts[i][t];
        }
    }
    const char *twice = name_index_finish(&f->tensor_index);
    return twice ? fail(err, FORAY_EFILE,
                        "%s: tensor %s: is there twice (damaged file, or shards of different models?)",
                        f->path, twice)
                 : 0;
}

static int map_file(model_file *f, const char *path, foray_error *err)
{
    int rc = file_map_open(path, &f->maps[f->map_count], err);
    if (rc == 0)
        f->map_count++;
    return rc;
}

/* Splits PREFIX-00002-of-00007.gguf; false when the name is not of that form. */
static bool shard_name(const char *path, size_t *prefix, int *number, int *count)
{
    static const char form[] = "-#####-of-#####.gguf";
    size_t bytes = strlen(path), tail = sizeof form - 1;
    if (bytes <= tail)
        return false;
    const char *p = path + bytes - tail;
    for (size_t i = 0; i < tail; i++)
        if (form[i] == '#' ? p[i] < '0' || p[i] > '9' : p[i] != form[i])
            return false;
    *prefix = bytes - tail;
    return sscanf(p, "-%5d-of-%5d", number, count) == 2;
}

/* An integer key of a parsed GGUF file; -1 when it is absent or not one. */
static int64_t gguf_setting(const gguf_file *g, const char *key)
{
    int64_t n = -1;
    for (size_t i = 0; i < g->value_count; i++)
        if (strcmp(g->values[i].key, key) == 0 && !g->values[i].array)
            gguf_get_int(&g->values[i], 0, &n);
    return n;
}

/* Maps and parses shard i of count; path names any of them. */
static int open_shard(model_file *f, const char *path, int i, int count, gguf_file *g, foray_error *err)
{
    size_t prefix = 0, bytes = strlen(path) + 1;
    int number = 0, of = 0;
    char *name = arena_strndup(&f->a, path, bytes - 1);
    if (!name)
        return no_memory(f, err);
    if (count > 1) {
        shard_name(path, &prefix, &number, &of);
        snprintf(name + prefix, bytes - prefix, "-%05d-of-%05d.gguf", i + 1, count);
    }
    int rc = map_file(f, name, err);
    if (rc < 0)
        return rc;
    const file_map *map = &f->maps[f->map_count - 1];
    rc = gguf_parse(map->data, map->size, map->path, &f->a, g, err);
    if (rc < 0)
        return rc;
    int64_t said = gguf_setting(g, "split.count"), which = gguf_setting(g, "split.no");
    if ((said > 1 || count > 1) && (said != count || which != i))
        return fail(err, FORAY_EFILE,
                    "%s: says it is shard %" PRId64 " of %" PRId64 ", expected %d of %d (keep the names "
                    "that the shards were published under: NAME-00001-of-0000N.gguf)",
                    map->path, which + 1, said, i + 1, count);
    return 0;
}

static int open_gguf(model_file *f, const char *path, foray_error *err)
{
    size_t prefix = 0;
    int number = 1, count = 1;
    if (!shard_name(path, &prefix, &number, &count))
        count = 1;
    if (count < 1 || count > MAX_FILES || number < 1 || number > count)
        return fail(err, FORAY_EFILE, "%s: its name says shard %d of %d, which cannot be", path, number,
                    count);
    f->maps = arena_array(&f->a, (size_t)count, sizeof *f->maps);
    tensor_view **parts = arena_array(&f->a, (size_t)count, sizeof *parts);
    size_t *lengths = arena_array(&f->a, (size_t)count, sizeof *lengths);
    if (!f->maps || !parts || !lengths)
        return no_memory(f, err);
    for (int i = 0; i < count; i++) {
        gguf_file g;
        int rc = open_shard(f, path, i, count, &g, err);
        if (rc < 0)
            return rc;
        parts[i] = g.tensors;
        lengths[i] = g.tensor_count;
        if (i == 0)
            f->gguf = g;
    }
    int rc = gather(f, parts, lengths, (size_t)count, err);
    if (rc < 0)
        return rc;
    int64_t promised = gguf_setting(&f->gguf, "split.tensors.count");
    if (count > 1 && promised >= 0 && (uint64_t)promised != f->tensor_count)
        return fail(err, FORAY_EFILE,
                    "%s: its shards hold %zu tensors, key split.tensors.count says %" PRId64, path,
                    f->tensor_count, promised);
    if (!name_index_init(&f->key_index, &f->a, f->gguf.value_count + 1))
        return no_memory(f, err);
    for (size_t i = 0; i < f->gguf.value_count; i++)
        name_index_add(&f->key_index, f->gguf.values[i].key);
    const char *twice = name_index_finish(&f->key_index);
    return twice ? fail(err, FORAY_EFILE, "%s: key %s: is there twice (damaged file?)", path, twice) : 0;
}

/* What the index promises must be there, and nothing else: a stale index would mix two models. */
static int check_index(const model_file *f, foray_error *err)
{
    const char *name;
    if (!hf_index_at(f->hf, 0))
        return 0;
    for (size_t i = 0; (name = hf_index_at(f->hf, i)) != NULL; i++) {
        const char *path = hf_shard_path(f->hf, (size_t)hf_shard_of(f->hf, name));
        const tensor_view *v = model_file_tensor(f, name);
        if (!v || strcmp(v->file, path) != 0)
            return fail(err, FORAY_EFILE,
                        "%s: tensor %s: %s says it is here, but it is not (download the file and its index "
                        "again)",
                        path, name, hf_index_file(f->hf));
    }
    for (size_t i = 0; i < f->tensor_count; i++)
        if (hf_shard_of(f->hf, f->tensors[i].name) < 0)
            return fail(err, FORAY_EFILE,
                        "%s: tensor %s: %s does not list it (download the file and its index again)",
                        f->tensors[i].file, f->tensors[i].name, hf_index_file(f->hf));
    return 0;
}

static int open_hf(model_file *f, const char *path, foray_error *err)
{
    int rc = hf_open(path, &f->a, &f->hf, err);
    if (rc < 0)
        return rc;
    size_t count = hf_shard_count(f->hf);
    f->maps = arena_array(&f->a, count, sizeof *f->maps);
    tensor_view **parts = arena_array(&f->a, count, sizeof *parts);
    size_t *lengths = arena_array(&f->a, count, sizeof *lengths);
    if (!f->maps || !parts || !lengths)
        return no_memory(f, err);
    for (size_t i = 0; i < count; i++) {
        rc = map_file(f, hf_shard_path(f->hf, i), err);
        if (rc < 0)
            return rc;
        const file_map *map = &f->maps[i];
        rc = safetensors_parse(map->data, map->size, map->path, &f->a, &parts[i], &lengths[i], err);
        if (rc < 0)
            return rc;
    }
    rc = gather(f, parts, lengths, count, err);
    return rc < 0 ? rc : check_index(f, err);
}

int model_file_open(const char *path, model_file **out, foray_error *err)
{
    arena a;
    arena_init(&a, MEM_GENERAL, 0);
    model_file *f = arena_alloc(&a, sizeof *f);
    if (!f) {
        arena_free(&a);
        return fail(err, FORAY_ENOMEM, "%s: no memory to open it", path);
    }
    f->a = a;
    f->path = arena_strndup(&f->a, path, strlen(path));
    int rc;
    if (!f->path) {
        rc = fail(err, FORAY_ENOMEM, "%s: no memory to open it", path);
    } else if (file_is_folder(path)) {
        f->kind = MODEL_FILE_HF;
        rc = open_hf(f, f->path, err);
    } else {
        f->kind = MODEL_FILE_GGUF;
        rc = open_gguf(f, f->path, err);
    }
    if (rc < 0)
        model_file_close(f);
    else
        *out = f;
    return rc;
}

void model_file_rest(const model_file *f)
{
    for (int i = 0; i < (int)f->map_count; i++)
        file_map_rest(&f->maps[i]);
}

void model_file_close(model_file *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->map_count; i++)
        file_unmap(&f->maps[i]);
    if (f->hf)
        hf_close(f->hf);
    arena a = f->a; /* f itself lies in it */
    arena_free(&a);
}

/* Tensors ----------------------------------------------------------------------------------------- */

model_file_kind model_file_get_kind(const model_file *f)
{
    return f->kind;
}

const char *model_file_path(const model_file *f)
{
    return f->path;
}

size_t model_file_tensor_count(const model_file *f)
{
    return f->tensor_count;
}

const tensor_view *model_file_tensor_at(const model_file *f, size_t i)
{
    assert(i < f->tensor_count);
    return &f->tensors[i];
}

const tensor_view *model_file_tensor(const model_file *f, const char *name)
{
    int64_t i = name_index_find(&f->tensor_index, name);
    return i < 0 ? NULL : &f->tensors[i];
}

bool model_file_described(const model_file *f)
{
    return f->hf && hf_described(f->hf);
}

const char *model_file_scheme(const model_file *f, const char *tensor)
{
    return f->hf ? hf_scheme(f->hf, tensor) : NULL;
}

uint64_t model_file_checksum(const model_file *f)
{
    uint64_t sum = 0; /* each hash is the next one's seed */
    for (size_t i = 0; i < f->tensor_count; i++) {
        const tensor_view *v = &f->tensors[i];
        sum = XXH3_64bits_withSeed(v->name, strlen(v->name) + 1, sum);
        sum = XXH3_64bits_withSeed(v->type_name, strlen(v->type_name) + 1, sum);
        sum = XXH3_64bits_withSeed(v->shape, sizeof v->shape, sum);
        sum = XXH3_64bits_withSeed(v->data, (size_t)v->bytes, sum);
    }
    return sum;
}

/* Settings ---------------------------------------------------------------------------------------- */

static const gguf_value *gguf_find(const model_file *f, const char *key)
{
    int64_t i = name_index_find(&f->key_index, key);
    return i < 0 ? NULL : &f->gguf.values[i];
}

/* A single value, not an array. */
static const gguf_value *gguf_single(const model_file *f, const char *key)
{
    const gguf_value *v = gguf_find(f, key);
    return v && !v->array ? v : NULL;
}

static const gguf_value *gguf_list(const model_file *f, const char *key)
{
    const gguf_value *v = gguf_find(f, key);
    return v && v->array ? v : NULL;
}

bool model_file_int(const model_file *f, const char *key, int64_t *out)
{
    if (f->hf)
        return hf_int(f->hf, key, -1, out);
    const gguf_value *v = gguf_single(f, key);
    return v && gguf_get_int(v, 0, out);
}

bool model_file_float(const model_file *f, const char *key, double *out)
{
    if (f->hf)
        return hf_float(f->hf, key, -1, out);
    const gguf_value *v = gguf_single(f, key);
    return v && gguf_get_float(v, 0, out);
}

bool model_file_bool(const model_file *f, const char *key, bool *out)
{
    if (f->hf)
        return hf_bool(f->hf, key, -1, out);
    const gguf_value *v = gguf_single(f, key);
    return v && gguf_get_bool(v, 0, out);
}

bool model_file_string(const model_file *f, const char *key, const char **out, size_t *bytes)
{
    if (f->hf)
        return hf_string(f->hf, key, -1, out, bytes);
    const gguf_value *v = gguf_single(f, key);
    return v && gguf_get_string(v, 0, out, bytes);
}

bool model_file_array(const model_file *f, const char *key, size_t *count)
{
    if (f->hf)
        return hf_array(f->hf, key, count);
    const gguf_value *v = gguf_list(f, key);
    if (!v)
        return false;
    *count = (size_t)v->count;
    return true;
}

bool model_file_array_int(const model_file *f, const char *key, size_t i, int64_t *out)
{
    if (f->hf)
        return i <= INT64_MAX && hf_int(f->hf, key, (int64_t)i, out);
    const gguf_value *v = gguf_list(f, key);
    return v && gguf_get_int(v, i, out);
}

bool model_file_array_float(const model_file *f, const char *key, size_t i, double *out)
{
    if (f->hf)
        return i <= INT64_MAX && hf_float(f->hf, key, (int64_t)i, out);
    const gguf_value *v = gguf_list(f, key);
    return v && gguf_get_float(v, i, out);
}

bool model_file_array_bool(const model_file *f, const char *key, size_t i, bool *out)
{
    if (f->hf)
        return i <= INT64_MAX && hf_bool(f->hf, key, (int64_t)i, out);
    const gguf_value *v = gguf_list(f, key);
    return v && gguf_get_bool(v, i, out);
}

bool model_file_array_string(const model_file *f, const char *key, size_t i, const char **out, size_t *bytes)
{
    if (f->hf)
        return i <= INT64_MAX && hf_string(f->hf, key, (int64_t)i, out, bytes);
    const gguf_value *v = gguf_list(f, key);
    return v && gguf_get_string(v, i, out, bytes);
}

const char *model_file_key_at(const model_file *f, size_t i)
{
    if (f->hf)
        return hf_key_at(f->hf, i);
    return i < f->gguf.value_count ? f->gguf.values[i].key : NULL;
}

const char *model_file_key_type(const model_file *f, const char *key)
{
    static const char *const lists[GGUF_TYPES] = {
        [GGUF_U8] = "array of uint8",    [GGUF_I8] = "array of int8",    [GGUF_U16] = "array of uint16",
        [GGUF_I16] = "array of int16",   [GGUF_U32] = "array of uint32", [GGUF_I32] = "array of int32",
        [GGUF_F32] = "array of float32", [GGUF_BOOL] = "array of bool",  [GGUF_STRING] = "array of string",
        [GGUF_U64] = "array of uint64",  [GGUF_I64] = "array of int64",  [GGUF_F64] = "array of float64",
    };
    if (f->hf)
        return hf_key_type(f->hf, key);
    const gguf_value *v = gguf_find(f, key);
    return !v ? NULL : v->array ? lists[v->type] : gguf_type_name(v->type);
}

bool model_file_key_is_null(const model_file *f, const char *key)
{
    return f->hf && hf_key_is_null(f->hf, key);
}

const char *model_file_tokenizer_json(const model_file *f, size_t *bytes)
{
    *bytes = 0;
    return f->hf ? hf_tokenizer_json(f->hf, bytes) : NULL;
}

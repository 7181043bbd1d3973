/* gguf.c: the GGUF reader.
 *
 *   "GGUF" | version u32 | tensors u64 | keys u64
 *   keys:     name string | type u32 | value          string = length u64, bytes; array = type u32, count u64, …
 *   tensors:  name string | dims u32 | dim u64 × dims (innermost first) | type u32 | offset u64 (from data)
 *   padding to the alignment | data
 *
 * `walk` reads all of it; with tables it fills them, without it only checks and counts. Nothing is trusted
 * before it has been compared with what is left of the file.
 * Threads: any.
 */
#include "format/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ENTRIES = 65536, MAX_NAME = 65535, MAX_ALIGNMENT = 65536, DEFAULT_ALIGNMENT = 32 };

typedef struct {
    const uint8_t *bytes;
    size_t size, at;
    const char *path;
    foray_error *err;
} reader;

/* What the first walk counts and the second one fills. */
typedef struct {
    uint64_t tensor_count, value_count, alignment, data_offset;
    uint32_t version;
    size_t name_bytes;   /* of all keys, tensor names and unknown types' names, with NULs */
    size_t string_count; /* elements of all arrays of strings */
    /* NULL in the first walk; each points at what is still free */
    char *names;
    uint64_t *offsets;
    gguf_value *values;
    tensor_view *tensors;
} tables;

static const struct {
    const char *name;
    size_t bytes; /* 0: string or array */
} value_types[GGUF_TYPES] = {
    [GGUF_U8] = { "uint8", 1 },    [GGUF_I8] = { "int8", 1 },    [GGUF_U16] = { "uint16", 2 },
    [GGUF_I16] = { "int16", 2 },   [GGUF_U32] = { "uint32", 4 }, [GGUF_I32] = { "int32", 4 },
    [GGUF_F32] = { "float32", 4 }, [GGUF_BOOL] = { "bool", 1 },  [GGUF_STRING] = { "string", 0 },
    [GGUF_ARRAY] = { "array", 0 }, [GGUF_U64] = { "uint64", 8 }, [GGUF_I64] = { "int64", 8 },
    [GGUF_F64] = { "float64", 8 },
};

/* Tensor types by number. Those without a dtype can be listed, not used; their sizes are checked all the same. */
static const struct {
    const char *name;
    dtype type;
    int block, bytes;
} tensor_types[] = {
    [0] = { "F32", DTYPE_F32, 1, 4 },
    [1] = { "F16", DTYPE_F16, 1, 2 },
    [2] = { "Q4_0", DTYPE_Q4_0, 32, 18 },
    [3] = { "Q4_1", DTYPE_Q4_1, 32, 20 },
    [6] = { "Q5_0", DTYPE_Q5_0, 32, 22 },
    [7] = { "Q5_1", DTYPE_Q5_1, 32, 24 },
    [8] = { "Q8_0", DTYPE_Q8_0, 32, 34 },
    [9] = { "Q8_1", DTYPE_UNKNOWN, 32, 36 },
    [10] = { "Q2_K", DTYPE_UNKNOWN, 256, 84 },
    [11] = { "Q3_K", DTYPE_UNKNOWN, 256, 110 },
    [12] = { "Q4_K", DTYPE_Q4_K, 256, 144 },
    [13] = { "Q5_K", DTYPE_Q5_K, 256, 176 },
    [14] = { "Q6_K", DTYPE_Q6_K, 256, 210 },
    [15] = { "Q8_K", DTYPE_UNKNOWN, 256, 292 },
    [16] = { "IQ2_XXS", DTYPE_UNKNOWN, 256, 66 },
    [17] = { "IQ2_XS", DTYPE_UNKNOWN, 256, 74 },
    [18] = { "IQ3_XXS", DTYPE_UNKNOWN, 256, 98 },
    [19] = { "IQ1_S", DTYPE_UNKNOWN, 256, 50 },
    [20] = { "IQ4_NL", DTYPE_UNKNOWN, 32, 18 },
    [21] = { "IQ3_S", DTYPE_UNKNOWN, 256, 110 },
    [22] = { "IQ2_S", DTYPE_UNKNOWN, 256, 82 },
    [23] = { "IQ4_XS", DTYPE_UNKNOWN, 256, 136 },
    [24] = { "I8", DTYPE_I8, 1, 1 },
    [25] = { "I16", DTYPE_UNKNOWN, 1, 2 },
    [26] = { "I32", DTYPE_I32, 1, 4 },
    [27] = { "I64", DTYPE_I64, 1, 8 },
    [28] = { "F64", DTYPE_UNKNOWN, 1, 8 },
    [29] = { "IQ1_M", DTYPE_UNKNOWN, 256, 56 },
    [30] = { "BF16", DTYPE_BF16, 1, 2 },
    [34] = { "TQ1_0", DTYPE_UNKNOWN, 256, 54 },
    [35] = { "TQ2_0", DTYPE_UNKNOWN, 256, 66 },
    [39] = { "MXFP4", DTYPE_MXFP4, 32, 17 },
};

enum { TENSOR_TYPES = sizeof tensor_types / sizeof tensor_types[0] };

/* Arrays that the tokenizer reads: what their elements must be. Lengths must agree with the tokens'. */
static const struct {
    const char *key;
    gguf_type element, other; /* either */
    bool per_token;
} known_arrays[] = {
    { "tokenizer.ggml.tokens", GGUF_STRING, GGUF_STRING, true },
    { "tokenizer.ggml.merges", GGUF_STRING, GGUF_STRING, false },
    { "tokenizer.ggml.scores", GGUF_F32, GGUF_F64, true },
    { "tokenizer.ggml.token_type", GGUF_I32, GGUF_U32, true },
};

const char *gguf_type_name(gguf_type type)
{
    return value_types[type].name;
}

/* Reading ---------------------------------------------------------------------------------------- */

static uint64_t little(const uint8_t *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* Steps over bytes, or reports that the file ends inside `what`. name may be NULL. */
static int skip(reader *r, uint64_t bytes, const char *what, const char *name)
{
    if (bytes > r->size - r->at)
        return fail(r->err, FORAY_EFILE,
                    "%s: byte %zu: %s%s%s needs %" PRIu64
                    " bytes, but the file has %zu left (truncated download?)",
                    r->path, r->at, what, name ? " " : "", name ? name : "", bytes, r->size - r->at);
    r->at += (size_t)bytes;
    return 0;
}

static int read_number(reader *r, size_t bytes, const char *what, const char *name, uint64_t *out)
{
    int rc = skip(r, bytes, what, name);
    if (rc == 0)
        *out = little(r->bytes + r->at - bytes, bytes);
    return rc;
}

/* Reads a name and copies it, ending in NUL, to t->names in the second walk. In the first one *out is a copy in
 * scratch, cut to fit, for messages. */
static int read_name(reader *r, tables *t, const char *what, char scratch[64], const char **out)
{
    uint64_t bytes = 0;
    int rc = read_number(r, 8, what, NULL, &bytes);
    if (rc < 0)
        return rc;
    if (bytes == 0 || bytes > MAX_NAME)
        return fail(r->err, FORAY_EFILE,
                    "%s: byte %zu: a %s of %" PRIu64 " bytes; 1 to %d are possible (damaged file?)", r->path,
                    r->at - 8, what, bytes, MAX_NAME);
    rc = skip(r, bytes, what, NULL);
    if (rc < 0)
        return rc;
    const uint8_t *text = r->bytes + r->at - bytes;
    if (memchr(text, 0, (size_t)bytes))
        return fail(r->err, FORAY_EFILE, "%s: byte %zu: a %s with a zero byte in it (damaged file?)", r->path,
                    r->at - (size_t)bytes, what);
    if (t->names) {
        memcpy(t->names, text, (size_t)bytes);
        t->names[bytes] = 0;
        *out = t->names;
        t->names += bytes + 1;
    } else {
        size_t shown = bytes < 63 ? (size_t)bytes : 63;
        memcpy(scratch, text, shown);
        scratch[shown] = 0;
        *out = scratch;
        t->name_bytes += (size_t)bytes + 1;
    }
    return 0;
}

/* Keys and values -------------------------------------------------------------------------------- */

static int check_bools(reader *r, const uint8_t *data, uint64_t count, const char *key)
{
    for (uint64_t i = 0; i < count; i++)
        if (data[i] > 1)
            return fail(r->err, FORAY_EFILE, "%s: key %s: %d is not a bool (damaged file?)", r->path, key,
                        data[i]);
    return 0;
}

static int read_string_array(reader *r, tables *t, const char *key, gguf_value *v)
{
    size_t start = r->at;
    if (v->count > (r->size - r->at) / 8) /* each has a length at least */
        return fail(r->err, FORAY_EFILE,
                    "%s: key %s: an array of %" PRIu64
                    " strings in the %zu bytes that are left (damaged file?)",
                    r->path, key, v->count, r->size - r->at);
    if (t->offsets) {
        v->at = t->offsets;
        t->offsets += v->count;
    } else {
        t->string_count += (size_t)v->count;
    }
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t bytes = 0;
        if (t->offsets)
            ((uint64_t *)v->at)[i] = r->at - start;
        int rc = read_number(r, 8, "a string in", key, &bytes);
        if (rc == 0)
            rc = skip(r, bytes, "a string in", key);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_array(reader *r, tables *t, const char *key, gguf_value *v)
{
    uint64_t type = 0;
    int rc = read_number(r, 4, "the element type of", key, &type);
    if (rc == 0)
        rc = read_number(r, 8, "the length of", key, &v->count);
    if (rc < 0)
        return rc;
    if (type >= GGUF_TYPES || type == GGUF_ARRAY)
        return fail(r->err, FORAY_EFILE,
                    "%s: key %s: an array of elements of type %" PRIu64 "%s (damaged file?)", r->path, key,
                    type, type == GGUF_ARRAY ? ", arrays" : ", which is not known");
    v->array = true;
    v->type = (gguf_type)type;
    v->data = r->bytes + r->at;
    if (type == GGUF_STRING)
        return read_string_array(r, t, key, v);
    size_t each = value_types[type].bytes;
    if (v->count > (r->size - r->at) / each)
        return fail(r->err, FORAY_EFILE,
                    "%s: key %s: an array of %" PRIu64 " %s in the %zu bytes that are left (damaged file?)",
                    r->path, key, v->count, value_types[type].name, r->size - r->at);
    r->at += (size_t)v->count * each;
    return type == GGUF_BOOL ? check_bools(r, v->data, v->count, key) : 0;
}

static int read_value(reader *r, tables *t)
{
    char scratch[64];
    gguf_value v = { .count = 1 };
    uint64_t type = 0;
    int rc = read_name(r, t, "key", scratch, &v.key);
    if (rc == 0)
        rc = read_number(r, 4, "the type of key", v.key, &type);
    if (rc < 0)
        return rc;
    if (type >= GGUF_TYPES)
        return fail(r->err, FORAY_EFILE, "%s: key %s: type %" PRIu64 " is not known (damaged file?)", r->path,
                    v.key, type);
    v.type = (gguf_type)type;
    v.data = r->bytes + r->at;
    if (v.type == GGUF_ARRAY) {
        rc = read_array(r, t, v.key, &v);
    } else if (v.type == GGUF_STRING) {
        uint64_t bytes = 0;
        rc = read_number(r, 8, "the value of", v.key, &bytes);
        if (rc == 0)
            rc = skip(r, bytes, "the value of", v.key);
    } else {
        rc = skip(r, value_types[type].bytes, "the value of", v.key);
        if (rc == 0 && v.type == GGUF_BOOL)
            rc = check_bools(r, v.data, 1, v.key);
    }
    if (rc < 0)
        return rc;
    if (strcmp(v.key, "general.alignment") == 0) {
        int64_t n = 0;
        if (v.array || !gguf_get_int(&v, 0, &n))
            return fail(r->err, FORAY_EFILE, "%s: key general.alignment: has type %s%s, not uint32", r->path,
                        v.array ? "array of " : "", value_types[v.type].name);
        if (n < 8 || n > MAX_ALIGNMENT || (n & (n - 1)) != 0)
            return fail(r->err, FORAY_EFILE,
                        "%s: key general.alignment: %" PRId64
                        " is not a power of two from 8 to %d (damaged file?)",
                        r->path, n, MAX_ALIGNMENT);
        t->alignment = (uint64_t)n;
    }
    if (t->values)
        *t->values++ = v;
    return 0;
}

/* Tensors ---------------------------------------------------------------------------------------- */

/* Fills the view's type, and its bytes where the type's size is known (0 otherwise). */
static int read_tensor_type(reader *r, tables *t, tensor_view *v)
{
    uint64_t number = 0, elements = 1;
    int rc = read_number(r, 4, "the type of tensor", v->name, &number);
    if (rc < 0)
        return rc;
    for (int d = 0; d < v->dims; d++)
        if (__builtin_mul_overflow(elements, (uint64_t)v->shape[d], &elements) || elements > INT64_MAX)
            return fail(r->err, FORAY_EFILE, "%s: tensor %s: its dimensions overflow 63 bits (damaged file?)",
                        r->path, v->name);
    v->type = DTYPE_UNKNOWN;
    if (number >= TENSOR_TYPES || !tensor_types[number].name) {
        char text[32];
        int n = snprintf(text, sizeof text, "type %" PRIu64, number);
        if (t->names) {
            memcpy(t->names, text, (size_t)n + 1);
            v->type_name = t->names;
            t->names += n + 1;
        } else {
            t->name_bytes += (size_t)n + 1;
        }
        return 0;
    }
    v->type = tensor_types[number].type;
    v->type_name = tensor_types[number].name;
    uint64_t block = (uint64_t)tensor_types[number].block, row = (uint64_t)v->shape[v->dims - 1];
    if (row % block != 0)
        return fail(r->err, FORAY_EFILE,
                    "%s: tensor %s: rows of %" PRIu64 " elements are not whole blocks of %" PRIu64 " (%s)",
                    r->path, v->name, row, block, v->type_name);
    if (__builtin_mul_overflow(elements / block, (uint64_t)tensor_types[number].bytes, &v->bytes))
        return fail(r->err, FORAY_EFILE, "%s: tensor %s: its size overflows 64 bits (damaged file?)", r->path,
                    v->name);
    return 0;
}

/* *offset, from the start of the data section, cannot be checked before the table's end is known. */
static int read_tensor(reader *r, tables *t, char scratch[64], tensor_view *v, uint64_t *offset)
{
    uint64_t dims = 0;
    *v = (tensor_view) { .shape = { 1, 1, 1, 1 }, .file = r->path };
    int rc = read_name(r, t, "tensor name", scratch, &v->name);
    if (rc == 0)
        rc = read_number(r, 4, "the shape of tensor", v->name, &dims);
    if (rc < 0)
        return rc;
    if (dims < 1 || dims > 4)
        return fail(r->err, FORAY_EFILE,
                    "%s: tensor %s: has %" PRIu64 " dimensions; 1 to 4 are possible (damaged file?)", r->path,
                    v->name, dims);
    v->dims = (int)dims;
    for (int d = v->dims - 1; d >= 0; d--) { /* the file's first dimension is the innermost */
        uint64_t n = 0;
        rc = read_number(r, 8, "the shape of tensor", v->name, &n);
        if (rc < 0)
            return rc;
        if (n == 0 || n > INT64_MAX)
            return fail(r->err, FORAY_EFILE, "%s: tensor %s: a dimension is %" PRIu64 " (damaged file?)",
                        r->path, v->name, n);
        v->shape[d] = (int64_t)n;
    }
    rc = read_tensor_type(r, t, v);
    if (rc == 0)
        rc = read_number(r, 8, "the offset of tensor", v->name, offset);
    if (rc == 0 && *offset % t->alignment != 0)
        return fail(r->err, FORAY_EFILE,
                    "%s: tensor %s: offset %" PRIu64 " is not a multiple of the alignment %" PRIu64, r->path,
                    v->name, *offset, t->alignment);
    return rc;
}

/* The tensor table, from r->at. Without tables the data section's place is not known yet, so that
 * offsets are compared with each other only. */
static int read_tensors(reader *r, tables *t)
{
    uint64_t end = 0; /* of the tensor before, in the data section */
    for (uint64_t i = 0; i < t->tensor_count; i++) {
        char scratch[64];
        tensor_view v;
        uint64_t offset = 0;
        int rc = read_tensor(r, t, scratch, &v, &offset);
        if (rc < 0)
            return rc;
        if (offset < end)
            return fail(r->err, FORAY_EFILE,
                        "%s: tensor %s: starts at %" PRIu64
                        ", inside or before the one in front of it, which ends at %" PRIu64
                        " (damaged file?)",
                        r->path, v.name, offset, end);
        if (__builtin_add_overflow(offset, v.bytes, &end))
            return fail(r->err, FORAY_EFILE, "%s: tensor %s: its end overflows 64 bits (damaged file?)",
                        r->path, v.name);
        if (!t->tensors)
            continue;
        uint64_t room = r->size - t->data_offset;
        if (offset > room || v.bytes > room - offset)
            return fail(r->err, FORAY_EFILE,
                        "%s: tensor %s needs %" PRIu64 " bytes at %" PRIu64
                        ", but the file has %zu (truncated download?)",
                        r->path, v.name, v.bytes, t->data_offset + offset, r->size);
        v.data = r->bytes + t->data_offset + offset;
        *t->tensors++ = v;
    }
    return 0;
}

/* All ------------------------------------------------------------------------------------------- */

static int read_header(reader *r, tables *t)
{
    uint64_t version = 0;
    if (r->size < 4 || memcmp(r->bytes, "GGUF", 4) != 0)
        return fail(r->err, FORAY_EFILE,
                    "%s: does not begin with GGUF (give a GGUF file, or a Hugging Face folder)", r->path);
    r->at = 4;
    int rc = read_number(r, 4, "the version", NULL, &version);
    if (rc < 0)
        return rc;
    if (version != 2 && version != 3)
        return fail(r->err, FORAY_EUNSUPPORTED,
                    "%s: GGUF version %" PRIu64 "%s; foray reads 2 and 3, little-endian "
                    "(convert it with a current tool)",
                    r->path, version, version != 0 && version % 65536 == 0 ? " (a big-endian file)" : "");
    t->version = (uint32_t)version;
    rc = read_number(r, 8, "the number of tensors", NULL, &t->tensor_count);
    if (rc == 0)
        rc = read_number(r, 8, "the number of keys", NULL, &t->value_count);
    if (rc < 0)
        return rc;
    if (t->tensor_count > MAX_ENTRIES || t->value_count > MAX_ENTRIES)
        return fail(r->err, FORAY_ELIMIT,
                    "%s: announces %" PRIu64 " tensors and %" PRIu64 " keys; the limit is %d each "
                    "(damaged file?)",
                    r->path, t->tensor_count, t->value_count, MAX_ENTRIES);
    return 0;
}

/* Reads everything; fills the tables that t has. In the second walk t->data_offset is known already. */
static int walk(reader *r, tables *t)
{
    int rc = read_header(r, t);
    if (rc < 0)
        return rc;
    t->alignment = DEFAULT_ALIGNMENT;
    for (uint64_t i = 0; i < t->value_count; i++) {
        rc = read_value(r, t);
        if (rc < 0)
            return rc;
    }
    rc = read_tensors(r, t);
    if (rc < 0)
        return rc;
    uint64_t end = ((uint64_t)r->at + t->alignment - 1) & ~(t->alignment - 1);
    t->data_offset = end < r->size ? end : r->size; /* a file without tensor data may end unpadded */
    return 0;
}

/* The arrays that the tokenizer reads have their types and lengths (cases.md S04). */
static int check_known_arrays(const gguf_file *g, const char *path, foray_error *err)
{
    const gguf_value *tokens = NULL;
    for (size_t i = 0; i < g->value_count; i++)
        if (strcmp(g->values[i].key, known_arrays[0].key) == 0)
            tokens = &g->values[i];
    for (size_t i = 0; i < g->value_count; i++) {
        const gguf_value *v = &g->values[i];
        for (size_t k = 0; k < sizeof known_arrays / sizeof known_arrays[0]; k++) {
            if (strcmp(v->key, known_arrays[k].key) != 0)
                continue;
            if (!v->array || (v->type != known_arrays[k].element && v->type != known_arrays[k].other))
                return fail(err, FORAY_EFILE, "%s: key %s: has type %s%s, not array of %s", path, v->key,
                            v->array ? "array of " : "", value_types[v->type].name,
                            value_types[known_arrays[k].element].name);
            if (known_arrays[k].per_token && tokens && v->count != tokens->count)
                return fail(err, FORAY_EFILE, "%s: key %s: has %" PRIu64 " elements for %" PRIu64 " tokens",
                            path, v->key, v->count, tokens->count);
        }
    }
    return 0;
}

int gguf_parse(const uint8_t *bytes, size_t size, const char *path, arena *a, gguf_file *out,
               foray_error *err)
{
    reader r = { .bytes = bytes, .size = size, .path = path, .err = err };
    tables counted = { 0 };
    int rc = walk(&r, &counted);
    if (rc < 0)
        return rc;

    tables t = { .data_offset = counted.data_offset };
    t.names = arena_array(a, counted.name_bytes + 1, 1);
    t.offsets = arena_array(a, counted.string_count + 1, sizeof *t.offsets);
    t.values = arena_array(a, (size_t)counted.value_count + 1, sizeof *t.values);
    t.tensors = arena_array(a, (size_t)counted.tensor_count + 1, sizeof *t.tensors);
    if (!t.names || !t.offsets || !t.values || !t.tensors)
        return fail(err, FORAY_ENOMEM, "%s: no memory for its table of tensors and keys", path);
    gguf_file g = { .version = counted.version,
                    .alignment = counted.alignment,
                    .data_offset = counted.data_offset,
                    .value_count = (size_t)counted.value_count,
                    .tensor_count = (size_t)counted.tensor_count,
                    .values = t.values,
                    .tensors = t.tensors };
    r.at = 0;
    rc = walk(&r, &t);
    if (rc == 0)
        rc = check_known_arrays(&g, path, err);
    if (rc == 0)
        *out = g;
    return rc;
}

/* Values ----------------------------------------------------------------------------------------- */

bool gguf_get_int(const gguf_value *v, uint64_t i, int64_t *out)
{
    if (i >= v->count || v->type == GGUF_F32 || v->type == GGUF_F64 || v->type == GGUF_BOOL ||
        v->type == GGUF_STRING)
        return false;
    size_t each = value_types[v->type].bytes;
    uint64_t raw = little(v->data + i * each, each);
    switch (v->type) {
    case GGUF_I8:
        *out = (int8_t)raw;
        return true;
    case GGUF_I16:
        *out = (int16_t)raw;
        return true;
    case GGUF_I32:
        *out = (int32_t)raw;
        return true;
    case GGUF_U64:
        if (raw > INT64_MAX)
            return false;
        break;
    default:
        break;
    }
    *out = (int64_t)raw;
    return true;
}

bool gguf_get_float(const gguf_value *v, uint64_t i, double *out)
{
    int64_t whole;
    if (gguf_get_int(v, i, &whole)) {
        *out = (double)whole;
        return true;
    }
    if (i >= v->count)
        return false;
    if (v->type == GGUF_F32) {
        float f;
        memcpy(&f, v->data + i * 4, 4);
        *out = (double)f;
        return true;
    }
    if (v->type != GGUF_F64)
        return false;
    memcpy(out, v->data + i * 8, 8);
    return true;
}

bool gguf_get_bool(const gguf_value *v, uint64_t i, bool *out)
{
    if (i >= v->count || v->type != GGUF_BOOL)
        return false;
    *out = v->data[i] != 0;
    return true;
}

bool gguf_get_string(const gguf_value *v, uint64_t i, const char **out, size_t *bytes)
{
    if (i >= v->count || v->type != GGUF_STRING)
        return false;
    const uint8_t *p = v->data + (v->array ? v->at[i] : 0);
    *bytes = (size_t)little(p, 8);
    *out = (const char *)p + 8;
    return true;
}

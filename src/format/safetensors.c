/* safetensors.c: the safetensors reader.
 *
 *   header length u64 | header, JSON: { "name": { "dtype", "shape", "data_offsets": [begin, end] }, … } | data
 *
 * The header is parsed by jansson, which refuses duplicate names and bounds nesting; its tree lives only while
 * the views are being made. Offsets count from the start of the data.
 * Threads: any.
 */
#include "format/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static const struct {
    const char *name;
    dtype type;
    int bytes;
} types[] = {
    { "F32", DTYPE_F32, 4 },         { "F16", DTYPE_F16, 2 },         { "BF16", DTYPE_BF16, 2 },
    { "I32", DTYPE_I32, 4 },         { "I64", DTYPE_I64, 8 },         { "I8", DTYPE_I8, 1 },
    { "U8", DTYPE_U8, 1 },           { "BOOL", DTYPE_U8, 1 },         { "F64", DTYPE_UNKNOWN, 8 },
    { "I16", DTYPE_UNKNOWN, 2 },     { "U16", DTYPE_UNKNOWN, 2 },     { "U32", DTYPE_UNKNOWN, 4 },
    { "U64", DTYPE_UNKNOWN, 8 },     { "F8_E4M3", DTYPE_UNKNOWN, 1 }, { "F8_E5M2", DTYPE_UNKNOWN, 1 },
    { "F8_E8M0", DTYPE_UNKNOWN, 1 },
};

enum { TYPES = sizeof types / sizeof types[0] };

typedef struct {
    const char *path;
    const uint8_t *data; /* [bytes] the data section */
    uint64_t bytes;
    arena *a;
    foray_error *err;
} source;

static int read_shape(const source *s, const json_t *shape, tensor_view *v, uint64_t *elements)
{
    if (!json_is_array(shape))
        return fail(s->err, FORAY_EFILE, "%s: tensor %s: shape is not an array", s->path, v->name);
    size_t dims = json_array_size(shape);
    if (dims > 4)
        return fail(s->err, FORAY_EUNSUPPORTED, "%s: tensor %s: has %zu dimensions; foray knows up to 4",
                    s->path, v->name, dims);
    v->dims = (int)dims;
    *elements = 1;
    for (size_t d = 0; d < dims; d++) {
        const json_t *n = json_array_get(shape, d);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return fail(s->err, FORAY_EFILE,
                        "%s: tensor %s: dimension %zu is not a whole number of 0 or more", s->path, v->name,
                        d);
        v->shape[d] = json_integer_value(n);
        if (__builtin_mul_overflow(*elements, (uint64_t)v->shape[d], elements) || *elements > INT64_MAX)
            return fail(s->err, FORAY_EFILE, "%s: tensor %s: its dimensions overflow 63 bits", s->path,
                        v->name);
    }
    return 0;
}

static int read_offsets(const source *s, const json_t *offsets, tensor_view *v)
{
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !json_is_integer(b) ||
        !json_is_integer(e))
        return fail(s->err, FORAY_EFILE, "%s: tensor %s: data_offsets is not a pair of whole numbers",
                    s->path, v->name);
    json_int_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin)
        return fail(s->err, FORAY_EFILE,
                    "%s: tensor %s: data_offsets [%" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT
                    "] run backwards or below 0",
                    s->path, v->name, begin, end);
    if ((uint64_t)end > s->bytes)
        return fail(s->err, FORAY_EFILE,
                    "%s: tensor %s ends at byte %" JSON_INTEGER_FORMAT
                    " of the data, but the file has %" PRIu64 " (truncated download?)",
                    s->path, v->name, end, s->bytes);
    v->data = s->data + begin;
    v->bytes = (uint64_t)(end - begin);
    return 0;
}

/* Finds the type by name; checks bytes against shape where the type's size is known. */
static int read_type(const source *s, const json_t *name, uint64_t elements, tensor_view *v)
{
    if (!json_is_string(name))
        return fail(s->err, FORAY_EFILE, "%s: tensor %s: dtype is not a string", s->path, v->name);
    const char *text = json_string_value(name);
    v->type = DTYPE_UNKNOWN;
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(text, types[i].name) != 0)
            continue;
        v->type = types[i].type;
        v->type_name = types[i].name;
        uint64_t bytes = 0;
        if (__builtin_mul_overflow(elements, (uint64_t)types[i].bytes, &bytes) || bytes != v->bytes)
            return fail(s->err, FORAY_EFILE,
                        "%s: tensor %s: %" PRIu64 " elements of %s do not fill the %" PRIu64
                        " bytes of its data_offsets",
                        s->path, v->name, elements, text, v->bytes);
        return 0;
    }
    v->type_name = arena_strndup(s->a, text, strlen(text));
    return v->type_name ? 0 : fail(s->err, FORAY_ENOMEM, "%s: no memory for its tensors", s->path);
}

static int read_entry(const source *s, const char *name, const json_t *entry, tensor_view *v)
{
    *v = (tensor_view) { .name = name, .file = s->path, .shape = { 1, 1, 1, 1 } };
    uint64_t elements = 0;
    if (!json_is_object(entry))
        return fail(s->err, FORAY_EFILE, "%s: tensor %s: its entry in the header is not an object", s->path,
                    name);
    int rc = read_shape(s, json_object_get(entry, "shape"), v, &elements);
    if (rc == 0)
        rc = read_offsets(s, json_object_get(entry, "data_offsets"), v);
    if (rc == 0)
        rc = read_type(s, json_object_get(entry, "dtype"), elements, v);
    return rc;
}

/* Heap order by start, then by end, so that empty tensors come before what starts at the same place. */
static bool before(const tensor_view *x, const tensor_view *y)
{
    return x->data != y->data ? (const uint8_t *)x->data < (const uint8_t *)y->data : x->bytes < y->bytes;
}

static void sink(const tensor_view **v, size_t i, size_t count)
{
    const tensor_view *moving = v[i];
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && before(v[child], v[child + 1]))
            child++;
        if (!before(moving, v[child]))
            break;
        v[i] = v[child];
    }
    v[i] = moving;
}

/* The tensors, in order of place, must cover the data exactly. */
static int check_cover(const source *s, const tensor_view *tensors, size_t count)
{
    const tensor_view **v = arena_array(s->a, count + 1, sizeof *v);
    if (!v)
        return fail(s->err, FORAY_ENOMEM, "%s: no memory for its tensors", s->path);
    for (size_t i = 0; i < count; i++)
        v[i] = &tensors[i];
    for (size_t i = count / 2; i-- > 0;)
        sink(v, i, count);
    for (size_t end = count; end-- > 1;) {
        const tensor_view *largest = v[0];
        v[0] = v[end];
        v[end] = largest;
        sink(v, 0, end);
    }
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = (uint64_t)((const uint8_t *)v[i]->data - s->data);
        if (begin != end)
            return fail(s->err, FORAY_EFILE,
                        "%s: tensor %s begins at byte %" PRIu64 " of the data, but the one before "
                        "it ends at %" PRIu64 " (%s)",
                        s->path, v[i]->name, begin, end,
                        begin < end ? "overlap: damaged file?" : "gap: damaged file?");
        end = begin + v[i]->bytes;
    }
    if (end != s->bytes)
        return fail(s->err, FORAY_EFILE,
                    "%s: its tensors end at byte %" PRIu64 " of the data, the file at %" PRIu64
                    " (damaged file?)",
                    s->path, end, s->bytes);
    return 0;
}

static int read_header(const uint8_t *bytes, size_t size, const char *path, json_t **header, size_t *data_at,
                       foray_error *err)
{
    if (size < 8)
        return fail(err, FORAY_EFILE, "%s: has %zu bytes: too short for a safetensors file", path, size);
    uint64_t length = 0;
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)bytes[i] << 8 * i;
    if (length > SAFETENSORS_MAX_HEADER)
        return fail(err, FORAY_EFILE,
                    "%s: announces a header of %" PRIu64 " bytes; the limit is %d (not a safetensors "
                    "file?)",
                    path, length, SAFETENSORS_MAX_HEADER);
    if (length > size - 8)
        return fail(err, FORAY_EFILE,
                    "%s: announces a header of %" PRIu64 " bytes, but the file has %zu (truncated "
                    "download?)",
                    path, length, size);
    json_error_t fault;
    *header = json_loadb((const char *)bytes + 8, (size_t)length, JSON_REJECT_DUPLICATES, &fault);
    if (!*header)
        return fail(err, FORAY_EFILE, "%s: header, byte %d: %s", path, 8 + fault.position, fault.text);
    *data_at = 8 + (size_t)length;
    return 0;
}

int safetensors_parse(const uint8_t *bytes, size_t size, const char *path, arena *a, tensor_view **tensors,
                      size_t *count, foray_error *err)
{
    json_t *header = NULL;
    size_t data_at = 0, n = 0;
    int rc = read_header(bytes, size, path, &header, &data_at, err);
    if (rc < 0)
        return rc;
    source s = { .path = path, .data = bytes + data_at, .bytes = size - data_at, .a = a, .err = err };
    tensor_view *list = NULL;
    const char *key;
    json_t *entry;
    if (!json_is_object(header)) {
        rc = fail(err, FORAY_EFILE, "%s: its header is not a JSON object", path);
        goto done;
    }
    list = arena_array(a, json_object_size(header) + 1, sizeof *list);
    if (!list) {
        rc = fail(err, FORAY_ENOMEM, "%s: no memory for its tensors", path);
        goto done;
    }
    json_object_foreach(header, key, entry)
    {
        if (strcmp(key, "__metadata__") == 0)
            continue;
        const char *name = arena_strndup(a, key, strlen(key));
        rc = name ? read_entry(&s, name, entry, &list[n]) : fail(err, FORAY_ENOMEM, "%s: no memory", path);
        if (rc < 0)
            goto done;
        n++;
    }
    rc = check_cover(&s, list, n);
    if (rc == 0) {
        *tensors = list;
        *count = n;
    }
done:
    json_decref(header);
    return rc;
}

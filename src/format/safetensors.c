/* safetensors.c: the safetensors reader.
 *
 *   header length u64 | header, JSON: { "name": { "dtype", "shape", "data_offsets": [begin, end] }, … } | data
 *
 * Offsets count from the start of the data. As with GGUF, the header is walked twice: once checking everything and
 * counting, and once filling views, so that no header, however large, costs more memory than its views.
 * Threads: any.
 */
#include "format/safetensors.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_reader.h"
#include "format/name_index.h"

static const struct {
    const char *name;
    dtype type;
    int bytes;
} types[] = {
    { "F32", DTYPE_F32, 4 },         { "F16", DTYPE_F16, 2 },         { "BF16", DTYPE_BF16, 2 },
    { "I32", DTYPE_I32, 4 },         { "I64", DTYPE_I64, 8 },         { "I8", DTYPE_I8, 1 },
    { "U8", DTYPE_U8, 1 },           { "BOOL", DTYPE_U8, 1 },         { "F64", DTYPE_UNKNOWN, 8 },
    { "I16", DTYPE_UNKNOWN, 2 },     { "U16", DTYPE_UNKNOWN, 2 },     { "U32", DTYPE_UNKNOWN, 4 },
    { "U64", DTYPE_UNKNOWN, 8 },     { "F8_E4M3", DTYPE_F8_E4M3, 1 }, { "F8_E5M2", DTYPE_UNKNOWN, 1 },
    { "F8_E8M0", DTYPE_F8_E8M0, 1 },
};

enum { TYPES = sizeof types / sizeof types[0], MAX_NAME = 65535, MAX_DEPTH = 16, SHOWN = 64 };

typedef struct {
    const char *path;
    const uint8_t *data; /* [bytes] the data section */
    uint64_t bytes;
    json_reader r;
    foray_error *err;
    /* Counted by the first walk. */
    size_t count, name_bytes;
    /* NULL in the first walk; each points at what is still free. */
    tensor_view *tensors;
    char *names;
    char shown[SHOWN]; /* first walk: the current name, cut to fit, for messages */
} source;

/* The text of the last token, ending in NUL: kept in the second walk, in s->shown in the first one. */
static int read_text(source *s, const char *what, const char **out)
{
    json_reader *r = &s->r;
    if (r->bytes == 0 || r->bytes > MAX_NAME)
        return fail(s->err, FORAY_EFILE, "%s: byte %zu: a %s of %zu bytes; 1 to %d are possible", s->path,
                    r->offset, what, r->bytes, MAX_NAME);
    s->name_bytes += r->bytes + 1;
    char *text = s->names ? s->names : s->shown;
    size_t bytes = SHOWN - 1;
    if (s->names || r->bytes < SHOWN)
        bytes = json_reader_unescape(r, text);
    else
        memcpy(text, r->text, bytes);
    text[bytes] = 0;
    if (strlen(text) != bytes)
        return fail(s->err, FORAY_EFILE, "%s: byte %zu: a %s with a zero byte in it", s->path, r->offset,
                    what);
    if (s->names)
        s->names += bytes + 1;
    *out = text;
    return 0;
}

static int read_shape(source *s, tensor_view *v, uint64_t *elements)
{
    json_reader *r = &s->r;
    int dims = 0;
    if (json_reader_next(r) != JR_ARRAY)
        return fail(s->err, FORAY_EFILE, "%s: tensor %s: shape is not an array", s->path, v->name);
    *elements = 1;
    for (json_kind kind; (kind = json_reader_next(r)) != JR_ARRAY_END; dims++) {
        if (kind == JR_ERROR)
            return json_reader_error(r, s->err);
        if (kind != JR_NUMBER || !r->whole || r->integer < 0)
            return fail(s->err, FORAY_EFILE, "%s: tensor %s: dimension %d is not a whole number of 0 or more",
                        s->path, v->name, dims);
        if (dims == 4)
            return fail(s->err, FORAY_EUNSUPPORTED, "%s: tensor %s: has more than 4 dimensions", s->path,
                        v->name);
        v->shape[dims] = r->integer;
        if (__builtin_mul_overflow(*elements, (uint64_t)r->integer, elements) || *elements > INT64_MAX)
            return fail(s->err, FORAY_EFILE, "%s: tensor %s: its dimensions overflow 63 bits", s->path,
                        v->name);
    }
    v->dims = dims;
    return 0;
}

static int read_offsets(source *s, tensor_view *v)
{
    json_reader *r = &s->r;
    int64_t at[2] = { 0, 0 };
    bool pair = json_reader_next(r) == JR_ARRAY;
    for (int i = 0; i < 2 && pair; i++) {
        pair = json_reader_next(r) == JR_NUMBER && r->whole;
        at[i] = r->integer;
    }
    if (!pair || json_reader_next(r) != JR_ARRAY_END)
        return r->kind == JR_ERROR
                   ? json_reader_error(r, s->err)
                   : fail(s->err, FORAY_EFILE, "%s: tensor %s: data_offsets is not a pair of whole numbers",
                          s->path, v->name);
    if (at[0] < 0 || at[1] < at[0])
        return fail(s->err, FORAY_EFILE,
                    "%s: tensor %s: data_offsets [%" PRId64 ", %" PRId64 "] run backwards or below 0",
                    s->path, v->name, at[0], at[1]);
    if ((uint64_t)at[1] > s->bytes)
        return fail(s->err, FORAY_EFILE,
                    "%s: tensor %s ends at byte %" PRId64 " of the data, but the file has %" PRIu64
                    " (truncated download?)",
                    s->path, v->name, at[1], s->bytes);
    v->data = s->data + at[0];
    v->bytes = (uint64_t)(at[1] - at[0]);
    return 0;
}

/* Finds the type by name. *each: bytes per element, 0 where that is not known. */
static int read_type(source *s, tensor_view *v, int *each)
{
    json_reader *r = &s->r;
    if (json_reader_next(r) != JR_STRING)
        return fail(s->err, FORAY_EFILE, "%s: tensor %s: dtype is not a string", s->path, v->name);
    for (int i = 0; i < TYPES; i++) {
        if (json_reader_is(r, types[i].name)) {
            v->type = types[i].type;
            v->type_name = types[i].name;
            *each = types[i].bytes;
            return 0;
        }
    }
    v->type = DTYPE_UNKNOWN;
    *each = 0;
    if (s->names)
        return read_text(s, "type", &v->type_name);
    char shown[SHOWN]; /* keep the tensor's name for messages */
    memcpy(shown, s->shown, SHOWN);
    int rc = read_text(s, "type", &v->type_name);
    memcpy(s->shown, shown, SHOWN);
    return rc;
}

static int read_field(source *s, tensor_view *v, uint64_t *elements, int *each, unsigned *seen)
{
    static const char *const fields[] = { "dtype", "shape", "data_offsets" };
    for (unsigned i = 0; i < 3; i++) {
        if (!json_reader_is(&s->r, fields[i]))
            continue;
        if (*seen & 1u << i)
            return fail(s->err, FORAY_EFILE, "%s: tensor %s: %s is there twice", s->path, v->name, fields[i]);
        *seen |= 1u << i;
        return i == 0 ? read_type(s, v, each) : i == 1 ? read_shape(s, v, elements) : read_offsets(s, v);
    }
    return json_reader_skip(&s->r) ? 0 : json_reader_error(&s->r, s->err);
}

/* The value of a tensor's key. */
static int read_entry(source *s, tensor_view *v)
{
    uint64_t elements = 0, bytes = 0;
    unsigned seen = 0;
    int each = 0;
    if (json_reader_next(&s->r) != JR_OBJECT)
        return fail(s->err, FORAY_EFILE, "%s: tensor %s: its entry in the header is not an object", s->path,
                    v->name);
    while (json_reader_next(&s->r) == JR_KEY) {
        int rc = read_field(s, v, &elements, &each, &seen);
        if (rc < 0)
            return rc;
    }
    if (s->r.kind != JR_OBJECT_END)
        return json_reader_error(&s->r, s->err);
    if (seen != 7)
        return fail(s->err, FORAY_EFILE, "%s: tensor %s: has no %s", s->path, v->name,
                    !(seen & 1)   ? "dtype"
                    : !(seen & 2) ? "shape"
                                  : "data_offsets");
    if (each != 0 && (__builtin_mul_overflow(elements, (uint64_t)each, &bytes) || bytes != v->bytes))
        return fail(s->err, FORAY_EFILE,
                    "%s: tensor %s: %" PRIu64 " elements of %s do not fill the %" PRIu64
                    " bytes of its data_offsets",
                    s->path, v->name, elements, v->type_name, v->bytes);
    return 0;
}

/* Reads the whole header; fills the views where there are any. */
static int walk(source *s)
{
    if (json_reader_next(&s->r) != JR_OBJECT)
        return s->r.kind == JR_ERROR
                   ? json_reader_error(&s->r, s->err)
                   : fail(s->err, FORAY_EFILE, "%s: its header is not a JSON object", s->path);
    while (json_reader_next(&s->r) == JR_KEY) {
        tensor_view v = { .file = s->path, .shape = { 1, 1, 1, 1 } };
        if (json_reader_is(&s->r, "__metadata__")) {
            json_reader_skip(&s->r);
            continue;
        }
        int rc = read_text(s, "tensor name", &v.name);
        if (rc == 0)
            rc = read_entry(s, &v);
        if (rc < 0)
            return rc;
        if (s->tensors)
            s->tensors[s->count] = v;
        s->count++;
    }
    json_reader_next(&s->r); /* nothing may follow */
    return json_reader_error(&s->r, s->err);
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
static int check_cover(const source *s, arena *a, const tensor_view *tensors, size_t count)
{
    const tensor_view **v = arena_array(a, count + 1, sizeof *v);
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

static int check_names(const source *s, arena *a, const tensor_view *tensors, size_t count)
{
    name_index names;
    if (!name_index_init(&names, a, count + 1))
        return fail(s->err, FORAY_ENOMEM, "%s: no memory for its tensors", s->path);
    for (size_t i = 0; i < count; i++)
        name_index_add(&names, tensors[i].name);
    const char *twice = name_index_finish(&names);
    return twice ? fail(s->err, FORAY_EFILE, "%s: tensor %s: is there twice", s->path, twice) : 0;
}

/* Where the header ends and the data begins. */
static int read_length(const uint8_t *bytes, size_t size, const char *path, size_t *data_at, foray_error *err)
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
    *data_at = 8 + (size_t)length;
    return 0;
}

int safetensors_parse(const uint8_t *bytes, size_t size, const char *path, arena *a, tensor_view **tensors,
                      size_t *count, foray_error *err)
{
    uint8_t stack[MAX_DEPTH];
    size_t data_at = 0;
    int rc = read_length(bytes, size, path, &data_at, err);
    if (rc < 0)
        return rc;
    source s = { .path = path, .data = bytes + data_at, .bytes = size - data_at, .err = err };
    json_reader_init(&s.r, path, bytes, data_at, stack, sizeof stack);
    s.r.at = 8; /* so that places in errors count from the start of the file */
    rc = walk(&s);
    if (rc < 0)
        return rc;

    tensor_view *list = arena_array(a, s.count + 1, sizeof *list);
    s.names = arena_alloc(a, s.name_bytes + 1);
    if (!list || !s.names)
        return fail(err, FORAY_ENOMEM, "%s: no memory for its tensors", path);
    s.tensors = list;
    s.count = 0;
    json_reader_init(&s.r, path, bytes, data_at, stack, sizeof stack);
    s.r.at = 8;
    rc = walk(&s);
    if (rc == 0)
        rc = check_names(&s, a, list, s.count);
    if (rc == 0)
        rc = check_cover(&s, a, list, s.count);
    if (rc == 0) {
        *tensors = list;
        *count = s.count;
    }
    return rc;
}

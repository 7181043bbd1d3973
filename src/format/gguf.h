/* gguf.h: reads a GGUF file (versions 2 and 3, little-endian) that stands in memory.
 *
 * Pure: bytes in, tables in the caller's arena out, no files. The bytes are walked twice: once checking
 * every length, count, type and offset without allocating anything, and once filling tables of exactly the
 * right size; so a hostile file costs time in proportion to its size and no memory. Values and tensors are
 * views into the bytes. Duplicate names are found by whoever indexes them (format/name_index.h).
 * Threads: any.
 */
#ifndef FORAY_FORMAT_GGUF_H
#define FORAY_FORMAT_GGUF_H

#include "base/arena.h"
#include "base/error.h"
#include "format/model_file.h"

typedef enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
} gguf_type;

/* One key-value pair. */
typedef struct {
    const char *key;
    gguf_type type; /* of the value, or of the elements of an array; never GGUF_ARRAY */
    bool array;
    uint64_t count;      /* 1 unless an array */
    const uint8_t *data; /* the first element, unaligned; a string begins with its length in 8 bytes */
    const uint64_t *at;  /* arrays of strings: [count] offset of each from data; else NULL */
} gguf_value;

typedef struct {
    uint32_t version;
    uint64_t alignment, data_offset; /* where tensor data begins */
    size_t value_count, tensor_count;
    gguf_value *values;   /* [value_count]  in file order */
    tensor_view *tensors; /* [tensor_count] in file order; name, shape and type_name in the arena */
} gguf_file;

/* Parses size bytes. path is borrowed: it goes into messages and into every view. EFILE for what is damaged,
 * EUNSUPPORTED for another version or byte order, ELIMIT for more than 65536 keys or tensors. *out is unchanged
 * on error. A tensor of a type that foray does not know is listed as DTYPE_UNKNOWN with its type's name. */
int gguf_parse(const uint8_t *bytes, size_t size, const char *path, arena *a, gguf_file *out,
               foray_error *err);

/* Element i (0 for a single value) as a number or string; false when the type is another one. Integers are
 * numbers for gguf_get_float too. */
bool gguf_get_int(const gguf_value *v, uint64_t i, int64_t *out);
bool gguf_get_float(const gguf_value *v, uint64_t i, double *out);
bool gguf_get_bool(const gguf_value *v, uint64_t i, bool *out);
bool gguf_get_string(const gguf_value *v, uint64_t i, const char **out, size_t *bytes);

const char *gguf_type_name(gguf_type type); /* "uint32", "string", … */

#endif

/* json_reader.h: pulls JSON apart, token by token, out of bytes in memory: for files of many megabytes
 * (tokenizer.json, traces), where a tree of objects would cost ten times the memory.
 *
 * Strict RFC 8259: one value, UTF-8, no comments, no trailing commas, no control bytes in strings. Allocates
 * nothing and reads nothing outside its bytes; depth is bounded by a stack that the caller lends. Does not
 * look for duplicate keys. Pure. Threads: one per reader.
 *
 *     uint8_t stack[16];
 *     json_reader r;
 *     json_reader_init(&r, path, data, size, stack, sizeof stack);
 *     if (!json_reader_expect(&r, JR_OBJECT))
 *         goto bad;
 *     while (json_reader_next(&r) == JR_KEY)          // ends at JR_OBJECT_END or JR_ERROR
 *         if (!json_reader_is(&r, "merges"))
 *             json_reader_skip(&r);                   // the key's value, whatever it is
 *         else …
 *     bad: return json_reader_error(&r, err);          // 0 where nothing went wrong
 */
#ifndef FORAY_BASE_JSON_READER_H
#define FORAY_BASE_JSON_READER_H

#include "base/error.h"

typedef enum {
    JR_OBJECT,
    JR_OBJECT_END,
    JR_ARRAY,
    JR_ARRAY_END,
    JR_KEY, /* the colon is consumed with it */
    JR_STRING,
    JR_NUMBER,
    JR_TRUE,
    JR_FALSE,
    JR_NULL,
    JR_END,  /* after the one value; again at every further call */
    JR_ERROR /* again at every further call: json_reader_error says what and where */
} json_kind;

typedef struct {
    const char *name; /* for messages: the file's path */
    const char *data; /* [size] borrowed */
    size_t size, at;  /* at: the next byte to look at */
    uint8_t *stack;   /* [max_depth] borrowed: '{' or '[' for each open level */
    size_t depth, max_depth;
    int state; /* what may come next */

    /* The token that was returned last. */
    json_kind kind;
    size_t offset;    /* of its first byte */
    const char *text; /* [bytes] key, string: what stands between the quotes; number: its characters */
    size_t bytes;
    bool escaped;    /* key, string: contains a backslash, so text is not yet its value */
    bool whole;      /* number: an integer without fraction and exponent that fits int64 */
    int64_t integer; /* where whole */
    double number;   /* the nearest double, for every number */

    size_t bad_offset;
    char problem[96]; /* "" while all is well */
} json_reader;

/* name and stack are borrowed; max_depth levels of nesting are allowed (at least 1). */
void json_reader_init(json_reader *r, const char *name, const void *data, size_t size, uint8_t *stack,
                      size_t max_depth);

/* Moves to the next token and returns its kind. */
json_kind json_reader_next(json_reader *r);

/* Moves to the next token; another kind than wanted is an error at its place. */
bool json_reader_expect(json_reader *r, json_kind wanted);

/* Moves past the value that the last token began: after a key its value, after an object or array begin all up
 * to its end (which becomes the last token); nothing after other tokens. False on error. */
bool json_reader_skip(json_reader *r);

/* Is the last token (key or string) this text, once unescaped? */
bool json_reader_is(const json_reader *r, const char *text);

/* Writes the value of the last token (key or string) to out, which has room for r->bytes, and returns its length;
 * no NUL is added. A lone surrogate becomes U+FFFD. */
size_t json_reader_unescape(const json_reader *r, char *out);

/* Marks the last token as wrong for a reason of the caller's ("rank must be a number"); returns false. */
bool json_reader_reject(json_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* EFILE with "name: byte N: problem", or FORAY_OK (err untouched) where there is none. */
int json_reader_error(const json_reader *r, foray_error *err);

#endif

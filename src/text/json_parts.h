/* json_parts.h: the sections of tokenizer.json that say how text is treated, recognised piece by piece.
 *
 * Each section is a small tree of objects with a "type"; a type or a setting that is not known is refused by
 * name, because a tokenizer that is nearly right gives wrong ids without a word. Does not read vocabulary,
 * merges or added tokens (from_json.c does). Threads: one per object.
 */
#ifndef FORAY_TEXT_JSON_PARTS_H
#define FORAY_TEXT_JSON_PARTS_H

#include "text/tokenizer_impl.h"

enum { PARTS_EXPRESSIONS = 6, PARTS_BEGIN = 128 };

typedef struct {
    const char *where; /* the file, for messages */
    bool byte_level;   /* there is a ByteLevel pre-tokenizer */
    bool byte_level_decoder, fallback_decoder;
    bool nfc;
    bool escapes_spaces; /* a space becomes U+2581 */
    bool metaspace;
    space_prefix prefix;
    char *expression[PARTS_EXPRESSIONS]; /* owned: what splitter_recognise takes */
    size_t expressions;
    char begin[PARTS_BEGIN]; /* the token put in front; "": none */
} json_parts;

/* Each reads one section's text (any JSON value, null too) into *p. */
int json_parts_normalizer(json_parts *p, const char *json, size_t bytes, foray_error *err);
int json_parts_pre_tokenizer(json_parts *p, const char *json, size_t bytes, foray_error *err);
int json_parts_post_processor(json_parts *p, const char *json, size_t bytes, foray_error *err);
int json_parts_decoder(json_parts *p, const char *json, size_t bytes, foray_error *err);
void json_parts_free(json_parts *p);

#endif

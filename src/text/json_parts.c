/* json_parts.c: see json_parts.h. The sections are a few kilobytes at most, so they are read as trees.
 *
 * Invariant: what a function here does not understand it refuses; nothing is skipped because it looks harmless.
 * Threads: one.
 */
#include "text/json_parts.h"

#include <jansson.h>
#include <string.h>

#include "base/mem.h"

static const char SPACE_MARK[] = "\xe2\x96\x81"; /* U+2581 */

static int refuse(const json_parts *p, const char *section, const char *what, foray_error *err)
{
    return fail(err, FORAY_EUNSUPPORTED,
                "%s: %s: \"%.60s\" is not known to foray (use a GGUF file of the model)", p->where, section,
                what != NULL ? what : "(no type)");
}

static const char *type_of(const json_t *o)
{
    return json_string_value(json_object_get(o, "type"));
}

static bool is(const char *text, const char *expected)
{
    return text != NULL && strcmp(text, expected) == 0;
}

static bool field_is(const json_t *o, const char *key, const char *expected)
{
    return is(json_string_value(json_object_get(o, key)), expected);
}

/* A boolean field, or what it means where it is absent. */
static bool flag(const json_t *o, const char *key, bool absent)
{
    const json_t *v = json_object_get(o, key);
    return json_is_boolean(v) ? json_is_true(v) : absent;
}

/* Calls each for a section's one object, or for every member of its Sequence. */
static int walk(json_parts *p, const json_t *o, const char *section, const char *members,
                int (*each)(json_parts *, const json_t *, foray_error *), foray_error *err)
{
    if (json_is_null(o))
        return 0;
    if (!is(type_of(o), "Sequence"))
        return each(p, o, err);
    const json_t *list = json_object_get(o, members);
    if (!json_is_array(list))
        return refuse(p, section, "Sequence without members", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        int rc = each(p, json_array_get(list, i), err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int read_section(json_parts *p, const char *json, size_t bytes, const char *section,
                        const char *members, int (*each)(json_parts *, const json_t *, foray_error *),
                        foray_error *err)
{
    json_error_t at;
    json_t *o = json_loadb(json, bytes, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &at);
    if (o == NULL)
        return fail(err, FORAY_EFILE, "%s: %s: %s", p->where, section, at.text);
    int rc = walk(p, o, section, members, each, err);
    json_decref(o);
    return rc;
}

/* ---- normalizer ------------------------------------------------------------------------------ */

static int one_normalizer(json_parts *p, const json_t *o, foray_error *err)
{
    const char *type = type_of(o);
    if (is(type, "NFC")) {
        p->nfc = true;
    } else if (is(type, "Prepend") && field_is(o, "prepend", SPACE_MARK)) {
        p->prefix = PREFIX_EVERY;
    } else if (is(type, "Replace") && field_is(json_object_get(o, "pattern"), "String", " ") &&
               field_is(o, "content", SPACE_MARK)) {
        p->escapes_spaces = true;
    } else {
        return refuse(p, "normalizer", type, err);
    }
    return 0;
}

int json_parts_normalizer(json_parts *p, const char *json, size_t bytes, foray_error *err)
{
    return read_section(p, json, bytes, "normalizer", "normalizers", one_normalizer, err);
}

/* ---- pre-tokenizer --------------------------------------------------------------------------- */

static int add_expression(json_parts *p, const char *text, foray_error *err)
{
    if (p->expressions == PARTS_EXPRESSIONS)
        return refuse(p, "pre_tokenizer", "more than six steps", err);
    size_t bytes = strlen(text) + 1;
    char *copy = mem_alloc(MEM_TEXT, bytes);
    if (copy == NULL)
        return fail(err, FORAY_ENOMEM, "%s: out of memory", p->where);
    memcpy(copy, text, bytes);
    p->expression[p->expressions++] = copy;
    return 0;
}

static int one_split(json_parts *p, const json_t *o, foray_error *err)
{
    const json_t *pattern = json_object_get(o, "pattern");
    const char *expression = json_string_value(json_object_get(pattern, "Regex"));
    if (expression != NULL && field_is(o, "behavior", "Isolated") && !flag(o, "invert", false))
        return add_expression(p, expression, err);
    /* Gemma's: cuts at spaces, of which its normalizer has left none. */
    if (field_is(pattern, "String", " ") && field_is(o, "behavior", "MergedWithPrevious") &&
        p->escapes_spaces)
        return 0;
    return refuse(p, "pre_tokenizer", "Split in this form", err);
}

static int one_metaspace(json_parts *p, const json_t *o, foray_error *err)
{
    const char *scheme = json_string_value(json_object_get(o, "prepend_scheme"));
    if (!field_is(o, "replacement", SPACE_MARK) || flag(o, "split", true))
        return refuse(p, "pre_tokenizer", "Metaspace that splits at spaces", err);
    if (is(scheme, "always"))
        p->prefix = PREFIX_EVERY;
    else if (is(scheme, "first"))
        p->prefix = PREFIX_FIRST;
    else if (!is(scheme, "never"))
        return refuse(p, "pre_tokenizer", "Metaspace without a known prepend_scheme", err);
    p->metaspace = p->escapes_spaces = true;
    return 0;
}

static int one_pre_tokenizer(json_parts *p, const json_t *o, foray_error *err)
{
    const char *type = type_of(o);
    if (p->byte_level)
        return refuse(p, "pre_tokenizer", "a step after ByteLevel", err);
    if (is(type, "Split"))
        return one_split(p, o, err);
    if (is(type, "Digits") && flag(o, "individual_digits", false))
        return add_expression(p, "(digits)", err);
    if (is(type, "Metaspace"))
        return one_metaspace(p, o, err);
    if (!is(type, "ByteLevel"))
        return refuse(p, "pre_tokenizer", type, err);
    if (flag(o, "add_prefix_space", true))
        return refuse(p, "pre_tokenizer", "ByteLevel with add_prefix_space", err);
    p->byte_level = true;
    return flag(o, "use_regex", true) ? add_expression(p, "(byte-level)", err) : 0;
}

int json_parts_pre_tokenizer(json_parts *p, const char *json, size_t bytes, foray_error *err)
{
    return read_section(p, json, bytes, "pre_tokenizer", "pretokenizers", one_pre_tokenizer, err);
}

/* ---- post-processor and decoder --------------------------------------------------------------- */

static int one_post_processor(json_parts *p, const json_t *o, foray_error *err)
{
    const char *type = type_of(o);
    if (is(type, "ByteLevel"))
        return 0; /* moves offsets only */
    if (!is(type, "TemplateProcessing"))
        return refuse(p, "post_processor", type, err);
    const json_t *single = json_object_get(o, "single");
    size_t n = json_array_size(single);
    const json_t *front = json_object_get(json_array_get(single, 0), "SpecialToken");
    const char *begin = json_string_value(json_object_get(front, "id"));
    bool text_last = n != 0 && json_object_get(json_array_get(single, n - 1), "Sequence") != NULL;
    if (!text_last || n > 2 || (n == 2 && (begin == NULL || strlen(begin) >= sizeof p->begin)))
        return refuse(p, "post_processor", "TemplateProcessing that is not [begin-of-text] text", err);
    if (n == 2)
        memcpy(p->begin, begin, strlen(begin) + 1);
    return 0;
}

int json_parts_post_processor(json_parts *p, const char *json, size_t bytes, foray_error *err)
{
    return read_section(p, json, bytes, "post_processor", "processors", one_post_processor, err);
}

static int one_decoder(json_parts *p, const json_t *o, foray_error *err)
{
    const char *type = type_of(o);
    if (is(type, "ByteLevel")) {
        p->byte_level_decoder = true;
        return 0;
    }
    if (is(type, "ByteFallback")) {
        p->fallback_decoder = true;
        return 0;
    }
    bool spaces = is(type, "Replace") && field_is(json_object_get(o, "pattern"), "String", SPACE_MARK) &&
                  field_is(o, "content", " ");
    bool first = is(type, "Strip") && field_is(o, "content", " ");
    if (spaces || first || is(type, "Fuse") ||
        (is(type, "Metaspace") && field_is(o, "replacement", SPACE_MARK)))
        return 0;
    return refuse(p, "decoder", type, err);
}

int json_parts_decoder(json_parts *p, const char *json, size_t bytes, foray_error *err)
{
    return read_section(p, json, bytes, "decoder", "decoders", one_decoder, err);
}

void json_parts_free(json_parts *p)
{
    for (size_t i = 0; i < p->expressions; i++)
        mem_free(MEM_TEXT, p->expression[i], strlen(p->expression[i]) + 1);
    p->expressions = 0;
}

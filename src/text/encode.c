/* encode.c: from text to ids: markers first, then what lies between them: normal form, pieces, merges.
 *
 *     text ─▶ markers? ─▶ id                                                 longest first, where asked for
 *                └─▶ pending ─▶ valid UTF-8 ─▶ NFC ─▶ pieces ─▶ merges ─▶ ids  byte-level
 *                            └─▶ spaces to U+2581 ───────────▶ merges ─▶ ids  SentencePiece
 *
 * Bytes that are not UTF-8 pass the normal form and the pre-tokenizer by and are merged on their own.
 * Threads: one per encoder.
 */
#include <string.h>

#include "base/utf8.h"
#include "text/nfc.h"
#include "text/tokenizer_impl.h"

static int no_memory(encoder *e)
{
    return fail(e->err, FORAY_ENOMEM, "tokenizer: out of memory");
}

int encoder_open(encoder *e, const tokenizer *t, id_list *out, foray_error *err)
{
    *e = (encoder) { .t = t, .out = out, .err = err, .fresh = true };
    return split_scratch_init(&e->split, err);
}

void encoder_close(encoder *e)
{
    buf_free(&e->pending);
    buf_free(&e->work);
    bpe_scratch_free(&e->bpe);
    split_scratch_free(&e->split);
}

static int emit_piece(void *user, const char *piece, size_t bytes)
{
    encoder *e = user;
    const tokenizer *t = e->t;
    char spelling[512];
    if (t->whole_words && bytes <= sizeof spelling / 2) {
        int32_t id = vocab_find_plain(&t->v, spelling, vocab_alphabet_write(piece, bytes, spelling));
        if (id >= 0)
            return id_list_push(e->out, id) == 0 ? 0 : no_memory(e);
    }
    return bpe_encode(&t->v, t->mode, &e->bpe, piece, bytes, e->out) == 0 ? 0 : no_memory(e);
}

/* Length of the run of valid (or, valid == false, invalid) UTF-8 at the start of text. */
static size_t run_of(const char *text, size_t bytes, bool valid)
{
    size_t i = 0;
    while (i < bytes) {
        if ((unsigned char)text[i] < 0x80) {
            if (!valid)
                break;
            i++;
            continue;
        }
        uint32_t point;
        int used = utf8_read(text + i, bytes - i, &point);
        if ((used > 0) != valid)
            break;
        i += (size_t)(used > 0 ? used : -used);
    }
    return i;
}

static int encode_bytes(encoder *e, const char *text, size_t bytes)
{
    const tokenizer *t = e->t;
    for (size_t i = 0; i < bytes;) {
        size_t n = run_of(text + i, bytes - i, true);
        const char *valid = text + i;
        size_t length = n;
        if (t->nfc && nfc_may_change(valid, n)) {
            buf_clear(&e->work);
            if (nfc_append(valid, n, &e->work) != 0)
                return no_memory(e);
            valid = e->work.data;
            length = e->work.len;
        }
        int rc = splitter_run(&t->split, &e->split, valid, length, emit_piece, e, e->err);
        if (rc != 0)
            return rc;
        i += n;
        n = run_of(text + i, bytes - i, false);
        if (n != 0 && (rc = emit_piece(e, text + i, n)) != 0)
            return rc;
        i += n;
    }
    return 0;
}

static int encode_sentencepiece(encoder *e, const char *text, size_t bytes)
{
    const tokenizer *t = e->t;
    static const char mark[] = "\xe2\x96\x81"; /* U+2581 stands for the space */
    buf_clear(&e->work);
    bool wanted = t->prefix == PREFIX_EVERY || (t->prefix == PREFIX_FIRST && e->fresh);
    bool has_one = text[0] == ' ' || (bytes >= 3 && memcmp(text, mark, 3) == 0);
    if (wanted && !(t->prefix_unless_space && has_one))
        buf_puts(&e->work, mark);
    for (size_t i = 0; i < bytes;) {
        const char *space = memchr(text + i, ' ', bytes - i);
        size_t n = space != NULL ? (size_t)(space - text) - i : bytes - i;
        buf_append(&e->work, text + i, n);
        i += n;
        if (space != NULL) {
            buf_puts(&e->work, mark);
            i++;
        }
    }
    if (e->work.failed)
        return no_memory(e);
    return emit_piece(e, e->work.data, e->work.len);
}

static int flush(encoder *e)
{
    buf *p = &e->pending;
    if (p->failed)
        return no_memory(e);
    if (p->len == 0)
        return 0;
    if (p->len > INT32_MAX / 4)
        return fail(e->err, FORAY_ELIMIT, "tokenizer: a text of %zu bytes; at most %d are taken", p->len,
                    INT32_MAX / 4);
    int rc = e->t->alphabet == VOCAB_BYTE_LEVEL ? encode_bytes(e, p->data, p->len)
                                                : encode_sentencepiece(e, p->data, p->len);
    buf_clear(p);
    e->fresh = false;
    return rc;
}

static bool is_space(uint32_t p)
{
    return (p >= 9 && p <= 13) || p == 0x20 || p == 0x85 || p == 0xa0 || p == 0x1680 ||
           (p >= 0x2000 && p <= 0x200a) || p == 0x2028 || p == 0x2029 || p == 0x202f || p == 0x205f ||
           p == 0x3000;
}

/* Bytes of white space at the start of text. */
static size_t leading_space(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes) {
        uint32_t point = 0;
        int used = utf8_read(text + i, bytes - i, &point);
        if (used < 0 || !is_space(point))
            break;
        i += (size_t)used;
    }
    return i;
}

static void trim_trailing_space(buf *b)
{
    while (b->len != 0) {
        size_t start = b->len - 1;
        while (start != 0 && b->len - start < 4 && ((unsigned char)b->data[start] & 0xc0) == 0x80)
            start--;
        if (leading_space(b->data + start, b->len - start) != b->len - start)
            break;
        b->len = start;
    }
}

int encoder_id(encoder *e, int32_t id)
{
    const vocab_token *token = &e->t->v.token[id];
    if (token->flags & TOKEN_EATS_LEFT)
        trim_trailing_space(&e->pending);
    int rc = flush(e);
    if (rc != 0)
        return rc;
    e->fresh = false;
    e->eating = (token->flags & TOKEN_EATS_RIGHT) != 0;
    return id_list_push(e->out, id) == 0 ? 0 : no_memory(e);
}

int encoder_text(encoder *e, const char *text, size_t bytes, bool special)
{
    const vocab *v = &e->t->v;
    size_t start = 0, i = 0;
    while (i < bytes) {
        if (e->eating) {
            i += leading_space(text + i, bytes - i);
            start = i;
            e->eating = i == bytes;
            continue;
        }
        int32_t id = vocab_match(v, text + i, bytes - i, !special);
        if (id < 0) {
            i++;
            continue;
        }
        buf_append(&e->pending, text + start, i - start);
        int rc = encoder_id(e, id);
        if (rc != 0)
            return rc;
        i += v->token[id].spelling_bytes;
        start = i;
    }
    buf_append(&e->pending, text + start, bytes - start);
    return e->pending.failed ? no_memory(e) : 0;
}

int encoder_finish(encoder *e)
{
    return flush(e);
}

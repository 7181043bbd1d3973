/* chat.c: a conversation written as ids, turn by turn, from the table in chat_format.c.
 *
 * Literals of the format are read with markers, messages without; both go through one encoder, so that tokens
 * form across the seams exactly as in the template's rendered text. Threads: any.
 */
#include "text/chat.h"

#include <string.h>

#include "base/arena.h"
#include "base/utf8.h"
#include "text/chat_format.h"
#include "text/tokenizer_impl.h"

typedef struct {
    const char *text;
    size_t bytes;
} span;

static span span_of(const char *text)
{
    return (span) { text, strlen(text) };
}

static bool is_space(uint32_t p)
{
    return (p >= 9 && p <= 13) || (p >= 0x1c && p <= 0x20) || p == 0x85 || p == 0xa0 || p == 0x1680 ||
           (p >= 0x2000 && p <= 0x200a) || p == 0x2028 || p == 0x2029 || p == 0x202f || p == 0x205f ||
           p == 0x3000;
}

/* Cuts white space at the front and the back, as the templates' trim does. */
static span trim(span s)
{
    uint32_t point = 0;
    while (s.bytes != 0) {
        int used = utf8_read(s.text, s.bytes, &point);
        if (used < 0 || !is_space(point))
            break;
        s.text += used;
        s.bytes -= (size_t)used;
    }
    while (s.bytes != 0) {
        size_t start = s.bytes - 1;
        while (start != 0 && s.bytes - start < 4 && ((unsigned char)s.text[start] & 0xc0) == 0x80)
            start--;
        int used = utf8_read(s.text + start, s.bytes - start, &point);
        if (used != (int)(s.bytes - start) || !is_space(point))
            break;
        s.bytes = start;
    }
    return s;
}

static span trim_breaks(span s, bool front, bool back)
{
    while (front && s.bytes != 0 && s.text[0] == '\n') {
        s.text++;
        s.bytes--;
    }
    while (back && s.bytes != 0 && s.text[s.bytes - 1] == '\n')
        s.bytes--;
    return s;
}

/* The place of the last word in s, or NULL. */
static const char *last_of(span s, const char *word)
{
    size_t n = strlen(word);
    for (size_t at = s.bytes; at-- > 0;)
        if (s.bytes - at >= n && memcmp(s.text + at, word, n) == 0)
            return s.text + at;
    return NULL;
}

typedef struct {
    const chat_format *f;
    const foray_message *messages;
    const chat_role *roles;
    size_t n;
    span system; /* what SYSTEM_FIRST_USER and SYSTEM_LAST_USER put into a user's turn */
    bool has_system;
    size_t last_query; /* index of the last user message that asks something */
    size_t fresh;      /* index of the first message after the last user's; 0: there is none of a user */
    encoder *e;
} conversation;

static int literal(const conversation *c, const char *text)
{
    return encoder_text(c->e, text, strlen(text), true);
}

static int plain(const conversation *c, span s)
{
    return encoder_text(c->e, s.text, s.bytes, false);
}

/* The part of a reply in front of its last </think>, without the tags; empty where there is none. */
static span reasoning_of(span reply)
{
    const char *first = memmem(reply.text, reply.bytes, "</think>", 8);
    if (first == NULL)
        return (span) { reply.text, 0 };
    span s = trim_breaks((span) { reply.text, (size_t)(first - reply.text) }, false, true);
    const char *open = last_of(s, "<think>");
    if (open != NULL) {
        s.bytes -= (size_t)(open + 7 - s.text);
        s.text = open + 7;
    }
    return trim_breaks(s, true, true);
}

static span answer_of(span reply)
{
    const char *last = last_of(reply, "</think>");
    if (last == NULL)
        return reply;
    return (span) { last + 8, reply.bytes - (size_t)(last + 8 - reply.text) };
}

/* DeepSeek-V4: reasoning goes to the first </think>, or to the end of a reply that says to begin with it. */
static int write_deepseek4(const conversation *c, size_t i, span text)
{
    static const char open[] = "<think>", close[] = "</think>";
    enum { OPEN = sizeof open - 1, CLOSE = sizeof close - 1 };
    bool opened = text.bytes >= OPEN && memcmp(text.text, open, OPEN) == 0;
    const char *end = memmem(text.text, text.bytes, close, CLOSE);
    span reasoning = { text.text, end != NULL ? (size_t)(end - text.text) : opened ? text.bytes : 0 };
    span answer = text;
    if (end != NULL || opened) {
        size_t used = reasoning.bytes + (end != NULL ? CLOSE : 0);
        answer = (span) { text.text + used, text.bytes - used };
    }
    if (opened)
        reasoning = (span) { reasoning.text + OPEN, reasoning.bytes - OPEN };
    int rc = 0;
    if (c->f->reasons && i >= c->fresh) {
        rc = plain(c, reasoning);
        if (rc == 0)
            rc = literal(c, close);
    }
    return rc == 0 ? plain(c, answer) : rc;
}

/* The text of assistant message i, with its reasoning as the format wants it. */
static int write_reply(const conversation *c, size_t i, span text)
{
    if (c->f->think == THINK_KEEP)
        return plain(c, text);
    if (c->f->think == THINK_DEEPSEEK4)
        return write_deepseek4(c, i, text);
    span answer = answer_of(text);
    if (c->f->think == THINK_CUT)
        return plain(c, answer);
    span reasoning = reasoning_of(text);
    if (answer.text != text.text)
        answer = trim_breaks(answer, true, false);
    if (i <= c->last_query || (i + 1 != c->n && reasoning.bytes == 0))
        return plain(c, answer);
    int rc = literal(c, "<think>\n");
    if (rc == 0)
        rc = plain(c, reasoning);
    if (rc == 0)
        rc = literal(c, "\n</think>\n\n");
    return rc == 0 ? plain(c, trim_breaks(answer, true, false)) : rc;
}

/* A user's text with the system message in front of it. */
static int write_joined(const conversation *c, span text)
{
    const chat_turn *system = &c->f->turn[CHAT_SYSTEM];
    buf b = { 0 };
    buf_puts(&b, system->open);
    buf_append(&b, c->system.text, c->system.bytes);
    buf_puts(&b, system->close);
    buf_append(&b, text.text, text.bytes);
    int rc = b.failed ? fail(c->e->err, FORAY_ENOMEM, "chat: out of memory") : 0;
    if (rc == 0) {
        span whole = { b.data, b.len };
        rc = plain(c, c->f->trim_whole_turn ? trim(whole) : whole);
    }
    buf_free(&b);
    return rc;
}

static int write_begin(const conversation *c)
{
    const tokenizer *t = c->e->t;
    bool wanted = c->f->begin == BEGIN_ALWAYS || (c->f->begin == BEGIN_ASKED && t->add_begin);
    return wanted && t->begin_id >= 0 ? encoder_id(c->e, t->begin_id) : 0;
}

/* What stands in front of message i's text. */
static const char *opening(const conversation *c, size_t i)
{
    const chat_format *f = c->f;
    const char *own = f->turn[c->roles[i]].open;
    if (f->think != THINK_DEEPSEEK4 || i == 0 || c->roles[i - 1] != CHAT_USER || c->roles[i] == CHAT_SYSTEM)
        return own;
    if (c->roles[i] == CHAT_USER)
        return "\n\n"; /* a user's messages in a row are one turn */
    return i >= c->fresh ? f->reply : f->past;
}

static int write_turn(const conversation *c, size_t i)
{
    const chat_format *f = c->f;
    chat_role role = c->roles[i];
    const chat_turn *turn = &f->turn[role];
    bool first_user = role == CHAT_USER && (i == 0 || (i == 1 && c->roles[0] == CHAT_SYSTEM));
    bool joined = c->has_system && ((f->system == SYSTEM_FIRST_USER && first_user) ||
                                    (f->system == SYSTEM_LAST_USER && role == CHAT_USER && i + 1 == c->n));
    span text = span_of(c->messages[i].content);
    if (turn->trim && !(joined && f->trim_whole_turn))
        text = trim(text);
    int rc = role == CHAT_USER && f->begin_every_user ? write_begin(c) : 0;
    if (rc == 0)
        rc = literal(c, opening(c, i));
    if (rc == 0)
        rc = joined                   ? write_joined(c, text)
             : role == CHAT_ASSISTANT ? write_reply(c, i, text)
                                      : plain(c, text);
    return rc == 0 ? literal(c, turn->close) : rc;
}

/* The system text where it stands at the front of the conversation. */
static int write_front(const conversation *c)
{
    const chat_turn *turn = &c->f->turn[CHAT_SYSTEM];
    int rc = 0;
    if (c->f->system == SYSTEM_IN_FRONT) {
        bool first = true;
        if (c->has_system)
            rc = plain(c, c->system);
        for (size_t i = 0; i < c->n && rc == 0; i++) {
            if (c->roles[i] != CHAT_SYSTEM)
                continue;
            rc = first && !c->has_system ? 0 : literal(c, "\n\n");
            first = false;
            if (rc == 0)
                rc = plain(c, span_of(c->messages[i].content));
        }
        return rc;
    }
    bool a_turn = c->f->system == SYSTEM_ONE_TURN || (c->f->system == SYSTEM_TURN && c->has_system);
    if (!a_turn)
        return 0;
    rc = literal(c, turn->open);
    if (rc == 0)
        rc = plain(c, turn->trim ? trim(c->system) : c->system);
    return rc == 0 ? literal(c, turn->close) : rc;
}

static int find_roles(const chat_format *f, const foray_message *messages, size_t n, chat_role *roles,
                      foray_error *err)
{
    static const char *const names[CHAT_ROLES] = { "system", "user", "assistant" };
    size_t spoken = 0;
    for (size_t i = 0; i < n; i++) {
        int role = 0;
        while (role < CHAT_ROLES && strcmp(messages[i].role, names[role]) != 0)
            role++;
        if (role == CHAT_ROLES)
            return fail(err, FORAY_EUSAGE,
                        "chat: message %zu has the role \"%.40s\"; known are system, user, assistant", i,
                        messages[i].role);
        roles[i] = (chat_role)role;
        if (role == CHAT_SYSTEM) {
            if (f->system == SYSTEM_REFUSED)
                return fail(err, FORAY_EUSAGE,
                            "chat: this model's %s format has no role \"system\" (say it in the "
                            "first user message)",
                            f->name);
            if (i != 0 && f->system != SYSTEM_TURN && f->system != SYSTEM_IN_FRONT)
                return fail(err, FORAY_EUSAGE,
                            "chat: message %zu has the role \"system\"; format %s allows it first "
                            "only",
                            i, f->name);
            continue;
        }
        if (f->alternate && (role == CHAT_USER) != (spoken % 2 == 0))
            return fail(err, FORAY_EUSAGE,
                        "chat: message %zu has the role \"%s\"; in format %s user and assistant "
                        "take turns, the user first",
                        i, messages[i].role, f->name);
        spoken++;
    }
    return 0;
}

/* Qwen3 counts a user message that only carries a tool's answer as no question. */
static size_t find_last_query(const foray_message *messages, const chat_role *roles, size_t n)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    for (size_t i = n; i-- > 0;) {
        span s = span_of(messages[i].content);
        bool answer = s.bytes >= sizeof close - 1 && strncmp(s.text, open, sizeof open - 1) == 0 &&
                      memcmp(s.text + s.bytes - (sizeof close - 1), close, sizeof close - 1) == 0;
        if (roles[i] == CHAT_USER && !answer)
            return i;
    }
    return n - 1;
}

static size_t find_fresh(const chat_role *roles, size_t n)
{
    while (n > 0 && roles[n - 1] != CHAT_USER)
        n--;
    return n;
}

static int write_all(conversation *c)
{
    int rc = c->f->begin_every_user ? 0 : write_begin(c);
    if (rc == 0)
        rc = write_front(c);
    for (size_t i = 0; i < c->n && rc == 0; i++)
        if (c->roles[i] != CHAT_SYSTEM || (c->f->system == SYSTEM_TURN && !(i == 0 && c->has_system)))
            rc = write_turn(c, i);
    if (rc == 0)
        rc = literal(c, c->f->reply);
    return rc == 0 ? encoder_finish(c->e) : rc;
}

int chat_encode(const chat_format *f, const tokenizer *t, const char *system_default,
                const foray_message *messages, size_t n, id_list *out, foray_error *err)
{
    if (n == 0)
        return fail(err, FORAY_EUSAGE, "chat: the conversation has no messages");
    for (size_t i = 0; i < sizeof f->required / sizeof f->required[0]; i++)
        if (f->required[i] != NULL && tokenizer_find(t, f->required[i]) < 0)
            return fail(err, FORAY_EUNSUPPORTED,
                        "chat: format %s needs the token \"%s\", which this model's vocabulary "
                        "lacks (--chat-template: %s)",
                        f->name, f->required[i], chat_format_names());
    arena a;
    arena_init(&a, MEM_TEXT, 0);
    chat_role *roles = arena_array(&a, n, sizeof *roles);
    size_t before = out->count;
    int rc = roles == NULL ? fail(err, FORAY_ENOMEM, "chat: out of memory")
                           : find_roles(f, messages, n, roles, err);
    encoder e;
    if (rc == 0 && (rc = encoder_open(&e, t, out, err)) == 0) {
        conversation c = { .f = f, .messages = messages, .roles = roles, .n = n, .e = &e };
        c.last_query = find_last_query(messages, roles, n);
        c.fresh = find_fresh(roles, n);
        if (f->system != SYSTEM_IN_FRONT && roles[0] == CHAT_SYSTEM)
            c.system = span_of(messages[0].content);
        else if (roles[0] != CHAT_SYSTEM && f->system != SYSTEM_REFUSED && system_default != NULL)
            c.system = span_of(system_default);
        c.has_system = c.system.text != NULL;
        if (!c.has_system)
            c.system = span_of("");
        rc = write_all(&c);
        encoder_close(&e);
    }
    if (rc != 0)
        out->count = before;
    arena_free(&a);
    return rc;
}

/* scan.c: the scanner of trace events.
 *
 *     window:  | spent | the event being read … | unread bytes | 64 zeros |
 *                      ^mark                    ^p             ^end
 *
 * An event is read in one go out of the window. Where the window ends inside it, what begins at `mark` moves to the front,
 * more bytes are read behind it, and the event is read again from its brace: events are small and the
 * window is large, so this happens rarely. The zeros let loops look at the byte at `end` without asking.
 */
#include "timeline/scan.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/scan_text.h"
#include "timeline/shapes.h"

#ifdef FORAY_TORTURE
enum { WINDOW_BYTES = 96 };
#else
enum { WINDOW_BYTES = 1 << 20 };
#endif
enum { META_BYTES = 1 << 20, WINDOW_MOST = 256 << 20, KEY_SLOTS = 128 };

typedef enum { AT_START, IN_OBJECT, IN_LIST, AT_END } scan_place;

struct scan {
    source *from;
    char *window; /* [room + SCAN_PADDING] */
    size_t room;
    const char *mark, *p, *end;
    uint64_t base;               /* offset in the file of window[0] */
    bool all_read, list_is_file; /* the list is the outermost value */
    bool keep_meta;
    scan_place place;
    scan_event event;
    scan_value meta_key;
    const char *meta_text;
    size_t meta_bytes;
    scan_outcome done;
    uint64_t escapes_before; /* done.bad_escapes before the current event */
    size_t piece_count;      /* values of the event being read in full; may pass SHAPE_PIECES */
    shape_piece pieces[SHAPE_PIECES];
    shapes known;
};

static const char *const arg_names[ARG_COUNT] = {
    [ARG_NAME] = "name",
    [ARG_LABELS] = "labels",
    [ARG_CORRELATION] = "correlation",
    [ARG_CORRELATION_ID] = "correlation_id",
    [ARG_CONNECTION_ID] = "connection_id",
    [ARG_DEVICE] = "device",
    [ARG_STREAM] = "stream",
    [ARG_GRAPH_ID] = "graph id",
    [ARG_GRAPH_NODE_ID] = "graph node id",
    [ARG_MODEL_ID] = "Model Id",
    [ARG_MODEL_ID_LOWER] = "model id",
    [ARG_TASK_TYPE] = "Task Type",
    [ARG_PHYSIC_STREAM] = "Physic Stream Id",
    [ARG_STREAM_ID] = "Stream Id",
    [ARG_STREAM_ID_LOWER] = "stream id",
    [ARG_TASK_ID] = "Task Id",
    [ARG_TASK_ID_LOWER] = "task id",
    [ARG_ACTIVE_STREAM] = "Active Stream Id",
    [ARG_WAIT_STREAM] = "wait_on_stream",
    [ARG_WAIT_RECORD] = "wait_on_cuda_event_record_corr_id",
    [ARG_COLLECTIVE] = "Collective name",
    [ARG_GROUP] = "Process Group Name",
    [ARG_SEQUENCE] = "Seq",
    [ARG_SRC_RANK] = "src rank",
    [ARG_DST_RANK] = "dst rank",
    [ARG_FORAY_GRAPH] = "graph",
    [ARG_FORAY_NODE] = "node",
    [ARG_FORAY_ROUND] = "round",
    [ARG_FORAY_PHASE] = "phase",
    [ARG_FORAY_ROWS] = "rows",
    [ARG_FORAY_READY] = "ready",
    [ARG_FORAY_EVENT] = "waited_event",
};

/* arg + 1 by a hash of length, first and last byte, with probing; filled once, at the first scan_open. */
static unsigned char arg_slot[KEY_SLOTS], arg_bytes[ARG_COUNT];
static pthread_once_t arg_once = PTHREAD_ONCE_INIT;

static inline unsigned key_hash(const char *key, size_t bytes)
{
    return ((unsigned)bytes * 7 + (unsigned char)key[0] * 3 + (unsigned char)key[bytes - 1] * 5) %
           (unsigned)KEY_SLOTS;
}

static void fill_arg_slots(void)
{
    for (int a = 0; a < ARG_COUNT; a++) {
        arg_bytes[a] = (unsigned char)strlen(arg_names[a]);
        unsigned at = key_hash(arg_names[a], arg_bytes[a]);
        while (arg_slot[at] != 0 && arg_slot[at] != a + 1)
            at = (at + 1) % KEY_SLOTS;
        arg_slot[at] = (unsigned char)(a + 1);
    }
}

static inline int find_arg(const char *key, size_t bytes)
{
    if (bytes == 0)
        return -1;
    for (unsigned at = key_hash(key, bytes); arg_slot[at] != 0; at = (at + 1) % KEY_SLOTS) {
        int a = arg_slot[at] - 1;
        if (arg_bytes[a] == bytes && memcmp(arg_names[a], key, bytes) == 0)
            return a;
    }
    return -1;
}

/* ---- pieces of the text ----------------------------------------------------------------------- */

/* Reads any value at *p; nested ones are passed over. */
static inline outcome take_value(scan *s, const char **at, scan_value *v)
{
    const char *p = *at;
    if (*p == '"') {
        v->escaped = false;
        const char *q = string_end(p + 1, s->end, &v->escaped, &s->done.bad_escapes);
        if (q == NULL)
            return SHORT;
        v->text = p + 1;
        v->bytes = (uint32_t)(q - p - 1);
        v->kind = '"';
        *at = q + 1;
        return TOOK;
    }
    v->escaped = false;
    v->text = p;
    v->bytes = 0;
    if (*p == '{' || *p == '[') {
        v->kind = *p;
        return skip_nested(at, s->end, &s->done.bad_escapes);
    }
    p = literal_end(p);
    if (p >= s->end)
        return SHORT;
    v->kind = '0';
    v->bytes = (uint32_t)(p - v->text);
    *at = p;
    return v->bytes > 0 ? TOOK : BROKEN;
}

/* Reads `"key" :` at *p and leaves *p at the value. */
static inline outcome take_key(scan *s, const char **at, const char **key, size_t *bytes)
{
    const char *p = *at;
    bool escaped = false;
    if (*p != '"')
        return p >= s->end ? SHORT : BROKEN;
    const char *q = string_end(p + 1, s->end, &escaped, &s->done.bad_escapes);
    if (q == NULL)
        return SHORT;
    *key = p + 1;
    *bytes = (size_t)(q - p - 1);
    p = skip_space(q + 1);
    if (*p != ':')
        return p >= s->end ? SHORT : BROKEN;
    *at = skip_space(p + 1);
    return *at >= s->end ? SHORT : TOOK;
}

/* Behind a member: moves past a comma (also one too many before the end), or past the closing brace (*closed). */
static inline outcome take_separator(scan *s, const char **at, bool *closed)
{
    const char *p = skip_space(*at);
    *closed = false;
    if (*p == ',') {
        p = skip_space(p + 1);
        if (*p != '}') {
            *at = p;
            return p >= s->end ? SHORT : TOOK;
        }
    }
    if (*p != '}')
        return p >= s->end ? SHORT : BROKEN;
    *closed = true;
    *at = p + 1;
    return TOOK;
}

/* ---- events ----------------------------------------------------------------------------------- */

/* A value of the event, noted for its shape. */
static inline outcome take_member(scan *s, const char **at, scan_value *v, uint64_t have)
{
    outcome o = take_value(s, at, v);
    if (o == TOOK && s->piece_count++ < SHAPE_PIECES)
        s->pieces[s->piece_count - 1] = (shape_piece) { .from = v->text,
                                                        .to = *at - (v->kind == '"'),
                                                        .kind = v->kind,
                                                        .member = (uint16_t)((char *)v - (char *)&s->event),
                                                        .have = have };
    return o;
}

static outcome take_args(scan *s, const char **at)
{
    scan_event *e = &s->event;
    const char *p = skip_space(*at + 1);
    bool closed = *p == '}';
    if (closed)
        p++;
    while (!closed) {
        const char *key;
        size_t bytes;
        outcome o = take_key(s, &p, &key, &bytes);
        if (o != TOOK)
            return o;
        int a = find_arg(key, bytes);
        uint64_t have = a >= 0 ? (uint64_t)1 << a : 0;
        o = take_member(s, &p, a >= 0 ? &e->arg[a] : &e->other, have);
        if (o != TOOK)
            return o;
        e->have |= have;
        o = take_separator(s, &p, &closed);
        if (o != TOOK)
            return o;
    }
    *at = p;
    return TOOK;
}

/* Where a member of an event goes. */
static inline scan_value *member(scan_event *e, const char *key, size_t bytes)
{
    scan_value *other = &e->other;
    switch (bytes) {
    case 2:
        return memcmp(key, "ts", 2) == 0   ? &e->ts
               : memcmp(key, "id", 2) == 0 ? &e->id
               : memcmp(key, "ph", 2) == 0 ? &e->letter
                                           : other;
    case 3:
        if (key[1] == 'i' && key[2] == 'd')
            return key[0] == 'p' ? &e->pid : key[0] == 't' ? &e->tid : other;
        return memcmp(key, "dur", 3) == 0 ? &e->dur : memcmp(key, "cat", 3) == 0 ? &e->cat : other;
    case 4:
        return memcmp(key, "name", 4) == 0 ? &e->name : other;
    default:
        return other;
    }
}

static void forget_event(scan_event *e)
{
    e->have = 0;
    e->cat.kind = e->name.kind = e->pid.kind = e->tid.kind = 0;
    e->ts.kind = e->dur.kind = e->id.kind = e->letter.kind = 0;
}

static outcome take_event_in_full(scan *s, const char **at)
{
    scan_event *e = &s->event;
    const char *p = skip_space(*at + 1);
    forget_event(e);
    s->piece_count = 0;
    bool closed = *p == '}';
    if (closed)
        p++;
    while (!closed) {
        const char *key;
        size_t bytes;
        outcome o = take_key(s, &p, &key, &bytes);
        if (o != TOOK)
            return o;
        if (bytes == 4 && *p == '{' && memcmp(key, "args", 4) == 0) {
            o = take_args(s, &p);
        } else {
            o = take_member(s, &p, member(e, key, bytes), 0);
        }
        if (o != TOOK)
            return o;
        o = take_separator(s, &p, &closed);
        if (o != TOOK)
            return o;
    }
    *at = p;
    return TOOK;
}

static outcome take_event(scan *s, const char **at)
{
    scan_event *e = &s->event;
    const char *from = *at;
    uint64_t escapes = s->done.bad_escapes;
    forget_event(e);
    if (!shapes_follow(&s->known, at, s->end, e, &s->done.bad_escapes)) {
        s->done.bad_escapes = escapes;
        outcome o = take_event_in_full(s, at);
        if (o != TOOK)
            return o;
        if (s->piece_count <= SHAPE_PIECES)
            shapes_learn(&s->known, from, *at, s->pieces, s->piece_count);
    }
    e->ph = e->letter.kind != '"' ? 0 : e->letter.bytes == 1 ? e->letter.text[0] : '?';
    return TOOK;
}

/* ---- the window ------------------------------------------------------------------------------- */

/* Reads more bytes behind those from mark on. False at the end of the file, or when one value outgrows all bounds. */
static bool refill(scan *s)
{
    size_t kept = (size_t)(s->end - s->mark), ahead = (size_t)(s->p - s->mark);
    if (s->all_read)
        return false;
    if (kept * 2 > s->room) {
        size_t room = s->room * 2;
        char *more = room <= WINDOW_MOST ? mem_alloc(MEM_RECORDS, room + SCAN_PADDING) : NULL;
        if (more == NULL)
            return false;
        memcpy(more, s->mark, kept);
        s->base += (uint64_t)(s->mark - s->window);
        mem_free(MEM_RECORDS, s->window, s->room + SCAN_PADDING);
        s->window = more;
        s->room = room;
    } else {
        s->base += (uint64_t)(s->mark - s->window);
        memmove(s->window, s->mark, kept);
    }
    size_t got = source_read(s->from, s->window + kept, s->room - kept);
    s->all_read = got == 0;
    s->done.bytes += got;
    s->mark = s->window;
    s->p = s->window + ahead;
    s->end = s->window + kept + got;
    memset(s->window + kept + got, 0, SCAN_PADDING);
    return got > 0;
}

static uint64_t offset_of(const scan *s, const char *p)
{
    return s->base + (uint64_t)(p - s->window);
}

/* The first byte that is no space, or 0 at the end of the file. */
static char next_byte(scan *s)
{
    for (;;) {
        s->p = skip_space(s->p);
        s->mark = s->p;
        if (s->p < s->end)
            return *s->p;
        if (!refill(s))
            return 0;
    }
}

static scan_result end_here(scan *s, bool truncated)
{
    s->place = AT_END;
    if (truncated) {
        s->done.truncated = true;
        s->done.truncated_at = offset_of(s, s->mark);
    }
    return SCAN_END;
}

static void note_damage(scan *s)
{
    if (s->done.damaged++ == 0)
        s->done.first_damage = offset_of(s, s->mark);
}

/* Does an event seem to start at this brace? Keys of events are few. */
static bool looks_like_event(const char *brace)
{
    static const char *const firsts[] = { "\"ph\"", "\"name\"", "\"cat\"",  "\"pid\"",
                                          "\"ts\"", "\"tid\"",  "\"args\"", "\"dur\"" };
    const char *p = skip_space(brace + 1);
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++)
        if (strncmp(p, firsts[i], strlen(firsts[i])) == 0)
            return true;
    return false;
}

/* Moves to the next place where `}`, a comma and the start of an event stand in a row. */
static void find_event(scan *s)
{
    for (;;) {
        const char *q = memchr(s->p, '}', (size_t)(s->end - s->p));
        if (q == NULL) {
            s->p = s->mark = s->end;
        } else {
            const char *next = skip_space(q + 1);
            if (*next == ',')
                next = skip_space(next + 1);
            if (next + SCAN_PADDING / 2 < s->end || s->all_read) {
                if (next < s->end && *next == '{' && looks_like_event(next)) {
                    s->p = s->mark = next;
                    return;
                }
                s->p = q + 1;
                continue;
            }
            s->p = s->mark = q;
        }
        if (!refill(s) && s->p >= s->end)
            return;
    }
}

static void resynchronise(scan *s)
{
    note_damage(s);
    s->p++;
    find_event(s);
}

static scan_result next_in_list(scan *s)
{
    for (;;) {
        char c = next_byte(s);
        if (c == 0)
            return end_here(s, true);
        if (c == ']') {
            s->p++;
            if (s->list_is_file)
                return end_here(s, false);
            s->place = IN_OBJECT;
            return scan_next(s);
        }
        if (c == ',') {
            s->p++;
            continue;
        }
        outcome o = BROKEN;
        uint64_t escapes = s->done.bad_escapes;
        if (c == '{') {
            const char *at = s->p;
            o = take_event(s, &at);
            if (o == TOOK) {
                s->event.offset = offset_of(s, s->p);
                s->escapes_before = escapes;
                s->p = at;
                s->done.events++;
                return SCAN_EVENT;
            }
        }
        if (o == SHORT) {
            s->done.bad_escapes = escapes; /* it is read again */
            if (refill(s))
                continue;
            return end_here(s, true);
        }
        resynchronise(s);
    }
}

/* A key and its value in the outermost object. */
static scan_result next_in_object(scan *s)
{
    for (;;) {
        char c = next_byte(s);
        if (c == 0)
            return end_here(s, true);
        if (c == '}')
            return end_here(s, false);
        if (c == ',') {
            s->p++;
            continue;
        }
        const char *at = s->p, *key;
        size_t bytes;
        outcome o = take_key(s, &at, &key, &bytes);
        if (o == TOOK && *at == '[' && bytes == 11 && memcmp(key, "traceEvents", 11) == 0) {
            s->p = at + 1;
            s->place = IN_LIST;
            s->done.has_list = true;
            return next_in_list(s);
        }
        scan_value v;
        const char *value = at;
        if (o == TOOK)
            o = take_value(s, &at, &v);
        if (o == TOOK) {
            s->meta_key = (scan_value) { .text = key, .bytes = (uint32_t)bytes, .kind = '"' };
            s->meta_text = at - value <= META_BYTES ? value : NULL;
            s->meta_bytes = (size_t)(at - value);
            s->p = at;
            return SCAN_META;
        }
        if (o == SHORT && refill(s))
            continue;
        if (o == SHORT)
            return end_here(s, true);
        note_damage(s);
        return end_here(s, true);
    }
}

static scan_result begin(scan *s)
{
    char c = next_byte(s);
    if (offset_of(s, s->p) == 0 && s->end - s->p >= 3 && memcmp(s->p, "\xef\xbb\xbf", 3) == 0) {
        s->p += 3; /* a byte-order mark */
        c = next_byte(s);
    }
    if (c != '[' && c != '{') {
        s->done.no_json = true;
        return end_here(s, false);
    }
    s->p++;
    s->list_is_file = c == '[';
    s->done.has_list = s->list_is_file;
    s->place = s->list_is_file ? IN_LIST : IN_OBJECT;
    return scan_next(s);
}

scan_result scan_next(scan *s)
{
    switch (s->place) {
    case AT_START:
        return begin(s);
    case IN_OBJECT:
        return next_in_object(s);
    case IN_LIST:
        return next_in_list(s);
    default:
        return SCAN_END;
    }
}

int scan_open(source *from, scan **out, foray_error *err)
{
    scan *s = mem_alloc_zeroed(MEM_RECORDS, sizeof *s);
    char *window = mem_alloc(MEM_RECORDS, WINDOW_BYTES + SCAN_PADDING);
    if (s == NULL || window == NULL) {
        mem_free(MEM_RECORDS, s, sizeof *s);
        mem_free(MEM_RECORDS, window, WINDOW_BYTES + SCAN_PADDING);
        return fail(err, FORAY_ENOMEM, "%s: out of memory", source_name(from));
    }
    pthread_once(&arg_once, fill_arg_slots);
    shapes_init(&s->known);
    memset(window, 0, SCAN_PADDING);
    s->from = from;
    s->window = window;
    s->room = WINDOW_BYTES;
    s->mark = s->p = s->end = window;
    *out = s;
    return FORAY_OK;
}

/* Empties the window; reading goes on at offset. */
static void move_window(scan *s, uint64_t offset)
{
    memset(s->window, 0, SCAN_PADDING);
    s->mark = s->p = s->end = s->window;
    s->base = s->done.bytes = offset;
    s->all_read = false;
}

int scan_open_inside(source *from, uint64_t offset, const scan *main, scan **out, foray_error *err)
{
    int rc = scan_open(from, out, err);
    if (rc != FORAY_OK)
        return rc;
    scan *s = *out;
    move_window(s, offset);
    s->place = IN_LIST;
    s->list_is_file = main->list_is_file;
    find_event(s);
    return FORAY_OK;
}

bool scan_skip_to(scan *s, uint64_t offset, uint64_t events, uint64_t bad_escapes)
{
    if (!source_seek(s->from, offset))
        return false;
    move_window(s, offset);
    s->done.events += events - 1; /* the current one is among them */
    s->done.bad_escapes = s->escapes_before + bad_escapes;
    return true;
}

uint64_t scan_offset(const scan *s)
{
    return offset_of(s, s->p);
}

void scan_close(scan *s)
{
    if (s == NULL)
        return;
    mem_free(MEM_RECORDS, s->window, s->room + SCAN_PADDING);
    mem_free(MEM_RECORDS, s, sizeof *s);
}

const scan_event *scan_current(const scan *s)
{
    return &s->event;
}

void scan_meta(const scan *s, scan_value *key, const char **value, size_t *bytes)
{
    *key = s->meta_key;
    *value = s->meta_text;
    *bytes = s->meta_bytes;
}

const scan_outcome *scan_done(const scan *s)
{
    return &s->done;
}

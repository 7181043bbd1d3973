/* read_chrome.c: Chrome-style JSON into the store: PyTorch/Kineto, Ascend trace_view, msprof, foray's timelines, and the
 * debug dump of an ACL graph.
 *
 * Only what stands in the event itself is used here; what needs the whole file (process names that come last, the
 * class of a call's name) is left to settle.c. Counters and instants are counted; autograd's arrows are passed over.
 * Threads: one at a time per store.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "observe/phase.h"
#include "timeline/decimal.h"
#include "timeline/list.h"
#include "timeline/read.h"
#include "timeline/read_ahead.h"
#include "timeline/read_chrome.h"

static part *this_part(chrome_reader *r)
{
    return &r->s->parts[r->part];
}

static void count_fault(chrome_reader *r, fault f, uint64_t offset)
{
    part *p = this_part(r);
    if (p->faults[f]++ == 0)
        p->fault_at[f] = offset;
}

static uint32_t text_of(chrome_reader *r, const scan_value *v)
{
    if (v->kind == 0)
        return 0;
    return v->escaped ? names_add_escaped(&r->s->names, v->text, v->bytes)
                      : names_add(&r->s->names, v->text, v->bytes);
}

static bool is_text(const scan_value *v, const char *text)
{
    size_t bytes = strlen(text);
    return v->kind != 0 && v->bytes == bytes && memcmp(v->text, text, bytes) == 0;
}

static bool whole(const scan_value *v, uint64_t *out)
{
    return v->kind != 0 && decimal_whole(v->text, v->bytes, out);
}

/* A whole number of an argument, or `otherwise` where there is none. */
static int64_t argument(const scan_event *e, scan_arg a, int64_t otherwise)
{
    uint64_t value;
    return (e->have >> a & 1) != 0 && whole(&e->arg[a], &value) ? (int64_t)value : otherwise;
}

/* Up to 16 bytes of a value and zeros behind them; what stands behind it in the window is read and masked. */
static void take_key(const scan_value *v, uint64_t key[2])
{
    static const unsigned char ones_then_zeros[32] = { 255, 255, 255, 255, 255, 255, 255, 255,
                                                       255, 255, 255, 255, 255, 255, 255, 255 };
    uint64_t text[2], mask[2];
    memcpy(text, v->text, sizeof text);
    memcpy(mask, ones_then_zeros + 16 - v->bytes, sizeof mask);
    key[0] = text[0] & mask[0];
    key[1] = text[1] & mask[1];
}

static int find_new_lane(chrome_reader *r, const scan_event *e)
{
    if (e->pid.kind != 0 && e->pid.bytes > 9 && memcmp(e->pid.text + e->pid.bytes - 9, " aclGraph", 9) == 0)
        r->saw_dump = true;
    return store_lane(r->s, r->part, text_of(r, &e->pid), text_of(r, &e->tid));
}

static int find_lane(chrome_reader *r, const scan_event *e)
{
    if (e->pid.kind == 0 || e->tid.kind == 0 || e->pid.bytes > 16 || e->tid.bytes > 16)
        return find_new_lane(r, e);
    uint64_t pid[2], tid[2];
    take_key(&e->pid, pid);
    take_key(&e->tid, tid);
    uint64_t mixed = (pid[0] ^ pid[1] * 3 ^ tid[0] * 5 ^ tid[1] * 7) * 0x9e3779b97f4a7c15u;
    known_lane *k = &r->known[mixed >> 60];
    if (k->lane != 0 && k->pid[0] == pid[0] && k->pid[1] == pid[1] && k->tid[0] == tid[0] &&
        k->tid[1] == tid[1] && k->pid_bytes == e->pid.bytes && k->tid_bytes == e->tid.bytes)
        return (int)k->lane - 1;
    int found = find_new_lane(r, e);
    *k = (known_lane) { .pid = { pid[0], pid[1] },
                        .tid = { tid[0], tid[1] },
                        .pid_bytes = e->pid.bytes,
                        .tid_bytes = e->tid.bytes,
                        .lane = found >= 0 ? (uint32_t)found + 1 : 0 };
    return found;
}

/* ---- metadata --------------------------------------------------------------------------------- */

static void take_metadata(chrome_reader *r, const scan_event *e)
{
    if ((e->have >> ARG_NAME & 1) == 0)
        return;
    uint32_t shown = text_of(r, &e->arg[ARG_NAME]);
    if (is_text(&e->name, "process_name")) {
        int l = store_lane(r->s, r->part, text_of(r, &e->pid), STORE_PROCESS_TID);
        if (l >= 0)
            r->s->lanes[l].process = shown;
        const char *name = names_text(&r->s->names, shown);
        if (strcmp(name, "Ascend Hardware") == 0 || strcmp(name, "CANN") == 0)
            r->saw_ascend = true;
    } else if (is_text(&e->name, "thread_name")) {
        int l = find_lane(r, e);
        if (l >= 0)
            r->s->lanes[l].thread = shown;
    }
}

/* The number behind "key": in a piece of JSON; `otherwise` where it is not there. */
static int64_t number_behind(const char *text, size_t bytes, const char *key, int64_t otherwise)
{
    const char *found = memmem(text, bytes, key, strlen(key));
    if (found == NULL)
        return otherwise;
    const char *p = found + strlen(key), *end = text + bytes;
    while (p < end && (*p == ' ' || *p == ':' || *p == '"'))
        p++;
    const char *from = p;
    while (p < end && ((*p >= '0' && *p <= '9') || *p == '-'))
        p++;
    uint64_t value;
    return decimal_whole(from, (size_t)(p - from), &value) ? (int64_t)value : otherwise;
}

static bool on_a_clock(int64_t ns)
{
    return ns >= -STORE_MOST_NS && ns <= STORE_MOST_NS;
}

static bool take_time(const scan_value *v, int64_t *ns)
{
    return v->kind != 0 && decimal_ns(v->text, v->bytes, 3, ns) && on_a_clock(*ns);
}

static void set_base(part *p, int64_t base)
{
    p->base_ns = on_a_clock(base) ? base : 0;
}

static void take_meta(chrome_reader *r, const scan *sc)
{
    scan_value key;
    const char *value;
    size_t bytes;
    scan_meta(sc, &key, &value, &bytes);
    part *p = this_part(r);
    if (value == NULL)
        return;
    if (is_text(&key, "distributedInfo")) {
        p->rank = (int)number_behind(value, bytes, "\"rank\"", -1);
    } else if (is_text(&key, "baseTimeNanoseconds")) {
        uint64_t base;
        if (decimal_whole(value, bytes, &base))
            set_base(p, (int64_t)base);
    } else if (is_text(&key, "schemaVersion") || is_text(&key, "deviceProperties")) {
        r->saw_kineto = true;
    } else if (is_text(&key, "metadata")) { /* foray's */
        set_base(p, number_behind(value, bytes, "\"base_ns\"", 0));
        const char *manifest = memmem(value, bytes, "\"manifest\":{", 12),
                   *end = memmem(value, bytes, ",\"base_ns\"", 10);
        if (manifest != NULL && end != NULL && end > manifest + 11 && p->manifest == NULL) {
            p->manifest_bytes = (size_t)(end - manifest - 11);
            p->manifest = mem_alloc(MEM_RECORDS, p->manifest_bytes + 1);
            if (p->manifest != NULL) {
                memcpy(p->manifest, manifest + 11, p->manifest_bytes);
                p->manifest[p->manifest_bytes] = '\0';
            }
        }
        p->faults[FAULT_LOST_TASKS] = (uint64_t)number_behind(value, bytes, "\"lost_tasks\"", 0);
    }
}

/* ---- events ----------------------------------------------------------------------------------- */

static event_kind kind_of_category(chrome_reader *r, const scan_value *c)
{
#define TEXT(t) t, sizeof t - 1
    static const struct {
        const char *text;
        uint32_t bytes;
        event_kind kind;
    } kinds[] = {
        { TEXT("cpu_op"), EVENT_OP },
        { TEXT("python_function"), EVENT_PYTHON },
        { TEXT("kernel"), EVENT_KERNEL },
        { TEXT("cuda_runtime"), EVENT_CALL },
        { TEXT("user_annotation"), EVENT_ANNOTATION },
        { TEXT("gpu_user_annotation"), EVENT_SPAN },
        { TEXT("gpu_memcpy"), EVENT_COPY },
        { TEXT("gpu_memset"), EVENT_SET },
        { TEXT("cuda_driver"), EVENT_CALL },
        { TEXT("cuda_sync"), EVENT_SYNC_NOTE },
        { TEXT("enqueue"), EVENT_ENQUEUE },
        { TEXT("dequeue"), EVENT_DEQUEUE },
        { TEXT("Kernel"), EVENT_KERNEL },
        { TEXT("Memcpy"), EVENT_COPY },
        { TEXT("Memset"), EVENT_SET },
        { TEXT("Runtime"), EVENT_CALL },
        { TEXT("xpu_runtime"), EVENT_CALL },
        { TEXT("xpu_driver"), EVENT_CALL },
        { TEXT("privateuse1_runtime"), EVENT_CALL },
        { TEXT("privateuse1_driver"), EVENT_CALL },
        { TEXT("collective_comm"), EVENT_SPAN },
        { TEXT("compute"), EVENT_KERNEL },
        { TEXT("attention"), EVENT_KERNEL },
        { TEXT("copy"), EVENT_COPY },
        { TEXT("communication"), EVENT_COMM },
        { TEXT("host"), EVENT_HOST_TASK },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (c->bytes == kinds[i].bytes && memcmp(c->text, kinds[i].text, kinds[i].bytes) == 0) {
            if (kinds[i].kind == EVENT_CALL)
                r->saw_kineto = true;
            return kinds[i].kind;
        }
    }
    return EVENT_OTHER;
}

static bool has(const scan_event *e, scan_arg a)
{
    return (e->have >> a & 1) != 0;
}

static void take_graph_and_stream(event_detail *d, const scan_event *e)
{
    int64_t model = argument(e, has(e, ARG_MODEL_ID) ? ARG_MODEL_ID : ARG_MODEL_ID_LOWER, UINT32_MAX);
    d->graph = argument(e, ARG_GRAPH_ID, 0);
    d->node = argument(e, ARG_GRAPH_NODE_ID, -1);
    if (d->graph <= 0)
        d->graph = model != UINT32_MAX ? model : -1;
    d->stream =
        argument(e, ARG_PHYSIC_STREAM, argument(e, ARG_STREAM_ID, argument(e, ARG_STREAM_ID_LOWER, -1)));
    d->task = argument(e, ARG_TASK_ID, argument(e, ARG_TASK_ID_LOWER, -1));
}

static void take_foray(chrome_reader *r, event_detail *d, const scan_event *e)
{
    r->saw_foray = true;
    d->graph = argument(e, ARG_FORAY_GRAPH, -1);
    d->node = argument(e, ARG_FORAY_NODE, -1);
    d->round = argument(e, ARG_FORAY_ROUND, -1);
    d->rows = (int32_t)argument(e, ARG_FORAY_ROWS, -1);
    d->waited_event = (int32_t)argument(e, ARG_FORAY_EVENT, -1);
    const scan_value *v = &e->arg[ARG_FORAY_PHASE];
    char name[32];
    if (v->bytes < sizeof name) {
        memcpy(name, v->text, v->bytes);
        name[v->bytes] = '\0';
        d->phase = (int8_t)phase_parse(name);
    }
    v = &e->arg[ARG_FORAY_READY];
    if (has(e, ARG_FORAY_READY))
        decimal_ns(v->text, v->bytes, 3, &d->ready);
}

/* Arguments of events that have more to say than a correlation. */
static void take_detail(chrome_reader *r, event *out, const scan_event *e)
{
    const uint64_t wanted = (uint64_t)1 << ARG_TASK_TYPE | (uint64_t)1 << ARG_WAIT_RECORD |
                            (uint64_t)1 << ARG_COLLECTIVE | (uint64_t)1 << ARG_FORAY_PHASE |
                            (uint64_t)1 << ARG_TASK_ID | (uint64_t)1 << ARG_TASK_ID_LOWER |
                            (uint64_t)1 << ARG_MODEL_ID_LOWER;
    bool graph = has(e, ARG_GRAPH_ID) && argument(e, ARG_GRAPH_ID, 0) > 0;
    if ((e->have & wanted) == 0 && !graph && out->kind != EVENT_SYNC_NOTE)
        return;
    event_detail *d = store_detail(r->s, out);
    if (d == NULL)
        return;
    if (has(e, ARG_FORAY_PHASE) && has(e, ARG_FORAY_ROUND)) {
        take_foray(r, d, e);
        return;
    }
    take_graph_and_stream(d, e);
    if (has(e, ARG_TASK_TYPE))
        d->task_type = text_of(r, &e->arg[ARG_TASK_TYPE]);
    if (has(e, ARG_COLLECTIVE))
        d->collective = text_of(r, &e->arg[ARG_COLLECTIVE]);
    if (has(e, ARG_GROUP))
        d->group = text_of(r, &e->arg[ARG_GROUP]);
    d->sequence = argument(e, ARG_SEQUENCE, -1);
    d->src_rank = (int32_t)argument(e, ARG_SRC_RANK, -1);
    d->dst_rank = (int32_t)argument(e, ARG_DST_RANK, -1);
    if (has(e, ARG_ACTIVE_STREAM))
        d->wait_stream = (int32_t)argument(e, ARG_ACTIVE_STREAM, -1);
    if (out->kind == EVENT_SYNC_NOTE) {
        int64_t record = argument(e, ARG_WAIT_RECORD, 0);
        d->record_link = record > 0 ? store_link(r->s, (uint64_t)record) : 0;
        d->wait_stream = (int32_t)argument(e, ARG_WAIT_STREAM, -1);
        d->stream = argument(e, ARG_STREAM, -1);
    }
}

static uint32_t link_of(chrome_reader *r, const scan_event *e)
{
    static const scan_arg keys[] = { ARG_CORRELATION, ARG_CONNECTION_ID, ARG_CORRELATION_ID };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint64_t value;
        if (has(e, keys[i]) && whole(&e->arg[keys[i]], &value))
            return store_link(r->s, value);
    }
    return 0;
}

static void take_complete(chrome_reader *r, const scan_event *e)
{
    int64_t start, dur = 0;
    if (!take_time(&e->ts, &start)) {
        count_fault(r, FAULT_BAD_TIME, e->offset);
        return;
    }
    bool finished = e->dur.kind != 0 && decimal_ns(e->dur.text, e->dur.bytes, 3, &dur) && dur >= 0 &&
                    !__builtin_add_overflow(start, dur, &(int64_t) { 0 });
    event_kind kind = e->cat.kind == '"' ? kind_of_category(r, &e->cat) : EVENT_OTHER;
    if (is_text(&e->cat, "Trace"))
        return;
    int l = find_lane(r, e);
    event *out =
        l < 0 ? NULL : store_add(r->s, (uint16_t)l, kind, text_of(r, &e->name), start, finished ? dur : 0);
    if (out == NULL)
        return;
    if (!finished) {
        out->flags |= EVENT_UNFINISHED;
        count_fault(r, FAULT_UNFINISHED, e->offset);
    }
    if (e->have != 0) {
        out->link = link_of(r, e);
        take_detail(r, out, e);
    }
}

static void take_begin(chrome_reader *r, const scan_event *e, bool async)
{
    size_t before = r->s->count;
    scan_event begin = *e;
    begin.dur = (scan_value) { .text = "0", .bytes = 1, .kind = '0' };
    take_complete(r, &begin);
    if (r->s->count == before)
        return;
    event *opened = store_event(r->s, before);
    opened->flags |= EVENT_UNFINISHED;
    open_event o = { .event = (uint32_t)before, .lane = opened->lane, .async = async };
    if (async) { /* settle.c asks the rules whether it is an annotation */
        opened->kind = EVENT_ANNOTATION;
        opened->flags |= EVENT_ASYNC;
        o.cat = text_of(r, &e->cat);
        o.id = text_of(r, &e->id);
    }
    if (list_reserve(&r->open, &r->open_cap, r->open_count + 1, sizeof *r->open))
        r->open[r->open_count++] = o;
    else
        r->s->failed = true;
}

/* An end closes the latest open event of its lane, or the latest of its own name where it has one; of an async range that of
 * its category and id. */
static void take_end(chrome_reader *r, const scan_event *e, bool async)
{
    enum { LOOK_BACK = 4096 };
    int64_t ts;
    if (!take_time(&e->ts, &ts)) {
        count_fault(r, FAULT_BAD_TIME, e->offset);
        return;
    }
    int l = find_lane(r, e);
    uint32_t name = text_of(r, &e->name), cat = async ? text_of(r, &e->cat) : 0,
             id = async ? text_of(r, &e->id) : 0;
    for (size_t i = r->open_count; i-- > 0 && i + LOOK_BACK >= r->open_count;) {
        const open_event *o = &r->open[i];
        event *opened = store_event(r->s, o->event);
        if (o->async != async || (async ? o->cat != cat || o->id != id : o->lane != l) ||
            (name != 0 && opened->name != name) || opened->start > ts)
            continue;
        opened->dur = ts - opened->start;
        opened->flags &= (uint8_t)~EVENT_UNFINISHED;
        memmove(&r->open[i], &r->open[i + 1], (r->open_count - i - 1) * sizeof *r->open);
        r->open_count--;
        return;
    }
    count_fault(r, FAULT_UNPAIRED, e->offset);
}

/* Arrows that carry an edge: foray's events, and Ascend's from call to task where no connection id says it. */
static void take_flow(chrome_reader *r, const scan_event *e)
{
    uint8_t what = is_text(&e->cat, "event")          ? FLOW_EVENT
                   : is_text(&e->cat, "HostToDevice") ? FLOW_LAUNCH
                                                      : 0;
    int64_t ts;
    if (what == 0 || e->id.kind == 0 || !take_time(&e->ts, &ts))
        return;
    int l = find_lane(r, e);
    if (l < 0 || !list_reserve(&r->s->flows, &r->s->flow_cap, r->s->flow_count + 1, sizeof *r->s->flows)) {
        r->s->failed = true;
        return;
    }
    r->s->flows[r->s->flow_count++] = (flow) {
        .ts = ts, .id = text_of(r, &e->id), .lane = (uint16_t)l, .finish = e->ph == 'f', .what = what
    };
}

void chrome_take(chrome_reader *r, const scan_event *e)
{
    switch (e->ph) {
    case 'X':
        take_complete(r, e);
        break;
    case 'M':
        take_metadata(r, e);
        break;
    case 's':
    case 'f':
        take_flow(r, e);
        break;
    case 'B':
        take_begin(r, e, false);
        break;
    case 'E':
        take_end(r, e, false);
        break;
    case 'b': /* ranges that belong to no thread's stack: as they are written now, and as they were */
    case 'S':
        take_begin(r, e, true);
        break;
    case 'e':
    case 'F':
        take_end(r, e, true);
        break;
    case 'C':
        count_fault(r, FAULT_COUNTERS, e->offset);
        break;
    case 'i':
    case 'I':
    case 'n':
    case 'T':
    case 'p':
        count_fault(r, FAULT_INSTANTS, e->offset);
        break;
    default: /* arrows' middles, samples, objects, … */
        break;
    }
}

bool chrome_stands_alone(const scan_event *e)
{
    switch (e->ph) {
    case 'B':
    case 'E':
    case 'b':
    case 'e':
    case 'S':
    case 'F':
        return false;
    default:
        return true;
    }
}

/* ---- the file --------------------------------------------------------------------------------- */

static void close_file(chrome_reader *r, source *from, const scan_outcome *done)
{
    part *p = this_part(r);
    char rest[4096]; /* the checksum of packed data comes behind the last event */
    while (source_packing(from) != SOURCE_PLAIN && source_read(from, rest, sizeof rest) > 0)
        continue;
    p->bytes = done->bytes;
    p->packed_bytes = source_packed_bytes(from);
    p->events = done->events;
    for (size_t i = 0; i < r->open_count; i++)
        count_fault(r, FAULT_UNPAIRED, 0);
    if (done->damaged > 0) {
        p->faults[FAULT_DAMAGED] = done->damaged;
        p->fault_at[FAULT_DAMAGED] = done->first_damage;
    }
    p->faults[FAULT_BAD_ESCAPES] = done->bad_escapes;
    if (source_problem(from)[0] != '\0') {
        p->faults[FAULT_PACKING] = 1;
        snprintf(p->problem, sizeof p->problem, "%s", source_problem(from));
    }
    if (done->truncated) {
        p->faults[FAULT_TRUNCATED] = 1;
        p->fault_at[FAULT_TRUNCATED] = done->truncated_at;
    }
    p->format = r->saw_dump     ? FORMAT_DUMP
                : r->saw_foray  ? FORMAT_FORAY
                : r->saw_ascend ? FORMAT_ASCEND
                                : FORMAT_KINETO;
}

int read_chrome(store *s, source *from, const char *path, foray_error *err)
{
    chrome_reader r = { .s = s, .part = (uint32_t)s->part_count };
    scan *sc;
    int rc = scan_open(from, &sc, err);
    if (rc != FORAY_OK)
        return rc;
    if (store_add_part(s, path, FORMAT_UNKNOWN) == NULL) {
        scan_close(sc);
        return fail(err, FORAY_ENOMEM, "%s: out of memory", path);
    }
    ahead *second = NULL;
    bool begun = false;
    for (scan_result got; (got = scan_next(sc)) != SCAN_END && !s->failed && !s->names.failed;) {
        if (got == SCAN_META) {
            take_meta(&r, sc);
            continue;
        }
        if (!begun) /* the first event: it shows that the list has begun */
            second = ahead_start(from, sc);
        begun = true;
        if (!ahead_takes(&second, sc, &r))
            chrome_take(&r, scan_current(sc));
    }
    ahead_drop(&second);
    const scan_outcome *done = scan_done(sc);
    if (s->failed || s->names.failed)
        rc = fail(err, FORAY_ENOMEM, "%s: out of memory after %" PRIu64 " events", path, done->events);
    else if (done->bytes == 0 && source_problem(from)[0] != '\0')
        rc = fail(err, FORAY_EFILE, "%s: %s", path, source_problem(from));
    else if (done->bytes == 0)
        rc =
            fail(err, FORAY_EFILE, "%s: the file is empty (was the profiler stopped before it wrote?)", path);
    else if (done->no_json)
        rc = fail(err, FORAY_EFILE, "%s: byte 0: no JSON object or array, so no trace", path);
    else if (!done->has_list)
        rc = fail(err, FORAY_EFILE, "%s: JSON without traceEvents, so no trace%s", path,
                  done->truncated ? " (the file is cut short)" : "");
    else
        close_file(&r, from, done);
    if (rc != FORAY_OK && done->events == 0)
        store_drop_part(s);
    scan_close(sc);
    list_free(&r.open, &r.open_cap, sizeof *r.open);
    return rc;
}

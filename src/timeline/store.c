/* store.c: the events in memory, in chunks of 32768 (1 MiB), so that growth never copies. */
#include "timeline/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/list.h"

static const char *const kind_names[EVENT_KINDS] = {
    [EVENT_OTHER] = "other",
    [EVENT_OP] = "operator",
    [EVENT_PYTHON] = "python",
    [EVENT_ANNOTATION] = "annotation",
    [EVENT_LAUNCH] = "launch",
    [EVENT_GRAPH_LAUNCH] = "graph launch",
    [EVENT_COPY_CALL] = "copy call",
    [EVENT_SYNC_CALL] = "sync",
    [EVENT_RECORD_CALL] = "event record call",
    [EVENT_WAIT_CALL] = "stream wait call",
    [EVENT_CAPTURE_CALL] = "graph capture",
    [EVENT_ALLOC_CALL] = "allocation",
    [EVENT_CALL] = "runtime call",
    [EVENT_ENQUEUE] = "enqueue",
    [EVENT_DEQUEUE] = "dequeue",
    [EVENT_KERNEL] = "kernel",
    [EVENT_COPY] = "copy",
    [EVENT_SET] = "set",
    [EVENT_COMM] = "communication",
    [EVENT_NOTIFY_WAIT] = "peer wait",
    [EVENT_WAIT] = "event wait",
    [EVENT_RECORD] = "event record",
    [EVENT_MARK] = "mark",
    [EVENT_HOST_TASK] = "host task",
    [EVENT_SPAN] = "span",
    [EVENT_SYNC_NOTE] = "sync note",
};

static const char *const format_names[] = { "unknown", "kineto",     "ascend", "foray",
                                            "nsys",    "graph-dump", "steps" };

const char *event_kind_name(event_kind k)
{
    return (unsigned)k < EVENT_KINDS ? kind_names[k] : "unknown";
}

const char *trace_format_name(trace_format f)
{
    return format_names[(unsigned)f <= FORMAT_STEPS ? f : 0];
}

void store_init(store *s)
{
    *s = (store) { 0 };
    names_init(&s->names);
}

void store_free(store *s)
{
    for (size_t i = 0; i < s->part_count; i++) {
        mem_free(MEM_RECORDS, s->parts[i].path, strlen(s->parts[i].path) + 1);
        if (s->parts[i].manifest != NULL)
            mem_free(MEM_RECORDS, s->parts[i].manifest, s->parts[i].manifest_bytes + 1);
    }
    chunks_free(&s->chunks, STORE_CHUNK * sizeof(event));
    list_free(&s->parts, &s->part_cap, sizeof *s->parts);
    list_free(&s->lanes, &s->lane_cap, sizeof *s->lanes);
    list_free(&s->flows, &s->flow_cap, sizeof *s->flows);
    list_free(&s->details, &s->detail_cap, sizeof *s->details);
    list_free(&s->lane_slot, &s->lane_slot_cap, sizeof *s->lane_slot);
    names_free(&s->names);
    *s = (store) { 0 };
}

part *store_add_part(store *s, const char *path, trace_format format)
{
    size_t bytes = strlen(path) + 1;
    char *copy = mem_alloc(MEM_RECORDS, bytes);
    if (copy == NULL || !list_reserve(&s->parts, &s->part_cap, s->part_count + 1, sizeof *s->parts)) {
        mem_free(MEM_RECORDS, copy, bytes);
        s->failed = true;
        return NULL;
    }
    memcpy(copy, path, bytes);
    part *p = &s->parts[s->part_count++];
    *p = (part) { .path = copy, .format = format, .rank = -1, .first = s->count };
    return p;
}

void store_drop_part(store *s)
{
    part *p = &s->parts[--s->part_count];
    mem_free(MEM_RECORDS, p->path, strlen(p->path) + 1);
    if (p->manifest != NULL)
        mem_free(MEM_RECORDS, p->manifest, p->manifest_bytes + 1);
}

static size_t lane_hash(uint32_t of_part, uint32_t pid, uint32_t tid)
{
    uint64_t h = ((uint64_t)of_part << 52) ^ ((uint64_t)pid << 26) ^ tid;
    h *= 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32);
}

static bool grow_lane_slots(store *s)
{
    size_t slots = s->lane_slots == 0 ? 256 : s->lane_slots * 2;
    if (!list_reserve(&s->lane_slot, &s->lane_slot_cap, slots, sizeof *s->lane_slot))
        return false;
    memset(s->lane_slot, 0, slots * sizeof *s->lane_slot);
    s->lane_slots = slots;
    for (size_t i = 0; i < s->lane_count; i++) {
        const lane *l = &s->lanes[i];
        size_t at = lane_hash(l->part, l->pid, l->tid) & (slots - 1);
        while (s->lane_slot[at] != 0)
            at = (at + 1) & (slots - 1);
        s->lane_slot[at] = (uint32_t)i + 1;
    }
    return true;
}

int store_lane(store *s, uint32_t of_part, uint32_t pid, uint32_t tid)
{
    if ((s->lane_count + 1) * 2 > s->lane_slots && !grow_lane_slots(s)) {
        s->failed = true;
        return -1;
    }
    size_t at = lane_hash(of_part, pid, tid) & (s->lane_slots - 1);
    for (; s->lane_slot[at] != 0; at = (at + 1) & (s->lane_slots - 1)) {
        const lane *l = &s->lanes[s->lane_slot[at] - 1];
        if (l->part == of_part && l->pid == pid && l->tid == tid)
            return (int)(s->lane_slot[at] - 1);
    }
    if (s->lane_count == STORE_MOST_LANES ||
        !list_reserve(&s->lanes, &s->lane_cap, s->lane_count + 1, sizeof *s->lanes)) {
        s->failed = true;
        return -1;
    }
    s->lanes[s->lane_count] = (lane) { .part = of_part, .pid = pid, .tid = tid, .device = -1, .stream = -1 };
    s->lane_slot[at] = (uint32_t)++s->lane_count;
    return (int)s->lane_count - 1;
}

event *store_add(store *s, uint16_t on, event_kind kind, uint32_t name, int64_t start, int64_t dur)
{
    size_t chunk = s->count >> STORE_CHUNK_BITS;
    if (chunk >= s->chunks.count && (s->count >= UINT32_MAX - STORE_CHUNK ||
                                     !chunks_reach(&s->chunks, chunk, STORE_CHUNK * sizeof(event)))) {
        s->failed = true;
        return NULL;
    }
    event *e = store_event(s, s->count++);
    *e = (event) { .start = start, .dur = dur, .name = name, .lane = on, .kind = (uint8_t)kind };
    s->lanes[on].events++;
    return e;
}

/* ---- two stores into one ---------------------------------------------------------------------- */

enum { LARGE_LINK = 1u << 31 }; /* a link that is a name's number: see store_link */

static uint32_t moved_link(const uint32_t *name, uint32_t link)
{
    return (link & LARGE_LINK) != 0 ? LARGE_LINK | name[link & ~(uint32_t)LARGE_LINK] : link;
}

static void append_details(store *s, const store *later, const uint32_t *name)
{
    if (!list_reserve(&s->details, &s->detail_cap, s->detail_count + later->detail_count,
                      sizeof *s->details)) {
        s->failed = true;
        return;
    }
    for (size_t i = 0; i < later->detail_count; i++) {
        event_detail *d = &s->details[s->detail_count++];
        *d = later->details[i];
        d->record_link = moved_link(name, d->record_link);
        d->task_type = name[d->task_type];
        d->collective = name[d->collective];
        d->group = name[d->group];
    }
}

static void append_flows(store *s, const store *later, const uint32_t *name, const uint16_t *on)
{
    if (!list_reserve(&s->flows, &s->flow_cap, s->flow_count + later->flow_count, sizeof *s->flows)) {
        s->failed = true;
        return;
    }
    for (size_t i = 0; i < later->flow_count; i++) {
        flow *f = &s->flows[s->flow_count++];
        *f = later->flows[i];
        f->id = name[f->id];
        f->lane = on[f->lane];
    }
}

static void append_events(store *s, store *later, const uint32_t *name, const uint16_t *on)
{
    uint32_t details = (uint32_t)s->detail_count;
    for (size_t i = 0; i < later->count && !s->failed; i++) {
        const event *from = store_event(later, i);
        event *e =
            store_add(s, on[from->lane], (event_kind)from->kind, name[from->name], from->start, from->dur);
        if (e == NULL)
            return;
        e->flags = from->flags;
        e->link = moved_link(name, from->link);
        e->more = from->more != 0 ? from->more + details : 0;
        if ((i + 1) % STORE_CHUNK == 0)
            chunks_pass_on(&later->chunks, i >> STORE_CHUNK_BITS, &s->chunks, STORE_CHUNK * sizeof(event));
    }
}

void store_append(store *s, store *later)
{
    uint32_t part_number = (uint32_t)s->part_count - 1;
    uint32_t *name = mem_alloc(MEM_RECORDS, later->names.count * sizeof *name);
    uint16_t *on = mem_alloc(MEM_RECORDS, (later->lane_count + 1) * sizeof *on);
    s->failed = s->failed || name == NULL || on == NULL;
    for (size_t i = 0; i < later->names.count && !s->failed; i++)
        name[i] = names_add(&s->names, names_text(&later->names, (uint32_t)i), later->names.bytes[i]);
    for (size_t i = 0; i < later->lane_count && !s->failed; i++) {
        const lane *l = &later->lanes[i];
        int to = store_lane(s, part_number, name[l->pid],
                            l->tid != STORE_PROCESS_TID ? name[l->tid] : STORE_PROCESS_TID);
        if (to < 0)
            break;
        on[i] = (uint16_t)to;
        s->lanes[to].process = l->process != 0 ? name[l->process] : s->lanes[to].process;
        s->lanes[to].thread = l->thread != 0 ? name[l->thread] : s->lanes[to].thread;
    }
    if (!s->failed) {
        append_events(s, later, name, on);
        append_details(s, later, name);
        append_flows(s, later, name, on);
        part *p = &s->parts[part_number];
        const part *q = &later->parts[0];
        for (int f = 0; f < FAULT_COUNT; f++) {
            p->fault_at[f] = p->faults[f] == 0 ? q->fault_at[f] : p->fault_at[f];
            p->faults[f] += q->faults[f];
        }
    }
    mem_free(MEM_RECORDS, name, later->names.count * sizeof *name);
    mem_free(MEM_RECORDS, on, (later->lane_count + 1) * sizeof *on);
    store_free(later);
}

event_detail *store_detail(store *s, event *e)
{
    if (e->more != 0)
        return &s->details[e->more - 1];
    if (!list_reserve(&s->details, &s->detail_cap, s->detail_count + 1, sizeof *s->details)) {
        s->failed = true;
        return NULL;
    }
    event_detail *d = &s->details[s->detail_count];
    *d = (event_detail) { .graph = -1,
                          .node = -1,
                          .stream = -1,
                          .task = -1,
                          .round = -1,
                          .ready = INT64_MIN,
                          .sequence = -1,
                          .rows = -1,
                          .waited_event = -1,
                          .src_rank = -1,
                          .dst_rank = -1,
                          .wait_stream = -1,
                          .phase = -1 };
    e->more = (uint32_t)++s->detail_count;
    return d;
}

uint32_t store_link(store *s, uint64_t correlation)
{
    if (correlation < 0x80000000u)
        return (uint32_t)correlation;
    char text[32]; /* rare: its number among the texts serves as the link */
    int bytes = snprintf(text, sizeof text, "%" PRIu64, correlation);
    return 0x80000000u | names_add(&s->names, text, (size_t)bytes);
}

const char *store_lane_name(const store *s, size_t number)
{
    if (number >= s->lane_count || s->lanes[number].tid == STORE_PROCESS_TID)
        return "";
    const lane *l = &s->lanes[number];
    return names_text(&s->names, l->thread != 0 ? l->thread : l->tid);
}

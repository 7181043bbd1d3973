/* settle.c: closes what the readers left open; see settle.h.
 *
 * The class of a call is a matter of its name alone, so it is worked out once per name. Rows of a timeline that are
 * hulls over real tasks (device annotations, HCCL's operators, overlap lanes) become spans and are never counted as
 * work. On Ascend a task that moves data stands both on its stream and on a plane of HCCL: the plane's copy is marked.
 */
#include "timeline/settle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/list.h"
#include "timeline/order.h"

/* ---- names of calls and tasks ----------------------------------------------------------------- */

static bool holds(const char *text, const char *piece)
{
    return strstr(text, piece) != NULL;
}

/* A call of a device's library, by its name. */
static event_kind classify_call(const char *n)
{
    if (holds(n, "GraphLaunch") || holds(n, "RIExecute") || holds(n, "ModelExecute") ||
        holds(n, "mdlExecute"))
        return EVENT_GRAPH_LAUNCH;
    if (holds(n, "Synchronize"))
        return EVENT_SYNC_CALL;
    if (holds(n, "IsCapturing"))
        return EVENT_CALL;
    if (holds(n, "BeginCapture") || holds(n, "EndCapture") || holds(n, "GraphInstantiate") ||
        holds(n, "CaptureBegin") || holds(n, "CaptureEnd"))
        return EVENT_CAPTURE_CALL;
    if (holds(n, "Memcpy") || holds(n, "Memset") || holds(n, "MemcpyAsync"))
        return EVENT_COPY_CALL;
    if (holds(n, "StreamWaitEvent"))
        return EVENT_WAIT_CALL;
    if (holds(n, "EventRecord") || holds(n, "RecordEvent"))
        return EVENT_RECORD_CALL;
    if (holds(n, "Launch") || holds(n, "launch"))
        return EVENT_LAUNCH;
    if (holds(n, "Malloc") || holds(n, "MallocAsync") || holds(n, "Free"))
        return EVENT_ALLOC_CALL;
    return EVENT_CALL;
}

/* A task of Ascend's hardware lane, by its Task Type. */
static event_kind classify_ascend_task(const char *type, const char *name)
{
    if (strncmp(type, "EVENT_WAIT", 10) == 0 || strcmp(name, "EVENT_WAIT") == 0)
        return EVENT_WAIT;
    if (strncmp(type, "EVENT_RECORD", 12) == 0 || strcmp(name, "EVENT_RECORD") == 0)
        return EVENT_RECORD;
    if (strncmp(name, "Notify_Wait", 11) == 0 || strcmp(type, "Notify Wait") == 0 ||
        strncmp(type, "NOTIFY_WAIT", 11) == 0)
        return EVENT_NOTIFY_WAIT;
    if (strncmp(type, "NOTIFY", 6) == 0 || strncmp(type, "Notify", 6) == 0 ||
        strcmp(type, "Write Value") == 0 || strncmp(type, "PLACE_HOLDER", 12) == 0)
        return EVENT_MARK;
    if (holds(type, "SDMA") || holds(type, "DMA_SQE") || holds(name, "MEMCPY") || holds(type, "MEMCPY"))
        return EVENT_COPY;
    return EVENT_KERNEL;
}

/* ---- lanes ------------------------------------------------------------------------------------ */

static const char *lane_text(const store *s, uint32_t number)
{
    return names_text(&s->names, number);
}

static int64_t number_in(const char *text)
{
    while (*text != '\0' && (*text < '0' || *text > '9'))
        text++;
    return *text != '\0' ? strtoll(text, NULL, 10) : -1;
}

/* Process names reach all lanes of their process. */
static void spread_process_names(store *s)
{
    for (size_t i = 0; i < s->lane_count; i++) {
        lane *l = &s->lanes[i];
        if (l->tid == STORE_PROCESS_TID)
            continue;
        int p = store_lane(s, l->part, l->pid, STORE_PROCESS_TID);
        l = &s->lanes[i]; /* the list may have moved */
        if (p >= 0)
            l->process = s->lanes[p].process;
    }
}

static void name_ascend_lane(const store *s, lane *l)
{
    const char *process = lane_text(s, l->process), *thread = lane_text(s, l->thread);
    if (strcmp(process, "Ascend Hardware") == 0) {
        l->role = LANE_STREAM;
        l->stream = number_in(lane_text(s, l->tid));
    } else if (strcmp(process, "HCCL") == 0 || strcmp(process, "Communication") == 0) {
        l->role = strncmp(thread, "Plane", 5) == 0 ? LANE_PLANE : LANE_COLLECTIVE;
    } else if (strcmp(process, "CANN") == 0 || strcmp(process, "Python") == 0) {
        l->role = LANE_HOST;
    } else if (strcmp(process, "Overlap Analysis") == 0) {
        l->role = LANE_DERIVED;
    }
}

static void find_lane_roles(store *s)
{
    for (size_t i = 0; i < s->lane_count; i++)
        if (s->parts[s->lanes[i].part].format == FORMAT_ASCEND && s->lanes[i].tid != STORE_PROCESS_TID)
            name_ascend_lane(s, &s->lanes[i]);
    size_t unknown = 0;
    for (size_t i = 0; i < s->lane_count; i++)
        unknown += s->lanes[i].role == LANE_UNKNOWN && s->lanes[i].events > 0;
    for (size_t i = 0; i < s->count && unknown > 0; i++) {
        const event *e = store_event(s, i);
        lane *l = &s->lanes[e->lane];
        if (l->role != LANE_UNKNOWN)
            continue;
        if (event_is_task(e->kind)) {
            l->role = LANE_STREAM;
            l->device = number_in(lane_text(s, l->pid));
            l->stream = number_in(lane_text(s, l->tid));
        } else if (e->kind != EVENT_SYNC_NOTE && e->kind != EVENT_SPAN && e->kind != EVENT_OTHER) {
            l->role = LANE_HOST;
        }
        unknown -= l->role != LANE_UNKNOWN;
    }
}

/* ---- kinds ------------------------------------------------------------------------------------ */

typedef struct {
    store *s;
    const rules *r;
    uint8_t *call;    /* [names] event_kind + 1 of a call so named; 0: not asked yet */
    uint8_t *is_comm; /* [names] 1 no, 2 yes; 0: not asked yet */
    uint8_t *is_step; /* the same: does it mark a step or a stage? */
    size_t names;
} classes;

static bool is_comm(classes *c, uint32_t name)
{
    if (c->is_comm[name] == 0)
        c->is_comm[name] = rules_find(c->r, RULE_COMM, lane_text(c->s, name)) != NULL ? 2 : 1;
    return c->is_comm[name] == 2;
}

static event_kind call_kind(classes *c, uint32_t name)
{
    if (c->call[name] == 0)
        c->call[name] = (uint8_t)(classify_call(lane_text(c->s, name)) + 1);
    return (event_kind)(c->call[name] - 1);
}

/* Async ranges are annotations where a rule knows their name; the others belong to requests and queues, not to a thread. */
static void take_async(classes *c, event *e, part *p)
{
    const char *name = store_name(c->s, e);
    if (c->is_step[e->name] == 0)
        c->is_step[e->name] =
            rules_find(c->r, RULE_STEP, name) != NULL || rules_find(c->r, RULE_STAGE, name) != NULL ? 2 : 1;
    e->kind = c->is_step[e->name] == 2 ? EVENT_ANNOTATION : EVENT_OTHER;
    p->faults[FAULT_ASYNC] += e->kind == EVENT_OTHER;
}

static event_kind ascend_kind(classes *c, const event *e, const lane *l)
{
    const char *name = store_name(c->s, e);
    const event_detail *d = store_more(c->s, e);
    switch (l->role) {
    case LANE_STREAM: {
        event_kind k = classify_ascend_task(d != NULL ? lane_text(c->s, d->task_type) : "", name);
        return (k == EVENT_COPY || k == EVENT_KERNEL) && d != NULL && d->collective != 0 ? EVENT_COMM : k;
    }
    case LANE_PLANE:
        return strncmp(name, "Notify_Wait", 11) == 0 ? EVENT_NOTIFY_WAIT
               : strncmp(name, "Notify", 6) == 0     ? EVENT_MARK
                                                     : EVENT_COMM;
    case LANE_COLLECTIVE:
    case LANE_DERIVED:
        return EVENT_SPAN;
    default:
        if (e->kind != EVENT_OTHER)
            return (event_kind)e->kind;
        return strcmp(lane_text(c->s, l->process), "CANN") == 0 ? call_kind(c, e->name) : EVENT_OTHER;
    }
}

static void find_kind(classes *c, part *p, event *e)
{
    if (p->format == FORMAT_UNKNOWN)
        e->kind = EVENT_OTHER; /* a file that was refused */
    else if ((e->flags & EVENT_ASYNC) != 0)
        take_async(c, e, p);
    else if (p->format == FORMAT_ASCEND)
        e->kind = (uint8_t)ascend_kind(c, e, &c->s->lanes[e->lane]);
    else if (e->kind == EVENT_CALL)
        e->kind = (uint8_t)call_kind(c, e->name);
    if (e->kind == EVENT_KERNEL && is_comm(c, e->name))
        e->kind = EVENT_COMM;
}

/* ---- kinds, and doubtful events ---------------------------------------------------------------- */

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The middle of the starts of a part's events, from a sample of them. */
static int64_t middle_start(const store *s, size_t p)
{
    int64_t sample[1001];
    size_t n = 0, stride = s->count / 1000 + 1;
    for (size_t i = s->parts[p].first; i < store_part_end(s, p) && n < 1001; i += stride)
        sample[n++] = store_event(s, i)->start;
    if (n == 0)
        return 0;
    qsort(sample, n, sizeof *sample, compare_int64);
    return sample[n / 2];
}

/* Gives a part's events their kinds. An event longer than four times the spread of all starts (at least a minute) was never
 * closed properly; so was one that starts at 0 in a file whose times are far from it. */
static void find_kinds(classes *c, size_t p)
{
    enum { TIMES = 4 };
    const int64_t least = 60ll * 1000000000, epoch = 3600ll * 1000000000;
    store *s = c->s;
    part *of = &s->parts[p];
    int64_t middle = middle_start(s, p), low = INT64_MAX, high = INT64_MIN, longest = 0;
    bool early = false; /* some start at 0 and should not */
    for (size_t i = of->first; i < store_part_end(s, p); i++) {
        event *e = store_event(s, i);
        find_kind(c, of, e);
        if ((e->flags & EVENT_UNFINISHED) != 0)
            e->kind = EVENT_OTHER; /* listed by count, left out of everything else */
        longest = e->dur > longest ? e->dur : longest;
        if (e->start == 0 && middle > epoch) {
            early = true;
            continue;
        }
        low = e->start < low ? e->start : low;
        high = e->start > high ? e->start : high;
    }
    int64_t spread = high >= low ? high / TIMES - low / TIMES : 0; /* a quarter: never overflows */
    int64_t limit = spread < INT64_MAX / (TIMES * TIMES) ? spread * TIMES * TIMES : INT64_MAX;
    limit = limit > least ? limit : least;
    if (limit > INT64_MAX / 1024) /* a hundred days: sums hold a thousand such */
        limit = INT64_MAX / 1024;
    for (size_t i = of->first; (early || longest > limit) && i < store_part_end(s, p); i++) {
        event *e = store_event(s, i);
        if (e->dur > limit || (e->start == 0 && middle > epoch)) {
            e->flags |= EVENT_ABSURD;
            e->kind = EVENT_OTHER;
            of->faults[FAULT_ABSURD]++;
        }
    }
}

/* ---- Ascend's doubled tasks ------------------------------------------------------------------- */

typedef struct {
    int64_t start, stream, task;
    uint32_t event;
    uint32_t part;
} plane_task;

static int compare_plane(const void *a, const void *b)
{
    const plane_task *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* The tasks on planes, or those on streams, with what identifies them. Returns how many (out NULL: only counts). */
static size_t list_plane_tasks(const store *s, lane_role role, plane_task *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        const event *e = store_event(s, i);
        const event_detail *d = store_more(s, e);
        if (s->lanes[e->lane].role != role || d == NULL || d->task < 0)
            continue;
        if (out != NULL)
            out[n] = (plane_task) { e->start, d->stream, d->task, (uint32_t)i, s->lanes[e->lane].part };
        n++;
    }
    return n;
}

/* Marks plane tasks that also stand on a stream, and says of those that they are communication. */
static int match_planes(store *s, foray_error *err)
{
    bool any = false;
    for (size_t l = 0; l < s->lane_count; l++)
        any = any || s->lanes[l].role == LANE_PLANE;
    if (!any)
        return FORAY_OK;
    size_t planes = list_plane_tasks(s, LANE_PLANE, NULL), tasks = list_plane_tasks(s, LANE_STREAM, NULL);
    if (planes == 0 || tasks == 0)
        return FORAY_OK;
    plane_task *p = mem_alloc(MEM_RECORDS, planes * sizeof *p),
               *t = mem_alloc(MEM_RECORDS, tasks * sizeof *t);
    int rc = FORAY_OK;
    if (p == NULL || t == NULL) {
        rc = fail(err, FORAY_ENOMEM, "out of memory for %zu communication tasks", planes);
        goto done;
    }
    list_plane_tasks(s, LANE_PLANE, p);
    list_plane_tasks(s, LANE_STREAM, t);
    qsort(p, planes, sizeof *p, compare_plane);
    qsort(t, tasks, sizeof *t, compare_plane);
    for (size_t i = 0, j = 0; i < planes && j < tasks;) {
        plane_task x = p[i], y = t[j];
        x.event = y.event = 0;
        int order = compare_plane(&x, &y);
        if (order == 0) {
            event *twin = store_event(s, p[i].event), *real = store_event(s, t[j].event);
            twin->flags |= EVENT_DUPLICATE;
            s->parts[p[i].part].faults[FAULT_DUPLICATE]++;
            if (real->kind == EVENT_COPY || real->kind == EVENT_KERNEL)
                real->kind = twin->kind == EVENT_COMM ? EVENT_COMM : real->kind;
            twin->kind = EVENT_SPAN;
            real->name = twin->name;
            event_detail *to = &s->details[real->more - 1];
            const event_detail *from = store_more(s, twin);
            to->src_rank = from->src_rank;
            to->dst_rank = from->dst_rank;
            i++;
            j++;
        } else if (order < 0) {
            i++;
        } else {
            j++;
        }
    }
done:
    mem_free(MEM_RECORDS, p, planes * sizeof *p);
    mem_free(MEM_RECORDS, t, tasks * sizeof *t);
    return rc;
}

/* ---- groups ----------------------------------------------------------------------------------- */

/* A rank in the name of a file or its folder: rank0, rank_12, TP-3. The last one in the path counts. */
static int rank_in_path(const char *path)
{
    static const char *const marks[] = { "rank_", "rank-", "rank", "-TP-", "profiler_info_", "profiler_" };
    int rank = -1;
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
        for (const char *p = path; rank < 0 && (p = strstr(p, marks[m])) != NULL; p++)
            if (p[strlen(marks[m])] >= '0' && p[strlen(marks[m])] <= '9')
                rank = (int)strtol(p + strlen(marks[m]), NULL, 10);
    return rank;
}

static int add_group(settled *t, uint32_t p, int rank, bool guessed, const part *from)
{
    if (!list_reserve(&t->groups, &t->group_cap, t->group_count + 1, sizeof *t->groups))
        return -1;
    t->groups[t->group_count] = (group) { .rank = rank,
                                          .rank_guessed = guessed,
                                          .first_part = p,
                                          .format = from->format,
                                          .base_ns = from->base_ns,
                                          .first_ns = INT64_MAX,
                                          .last_ns = INT64_MIN };
    return (int)t->group_count++;
}

/* Parts of one rank make one group; parts that do not state a rank make one where they come from one program (a file
 * that was split), which shows in a thread that occurs in both. */
static int group_of_part(const store *s, settled *t, uint32_t p)
{
    const part *me = &s->parts[p];
    int rank = me->rank >= 0 ? me->rank : rank_in_path(me->path);
    for (size_t g = 0; g < t->group_count; g++) {
        const part *other = &s->parts[t->groups[g].first_part];
        if (t->groups[g].format != me->format)
            continue;
        if (rank >= 0 ? t->groups[g].rank == rank && !t->groups[g].rank_guessed
                      : t->groups[g].rank_guessed && other->base_ns == me->base_ns) {
            if (rank >= 0)
                return (int)g;
            for (size_t i = 0; i < s->lane_count; i++)
                for (size_t j = 0; j < s->lane_count; j++)
                    if (s->lanes[i].part == p && s->lanes[j].part == t->groups[g].first_part &&
                        s->lanes[i].role == LANE_HOST && s->lanes[j].role == LANE_HOST &&
                        s->lanes[i].pid == s->lanes[j].pid && s->lanes[i].tid == s->lanes[j].tid)
                        return (int)g;
        }
    }
    return add_group(t, p, rank >= 0 ? rank : (int)t->group_count, rank < 0, me);
}

/* Lanes with the same texts in one group are one lane; so are a thread's Python and its CANN lane. */
static void merge_lanes(store *s, settled *t, uint32_t *alias)
{
    bool merged = false;
    for (size_t i = 0; i < s->lane_count; i++) {
        alias[i] = (uint32_t)i;
        const lane *l = &s->lanes[i];
        for (size_t j = 0; j < i && l->events > 0; j++) {
            const lane *o = &s->lanes[j];
            if (alias[j] != j || o->events == 0 || t->lane_group[i] != t->lane_group[j] || l->tid != o->tid ||
                l->role != o->role)
                continue;
            bool same = l->pid == o->pid && l->part != o->part;
            bool one_thread =
                l->role == LANE_HOST && l->part == o->part && s->parts[l->part].format == FORMAT_ASCEND;
            if (same || one_thread) {
                alias[i] = (uint32_t)j;
                merged = true;
                s->lanes[j].events += l->events;
                s->lanes[i].events = 0;
                break;
            }
        }
    }
    for (size_t i = 0; i < s->count && merged; i++) {
        event *e = store_event(s, i);
        e->lane = (uint16_t)alias[e->lane];
    }
    for (size_t i = 0; i < s->flow_count; i++)
        s->flows[i].lane = (uint16_t)alias[s->flows[i].lane];
}

static int form_groups(store *s, settled *t, foray_error *err)
{
    for (size_t i = 0; i < s->lane_count; i++)
        t->lane_group[i] = 0;
    bool profile = false;
    for (uint32_t p = 0; p < s->part_count; p++)
        profile = profile || (s->parts[p].format != FORMAT_UNKNOWN && s->parts[p].format != FORMAT_DUMP);
    for (uint32_t p = 0; p < s->part_count; p++) {
        if (s->parts[p].format == FORMAT_UNKNOWN)
            continue;
        if (s->parts[p].format == FORMAT_DUMP && profile) {
            for (size_t i = 0; i < s->lane_count; i++)
                if (s->lanes[i].part == p)
                    t->lane_group[i] = NO_GROUP;
            continue;
        }
        if (s->parts[p].format == FORMAT_FORAY) {
            /* foray's pid is the rank: one file may hold several */
            for (size_t i = 0; i < s->lane_count; i++) {
                if (s->lanes[i].part != p)
                    continue;
                int rank = (int)number_in(lane_text(s, s->lanes[i].pid)), found = -1;
                for (size_t g = 0; g < t->group_count; g++)
                    if (t->groups[g].format == FORMAT_FORAY && t->groups[g].rank == rank)
                        found = (int)g;
                if (found < 0)
                    found = add_group(t, p, rank < 0 ? 0 : rank, false, &s->parts[p]);
                if (found < 0)
                    return fail(err, FORAY_ENOMEM, "out of memory");
                t->lane_group[i] = (uint32_t)found;
            }
            continue;
        }
        int g = group_of_part(s, t, p);
        if (g < 0)
            return fail(err, FORAY_ENOMEM, "out of memory");
        for (size_t i = 0; i < s->lane_count; i++)
            if (s->lanes[i].part == p)
                t->lane_group[i] = (uint32_t)g;
    }
    return FORAY_OK;
}

int settle(store *s, const rules *r, settled *out, foray_error *err)
{
    spread_process_names(s);
    find_lane_roles(s);
    classes c = { .s = s, .r = r, .names = s->names.count };
    settled t = { .lanes = s->lane_count, .events = s->count };
    uint32_t *alias = mem_alloc(MEM_RECORDS, t.lanes * sizeof *alias);
    c.call = mem_alloc_zeroed(MEM_RECORDS, c.names);
    c.is_comm = mem_alloc_zeroed(MEM_RECORDS, c.names);
    c.is_step = mem_alloc_zeroed(MEM_RECORDS, c.names);
    t.lane_group = mem_alloc_zeroed(MEM_RECORDS, t.lanes * sizeof *t.lane_group);
    t.order = mem_alloc(MEM_RECORDS, t.events * sizeof *t.order);
    t.kind = mem_alloc(MEM_RECORDS, t.events);
    t.first = mem_alloc(MEM_RECORDS, (t.lanes + 1) * sizeof *t.first);
    int rc = FORAY_OK;
    if (alias == NULL || c.call == NULL || c.is_comm == NULL || c.is_step == NULL || t.lane_group == NULL ||
        t.order == NULL || t.kind == NULL || t.first == NULL || s->failed) {
        rc = fail(err, FORAY_ENOMEM, "out of memory for %zu events", s->count);
        goto done;
    }
    for (size_t p = 0; p < s->part_count; p++)
        find_kinds(&c, p);
    rc = match_planes(s, err);
    if (rc == FORAY_OK)
        rc = form_groups(s, &t, err);
    if (rc == FORAY_OK) {
        merge_lanes(s, &t, alias);
        rc = order_events(s, &t, err);
    }
done:
    mem_free(MEM_RECORDS, alias, t.lanes * sizeof *alias);
    mem_free(MEM_RECORDS, c.call, c.names);
    mem_free(MEM_RECORDS, c.is_comm, c.names);
    mem_free(MEM_RECORDS, c.is_step, c.names);
    if (rc != FORAY_OK)
        settle_free(&t);
    else
        *out = t;
    return rc;
}

int settle_add_group(settled *t, int rank, foray_error *err)
{
    part none = { .format = FORMAT_STEPS };
    return add_group(t, 0, rank < 0 ? 0 : rank, rank < 0, &none) < 0
               ? fail(err, FORAY_ENOMEM, "out of memory")
               : FORAY_OK;
}

void settle_free(settled *t)
{
    mem_free(MEM_RECORDS, t->lane_group, t->lanes * sizeof *t->lane_group);
    mem_free(MEM_RECORDS, t->order, t->events * sizeof *t->order);
    mem_free(MEM_RECORDS, t->kind, t->events);
    mem_free(MEM_RECORDS, t->first, (t->lanes + 1) * sizeof *t->first);
    list_free(&t->groups, &t->group_cap, sizeof *t->groups);
    *t = (settled) { 0 };
}

/* dump.c: lays dumps of captured graphs over replays; see dump.h.
 *
 *     nodes     of one model, by stream and task number: work, records and waits of a handle, anything else
 *     pairing   a task of the replay is a node: by its numbers, else by the longest common run of names on its stream
 *     edges     from a task back over the nodes before it on its stream that are not in the profile: every wait among them leads
 *               to its record, and from there back to the last task that is
 *
 * A handle that is recorded twice names no single record: such a wait counts as open, and what stands behind it may still
 * be inferred from times.
 */
#include "timeline/dump.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/list.h"

typedef enum { NODE_WORK, NODE_RECORD, NODE_WAIT, NODE_OTHER } node_kind;

typedef struct {
    int64_t model, stream, task;
    uint64_t handle;   /* of a record or a wait */
    int64_t activates; /* the stream on which this one goes on; -1 */
    uint32_t name;
    uint32_t record; /* of a wait: its record + 1; 0: not in the dump, or not the only one */
    uint8_t kind;
} node;

/* A replay that was paired by names: others with the same names in the same order are paired alike. */
typedef struct {
    uint64_t signature;
    const uint32_t *members, *node_of;
    size_t count, found;
    bool unsure;
} example;

enum { EXAMPLES = 32, ALIKE_SLOTS = 1 << 14, DEEPEST_CHAIN = 64 };

/* One dump over one replay. */
typedef struct {
    task_graph *g;
    const node *nodes; /* [count] of one model */
    size_t count;
    size_t *stream_first; /* [streams + 1] into nodes */
    size_t streams;
    uint32_t *members; /* [member_count] tasks of the replay, by lane, then start */
    size_t member_count;
    size_t *lane_first; /* [lanes + 1] into members */
    size_t lanes;
    uint32_t *node_of; /* [member_count] node + 1; like members a stretch of what all replays have */
    uint32_t *task_of; /* [count] task + 1 */
    uint8_t *turn;     /* room for the longest common run */
    size_t turn_room;
    uint32_t *row; /* [2 * (longest stream + 1)] */
    evidence how;
    uint8_t *alike; /* names already compared: direct-mapped */
    uint64_t *alike_key;
    example examples[EXAMPLES];
    size_t example_count;
    size_t edges, against; /* of the last count: how many, and how many that the times contradict */
} join;

static const size_t MOST_CELLS = (size_t)32 << 20;
static const int64_t TOLERANCE_NS = 2000;

/* ---- names ------------------------------------------------------------------------------------ */

static size_t piece_bytes(const char *text)
{
    return strcspn(text, "_");
}

static bool has_piece(const char *text, const char *piece, size_t bytes)
{
    for (;;) {
        size_t n = piece_bytes(text);
        if (n == bytes && strncasecmp(text, piece, n) == 0)
            return true;
        if (text[n] == '\0')
            return false;
        text += n + 1;
    }
}

/* Letters and digits only, in lower case. */
static void plain_text(const char *text, size_t bytes, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes && text[i] != '\0' && n + 1 < room; i++)
        if (isalnum((unsigned char)text[i]))
            out[n++] = (char)tolower((unsigned char)text[i]);
    out[n] = '\0';
}

bool dump_names_alike(const char *node_name, const char *task_name)
{
    if (strcmp(node_name, task_name) == 0)
        return true;
    size_t first = piece_bytes(node_name);
    if (first > 0 && has_piece(task_name, node_name, first))
        return true;
    char plain[256], piece[64];
    plain_text(task_name, SIZE_MAX, plain, sizeof plain);
    if (strncmp(node_name, "aiv_", 4) == 0) { /* aiv_all_gather_bfloat16_t: the two words behind the engine */
        const char *word = node_name + 4;
        size_t n = piece_bytes(word);
        n += word[n] != '\0' ? 1 + piece_bytes(word + n + 1) : 0;
        plain_text(word, n, piece, sizeof piece);
        return strstr(plain, piece) != NULL;
    }
    plain_text(node_name, first, piece, sizeof piece);
    return strlen(piece) >= 6 && strstr(plain, piece) != NULL;
}

static bool alike(join *j, const node *n, const task *x)
{
    if (n->kind == NODE_WAIT || x->kind == EVENT_WAIT)
        return n->kind == NODE_WAIT && x->kind == EVENT_WAIT;
    if (n->kind == NODE_RECORD || x->kind == EVENT_RECORD)
        return n->kind == NODE_RECORD && x->kind == EVENT_RECORD;
    uint32_t name = x->name;
    const char *text = names_text(&j->g->s->names, n->name);
    if (x->kind == EVENT_COPY && strncmp(text, "MEMCPY", 6) == 0)
        return true;
    uint64_t key = (uint64_t)n->name << 32 | name;
    size_t at = (key ^ key >> 29) * 0x9e3779b97f4a7c15u >> 50;
    if (j->alike_key[at] != key + 1) {
        j->alike_key[at] = key + 1;
        j->alike[at] = dump_names_alike(text, names_text(&j->g->s->names, name));
    }
    return j->alike[at];
}

/* ---- nodes ------------------------------------------------------------------------------------ */

static node_kind kind_of_node(const char *name, uint64_t *handle)
{
    static const struct {
        const char *text;
        node_kind kind;
    } kinds[] = {
        { "EVENT_RECORD_", NODE_RECORD }, { "EVENT_WAIT_", NODE_WAIT },  { "MEM_WRITE_VALUE_", NODE_RECORD },
        { "MEM_WAIT_VALUE_", NODE_WAIT }, { "EVENT_RESET", NODE_OTHER }, { "NOTIFY_", NODE_OTHER },
        { "STREAM_ACTIVE", NODE_OTHER },  { "NOP", NODE_OTHER },
    };
    *handle = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t bytes = strlen(kinds[i].text);
        if (strncmp(name, kinds[i].text, bytes) != 0)
            continue;
        if (kinds[i].kind != NODE_OTHER)
            *handle = strtoull(name + bytes, NULL, 0) << 1 | (name[0] == 'M'); /* two kinds of handles */
        return kinds[i].kind;
    }
    return NODE_WORK;
}

static int compare_nodes(const void *a, const void *b)
{
    const node *x = a, *y = b;
    if (x->model != y->model)
        return x->model < y->model ? -1 : 1;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return x->task < y->task ? -1 : x->task > y->task;
}

static void pair_handles(node *n, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (n[i].kind != NODE_WAIT)
            continue;
        size_t found = 0;
        for (size_t k = 0; k < count; k++)
            if (n[k].kind == NODE_RECORD && n[k].handle == n[i].handle) {
                n[i].record = (uint32_t)k + 1;
                found++;
            }
        if (found != 1)
            n[i].record = 0;
    }
}

/* The nodes of a dump's file, sorted. */
static int gather_nodes(const store *s, uint32_t p, node **out, size_t *count, size_t *cap, foray_error *err)
{
    for (size_t i = 0; i < s->count; i++) {
        const event *e = store_event(s, i);
        const event_detail *d = store_more(s, e);
        if (s->lanes[e->lane].part != p || d == NULL || d->stream < 0 || d->task < 0)
            continue;
        if (!list_reserve(out, cap, *count + 1, sizeof **out))
            return fail(err, FORAY_ENOMEM, "%s: out of memory", s->parts[p].path);
        node *n = &(*out)[(*count)++];
        *n = (node) { .model = d->graph,
                      .stream = d->stream,
                      .task = d->task,
                      .name = e->name,
                      .activates = d->wait_stream };
        n->kind = (uint8_t)kind_of_node(store_name(s, e), &n->handle);
    }
    if (*count > 0)
        qsort(*out, *count, sizeof **out, compare_nodes);
    return FORAY_OK;
}

/* ---- pairing ---------------------------------------------------------------------------------- */

/* The longest common run (with gaps) of the tasks of a lane and the nodes of a stream; returns its length. With `take` the
 * pairs are noted. */
static size_t common_run(join *j, size_t l, size_t stream, bool take)
{
    size_t first = j->lane_first[l], n = j->lane_first[l + 1] - first, from = j->stream_first[stream],
           m = j->stream_first[stream + 1] - from;
    uint32_t *old = j->row, *new = j->row + m + 1;
    if (take && n * m > j->turn_room)
        return 0;
    memset(old, 0, (m + 1) * sizeof *old);
    for (size_t i = n; i-- > 0;) {
        new[m] = 0;
        for (size_t k = m; k-- > 0;) {
            bool same = alike(j, &j->nodes[from + k], &j->g->tasks[j->members[first + i]]);
            uint32_t down = old[k], right = new[k + 1], both = same ? old[k + 1] + 1 : 0;
            new[k] = both >= down &&both >= right &&same ? both : down >= right ? down : right;
            if (take)
                j->turn[i * m + k] = new[k] == both &&same ? 2 : new[k] == right ? 1 : 0;
        }
        uint32_t *swap = old;
        old = new;
        new = swap;
    }
    for (size_t i = 0, k = 0; take && i < n && k < m;) {
        uint8_t turn = j->turn[i * m + k];
        if (turn == 2) {
            j->node_of[first + i] = (uint32_t)(from + k) + 1;
            j->task_of[from + k] = j->members[first + i] + 1;
        }
        i += turn != 1;
        k += turn != 0;
    }
    return old[0];
}

/* By model, stream and task number. Returns how many were found. */
static size_t pair_by_number(join *j)
{
    size_t found = 0;
    for (size_t i = 0; i < j->member_count; i++) {
        const task *x = &j->g->tasks[j->members[i]];
        const event_detail *d = task_more(j->g, x);
        node key = { .model = j->nodes[0].model };
        if (d == NULL || d->graph != key.model || d->stream < 0 || d->task < 0)
            continue;
        key.stream = d->stream;
        key.task = d->task;
        const node *n = bsearch(&key, j->nodes, j->count, sizeof *n, compare_nodes);
        if (n == NULL || j->task_of[n - j->nodes] != 0 || !alike(j, n, x))
            continue;
        j->node_of[i] = (uint32_t)(n - j->nodes) + 1;
        j->task_of[n - j->nodes] = j->members[i] + 1;
        found++;
    }
    return found;
}

/* By the order of names: each lane takes the stream with which it has most in common. *unsure: two streams had as much. */
static size_t pair_by_order(join *j, bool *unsure)
{
    size_t found = 0, cells = j->lanes * j->streams;
    size_t *score = mem_alloc(MEM_RECORDS, (cells + 1) * sizeof *score);
    *unsure = false;
    if (score == NULL)
        return 0;
    for (size_t l = 0; l < j->lanes; l++)
        for (size_t t = 0; t < j->streams; t++)
            score[l * j->streams + t] = common_run(j, l, t, false);
    for (;;) {
        size_t best = 0;
        for (size_t c = 1; c < cells; c++)
            best = score[c] > score[best] ? c : best;
        if (cells == 0 || score[best] == 0)
            break;
        size_t l = best / j->streams, t = best % j->streams;
        for (size_t k = 0; k < j->streams; k++)
            *unsure = *unsure || (k != t && score[l * j->streams + k] == score[best]);
        found += common_run(j, l, t, true);
        for (size_t k = 0; k < j->streams; k++)
            score[l * j->streams + k] = 0;
        for (size_t k = 0; k < j->lanes; k++)
            score[k * j->streams + t] = 0;
    }
    mem_free(MEM_RECORDS, score, (cells + 1) * sizeof *score);
    return found;
}

/* The pairing of a replay that ran alike; NULL: none did. */
static const example *find_example(const join *j, const replay *r)
{
    for (size_t k = 0; k < j->example_count; k++) {
        const example *x = &j->examples[k];
        bool same = x->signature == r->signature && x->count == j->member_count;
        for (size_t i = 0; i < j->member_count && same; i++) {
            const task *a = &j->g->tasks[x->members[i]], *b = &j->g->tasks[j->members[i]];
            same = a->lane == b->lane && a->name == b->name;
        }
        if (same)
            return x;
    }
    return NULL;
}

/* By the order of names, which is worked out once for replays that ran alike. */
static size_t pair_by_names(join *j, const replay *r, bool *unsure)
{
    const example *like = find_example(j, r);
    if (like != NULL) {
        memcpy(j->node_of, like->node_of, j->member_count * sizeof *j->node_of);
        for (size_t i = 0; i < j->member_count; i++)
            if (j->node_of[i] != 0)
                j->task_of[j->node_of[i] - 1] = j->members[i] + 1;
        *unsure = like->unsure;
        return like->found;
    }
    size_t found = pair_by_order(j, unsure);
    if (j->example_count < EXAMPLES)
        j->examples[j->example_count++] =
            (example) { r->signature, j->members, j->node_of, j->member_count, found, *unsure };
    return found;
}

/* ---- edges ------------------------------------------------------------------------------------ */

static void take_edge(join *j, uint32_t by, task *x, bool apply)
{
    const task *y = &j->g->tasks[by - 1];
    if (y == x)
        return;
    j->edges++;
    j->against += y->end > (x->kind == EVENT_WAIT ? x->end : x->start) + TOLERANCE_NS;
    if (!apply)
        return;
    if (x->cause == 0 || x->cause_how < j->how || j->g->tasks[x->cause - 1].end < y->end) {
        x->cause = by;
        x->cause_how = (uint8_t)j->how;
    }
}

static size_t stream_of(const join *j, size_t n)
{
    size_t t = 0;
    while (j->stream_first[t + 1] <= n)
        t++;
    return t;
}

/* Goes back from node n (which counts itself) to tasks of the profile and takes edges from them to x. own: on x's stream, where
 * order is an edge already. False: a wait on the way is open. */
static bool go_back(join *j, size_t n, bool own, task *x, int depth, bool apply)
{
    bool closed = true;
    size_t t = stream_of(j, n);
    for (size_t i = n + 1; i-- > j->stream_first[t];) {
        const node *y = &j->nodes[i];
        if (j->task_of[i] != 0) {
            if (!own)
                take_edge(j, j->task_of[i], x, apply);
            return closed;
        }
        if (y->kind != NODE_WAIT)
            continue;
        closed = y->record != 0 && depth < DEEPEST_CHAIN &&
                 go_back(j, y->record - 1, false, x, depth + 1, apply) && closed;
    }
    for (size_t i = 0; i < j->count; i++) /* a stream that another one set going */
        if (j->nodes[i].activates == j->nodes[n].stream && depth < DEEPEST_CHAIN)
            closed = go_back(j, i, false, x, depth + 1, apply) && closed;
    return closed;
}

/* Edges of all paired tasks; apply false: only counts them. */
static void take_edges(join *j, bool apply)
{
    j->edges = j->against = 0;
    for (size_t i = 0; i < j->member_count; i++) {
        task *x = &j->g->tasks[j->members[i]];
        if (j->node_of[i] == 0)
            continue;
        size_t n = j->node_of[i] - 1, t = stream_of(j, n);
        bool closed = true;
        if (j->nodes[n].kind == NODE_WAIT)
            closed = j->nodes[n].record != 0 && go_back(j, j->nodes[n].record - 1, false, x, 0, apply);
        if (n > j->stream_first[t])
            closed = go_back(j, n - 1, true, x, 0, apply) && closed;
        else
            for (size_t k = 0; k < j->count; k++)
                if (j->nodes[k].activates == j->nodes[n].stream)
                    closed = go_back(j, k, false, x, 0, apply) && closed;
        if (apply)
            x->edges_known = closed;
    }
}

/* ---- a dump over the replays ------------------------------------------------------------------ */

/* Does the pairing hold? Most of the replay's tasks are nodes, and unless both state the same model most nodes are tasks. */
static bool holds(const join *j, const replay *r, size_t found, bool *complete)
{
    size_t work = 0, paired = 0, tasks = 0;
    for (size_t i = 0; i < j->count; i++) {
        work += j->nodes[i].kind == NODE_WORK;
        paired += j->nodes[i].kind == NODE_WORK && j->task_of[i] != 0;
    }
    for (size_t i = 0; i < j->member_count; i++)
        tasks += event_is_work(j->g->tasks[j->members[i]].kind) && j->node_of[i] == 0;
    *complete = tasks == 0 && paired == work;
    bool same_model = r->graph >= 0 && r->graph == j->nodes[0].model;
    return found >= 4 && found * 10 >= j->member_count * 8 && (same_model || paired * 10 >= work * 8);
}

static void lay_over(join *j, replay *r, dump_fit *fit)
{
    bool unsure = false, complete;
    memset(j->node_of, 0, j->member_count * sizeof *j->node_of);
    memset(j->task_of, 0, j->count * sizeof *j->task_of);
    size_t found = pair_by_number(j);
    bool by_number = found * 10 >= j->member_count * 8;
    if (!by_number) {
        memset(j->node_of, 0, j->member_count * sizeof *j->node_of);
        memset(j->task_of, 0, j->count * sizeof *j->task_of);
        found = pair_by_names(j, r, &unsure);
    }
    if (found > fit->paired && fit->replays == 0) {
        fit->paired = (uint32_t)found;
        fit->of = (uint32_t)j->member_count;
    }
    if (!holds(j, r, found, &complete))
        return;
    j->how = by_number || (complete && !unsure) ? HOW_EXACT : HOW_GOOD;
    take_edges(j, false);
    if (j->against * 20 > j->edges) { /* more than one in twenty */
        fit->contradicted++;
        return;
    }
    take_edges(j, true);
    r->dumped = true;
    fit->replays++;
    fit->by_number += by_number;
    fit->edges += j->edges;
    fit->how = (uint8_t)j->how;
    fit->paired = (uint32_t)found;
    fit->of = (uint32_t)j->member_count;
}

static int compare_members(const void *a, const void *b, void *user)
{
    const task *tasks = user;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    if (tasks[i].lane != tasks[k].lane)
        return tasks[i].lane < tasks[k].lane ? -1 : 1;
    return i < k ? -1 : i > k;
}

/* Splits the members of a replay by lane. */
static void split_lanes(join *j)
{
    qsort_r(j->members, j->member_count, sizeof *j->members, compare_members, j->g->tasks);
    j->lanes = 0;
    for (size_t i = 0; i < j->member_count; i++)
        if (i == 0 || j->g->tasks[j->members[i]].lane != j->g->tasks[j->members[i - 1]].lane)
            j->lane_first[j->lanes++] = i;
    j->lane_first[j->lanes] = j->member_count;
}

/* All tasks in replays, by replay: first: [replays + 1]. */
static void list_members(const task_graph *g, size_t *first, uint32_t *list)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->tasks[i].replay != 0)
            first[g->tasks[i].replay]++;
    for (size_t r = 0; r < g->replay_count; r++)
        first[r + 1] += first[r];
    for (size_t i = g->count; i-- > 0;)
        if (g->tasks[i].replay != 0)
            list[--first[g->tasks[i].replay]] = (uint32_t)i;
    for (size_t r = 0; r < g->replay_count; r++) /* what was a replay's end is its start now */
        first[r] = first[r + 1];
    first[g->replay_count] = 0;
    for (size_t r = 0; r < g->replay_count; r++)
        first[g->replay_count] += g->replays[r].tasks;
}

static int join_model(task_graph *g, node *nodes, size_t count, dump_fit *fit, foray_error *err)
{
    size_t rooms = g->count + 1, most = 0, cells = rooms * count; /* tasks and nodes are counted in 32 bits */
    join j = { .g = g, .nodes = nodes, .count = count, .turn_room = cells < MOST_CELLS ? cells : MOST_CELLS };
    size_t *first = mem_alloc_zeroed(MEM_RECORDS, (g->replay_count + 1) * sizeof *first);
    j.stream_first = mem_alloc(MEM_RECORDS, (count + 1) * sizeof *j.stream_first);
    j.members = mem_alloc(MEM_RECORDS, rooms * sizeof *j.members);
    j.node_of = mem_alloc(MEM_RECORDS, rooms * sizeof *j.node_of);
    j.lane_first = mem_alloc(MEM_RECORDS, (rooms + 1) * sizeof *j.lane_first);
    j.task_of = mem_alloc(MEM_RECORDS, count * sizeof *j.task_of);
    j.turn = mem_alloc(MEM_RECORDS, j.turn_room);
    j.row = mem_alloc(MEM_RECORDS, 2 * (count + 1) * sizeof *j.row);
    j.alike = mem_alloc_zeroed(MEM_RECORDS, ALIKE_SLOTS);
    j.alike_key = mem_alloc_zeroed(MEM_RECORDS, ALIKE_SLOTS * sizeof *j.alike_key);
    int rc = FORAY_OK;
    if (first == NULL || j.stream_first == NULL || j.members == NULL || j.node_of == NULL ||
        j.lane_first == NULL || j.task_of == NULL || j.turn == NULL || j.row == NULL || j.alike == NULL ||
        j.alike_key == NULL) {
        rc = fail(err, FORAY_ENOMEM, "out of memory to join a graph dump of %zu nodes", count);
    } else {
        pair_handles(nodes, count);
        for (size_t i = 0; i < count; i++) {
            if (i == 0 || nodes[i].stream != nodes[i - 1].stream)
                j.stream_first[j.streams++] = i;
            fit->waits += nodes[i].kind == NODE_WAIT;
            fit->waits_named += nodes[i].kind == NODE_WAIT && nodes[i].record != 0;
        }
        j.stream_first[j.streams] = count;
        fit->streams = (uint32_t)j.streams;
        list_members(g, first, j.members);
        uint32_t *all = j.members, *all_nodes = j.node_of;
        for (size_t r = 0; r < g->replay_count; r++) {
            most = first[r + 1] - first[r];
            j.members = all + first[r];
            j.node_of = all_nodes + first[r];
            j.member_count = most;
            split_lanes(&j);
            if (!g->replays[r].dumped && most * count / (j.lanes + 1) <= MOST_CELLS)
                lay_over(&j, &g->replays[r], fit);
        }
        j.members = all;
        j.node_of = all_nodes;
    }
    mem_free(MEM_RECORDS, first, (g->replay_count + 1) * sizeof *first);
    mem_free(MEM_RECORDS, j.stream_first, (count + 1) * sizeof *j.stream_first);
    mem_free(MEM_RECORDS, j.members, rooms * sizeof *j.members);
    mem_free(MEM_RECORDS, j.node_of, rooms * sizeof *j.node_of);
    mem_free(MEM_RECORDS, j.lane_first, (rooms + 1) * sizeof *j.lane_first);
    mem_free(MEM_RECORDS, j.task_of, count * sizeof *j.task_of);
    mem_free(MEM_RECORDS, j.turn, j.turn_room);
    mem_free(MEM_RECORDS, j.row, 2 * (count + 1) * sizeof *j.row);
    mem_free(MEM_RECORDS, j.alike, ALIKE_SLOTS);
    mem_free(MEM_RECORDS, j.alike_key, ALIKE_SLOTS * sizeof *j.alike_key);
    return rc;
}

int dump_join(const store *s, task_graph *g, foray_error *err)
{
    int rc = FORAY_OK;
    for (uint32_t p = 0; p < s->part_count && rc == FORAY_OK; p++) {
        node *nodes = NULL;
        size_t count = 0, cap = 0;
        if (s->parts[p].format != FORMAT_DUMP || g->count == 0)
            continue;
        rc = gather_nodes(s, p, &nodes, &count, &cap, err);
        for (size_t from = 0, to; from < count && rc == FORAY_OK; from = to) {
            for (to = from; to < count && nodes[to].model == nodes[from].model;)
                to++;
            if (!list_reserve(&g->dumps, &g->dump_cap, g->dump_count + 1, sizeof *g->dumps)) {
                rc = fail(err, FORAY_ENOMEM, "%s: out of memory", s->parts[p].path);
                break;
            }
            dump_fit *fit = &g->dumps[g->dump_count++];
            *fit = (dump_fit) { .part = p, .model = nodes[from].model, .nodes = (uint32_t)(to - from) };
            rc = join_model(g, nodes + from, to - from, fit, err);
        }
        list_free(&nodes, &cap, sizeof *nodes);
    }
    return rc;
}

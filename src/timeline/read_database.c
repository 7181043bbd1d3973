/* read_database.c: SQLite exports of profilers into the store: Nsight Systems (nsys) and Ascend.
 *
 * Tables that are missing are empty: exporters leave them out where nothing was recorded. A column that a table lacks reads as
 * NULL, and is named in the part unless only some versions have it. The file is opened read-only and immutable: no
 * journal is looked for beside it. Ascend's rows get the process names of trace_view.json, so that everything behind
 * the readers treats both alike. Threads: one at a time per store.
 */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "timeline/decimal.h"
#include "timeline/list.h"
#include "timeline/read.h"

typedef struct {
    store *s;
    sqlite3 *db;
    uint32_t part;
    int64_t first_pid; /* correlations of other processes are kept apart from its own */
    char problem[160];
} reader;

/* ---- SQL -------------------------------------------------------------------------------------- */

static bool has_table(const reader *r, const char *table)
{
    sqlite3_stmt *q;
    bool found = false;
    if (sqlite3_prepare_v2(r->db, "SELECT 1 FROM sqlite_master WHERE name = ?1 AND type = 'table'", -1, &q,
                           NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(q, 1, table, -1, SQLITE_STATIC);
    found = sqlite3_step(q) == SQLITE_ROW;
    sqlite3_finalize(q);
    return found;
}

static bool has_column(const reader *r, const char *table, const char *column)
{
    sqlite3_stmt *q;
    bool found = false;
    if (sqlite3_prepare_v2(r->db, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", -1, &q, NULL) !=
        SQLITE_OK)
        return false;
    sqlite3_bind_text(q, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, column, -1, SQLITE_STATIC);
    found = sqlite3_step(q) == SQLITE_ROW;
    sqlite3_finalize(q);
    return found;
}

/* Notes a column that ought to be there. */
static void note_lacking(reader *r, const char *table, const char *column)
{
    part *p = &r->s->parts[r->part];
    size_t used = strlen(p->lacking);
    if (p->faults[FAULT_NO_COLUMN]++ < 4)
        snprintf(p->lacking + used, sizeof p->lacking - used, "%s%s.%s", used > 0 ? ", " : "", table, column);
    else if (p->faults[FAULT_NO_COLUMN] == 6)
        snprintf(p->lacking + used, sizeof p->lacking - used, " and more");
}

/* Appends a table's columns ("a b ?c", in that order) to a SELECT; NULL for those that it lacks. ?c: not in every
 * version, and not missed. */
static void put_columns(reader *r, const char *table, const char *columns, buf *sql)
{
    const char *between = "";
    for (const char *p = columns; *p != '\0';) {
        char name[64];
        bool expected = *p != '?';
        p += !expected;
        size_t n = strcspn(p, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        bool has = has_column(r, table, name);
        if (!has && expected)
            note_lacking(r, table, name);
        buf_printf(sql, has ? "%s\"%s\".\"%s\"" : "%sNULL", between, table, name);
        between = ", ";
        p += n;
        p += strspn(p, " ");
    }
}

static sqlite3_stmt *prepare(reader *r, const char *table, const buf *sql)
{
    sqlite3_stmt *q = NULL;
    if (!sql->failed && sqlite3_prepare_v2(r->db, sql->data, -1, &q, NULL) != SQLITE_OK)
        snprintf(r->problem, sizeof r->problem, "%s: %s", table, sqlite3_errmsg(r->db));
    return q;
}

/* Selects columns of a table, as put_columns names them. NULL: no such table, or damage. */
static sqlite3_stmt *select_columns(reader *r, const char *table, const char *columns)
{
    buf sql = { 0 };
    if (!has_table(r, table))
        return NULL;
    buf_puts(&sql, "SELECT ");
    put_columns(r, table, columns, &sql);
    buf_printf(&sql, " FROM \"%s\"", table);
    sqlite3_stmt *q = prepare(r, table, &sql);
    buf_free(&sql);
    return q;
}

static bool next_row(reader *r, sqlite3_stmt *q)
{
    int rc = q != NULL ? sqlite3_step(q) : SQLITE_DONE;
    if (rc == SQLITE_ROW && !r->s->failed && !r->s->names.failed)
        return true;
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        snprintf(r->problem, sizeof r->problem, "the database is damaged: %s", sqlite3_errmsg(r->db));
    sqlite3_finalize(q);
    return false;
}

static bool is_null(sqlite3_stmt *q, int column)
{
    return sqlite3_column_type(q, column) == SQLITE_NULL;
}

/* A whole number, also where it is stored as text. What no clock and no counter can say is as good as absent. */
static int64_t whole(sqlite3_stmt *q, int column, int64_t otherwise)
{
    const int64_t most = (int64_t)1 << 61;
    uint64_t value;
    if (sqlite3_column_type(q, column) == SQLITE_TEXT) {
        const char *text = (const char *)sqlite3_column_text(q, column);
        return text != NULL && decimal_whole(text, strlen(text), &value) && value < (uint64_t)most
                   ? (int64_t)value
                   : otherwise;
    }
    if (is_null(q, column))
        return otherwise;
    int64_t whole = sqlite3_column_int64(q, column);
    return whole > -most && whole < most ? whole : otherwise;
}

/* ---- names ------------------------------------------------------------------------------------ */

static uint32_t add_text(reader *r, const char *text)
{
    return names_add(&r->s->names, text, strlen(text));
}

/* Numbers of texts by the ids of a table of strings; those beyond are the empty text. */
typedef struct {
    int64_t *id;
    uint32_t *name;
    size_t count, id_cap, name_cap;
} string_table;

static void read_strings(reader *r, const char *table, string_table *out)
{
    sqlite3_stmt *q = select_columns(r, table, "id value");
    uint32_t faulty = r->s->names.faulty; /* most of these texts are no names of events */
    while (next_row(r, q)) {
        const char *text = (const char *)sqlite3_column_text(q, 1);
        if (!list_reserve(&out->id, &out->id_cap, out->count + 1, sizeof *out->id) ||
            !list_reserve(&out->name, &out->name_cap, out->count + 1, sizeof *out->name)) {
            r->s->failed = true;
            continue;
        }
        out->id[out->count] = whole(q, 0, -1);
        out->name[out->count++] = add_text(r, text != NULL ? text : "");
    }
    r->s->names.faulty = faulty;
}

/* Ids mostly ascend; where they do not, the search goes through all. */
static uint32_t string_at(const string_table *t, int64_t id)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->id[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < t->count && t->id[low] == id)
        return t->name[low];
    for (size_t i = 0; i < t->count; i++)
        if (t->id[i] == id)
            return t->name[i];
    return 0;
}

static void free_strings(string_table *t)
{
    list_free(&t->id, &t->id_cap, sizeof *t->id);
    list_free(&t->name, &t->name_cap, sizeof *t->name);
}

static int named_lane(reader *r, const char *process, const char *pid, int64_t tid)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, tid);
    uint32_t p = add_text(r, pid);
    int on = store_lane(r->s, r->part, p, add_text(r, text));
    if (process != NULL) {
        int named = store_lane(r->s, r->part, p, STORE_PROCESS_TID);
        if (named >= 0)
            r->s->lanes[named].process = add_text(r, process);
    }
    return on;
}

/* Adds an event; unfinished where its end lies before its start. NULL where it is not taken. */
static event *add_event(reader *r, int on, event_kind kind, uint32_t name, int64_t start, int64_t end)
{
    if (on < 0)
        return NULL;
    part *p = &r->s->parts[r->part];
    p->events++;
    if (start < -STORE_MOST_NS || start > STORE_MOST_NS || end < -STORE_MOST_NS || end > STORE_MOST_NS) {
        p->faults[FAULT_BAD_TIME]++;
        return NULL;
    }
    event *e = store_add(r->s, (uint16_t)on, kind, name, start, end >= start ? end - start : 0);
    if (e != NULL && end < start) {
        e->flags |= EVENT_UNFINISHED;
        p->faults[FAULT_UNFINISHED]++;
    }
    return e;
}

/* ---- Nsight ----------------------------------------------------------------------------------- */

static uint32_t nsys_link(reader *r, int64_t pid, int64_t correlation)
{
    int64_t process = pid >> 24 & 0xffffff;
    if (correlation <= 0)
        return 0;
    if (r->first_pid < 0)
        r->first_pid = process;
    return store_link(r->s, process == r->first_pid ? (uint64_t)correlation
                                                    : (uint64_t)process << 32 | (uint64_t)correlation);
}

static int nsys_stream(reader *r, int64_t device, int64_t stream)
{
    char pid[32];
    snprintf(pid, sizeof pid, "%" PRId64, device);
    return named_lane(r, NULL, pid, stream);
}

static int nsys_thread(reader *r, int64_t global)
{
    char pid[32];
    snprintf(pid, sizeof pid, "process %" PRId64, global >> 24 & 0xffffff);
    return named_lane(r, NULL, pid, global & 0xffffff);
}

static void read_nsys_tasks(reader *r, const string_table *strings, const char *table, event_kind kind,
                            const char *plain)
{
    sqlite3_stmt *q = select_columns(r, table,
                                     "start end deviceId streamId correlationId globalPid ?demangledName "
                                     "?shortName ?graphNodeId ?graphId ?graphExecId");
    uint32_t fallback = add_text(r, plain);
    while (next_row(r, q)) {
        uint32_t name = string_at(strings, whole(q, 6, -1));
        name = name != 0 ? name : string_at(strings, whole(q, 7, -1));
        event *e = add_event(r, nsys_stream(r, whole(q, 2, 0), whole(q, 3, 0)), kind,
                             name != 0 ? name : fallback, whole(q, 0, 0), whole(q, 1, -1));
        if (e == NULL)
            continue;
        e->link = nsys_link(r, whole(q, 5, 0), whole(q, 4, 0));
        int64_t node = whole(q, 8, 0), graph = whole(q, 10, whole(q, 9, 0));
        if (node > 0 || graph > 0) {
            event_detail *d = store_detail(r->s, e);
            if (d != NULL) {
                d->graph = graph > 0 ? graph : -1;
                d->node = node > 0 ? node : -1;
            }
        }
    }
}

static void read_nsys_calls(reader *r, const string_table *strings)
{
    sqlite3_stmt *q =
        select_columns(r, "CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId");
    while (next_row(r, q)) {
        event *e = add_event(r, nsys_thread(r, whole(q, 2, 0)), EVENT_CALL,
                             string_at(strings, whole(q, 4, -1)), whole(q, 0, 0), whole(q, 1, -1));
        if (e != NULL)
            e->link = nsys_link(r, whole(q, 2, 0), whole(q, 3, 0));
    }
    q = select_columns(r, "NVTX_EVENTS", "start end globalTid text ?textId");
    while (next_row(r, q)) {
        const char *text = (const char *)sqlite3_column_text(q, 3);
        uint32_t name = text != NULL ? add_text(r, text) : string_at(strings, whole(q, 4, -1));
        if (!is_null(q, 1)) /* marks have no end */
            add_event(r, nsys_thread(r, whole(q, 2, 0)), EVENT_ANNOTATION, name, whole(q, 0, 0),
                      whole(q, 1, -1));
    }
}

/* Waits of streams, with the record call of the same event synchronisation where it is in the file. */
static void read_nsys_waits(reader *r)
{
    enum { STREAM_WAIT_EVENT = 2 };
    sqlite3_stmt *q = NULL;
    static const char RECORDS[] = "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                      WAITS[] = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
    static const char *const of_both[] = { "eventId", "eventSyncId", "streamId", "correlationId" },
                             *const of_wait[] = { "start", "end", "deviceId", "globalPid", "syncType" };
    if (!has_table(r, RECORDS) || !has_table(r, WAITS))
        return;
    uint64_t lacking = r->s->parts[r->part].faults[FAULT_NO_COLUMN];
    for (size_t i = 0; i < sizeof of_both / sizeof *of_both; i++)
        for (int t = 0; t < 2; t++)
            if (!has_column(r, t == 0 ? RECORDS : WAITS, of_both[i]))
                note_lacking(r, t == 0 ? RECORDS : WAITS, of_both[i]);
    for (size_t i = 0; i < sizeof of_wait / sizeof *of_wait; i++)
        if (!has_column(r, WAITS, of_wait[i]))
            note_lacking(r, WAITS, of_wait[i]);
    if (r->s->parts[r->part].faults[FAULT_NO_COLUMN] > lacking)
        return;
    if (sqlite3_prepare_v2(r->db,
                           "SELECT s.start, s.end, s.deviceId, s.streamId, s.correlationId, s.globalPid, "
                           "e.streamId, e.correlationId "
                           "FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION s JOIN CUPTI_ACTIVITY_KIND_CUDA_EVENT e "
                           "ON s.eventId = e.eventId AND s.eventSyncId = e.eventSyncId WHERE s.syncType = ?1",
                           -1, &q, NULL) != SQLITE_OK)
        snprintf(r->problem, sizeof r->problem, "%s: %s", WAITS, sqlite3_errmsg(r->db));
    else
        sqlite3_bind_int(q, 1, STREAM_WAIT_EVENT);
    while (next_row(r, q)) {
        static const char NOTE[] = "Stream Wait Event";
        event *e = add_event(r, nsys_stream(r, whole(q, 2, 0), whole(q, 3, 0)), EVENT_SYNC_NOTE,
                             names_add(&r->s->names, NOTE, sizeof NOTE - 1), whole(q, 0, 0), whole(q, 1, -1));
        event_detail *d = e != NULL ? store_detail(r->s, e) : NULL;
        if (d == NULL)
            continue;
        e->link = nsys_link(r, whole(q, 5, 0), whole(q, 4, 0));
        d->stream = whole(q, 3, -1);
        d->wait_stream = (int32_t)whole(q, 6, -1);
        d->record_link = nsys_link(r, whole(q, 5, 0), whole(q, 7, 0));
    }
}

static void read_nsys(reader *r)
{
    string_table strings = { 0 };
    read_strings(r, "StringIds", &strings);
    read_nsys_calls(r, &strings);
    read_nsys_tasks(r, &strings, "CUPTI_ACTIVITY_KIND_KERNEL", EVENT_KERNEL, "kernel");
    read_nsys_tasks(r, &strings, "CUPTI_ACTIVITY_KIND_MEMCPY", EVENT_COPY, "memcpy");
    read_nsys_tasks(r, &strings, "CUPTI_ACTIVITY_KIND_MEMSET", EVENT_SET, "memset");
    read_nsys_tasks(r, &strings, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", EVENT_KERNEL, "graph");
    read_nsys_waits(r);
    free_strings(&strings);
    r->s->parts[r->part].format = FORMAT_NSYS;
}

/* ---- Ascend ----------------------------------------------------------------------------------- */

/* A task that is split has a row for itself beside those of its parts, which are the work: the parts count. */
static const char WITHOUT_PARENTS[] = "LEFT JOIN (SELECT DISTINCT streamId AS of_stream, taskId AS of_task "
                                      "FROM TASK WHERE contextId <> 4294967295) p "
                                      "ON p.of_stream = TASK.streamId AND p.of_task = TASK.taskId WHERE "
                                      "TASK.contextId <> 4294967295 OR p.of_task IS NULL";

/* A communication task has a row per peer in some versions; one name is enough. */
static const char MOVED[] =
    "LEFT JOIN (SELECT globalTaskId, MIN(name) AS name%s FROM COMMUNICATION_TASK_INFO "
    "GROUP BY globalTaskId) m ON m.globalTaskId = TASK.globalTaskId";

static void read_ascend_tasks(reader *r, const string_table *strings)
{
    buf sql = { 0 };
    bool compute = has_table(r, "COMPUTE_TASK_INFO"), comm = has_table(r, "COMMUNICATION_TASK_INFO");
    if (!has_table(r, "TASK"))
        return;
    buf_puts(&sql, "SELECT ");
    put_columns(r, "TASK", "startNs endNs deviceId connectionId streamId taskId modelId taskType", &sql);
    bool named = compute && has_column(r, "COMPUTE_TASK_INFO", "globalTaskId") &&
                 has_column(r, "COMPUTE_TASK_INFO", "name") && has_column(r, "TASK", "globalTaskId");
    bool moved_too = comm && has_column(r, "COMMUNICATION_TASK_INFO", "globalTaskId") &&
                     has_column(r, "COMMUNICATION_TASK_INFO", "name") &&
                     has_column(r, "TASK", "globalTaskId");
    if ((compute && !named) || (comm && !moved_too))
        note_lacking(r, compute && !named ? "COMPUTE_TASK_INFO" : "COMMUNICATION_TASK_INFO",
                     "globalTaskId or name");
    bool ranks = moved_too && has_column(r, "COMMUNICATION_TASK_INFO", "srcRank") &&
                 has_column(r, "COMMUNICATION_TASK_INFO", "dstRank");
    buf_printf(&sql, ", %s, %s, %s FROM TASK %s ", named ? "c.name" : "NULL", moved_too ? "m.name" : "NULL",
               ranks ? "m.src, m.dst" : "NULL, NULL",
               named ? "LEFT JOIN COMPUTE_TASK_INFO c ON c.globalTaskId = TASK.globalTaskId" : "");
    if (moved_too)
        buf_printf(&sql, MOVED, ranks ? ", MIN(srcRank) AS src, MIN(dstRank) AS dst" : "");
    buf_printf(&sql, " %s",
               has_column(r, "TASK", "contextId") && has_column(r, "TASK", "streamId") &&
                       has_column(r, "TASK", "taskId")
                   ? WITHOUT_PARENTS
                   : "");
    sqlite3_stmt *q = prepare(r, "TASK", &sql);
    buf_free(&sql);
    while (next_row(r, q)) {
        char device[32];
        snprintf(device, sizeof device, "device %" PRId64, whole(q, 2, 0));
        int on = named_lane(r, "Ascend Hardware", device, whole(q, 4, 0));
        uint32_t type = string_at(strings, whole(q, 7, -1)), name = string_at(strings, whole(q, 8, -1)),
                 moved = string_at(strings, whole(q, 9, -1));
        event *e = add_event(r, on, EVENT_OTHER,
                             name != 0    ? name
                             : moved != 0 ? moved
                                          : type,
                             whole(q, 0, 0), whole(q, 1, -1));
        event_detail *d = e != NULL ? store_detail(r->s, e) : NULL;
        if (d == NULL)
            continue;
        int64_t connection = whole(q, 3, 0), model = whole(q, 6, UINT32_MAX);
        e->link = connection > 0 && connection != UINT32_MAX ? store_link(r->s, (uint64_t)connection) : 0;
        d->stream = whole(q, 4, -1);
        d->task = whole(q, 5, -1);
        d->graph = model >= 0 && model != UINT32_MAX ? model : -1;
        d->task_type = type;
        d->collective = moved;
        d->src_rank = (int32_t)whole(q, 10, -1);
        d->dst_rank = (int32_t)whole(q, 11, -1);
    }
}

static void read_ascend_host(reader *r, const string_table *strings)
{
    enum { QUEUE = 50002, MSTX = 50004 };
    const int64_t low = 0xffffffff;
    sqlite3_stmt *q = select_columns(r, "CANN_API", "startNs endNs globalTid connectionId name");
    while (next_row(r, q)) {
        event *e = add_event(r, named_lane(r, "CANN", "CANN", whole(q, 2, 0) & low), EVENT_OTHER,
                             string_at(strings, whole(q, 4, -1)), whole(q, 0, 0), whole(q, 1, -1));
        if (e != NULL)
            e->link = store_link(r->s, (uint64_t)whole(q, 3, 0));
    }
    int64_t *connection = NULL;
    size_t cap = 0, count = 0;
    q = select_columns(r, "CONNECTION_IDS", "id connectionId");
    while (next_row(r, q)) { /* the first connection of an id is its queue's */
        int64_t id = whole(q, 0, -1);
        if (id < 0 || id > INT32_MAX || !list_reserve(&connection, &cap, (size_t)id + 1, sizeof *connection))
            continue;
        while (count <= (size_t)id)
            connection[count++] = 0;
        if (connection[id] == 0)
            connection[id] = whole(q, 1, 0);
    }
    q = select_columns(r, "PYTORCH_API", "startNs endNs globalTid connectionId name type");
    while (next_row(r, q)) {
        uint32_t name = string_at(strings, whole(q, 4, -1));
        int64_t type = whole(q, 5, 0), id = whole(q, 3, -1);
        const char *text = names_text(&r->s->names, name);
        event_kind kind = type == MSTX                       ? EVENT_ANNOTATION
                          : type != QUEUE                    ? EVENT_OP
                          : strncmp(text, "Enqueue", 7) == 0 ? EVENT_ENQUEUE
                                                             : EVENT_DEQUEUE;
        event *e = add_event(r, named_lane(r, "Python", "Python", whole(q, 2, 0) & low), kind, name,
                             whole(q, 0, 0), whole(q, 1, -1));
        if (e != NULL && type == QUEUE && id >= 0 && (size_t)id < count)
            e->link = store_link(r->s, (uint64_t)connection[id]);
    }
    list_free(&connection, &cap, sizeof *connection);
    q = select_columns(r, "MSTX_EVENTS", "startNs endNs globalTid message");
    while (next_row(r, q))
        add_event(r, named_lane(r, "Python", "Python", whole(q, 2, 0) & low), EVENT_ANNOTATION,
                  string_at(strings, whole(q, 3, -1)), whole(q, 0, 0), whole(q, 1, -1));
}

static void read_ascend_spans(reader *r, const string_table *strings)
{
    sqlite3_stmt *q = select_columns(r, "COMMUNICATION_OP", "startNs endNs connectionId opName groupName");
    while (next_row(r, q))
        add_event(r, named_lane(r, "Communication", "Communication", whole(q, 4, 0)), EVENT_SPAN,
                  string_at(strings, whole(q, 3, -1)), whole(q, 0, 0), whole(q, 1, -1));
    q = select_columns(r, "STEP_TIME", "id startNs endNs");
    while (next_row(r, q)) {
        char name[48];
        snprintf(name, sizeof name, "ProfilerStep#%" PRId64, whole(q, 0, 0));
        add_event(r, named_lane(r, "Python", "Python", -1), EVENT_ANNOTATION, add_text(r, name),
                  whole(q, 1, 0), whole(q, 2, -1));
    }
    q = select_columns(r, "RANK_DEVICE_MAP", "rankId deviceId");
    while (next_row(r, q))
        if (whole(q, 0, -1) >= 0)
            r->s->parts[r->part].rank = (int)whole(q, 0, -1);
}

static void read_ascend(reader *r)
{
    string_table strings = { 0 };
    read_strings(r, "STRING_IDS", &strings);
    read_ascend_host(r, &strings);
    read_ascend_tasks(r, &strings);
    read_ascend_spans(r, &strings);
    free_strings(&strings);
    r->s->parts[r->part].format = FORMAT_ASCEND;
}

/* ---- the file --------------------------------------------------------------------------------- */

static int open_database(const char *path, sqlite3 **out, foray_error *err)
{
    buf uri = { 0 };
    buf_puts(&uri, "file:");
    for (const char *p = path; *p != '\0'; p++) /* what has a meaning in such a name is written as its code */
        if (*p == '?' || *p == '#' || *p == '%')
            buf_printf(&uri, "%%%02x", (unsigned)*p);
        else
            buf_append(&uri, p, 1);
    buf_puts(&uri, "?immutable=1");
    int rc = uri.failed ? SQLITE_NOMEM
                        : sqlite3_open_v2(uri.data, out, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    buf_free(&uri);
    if (rc == SQLITE_OK)
        return FORAY_OK;
    int code = fail(err, FORAY_EFILE, "%s: cannot open the database: %s", path,
                    *out != NULL ? sqlite3_errmsg(*out) : "no memory");
    sqlite3_close(*out);
    return code;
}

int read_database(store *s, const char *path, foray_error *err)
{
    reader r = { .s = s, .part = (uint32_t)s->part_count, .first_pid = -1 };
    int rc = open_database(path, &r.db, err);
    if (rc != FORAY_OK)
        return rc;
    bool nsys = has_table(&r, "StringIds") &&
                (has_table(&r, "CUPTI_ACTIVITY_KIND_RUNTIME") || has_table(&r, "TARGET_INFO_GPU"));
    bool ascend = has_table(&r, "STRING_IDS") && (has_table(&r, "TASK") || has_table(&r, "CANN_API"));
    if (!nsys && !ascend) {
        bool companion = has_table(&r, "StepTraceTime") || has_table(&r, "CommAnalyzerTime");
        rc = fail(err, FORAY_EFILE,
                  companion ? "%s: Ascend's sums over steps and collectives, without a timeline (the "
                              "profile is ascend_pytorch_profiler_N.db or trace_view.json)"
                            : "%s: a database, but neither an export of Nsight Systems nor an Ascend profile",
                  path);
    } else if (store_add_part(s, path, FORMAT_UNKNOWN) == NULL) {
        rc = fail(err, FORAY_ENOMEM, "%s: out of memory", path);
    } else {
        if (nsys)
            read_nsys(&r);
        else
            read_ascend(&r);
        part *p = &s->parts[r.part];
        struct stat info;
        p->bytes = stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
        if (s->failed || s->names.failed)
            rc = fail(err, FORAY_ENOMEM, "%s: out of memory", path);
        else if (r.problem[0] != '\0' && p->events == 0)
            rc = fail(err, FORAY_EFILE, "%s: %s", path, r.problem);
        else if (r.problem[0] != '\0') {
            p->faults[FAULT_PACKING] = 1;
            snprintf(p->problem, sizeof p->problem, "%s", r.problem);
        }
    }
    sqlite3_close(r.db);
    return rc;
}

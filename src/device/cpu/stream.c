/* stream.c: streams and events outside of captures: launches, records, waits, syncs.
 *
 * A launch goes to the executor behind the stream's last one and behind the events that the stream waited for
 * since. An event is a signal on the last launch of its stream; a wait keeps that launch until the stream's next
 * one takes it up. Where there is nothing to hang an edge on (a record right after a wait), an empty launch, a
 * join, stands in. Threads: the host's.
 */
#include "device/cpu/internal.h"

#include <assert.h>
#include <string.h>

static int out_of_memory(const char *call, const char *name, foray_error *err)
{
    return fail(err, FORAY_ENOMEM, "%s: %s: no memory", call, name);
}

int stream_create(device *d, const char *name, stream **out, foray_error *err)
{
    int index = 0;
    while (index < DEVICE_STREAMS && d->stream[index])
        index++;
    if (index == DEVICE_STREAMS)
        return fail(err, FORAY_ELIMIT, "stream_create: %s: there are %d streams already (destroy one)", name,
                    DEVICE_STREAMS);
    stream *s = mem_alloc_zeroed(MEM_DEVICE, sizeof *s);
    if (!s)
        return out_of_memory("stream_create", name, err);
    s->d = d;
    s->name = name;
    s->index = index;
    d->stream[index] = s;
    d->stream_name[index] = name;
    d->objects++;
    *out = s;
    return 0;
}

int device_streams(const device *d, const char *const **names)
{
    int count = DEVICE_STREAMS;
    while (count > 0 && !d->stream_name[count - 1])
        count--;
    *names = d->stream_name;
    return count;
}

void stream_destroy(stream *s)
{
    if (!s)
        return;
    device *d = s->d;
    if (s->capture)
        capture_drop_stream(s);
    executor_wait(d->x, &s->lane.pending);
    check_seen(d, &s->clock);
    edge_list_free(&s->front);
    d->stream[s->index] = NULL;
    d->objects--;
    mem_free(MEM_DEVICE, s, sizeof *s);
}

/* Queues q on s, behind the waits that s has gathered and, for a graph, behind the last one of its pool. */
static dependency submit(stream *s, queued *q, dependency also)
{
    dependency after[STREAM_WAITS + 1];
    int count = 0;
    for (; count < s->waits; count++)
        after[count] = s->wait[count];
    if (also.task)
        after[count++] = also;
    s->waits = 0;
    q->t.stream = s->index;
    q->mark = s->d->mark;
    return executor_submit(s->d->x, q, &s->lane, after, count);
}

/* Gives the waits of s a launch to hang on. */
static void submit_join(stream *s)
{
    if (s->waits > 0)
        submit(s, executor_take(s->d->x), (dependency) { 0 });
}

int stream_launch(stream *s, kernel_id id, const kernel_args *args, foray_error *err)
{
    if (s->capture)
        return capture_launch(s, id, args, err);
    device *d = s->d;
    int rc = device_reserve_scratch(d, id, args, err);
    if (rc == 0 && d->checks)
        rc = check_launch(s, id, args, err);
    if (rc)
        return rc;
    queued *q = executor_take(d->x);
    q->t.impl = &d->table->kernel[id];
    q->t.id = id;
    memcpy(&q->t.args, args, kernel_args_bytes(id));
    submit(s, q, (dependency) { 0 });
    d->counters.launches++;
    return 0;
}

/* Called by graph_launch. */
int stream_replay(stream *s, program *p, graph_pool *pool, foray_error *err)
{
    device *d = s->d;
    if (s->capture)
        return capture_refuse(d, "graph_launch", err);
    int rc = d->checks ? check_replay(s, p, err) : 0;
    if (rc)
        return rc;
    queued *q = executor_take(d->x);
    q->t.graph = p;
    pool->last = submit(s, q, pool->last);
    d->counters.graph_launches++;
    return 0;
}

int stream_sync(stream *s, foray_error *err)
{
    device *d = s->d;
    int rc = capture_refuse(d, "stream_sync", err);
    if (rc)
        return rc;
    submit_join(s);
    d->counters.syncs++;
    d->counters.wait_ns += executor_wait(d->x, &s->lane.pending);
    check_seen(d, &s->clock);
    return 0;
}

int stream_tally(stream *s, const event *e)
{
    return e->from == s->index ? 0 : executor_tally(s->d->x, s->name, e->name, e->from_name);
}

int stream_wait(stream *s, event *e, foray_error *err)
{
    assert(s->d == e->d);
    if (s->capture || (e->recorded && e->capture && s->d->capturing && s->d->capturing->id == e->capture))
        return capture_wait(s, e, err);
    if (!e->recorded)
        return 0;
    if (e->capture)
        return fail(err, FORAY_ESTATE,
                    "stream_wait: stream %s: event %s was last recorded in a capture, which has ended "
                    "(record it again "
                    "after the graph's launch)",
                    s->name, e->name);
    if (check_leaves_out(s, e))
        return 0;
    if (s->d->checks)
        hazard_join(&s->clock, &e->clock);
    dependency d = executor_signal_task(s->d->x, &e->signal);
    d.tally = stream_tally(s, e);
    if (!d.task && !d.tally)
        return 0;
    if (s->waits == STREAM_WAITS)
        submit_join(s);
    d.event = e->index;
    s->wait[s->waits++] = d;
    return 0;
}

/* ---- events ---- */

int event_create(device *d, const char *name, event **out, foray_error *err)
{
    event *e = mem_alloc_zeroed(MEM_DEVICE, sizeof *e);
    if (!e)
        return out_of_memory("event_create", name, err);
    e->d = d;
    e->name = name;
    e->index = d->events++;
    atomic_init(&e->signal.time_ns, -1);
    d->objects++;
    *out = e;
    return 0;
}

void event_destroy(event *e)
{
    if (!e)
        return;
    executor_unsignal(e->d->x, &e->signal);
    edge_list_free(&e->at);
    e->d->objects--;
    mem_free(MEM_DEVICE, e, sizeof *e);
}

int event_record(event *e, stream *s, foray_error *err)
{
    assert(s->d == e->d);
    if (s->capture)
        return capture_record(e, s, err);
    submit_join(s);
    executor_signal(s->d->x, &e->signal, &s->lane);
    e->recorded = true;
    e->from = s->index;
    e->from_name = s->name;
    e->capture = 0;
    if (s->d->checks)
        e->clock = s->clock;
    return 0;
}

int event_sync(event *e, foray_error *err)
{
    device *d = e->d;
    int rc = capture_refuse(d, "event_sync", err);
    if (rc)
        return rc;
    if (!e->recorded || e->capture)
        return fail(err, FORAY_ESTATE, "event_sync: event %s was %s", e->name,
                    e->capture ? "last recorded in a capture: it stands for no time" : "never recorded");
    d->counters.syncs++;
    d->counters.wait_ns += executor_wait(d->x, &e->signal.open);
    check_seen(d, &e->clock);
    return 0;
}

bool event_done(const event *e)
{
    if (!e->recorded || e->capture)
        return false;
    if (atomic_load_explicit(&e->signal.open, memory_order_acquire))
        executor_poll(e->d->x);
    if (atomic_load_explicit(&e->signal.open, memory_order_acquire))
        return false;
    check_seen(e->d, &e->clock);
    return true;
}

int64_t event_time_ns(const event *e)
{
    if (!e->recorded || e->capture || atomic_load_explicit(&e->signal.open, memory_order_acquire))
        return -1;
    return atomic_load_explicit(&e->signal.time_ns, memory_order_relaxed);
}

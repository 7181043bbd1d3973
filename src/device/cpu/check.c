/* check.c: the happens-before check of debug builds: which memory a launch touches, whether everything that
 * touched it before is known to be over, and the error that names both sides.
 *
 * Known to be over: earlier in the same stream, behind an event that the stream waited for, or seen done by
 * the host (event_sync, stream_sync, event_done) before the launch. That two launches happen to run in order,
 * or that graphs of one pool never overlap, does not count. Threads: the host's.
 */
#include "device/cpu/internal.h"

static int resolve(const device *d, kernel_id id, const kernel_args *args,
                   hazard_access out[KERNEL_MAX_ACCESSES])
{
    kernel_access access[KERNEL_MAX_ACCESSES];
    int count = kernel_accesses(id, args, access);
    for (int i = 0; i < count; i++) {
        out[i] = (hazard_access) { .start = access[i].start,
                                   .bytes = access[i].bytes,
                                   .write = access[i].write,
                                   .name = kernel_name(id, args) };
        if (out[i].bytes > 0)
            continue;
        const device_buffer *b = device_find_buffer(d, out[i].start);
        out[i].start = b ? (const void *)b->start : out[i].start;
        out[i].bytes = b ? b->bytes : 1;
    }
    return count;
}

static int explain(const device *d, int actor, const hazard_report *r, foray_error *err)
{
    const device_buffer *b = device_find_buffer(d, r->later.start);
    return fail(
        err, FORAY_ESTATE,
        "kernel %s on stream %s %s buffer %s, which kernel %s on stream %s %s without being known to be over "
        "(an event_record and stream_wait between them are missing)",
        r->later.name, d->stream_name[actor], r->later.write ? "writes" : "reads",
        b ? b->name : "outside the device", r->earlier.name, d->stream_name[r->earlier.actor],
        r->earlier_writes ? "writes" : "reads");
}

int check_node(device *d, hazard_shadow *shadow, int actor, const hazard_clock *clock, kernel_id id,
               const kernel_args *args, foray_error *err)
{
    hazard_access access[KERNEL_MAX_ACCESSES];
    hazard_report report;
    int count = resolve(d, id, args, access);
    if (hazard_check(shadow, actor, clock, access, count, &report))
        return fail(err, FORAY_ENOMEM, "device: no memory for the happens-before check");
    return report.earlier.count ? explain(d, actor, &report, err) : 0;
}

/* A new operation of s, behind all that the host has seen done. */
static void begin_operation(stream *s)
{
    hazard_join(&s->clock, &s->d->host);
    s->clock.at[s->index] = ++s->d->operations[s->index];
}

int check_launch(stream *s, kernel_id id, const kernel_args *args, foray_error *err)
{
    begin_operation(s);
    return check_node(s->d, &s->d->shadow, s->index, &s->clock, id, args, err);
}

bool check_leaves_out(stream *s, const event *e)
{
    device_left_out *out = &s->d->left_out;
    if (s->d->leave_out == 0 || e->from == s->index || ++out->waits != s->d->leave_out)
        return false;
    out->stream = s->name;
    out->event = e->name;
    out->from = e->from_name;
    return true;
}

void device_leave_out_wait(device *d, int nth)
{
    d->leave_out = nth;
    d->left_out = (device_left_out) { 0 };
}

device_left_out device_get_left_out(const device *d)
{
    return d->left_out;
}

int check_replay(stream *s, const program *p, foray_error *err)
{
    begin_operation(s);
    for (int i = 0; i < p->count; i++) {
        const task *t = &p->nodes[i].t;
        int rc = check_node(s->d, &s->d->shadow, s->index, &s->clock, t->id, &t->args, err);
        if (rc)
            return rc;
    }
    return 0;
}

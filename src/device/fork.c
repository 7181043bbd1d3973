/* fork.c: side streams and the events between them and the main one. See fork.h. */
#include "device/fork.h"

#include <assert.h>

#include "base/mem.h"

struct fork_streams {
    stream *side[FORK_SIDES];
    event *begun[FORK_SIDES], *done[FORK_SIDES];
    int sides;
};

int fork_create(device *d, const char *const *names, int sides, fork_streams **out, foray_error *err)
{
    assert(sides <= FORK_SIDES);
    fork_streams *f = mem_alloc_zeroed(MEM_DEVICE, sizeof *f);
    if (!f)
        return fail(err, FORAY_ENOMEM, "no memory for side streams");
    f->sides = sides;
    int rc = 0;
    for (int i = 0; i < sides && rc == 0; i++) {
        rc = stream_create(d, names[i], &f->side[i], err);
        if (rc == 0)
            rc = event_create(d, names[i], &f->begun[i], err);
        if (rc == 0)
            rc = event_create(d, names[i], &f->done[i], err);
    }
    if (rc != 0) {
        fork_destroy(f);
        return rc;
    }
    *out = f;
    return 0;
}

void fork_destroy(fork_streams *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->sides; i++) {
        if (f->begun[i])
            event_destroy(f->begun[i]);
        if (f->done[i])
            event_destroy(f->done[i]);
        if (f->side[i])
            stream_destroy(f->side[i]);
    }
    mem_free(MEM_DEVICE, f, sizeof *f);
}

int fork_begin(fork_streams *f, int side, stream *main, stream **out, foray_error *err)
{
    int rc = event_record(f->begun[side], main, err);
    if (rc == 0)
        rc = stream_wait(f->side[side], f->begun[side], err);
    if (rc == 0)
        *out = f->side[side];
    return rc;
}

int fork_join(fork_streams *f, int side, stream *main, foray_error *err)
{
    int rc = event_record(f->done[side], f->side[side], err);
    return rc == 0 ? stream_wait(main, f->done[side], err) : rc;
}

void fork_drain(fork_streams *f)
{
    for (int i = 0; f && i < f->sides; i++)
        stream_sync(f->side[i], NULL);
}

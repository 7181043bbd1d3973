/* read_ahead.c: a second reader with a store of its own; see read_ahead.h.
 *
 * It stops before the first thing that is out of the ordinary: damage, an event that depends on what came before it, the end of
 * the list, no memory. The reader goes on from there, so that all of these have one place where they are dealt with.
 */
#include "timeline/read_ahead.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"

#ifdef FORAY_TORTURE
enum { LEAST_BYTES = 32 << 10 };
#else
enum { LEAST_BYTES = 32 << 20 };
#endif
static const uint64_t NOT_YET = UINT64_MAX;

enum { CACHE_LINE = 64 };

struct ahead {
    /* Both threads look at these with every event: nothing that changes may lie beside them. */
    _Atomic uint64_t first; /* where its first event stands */
    _Atomic bool stop;
    _Alignas(CACHE_LINE) uint64_t events; /* that it took; for the reader once the thread has ended */
    uint64_t bad_escapes, upto;
    source *from;
    scan *sc;
    store found;
    chrome_reader r;
    pthread_t thread;
    bool running;
};

static void *read_on(void *user)
{
    ahead *a = user;
    while (!atomic_load_explicit(&a->stop, memory_order_relaxed) && scan_next(a->sc) == SCAN_EVENT) {
        const scan_event *e = scan_current(a->sc);
        if (scan_done(a->sc)->damaged > 0 || !chrome_stands_alone(e))
            break;
        if (a->events == 0)
            atomic_store(&a->first, e->offset);
        chrome_take(&a->r, e);
        if (a->found.failed || a->found.names.failed)
            break;
        a->events++;
        a->bad_escapes = scan_done(a->sc)->bad_escapes;
        a->upto = scan_offset(a->sc);
    }
    return NULL;
}

static void wait_for(ahead *a)
{
    if (a->running)
        pthread_join(a->thread, NULL);
    a->running = false;
}

void ahead_drop(ahead **which)
{
    ahead *a = *which;
    *which = NULL;
    if (a == NULL)
        return;
    atomic_store(&a->stop, true);
    wait_for(a);
    scan_close(a->sc);
    source_close(a->from);
    store_free(&a->found);
    mem_free(MEM_RECORDS, a, sizeof *a);
}

ahead *ahead_start(const source *from, const scan *main)
{
    uint64_t bytes = source_packed_bytes(from);
    foray_error err;
    if (bytes < LEAST_BYTES)
        return NULL;
    source *again = source_open_again(from, bytes / 2);
    ahead *a = again != NULL ? mem_alloc_zeroed(MEM_RECORDS, sizeof *a) : NULL;
    if (a == NULL) {
        source_close(again);
        return NULL;
    }
    a->from = again;
    a->first = NOT_YET;
    store_init(&a->found);
    a->r = (chrome_reader) { .s = &a->found };
    a->running = store_add_part(&a->found, source_name(from), FORMAT_UNKNOWN) != NULL &&
                 scan_open_inside(again, bytes / 2, main, &a->sc, &err) == FORAY_OK &&
                 pthread_create(&a->thread, NULL, read_on, a) == 0;
    if (!a->running)
        ahead_drop(&a);
    return a;
}

bool ahead_takes(ahead **which, scan *main, chrome_reader *r)
{
    ahead *a = *which;
    uint64_t here = scan_current(main)->offset, first = a != NULL ? atomic_load(&a->first) : NOT_YET;
    if (here < first)
        return false;
    bool right = here == first;
    if (right) {
        wait_for(a);
        right = !a->found.failed && !a->found.names.failed &&
                scan_skip_to(main, a->upto, a->events, a->bad_escapes);
    }
    if (right) {
        store_append(r->s, &a->found);
        r->saw_ascend = r->saw_ascend || a->r.saw_ascend;
        r->saw_kineto = r->saw_kineto || a->r.saw_kineto;
        r->saw_foray = r->saw_foray || a->r.saw_foray;
        r->saw_dump = r->saw_dump || a->r.saw_dump;
    }
    ahead_drop(which);
    return right;
}

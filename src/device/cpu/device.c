/* device.c: the CPU device itself: opening and closing, memory, settings, counters. Streams and events are
 * stream.c, captures capture.c, graphs graph.c; executor.c runs it all.
 *
 * Buffers are kept in a sorted table, for their sizes and for the names in messages. Threads: the host's.
 */
#include "device/cpu/internal.h"

#include <assert.h>
#include <string.h>

#include "base/thread.h"

#ifdef FORAY_TORTURE
enum { STORE = 8 }; /* so that a full store is common */
#else
enum { STORE = 1024 }; /* launches in flight: some steps of a small model; beyond that the host helps */
#endif

#ifdef FORAY_CHECKS
static const bool checks_default = true;
#else
static const bool checks_default = false;
#endif

int device_open(const device_config *config, device **out, foray_error *err)
{
    const kernel_table *table;
    int rc = kernel_table_get(config->isa, &table, err);
    if (rc)
        return rc;
    int threads = config->threads ? config->threads : thread_cores();
    if (!config->threads && threads > EXECUTOR_MAX_THREADS)
        threads = EXECUTOR_MAX_THREADS;
    if (threads < 1 || threads > EXECUTOR_MAX_THREADS)
        return fail(err, FORAY_EUSAGE, "threads: %d: must be 1 to %d", threads, EXECUTOR_MAX_THREADS);
    device *d = mem_alloc_zeroed(MEM_DEVICE, sizeof *d);
    if (!d)
        return fail(err, FORAY_ENOMEM, "device: no memory");
    rc = executor_create(threads, STORE, config->shuffle_seed, config->records, &d->x, err);
    if (rc) {
        mem_free(MEM_DEVICE, d, sizeof *d);
        return rc;
    }
    d->table = table;
    d->checks = checks_default;
    *out = d;
    return 0;
}

void device_close(device *d)
{
    if (!d)
        return;
    assert(d->objects == 0);
    executor_wait(d->x, executor_in_flight(d->x));
    executor_destroy(d->x);
    for (int i = 0; i < d->buffer_count; i++)
        mem_free(MEM_DEVICE, (void *)d->buffers[i].start, d->buffers[i].bytes);
    mem_free(MEM_DEVICE, d->buffers, (size_t)d->buffer_capacity * sizeof *d->buffers);
    hazard_free(&d->shadow);
    mem_free(MEM_DEVICE, d, sizeof *d);
}

void device_set_kernels(device *d, const kernel_table *table)
{
    if (table == NULL) /* there was one of that name when the device opened */
        (void)kernel_table_get(d->table->name, &table, NULL);
    assert(table->lanes == d->table->lanes);
    d->table = table;
}

const char *device_isa(const device *d)
{
    return d->table->name;
}

int device_lanes(const device *d)
{
    return d->table->lanes;
}

int device_threads(const device *d)
{
    return executor_threads(d->x);
}

int device_active_threads(const device *d)
{
    return executor_active(d->x);
}

void device_set_threads(device *d, int threads)
{
    executor_set_threads(d->x, threads);
}

void device_set_recording(device *d, ring *records)
{
    executor_wait(d->x, executor_in_flight(d->x)); /* a worker may be writing into the old one */
    executor_set_records(d->x, records);
}

void device_mark(device *d, task_mark mark)
{
    d->mark = mark;
}

device_counters device_get_counters(const device *d)
{
    return d->counters;
}

int device_take_waits(device *d, int64_t round, device_wait *out, int most)
{
    return executor_take_waits(d->x, round, out, most);
}

void device_set_checks(device *d, bool on)
{
    d->checks = on;
}

int device_sleeping(device *d)
{
    return executor_sleeping(d->x);
}

/* ---- memory ---- */

/* The place of the first buffer that ends behind p. */
static int find_place(const device *d, uintptr_t p)
{
    int low = 0, high = d->buffer_count;
    while (low < high) {
        int mid = (low + high) / 2;
        if (d->buffers[mid].start + d->buffers[mid].bytes > p)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

const device_buffer *device_find_buffer(const device *d, const void *p)
{
    int i = find_place(d, (uintptr_t)p);
    return i < d->buffer_count && d->buffers[i].start <= (uintptr_t)p ? &d->buffers[i] : NULL;
}

int device_alloc(device *d, const char *name, size_t bytes, void **out, foray_error *err)
{
    int rc = capture_refuse(d, "device_alloc", err);
    if (rc)
        return rc;
    if (bytes == 0)
        bytes = 1; /* every buffer has an address of its own */
    if (d->buffer_count == d->buffer_capacity) {
        int capacity = d->buffer_capacity ? 2 * d->buffer_capacity : 32;
        device_buffer *p = mem_resize(MEM_DEVICE, d->buffers, (size_t)d->buffer_capacity * sizeof *p,
                                      (size_t)capacity * sizeof *p);
        if (!p)
            return fail(err, FORAY_ENOMEM, "device_alloc: %s: no memory for the table of buffers", name);
        d->buffers = p;
        d->buffer_capacity = capacity;
    }
    void *p = mem_alloc_zeroed(MEM_DEVICE, bytes);
    if (!p)
        return fail(err, FORAY_ENOMEM, "device_alloc: %s: no memory for %zu bytes", name, bytes);
    int i = find_place(d, (uintptr_t)p);
    memmove(&d->buffers[i + 1], &d->buffers[i], (size_t)(d->buffer_count - i) * sizeof d->buffers[0]);
    d->buffers[i] = (device_buffer) { .start = (uintptr_t)p, .bytes = bytes, .name = name };
    d->buffer_count++;
    d->bytes += bytes;
    *out = p;
    return 0;
}

void device_free(device *d, void *p)
{
    if (!p)
        return;
    (void)capture_refuse(d, "device_free", NULL); /* nodes may hold the address: their capture is broken */
    int i = find_place(d, (uintptr_t)p);
    assert(i < d->buffer_count && d->buffers[i].start == (uintptr_t)p);
    size_t bytes = d->buffers[i].bytes;
    d->buffer_count--;
    memmove(&d->buffers[i], &d->buffers[i + 1], (size_t)(d->buffer_count - i) * sizeof d->buffers[0]);
    d->bytes -= bytes;
    hazard_forget(&d->shadow, p, bytes);
    mem_free(MEM_DEVICE, p, bytes);
}

uint64_t device_bytes(const device *d)
{
    return d->bytes;
}

int device_reserve_scratch(device *d, kernel_id id, const kernel_args *args, foray_error *err)
{
    const kernel_impl *impl = &d->table->kernel[id];
    size_t bytes = impl->scratch ? impl->scratch(args) : 0;
    return executor_reserve_scratch(d->x, bytes, err);
}

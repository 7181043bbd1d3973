/* hooks.h: what tests may see and change of the CPU device beyond device.h. Threads: the host's.
 */
#ifndef FORAY_DEVICE_CPU_HOOKS_H
#define FORAY_DEVICE_CPU_HOOKS_H

#include "device/device.h"
#include "kernel/impl.h"

/* The happens-before check on or off, before the device's first launch. Debug builds have it on. */
void device_set_checks(device *d, bool on);

/* Leaves out the nth wait for an event of another stream from now on (1: the next), eagerly or in a capture, as if stream_wait
 * had not been called; but a stream that it would bring into a capture takes part all the same. 0: none. */
void device_leave_out_wait(device *d, int nth);

typedef struct {
    int waits; /* that came since device_leave_out_wait, that one among them */
    const char *stream, *event,
        *from; /* who would have waited, for what, of whom: static names; NULL: not yet */
} device_left_out;
device_left_out device_get_left_out(const device *d);

/* What work launched or captured from now on runs: a table of the test's own, as a copy of kernel_table_get's in which a kernel
 * takes longer. Borrowed; of as many lanes as the device's. NULL: the device's own again. */
void device_set_kernels(device *d, const kernel_table *table);

/* Workers other than the host that sleep in the system right now. */
int device_sleeping(device *d);

#endif

/* hooks.h: what tests may see and change of the CPU device beyond device.h. Threads: the host's.
 */
#ifndef FORAY_DEVICE_CPU_HOOKS_H
#define FORAY_DEVICE_CPU_HOOKS_H

#include "device/device.h"
#include "kernel/impl.h"

/* The happens-before check on or off, before the device's first launch. Debug builds have it on. */
void device_set_checks(device *d, bool on);

/* What work launched or captured from now on runs: a table of the test's own, as a copy of kernel_table_get's in which a kernel
 * takes longer. Borrowed; of as many lanes as the device's. NULL: the device's own again. */
void device_set_kernels(device *d, const kernel_table *table);

/* Workers other than the host that sleep in the system right now. */
int device_sleeping(device *d);

#endif

/* hooks.h: what tests may see and change of the CPU device beyond device.h. Threads: the host's.
 */
#ifndef FORAY_DEVICE_CPU_HOOKS_H
#define FORAY_DEVICE_CPU_HOOKS_H

#include "device/device.h"

/* The happens-before check on or off, before the device's first launch. Debug builds have it on. */
void device_set_checks(device *d, bool on);

/* Workers other than the host that sleep in the system right now. */
int device_sleeping(device *d);

#endif

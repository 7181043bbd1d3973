/* padding.h: kernels over padding that holds anything: a table in which, whenever a kernel starts, whatever lies behind the live
 * rows of what it reads and writes is filled with one byte, and which asserts, when the kernel is done, that it has left that of
 * its outputs alone. Inputs get back what they held, as some are tables that never change.
 *
 * Buffers are those that kernel_accesses names: which of them are by row, and how far their rows are apart, shows in what it
 * says of one, two and all rows. For a device of one thread and no shuffling; one table at a time.
 */
#ifndef FORAY_TESTS_SUPPORT_PADDING_H
#define FORAY_TESTS_SUPPORT_PADDING_H

#include "kernel/impl.h"

/* own: the device's. The result is good for device_set_kernels (device/cpu/hooks.h), until the next call. */
const kernel_table *padding_table(const kernel_table *own, uint8_t garbage);

/* How often a kernel ran with padding since then. */
int padding_met(kernel_id id);

#endif

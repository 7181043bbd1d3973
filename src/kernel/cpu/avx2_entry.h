/* avx2_entry.h: entry_load of kernel/ref/entry_pack.h, eight channels at a time. For AVX-512 too. */
#ifndef FORAY_KERNEL_CPU_AVX2_ENTRY_H
#define FORAY_KERNEL_CPU_AVX2_ENTRY_H

#include "kernel/rows.h"

/* The same floats as entry_load gives. */
const float *avx2_entry_load(const entry_rows *e, int slot, int entry, float *room);

#endif

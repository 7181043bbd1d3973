/* pending.c: entries that have no implementation yet. Whoever lands one deletes its line here; the file goes
 * with the last line. An empty avx2/avx512 entry falls back to ref in kernel/table.c.
 * Threads: constants only.
 */
#include "kernel/cpu/entries.h"

/* sample, avx2 */
const kernel_impl avx2_sample = { 0 };
/* ---- */

/* sample, avx512 */
const kernel_impl avx512_sample = { 0 };
/* ---- */

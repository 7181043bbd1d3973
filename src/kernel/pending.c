/* pending.c: entries that have no implementation yet. Whoever lands one deletes its line here; the file goes
 * with the last line. An empty avx2/avx512 entry falls back to ref in kernel/table.c.
 * Threads: constants only.
 */
#include "kernel/cpu/entries.h"

/* rope_store, avx2 */
const kernel_impl avx2_rope_store = { 0 };
/* ---- */

/* rope_store, avx512 */
const kernel_impl avx512_rope_store = { 0 };
/* ---- */

/* attention, avx2 */
const kernel_impl avx2_attention = { 0 };
/* ---- */

/* attention, avx512 */
const kernel_impl avx512_attention = { 0 };
/* ---- */

/* norm_add, avx2 */
const kernel_impl avx2_norm_add = { 0 };
/* ---- */

/* norm_add, avx512 */
const kernel_impl avx512_norm_add = { 0 };
/* ---- */

/* sample, avx2 */
const kernel_impl avx2_sample = { 0 };
/* ---- */

/* sample, avx512 */
const kernel_impl avx512_sample = { 0 };
/* ---- */

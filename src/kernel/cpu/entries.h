/* entries.h: every implementation of every kernel, by name: <isa>_<kernel>.
 *
 * Each is one constant defined in the file that implements it (kernel/ref/…, kernel/cpu/avx2_….c,
 * kernel/cpu/avx512_….c); kernel/table.c puts them together into one table per instruction set. An
 * instruction set that has nothing faster for a kernel names the ref entry in kernel/table.c and needs no
 * constant here. Only table.c and tests include this.
 */
#ifndef FORAY_KERNEL_CPU_ENTRIES_H
#define FORAY_KERNEL_CPU_ENTRIES_H

#include "kernel/impl.h"

extern const kernel_impl ref_embed;
extern const kernel_impl ref_quant;
extern const kernel_impl ref_matmul;
extern const kernel_impl ref_rope_angles;
extern const kernel_impl ref_rope_store;
extern const kernel_impl ref_attention;
extern const kernel_impl ref_norm_add;
extern const kernel_impl ref_gather;
extern const kernel_impl ref_sample;
extern const kernel_impl ref_hyper_pre;
extern const kernel_impl ref_hyper_post;
extern const kernel_impl ref_head_rope;
extern const kernel_impl ref_latent_store;
extern const kernel_impl ref_state_store;
extern const kernel_impl ref_compress;
extern const kernel_impl ref_index_score;
extern const kernel_impl ref_index_select;
extern const kernel_impl ref_sparse_attention;
extern const kernel_impl ref_entry_store;
extern const kernel_impl ref_entry_load;
extern const kernel_impl ref_route;
extern const kernel_impl ref_group;
extern const kernel_impl ref_experts;
extern const kernel_impl ref_combine;
extern const kernel_impl ref_host; /* the same for every instruction set */

extern const kernel_impl avx2_quant;
extern const kernel_impl avx2_matmul;
extern const kernel_impl avx2_rope_store;
extern const kernel_impl avx2_attention;
extern const kernel_impl avx2_norm_add;
extern const kernel_impl avx2_sample;
extern const kernel_impl avx2_hyper_pre;
extern const kernel_impl avx2_hyper_post;
extern const kernel_impl avx2_head_rope;
extern const kernel_impl avx2_latent_store;
extern const kernel_impl avx2_compress;
extern const kernel_impl avx2_index_score;
extern const kernel_impl avx2_index_select;
extern const kernel_impl avx2_sparse_attention;
extern const kernel_impl avx2_route;
extern const kernel_impl avx2_experts;

extern const kernel_impl avx512_quant;
extern const kernel_impl avx512_matmul;
extern const kernel_impl avx512_attention;
extern const kernel_impl avx512_sample;
extern const kernel_impl avx512_index_score;
extern const kernel_impl avx512_index_select;
extern const kernel_impl avx512_sparse_attention;
extern const kernel_impl avx512_route;
extern const kernel_impl avx512_experts;

#endif

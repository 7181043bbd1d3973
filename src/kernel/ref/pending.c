/* pending.c: kernels whose definition has not landed on this branch yet. Goes when the last one has. */
#include "kernel/cpu/entries.h"

const kernel_impl ref_hyper_pre = { 0 };
const kernel_impl ref_hyper_post = { 0 };
const kernel_impl ref_head_rope = { 0 };
const kernel_impl ref_latent_store = { 0 };
const kernel_impl ref_state_store = { 0 };
const kernel_impl ref_compress = { 0 };
const kernel_impl ref_index_score = { 0 };
const kernel_impl ref_index_select = { 0 };
const kernel_impl ref_sparse_attention = { 0 };
const kernel_impl ref_route = { 0 };
const kernel_impl ref_group = { 0 };
const kernel_impl ref_experts = { 0 };
const kernel_impl ref_combine = { 0 };

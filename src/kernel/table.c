/* table.c: which implementation each instruction set uses for each kernel, and which sets this machine has.
 *
 * The rows below are the whole choice; they are copied into flat tables on first use. The processor is asked
 * with cpuid and the operating system with xgetbv (it must save the wide registers), so a table that was
 * handed out can run here. On other processors only `portable` exists.
 * Threads: any.
 */
#include "kernel/impl.h"

#include <pthread.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernel/cpu/entries.h"

enum { ISA_PORTABLE, ISA_AVX2, ISA_AVX512, ISA_COUNT };

typedef const kernel_impl *kernel_row[KERNEL_COUNT];

static const kernel_row portable_row = {
    [KERNEL_EMBED] = &ref_embed,
    [KERNEL_QUANT] = &ref_quant,
    [KERNEL_MATMUL] = &ref_matmul,
    [KERNEL_ROPE_ANGLES] = &ref_rope_angles,
    [KERNEL_ROPE_STORE] = &ref_rope_store,
    [KERNEL_ATTENTION] = &ref_attention,
    [KERNEL_NORM_ADD] = &ref_norm_add,
    [KERNEL_GATHER] = &ref_gather,
    [KERNEL_SAMPLE] = &ref_sample,
    [KERNEL_HOST] = &ref_host,
    [KERNEL_HYPER_PRE] = &ref_hyper_pre,
    [KERNEL_HYPER_POST] = &ref_hyper_post,
    [KERNEL_HEAD_ROPE] = &ref_head_rope,
    [KERNEL_LATENT_STORE] = &ref_latent_store,
    [KERNEL_STATE_STORE] = &ref_state_store,
    [KERNEL_COMPRESS] = &ref_compress,
    [KERNEL_INDEX_SCORE] = &ref_index_score,
    [KERNEL_INDEX_SELECT] = &ref_index_select,
    [KERNEL_SPARSE_ATTENTION] = &ref_sparse_attention,
    [KERNEL_ENTRY_STORE] = &ref_entry_store,
    [KERNEL_ENTRY_LOAD] = &ref_entry_load,
    [KERNEL_ROUTE] = &ref_route,
    [KERNEL_GROUP] = &ref_group,
    [KERNEL_EXPERTS] = &ref_experts,
    [KERNEL_COMBINE] = &ref_combine,
};

#if defined(__x86_64__)
static const kernel_row avx2_row = {
    [KERNEL_EMBED] = &ref_embed,
    [KERNEL_QUANT] = &avx2_quant,
    [KERNEL_MATMUL] = &avx2_matmul,
    [KERNEL_ROPE_ANGLES] = &ref_rope_angles,
    [KERNEL_ROPE_STORE] = &avx2_rope_store,
    [KERNEL_ATTENTION] = &avx2_attention,
    [KERNEL_NORM_ADD] = &avx2_norm_add,
    [KERNEL_GATHER] = &ref_gather,
    [KERNEL_SAMPLE] = &avx2_sample,
    [KERNEL_HOST] = &ref_host,
    [KERNEL_HYPER_PRE] = &avx2_hyper_pre,
    [KERNEL_HYPER_POST] = &avx2_hyper_post,
    [KERNEL_HEAD_ROPE] = &avx2_head_rope,
    [KERNEL_LATENT_STORE] = &avx2_latent_store,
    [KERNEL_STATE_STORE] = &ref_state_store,
    [KERNEL_COMPRESS] = &avx2_compress,
    [KERNEL_INDEX_SCORE] = &avx2_index_score,
    [KERNEL_INDEX_SELECT] = &avx2_index_select,
    [KERNEL_SPARSE_ATTENTION] = &avx2_sparse_attention,
    [KERNEL_ENTRY_STORE] = &ref_entry_store,
    [KERNEL_ENTRY_LOAD] = &ref_entry_load,
    [KERNEL_ROUTE] = &avx2_route,
    [KERNEL_GROUP] = &ref_group,
    [KERNEL_EXPERTS] = &avx2_experts,
    [KERNEL_COMBINE] = &ref_combine,
};

static const kernel_row avx512_row = {
    [KERNEL_EMBED] = &ref_embed,
    [KERNEL_QUANT] = &avx512_quant,
    [KERNEL_MATMUL] = &avx512_matmul,
    [KERNEL_ROPE_ANGLES] = &ref_rope_angles,
    [KERNEL_ROPE_STORE] = &avx2_rope_store,
    [KERNEL_ATTENTION] = &avx512_attention,
    [KERNEL_NORM_ADD] = &avx2_norm_add,
    [KERNEL_GATHER] = &ref_gather,
    [KERNEL_SAMPLE] = &avx512_sample,
    [KERNEL_HOST] = &ref_host,
    [KERNEL_HYPER_PRE] = &avx2_hyper_pre,
    [KERNEL_HYPER_POST] = &avx2_hyper_post,
    [KERNEL_HEAD_ROPE] = &avx2_head_rope,
    [KERNEL_LATENT_STORE] = &avx2_latent_store,
    [KERNEL_STATE_STORE] = &ref_state_store,
    [KERNEL_COMPRESS] = &avx2_compress,
    [KERNEL_INDEX_SCORE] = &avx512_index_score,
    [KERNEL_INDEX_SELECT] = &avx512_index_select,
    [KERNEL_SPARSE_ATTENTION] = &avx512_sparse_attention,
    [KERNEL_ENTRY_STORE] = &ref_entry_store,
    [KERNEL_ENTRY_LOAD] = &ref_entry_load,
    [KERNEL_ROUTE] = &avx512_route,
    [KERNEL_GROUP] = &ref_group,
    [KERNEL_EXPERTS] = &avx512_experts,
    [KERNEL_COMBINE] = &ref_combine,
};
#endif

static kernel_table tables[ISA_COUNT] = {
    [ISA_PORTABLE] = { .name = "portable", .lanes = 8 },
    [ISA_AVX2] = { .name = "avx2", .lanes = 8 },
    [ISA_AVX512] = { .name = "avx512", .lanes = 16 },
};
static const char *missing[ISA_COUNT]; /* what the machine lacks for a set; NULL: it has all */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(kernel_table *t, const kernel_row row)
{
    for (int k = 0; k < KERNEL_COUNT; k++)
        t->kernel[k] = row[k]->run ? *row[k] : *portable_row[k];
}

#if defined(__x86_64__)
/* Bits of leaf 1 ecx and leaf 7 ebx/ecx (the vendor manuals' names). */
enum { LEAF1_FMA = 1 << 12, LEAF1_OSXSAVE = 1 << 27, LEAF1_AVX = 1 << 28, LEAF1_F16C = 1 << 29 };
enum {
    LEAF7_AVX2 = 1 << 5,
    LEAF7_F = 1 << 16,
    LEAF7_DQ = 1 << 17,
    LEAF7_BW = 1 << 30,
    LEAF7C_VNNI = 1 << 11
};
static const unsigned leaf7_vl = 1u << 31;
enum { STATE_YMM = 0x06, STATE_ZMM = 0xe6 }; /* register state that the system saves */

static unsigned system_saved_state(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static void detect(void)
{
    unsigned a, b, c, d, leaf1 = 0, leaf7b = 0, leaf7c = 0, state = 0;
    if (__get_cpuid(1, &a, &b, &c, &d))
        leaf1 = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        leaf7b = b;
        leaf7c = c;
    }
    if (leaf1 & LEAF1_OSXSAVE)
        state = system_saved_state();

    const char **lack = &missing[ISA_AVX2];
    if (!(leaf1 & LEAF1_AVX) || (state & STATE_YMM) != STATE_YMM)
        *lack = "AVX registers";
    else if (!(leaf7b & LEAF7_AVX2))
        *lack = "AVX2";
    else if (!(leaf1 & LEAF1_FMA))
        *lack = "FMA";
    else if (!(leaf1 & LEAF1_F16C))
        *lack = "F16C";

    lack = &missing[ISA_AVX512];
    if (missing[ISA_AVX2])
        *lack = missing[ISA_AVX2];
    else if (!(leaf7b & LEAF7_F) || (state & STATE_ZMM) != STATE_ZMM)
        *lack = "AVX-512F";
    else if (!(leaf7b & LEAF7_BW))
        *lack = "AVX-512BW";
    else if (!(leaf7b & leaf7_vl))
        *lack = "AVX-512VL";
    else if (!(leaf7b & LEAF7_DQ))
        *lack = "AVX-512DQ";
    else if (!(leaf7c & LEAF7C_VNNI))
        *lack = "AVX-512 VNNI";
}
#else
static void detect(void)
{
    missing[ISA_AVX2] = missing[ISA_AVX512] = "an x86-64 processor";
}
#endif

static void assemble(void)
{
    fill_table(&tables[ISA_PORTABLE], portable_row);
#if defined(__x86_64__)
    fill_table(&tables[ISA_AVX2], avx2_row);
    fill_table(&tables[ISA_AVX512], avx512_row);
#endif
    detect();
}

int kernel_table_get(const char *name, const kernel_table **out, foray_error *err)
{
    pthread_once(&once, assemble);
    int best = ISA_PORTABLE;
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!missing[i])
            best = i;
        if (!name || strcmp(name, tables[i].name) != 0)
            continue;
        if (missing[i])
            return fail(err, FORAY_EUNSUPPORTED,
                        "isa %s: this machine lacks %s (leave --isa out to use the best it has)", name,
                        missing[i]);
        *out = &tables[i];
        return 0;
    }
    if (name)
        return fail(err, FORAY_EUSAGE, "isa %s: not known (portable, avx2 or avx512)", name);
    *out = &tables[best];
    return 0;
}

const kernel_table *kernel_table_ref(void)
{
    pthread_once(&once, assemble);
    return &tables[ISA_PORTABLE];
}

/* padding.c: see padding.h. The garbage is laid out where tiles are counted, which an executor does once, before the rest. */
#include "support/padding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "kernel/panel.h"
#include "kernel/ref/attention.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

/* Bytes behind the live rows of one buffer. */
typedef struct {
    uint8_t *start, *held; /* held: what they were before, of a read; NULL: of a write */
    size_t bytes;
} region;

static struct {
    const kernel_table *own;
    kernel_table table;
    uint8_t garbage;
    int met[KERNEL_COUNT];
    /* of the kernel that runs */
    region region[KERNEL_MAX_ACCESSES];
    int regions, tiles_left;
} now;

/* As if it had been launched with so many rows (and spans). */
static kernel_args with_bound(kernel_id id, const kernel_args *args, int rows)
{
    kernel_args out;
    memcpy(&out, args, kernel_args_bytes(id));
    if (id == KERNEL_ATTENTION)
        out.attention.max_rows = out.attention.max_spans = rows;
    else if (id == KERNEL_EXPERTS)
        out.experts.max_rows = rows;
    else
        out.embed.rows.max = rows; /* all others begin with it */
    return out;
}

/* Those of its rows that are live; of attention also its spans. */
static int live_of(kernel_id id, const kernel_args *args, const void *buffer)
{
    if (id == KERNEL_EXPERTS)
        return args->experts.first[args->experts.experts] / args->experts.chosen;
    if (id != KERNEL_ATTENTION)
        return rows_live(args->embed.rows);
    const args_attention *a = &args->attention;
    int rows = 0;
    for (int i = 0; i < attention_spans(a); i++)
        rows += a->spans[i].rows;
    return buffer == a->spans ? attention_spans(a) : rows;
}

static void add_region(uint8_t *start, const uint8_t *end, bool write)
{
    if (start >= end)
        return;
    region *r = &now.region[now.regions++];
    *r = (region) { .start = start, .bytes = (size_t)(end - start) };
    if (!write) {
        r->held = mem_alloc(MEM_GENERAL, r->bytes);
        assert_non_null(r->held);
        memcpy(r->held, start, r->bytes);
    }
}

static void find_regions(kernel_id id, const kernel_args *args)
{
    kernel_access one[KERNEL_MAX_ACCESSES], two[KERNEL_MAX_ACCESSES], all[KERNEL_MAX_ACCESSES];
    const kernel_args first = with_bound(id, args, 1), second = with_bound(id, args, 2);
    const int count = kernel_accesses(id, args, all);
    assert_int_equal(kernel_accesses(id, &first, one), count);
    assert_int_equal(kernel_accesses(id, &second, two), count);
    now.regions = 0;
    for (int i = 0; i < count; i++) {
        const size_t stride = two[i].bytes - one[i].bytes;
        uint8_t *start = (uint8_t *)(uintptr_t)all[i].start;
        if (stride > 0) /* by row */
            add_region(start + (size_t)live_of(id, args, start) * stride, start + all[i].bytes, all[i].write);
    }
    if (id == KERNEL_QUANT) { /* panels have no stride between rows */
        const args_quant *a = &args->quant;
        uint8_t *data = a->out.data;
        add_region((uint8_t *)panel_at(a->form, a->cols, data, rows_live(a->rows)), data + a->out.bytes,
                   true);
    }
}

static int begin(kernel_id id, const kernel_args *args)
{
    assert_int_equal(now.tiles_left, 0);
    find_regions(id, args);
    now.met[id] += now.regions > 0;
    for (int i = 0; i < now.regions; i++)
        memset(now.region[i].start, now.garbage, now.region[i].bytes);
    return now.tiles_left = now.own->kernel[id].tiles(args);
}

static void end(kernel_id id)
{
    for (int i = 0; i < now.regions; i++) {
        const region *r = &now.region[i];
        for (size_t k = 0; k < r->bytes && !r->held; k++)
            if (r->start[k] != now.garbage)
                fail_msg("%s wrote into padding: byte %zu of %zu", kernel_name(id, NULL), k, r->bytes);
    }
    for (int i = 0; i < now.regions; i++) {
        region *r = &now.region[i];
        if (r->held)
            memcpy(r->start, r->held, r->bytes);
        mem_free(MEM_GENERAL, r->held, r->bytes);
    }
    now.regions = 0;
}

static void run(kernel_id id, const kernel_args *args, int tile, void *scratch)
{
    now.own->kernel[id].run(args, tile, scratch);
    if (--now.tiles_left == 0)
        end(id);
}

/* Every kernel but those of class host, whose memory is nobody's rows. */
/* clang-format off */
#define KERNELS(X) \
    X(EMBED) X(QUANT) X(MATMUL) X(ROPE_ANGLES) X(ROPE_STORE) X(ATTENTION) \
    X(NORM_ADD) X(GATHER) X(SAMPLE) X(HYPER_PRE) X(HYPER_POST) X(HEAD_ROPE) \
    X(LATENT_STORE) X(STATE_STORE) X(COMPRESS) X(INDEX_SCORE) X(INDEX_SELECT) X(SPARSE_ATTENTION) \
    X(ENTRY_STORE) X(ENTRY_LOAD) X(ROUTE) X(GROUP) X(EXPERTS) X(COMBINE)
/* clang-format on */

/* A launch without tiles has no last one. */
#define WRAP(ID)                                                                                             \
    static int tiles_##ID(const kernel_args *args)                                                           \
    {                                                                                                        \
        const int tiles = begin(KERNEL_##ID, args);                                                          \
        if (tiles == 0)                                                                                      \
            end(KERNEL_##ID);                                                                                \
        return tiles;                                                                                        \
    }                                                                                                        \
    static void run_##ID(const kernel_args *args, int tile, void *scratch)                                   \
    {                                                                                                        \
        run(KERNEL_##ID, args, tile, scratch);                                                               \
    }
KERNELS(WRAP)
#undef WRAP

const kernel_table *padding_table(const kernel_table *own, uint8_t garbage)
{
    memset(&now, 0, sizeof now);
    now.own = own;
    now.garbage = garbage;
    now.table = *own;
#define PUT(ID)                                                                                              \
    now.table.kernel[KERNEL_##ID].tiles = tiles_##ID;                                                        \
    now.table.kernel[KERNEL_##ID].run = run_##ID;
    KERNELS(PUT)
#undef PUT
    return &now.table;
}

int padding_met(kernel_id id)
{
    return now.met[id];
}

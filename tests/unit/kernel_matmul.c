/* kernel_matmul.c: every instruction set's matmul and quant give the bits of kernel/ref, and kernel/ref gives the
 * product that the formats' values (format/dtype.h) say.
 *
 * Bits are compared as integers, but any NaN equals any NaN: which operand's payload survives is the processor's.
 * One thread; tiles are run from both ends as two workers would.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "kernel/ref/prepare.h"
#include "kernel/panel.h"
#include "support/matmul_case.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

/* The types, and again with activations as they are where that makes a difference. */
static const struct {
    dtype type;
    bool plain;
} types[] = {
    { DTYPE_F32, false },    { DTYPE_F16, false },     { DTYPE_BF16, false }, { DTYPE_Q4_0, false },
    { DTYPE_Q4_1, false },   { DTYPE_Q5_0, false },    { DTYPE_Q5_1, false }, { DTYPE_Q8_0, false },
    { DTYPE_Q4_K, false },   { DTYPE_Q5_K, false },    { DTYPE_Q6_K, false }, { DTYPE_F8_E4M3, false },
    { DTYPE_F8_E4M3, true }, { DTYPE_F4_E2M1, false }, { DTYPE_MXFP4, true }, { DTYPE_I8, false },
    { DTYPE_I8, true },
};
enum { TYPES = sizeof types / sizeof types[0] };

/* One matmul. Fields that are 0 are off. */
typedef struct {
    dtype type;
    bool plain;     /* activations are not rounded */
    int n, k, rows; /* gated: n counts gates and ups */
    matmul_epilogue epilogue;
    bool bias, norm, ready; /* ready: KERNEL_QUANT first */
    int live;               /* 0: all rows */
    int pad;                /* extra floats between rows, of x and of out */
    float limit;
    matmul_values values;
} matmul_case;

typedef struct {
    float *x, *norm, *bias, *out;
    uint8_t *weights, *scales;
    size_t x_floats, out_floats, weight_bytes, scale_bytes, scale_stride;
} matmul_data;

static bool is_gated(const matmul_case *c)
{
    return c->epilogue == EPILOGUE_SWIGLU || c->epilogue == EPILOGUE_GEGLU;
}

static matmul_data make_data(const matmul_case *c)
{
    const uint64_t seed = (uint64_t)c->type * 1000003 + (uint64_t)(c->n * 37 + c->k);
    matmul_data d = { .x_floats = (size_t)c->rows * (size_t)(c->k + c->pad),
                      .out_floats = (size_t)c->rows * (size_t)(c->n + c->pad) };
    d.weights = matmul_random_weights(c->type, c->n, c->k, c->values, seed, &d.weight_bytes);
    d.scales =
        matmul_random_scales(c->type, c->n, c->k, c->values, seed + 10, &d.scale_bytes, &d.scale_stride);
    d.x = matmul_random_floats(d.x_floats, c->values, seed + 11);
    d.norm = matmul_random_floats((size_t)c->k, VALUES_ORDINARY, seed + 12);
    d.bias = matmul_random_floats((size_t)c->n, VALUES_ORDINARY, seed + 13);
    d.out = matmul_random_floats(d.out_floats, VALUES_ORDINARY, seed + 14);
    return d;
}

static void free_data(const matmul_case *c, matmul_data *d)
{
    mem_free(MEM_GENERAL, d->weights, d->weight_bytes);
    mem_free(MEM_GENERAL, d->scales, d->scale_bytes);
    mem_free(MEM_GENERAL, d->x, d->x_floats * sizeof(float));
    mem_free(MEM_GENERAL, d->norm, (size_t)c->k * sizeof(float));
    mem_free(MEM_GENERAL, d->bias, (size_t)c->n * sizeof(float));
    mem_free(MEM_GENERAL, d->out, d->out_floats * sizeof(float));
}

/* Packs for `lanes` and runs the case with a table's kernels. Returns owned [out_floats]: out afterwards. */
static float *run_case(const kernel_table *t, int lanes, const matmul_case *c, const matmul_data *d)
{
    const int half = c->n / 2;
    uint64_t half_bytes = 0;
    dtype_bytes(c->type, (uint64_t)half * (uint64_t)c->k, &half_bytes);
    weight_source one = { .data = d->weights,
                          .type = c->type,
                          .rows = c->n,
                          .cols = c->k,
                          .scale = d->scales,
                          .scale_stride = d->scale_stride };
    weight_source two[2] = { one, one };
    two[0].rows = two[1].rows = two[1].first_row = half;
    two[1].data = d->weights + half_bytes;
    packed_weight w;
    assert_int_equal(
        weight_pack(is_gated(c) ? two : &one, is_gated(c) ? 2 : 1, is_gated(c), !c->plain, lanes, &w, NULL),
        0);

    float *out = mem_alloc(MEM_GENERAL, d->out_floats * sizeof(float));
    memcpy(out, d->out, d->out_floats * sizeof(float));
    int32_t live = c->live ? c->live : c->rows;
    args_matmul a = { .rows = { .live = c->live ? &live : NULL, .max = c->rows },
                      .w = &w,
                      .x = d->x,
                      .x_stride = (size_t)(c->k + c->pad),
                      .norm = c->norm ? d->norm : NULL,
                      .eps = 1e-5f,
                      .bias = c->bias ? d->bias : NULL,
                      .epilogue = c->epilogue,
                      .limit = c->limit,
                      .out = out,
                      .out_stride = (size_t)((is_gated(c) ? half : c->n) + c->pad) };
    const size_t bytes = activation_bytes(w.form, c->rows, c->k);
    void *ready = mem_alloc(MEM_GENERAL, bytes);
    if (c->ready) {
        args_quant q = { .rows = a.rows,
                         .x = a.x,
                         .x_stride = a.x_stride,
                         .cols = c->k,
                         .norm = a.norm,
                         .eps = a.eps,
                         .form = w.form,
                         .out = activation_at(w.form, c->rows, c->k, ready) };
        matmul_run_kernel(&t->kernel[KERNEL_QUANT], &(kernel_args) { .quant = q });
        a.ready = q.out;
        a.x = NULL;
    }
    matmul_run_kernel(&t->kernel[KERNEL_MATMUL], &(kernel_args) { .matmul = a });
    mem_free(MEM_GENERAL, ready, bytes);
    weight_free(&w);
    return out;
}

static void assert_same_bits(const char *isa, const matmul_case *c, const float *want, const float *got,
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&want[i], &got[i], 4) != 0 && !(isnan(want[i]) && isnan(got[i])))
            fail_msg("%s %s: n %d k %d rows %d epilogue %d bias %d norm %d ready %d live %d values %d: [%zu] "
                     "%a, ref %a",
                     isa, dtype_get(c->type)->name, c->n, c->k, c->rows, c->epilogue, c->bias, c->norm,
                     c->ready, c->live, c->values, i, (double)got[i], (double)want[i]);
}

/* The case on every instruction set of this machine, and (one row) on ref with the other packing. */
static void check_case(const matmul_case *c)
{
    static const char *const names[] = { "portable", "avx2", "avx512" };
    const kernel_table *ref = kernel_table_ref();
    matmul_data d = make_data(c);
    float *want = run_case(ref, 8, c, &d);
    if (c->rows == 1) {
        float *other = run_case(ref, 16, c, &d);
        assert_same_bits("ref, 16 lanes", c, want, other, d.out_floats);
        mem_free(MEM_GENERAL, other, d.out_floats * sizeof(float));
    }
    for (int i = 1; i < 3; i++) {
        const kernel_table *t;
        if (kernel_table_get(names[i], &t, NULL) != 0)
            continue;
        float *got = run_case(t, t->lanes, c, &d);
        assert_same_bits(names[i], c, want, got, d.out_floats);
        mem_free(MEM_GENERAL, got, d.out_floats * sizeof(float));
    }
    mem_free(MEM_GENERAL, want, d.out_floats * sizeof(float));
    free_data(c, &d);
}

static int whole_blocks(dtype type, int k)
{
    const int block = dtype_get(type)->block;
    return (k + block - 1) / block * block;
}

static void every_row_count_has_the_bits_of_ref(void **state)
{
    (void)state;
    static const int rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 128 };
    for (int t = 0; t < TYPES; t++)
        for (int r = 0; r < 13; r++)
            for (int ready = 0; ready < 2; ready++)
                if (rows[r] <= 9 || ready == (t + r) % 2)
                    check_case(&(matmul_case) { .type = types[t].type,
                                                .plain = types[t].plain,
                                                .n = rows[r] > 16 ? 35 : 83,
                                                .rows = rows[r],
                                                .k = whole_blocks(types[t].type, 96),
                                                .ready = ready });
}

static void every_shape_has_the_bits_of_ref(void **state)
{
    (void)state;
    static const int shapes[][2] = { { 1, 32 },   { 7, 64 },    { 8, 96 },  { 17, 160 },
                                     { 33, 576 }, { 144, 512 }, { 5, 2048 } };
    for (int t = 0; t < TYPES; t++)
        for (int s = 0; s < 7; s++)
            for (int rows = 1; rows <= 9; rows += 4)
                check_case(&(matmul_case) { .type = types[t].type,
                                            .plain = types[t].plain,
                                            .n = shapes[s][0],
                                            .rows = rows,
                                            .pad = 3,
                                            .k = whole_blocks(types[t].type, shapes[s][1]) });
}

/* Plain types have no blocks, and the last block of those with scales of their own may be shorter: any number of columns. */
static void types_without_blocks_take_any_number_of_columns(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int k = 1; dtype_get(types[t].type)->block <= 2 && k < 160; k += k < 20 ? 1 : 13)
            for (int rows = 1; rows <= 13; rows += 4)
                check_case(&(matmul_case) { .type = types[t].type,
                                            .plain = types[t].plain,
                                            .n = 19,
                                            .k = whole_blocks(types[t].type, k),
                                            .rows = rows,
                                            .norm = rows > 4 });
}

static void every_epilogue_has_the_bits_of_ref(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int rows = 1; rows <= 11; rows += rows == 1 ? 2 : 8)
            for (int option = 0; option < 16; option++)
                check_case(&(matmul_case) { .type = types[t].type,
                                            .plain = types[t].plain,
                                            .n = 58,
                                            .k = whole_blocks(types[t].type, 128),
                                            .rows = rows,
                                            .epilogue = (matmul_epilogue)(option / 4),
                                            .limit = option & 2 ? 0.5f : 0,
                                            .bias = option & 1,
                                            .norm = option & 2,
                                            .ready = option & 1,
                                            .pad = 5 });
}

/* Rows beyond the live ones are not computed: what stood in out still stands there. */
static void only_live_rows_are_computed(void **state)
{
    (void)state;
    static const int rows[][2] = { { 4, 1 }, { 8, 3 }, { 9, 8 }, { 33, 10 }, { 80, 65 } };
    for (int t = 0; t < TYPES; t++)
        for (int r = 0; r < 5; r++)
            for (int ready = 0; ready < 2; ready++) {
                matmul_case c = { .type = types[t].type,
                                  .plain = types[t].plain,
                                  .n = 24,
                                  .k = whole_blocks(types[t].type, 64),
                                  .rows = rows[r][0],
                                  .live = rows[r][1],
                                  .ready = ready };
                check_case(&c);
                matmul_data d = make_data(&c);
                float *out = run_case(kernel_table_ref(), 8, &c, &d);
                for (size_t i = (size_t)(c.live * c.n); i < d.out_floats; i++)
                    assert_true(out[i] == d.out[i]);
                mem_free(MEM_GENERAL, out, d.out_floats * sizeof(float));
                free_data(&c, &d);
            }
}

static void extreme_and_broken_values_have_the_bits_of_ref(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int values = VALUES_EXTREME; values <= VALUES_BROKEN; values++)
            for (int rows = 1; rows <= 12; rows += rows == 1 ? 3 : 4)
                for (int norm = 0; norm < 2; norm++)
                    check_case(&(matmul_case) { .type = types[t].type,
                                                .plain = types[t].plain,
                                                .n = 40,
                                                .k = whole_blocks(types[t].type, 320),
                                                .rows = rows,
                                                .values = (matmul_values)values,
                                                .norm = norm });
}

/* A row's bits do not depend on the rows beside it. */
static void a_row_alone_and_in_a_batch_has_the_same_bits(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        matmul_case c = { .type = types[t].type,
                          .plain = types[t].plain,
                          .n = 40,
                          .k = whole_blocks(types[t].type, 288),
                          .rows = 40,
                          .norm = true };
        matmul_data d = make_data(&c);
        const kernel_table *best;
        assert_int_equal(kernel_table_get(NULL, &best, NULL), 0);
        float *all = run_case(best, best->lanes, &c, &d);
        for (int r = 0; r < 40; r += 7) {
            matmul_case one = c;
            matmul_data row = d;
            one.rows = 1;
            row.x = d.x + r * c.k;
            row.out_floats = (size_t)c.n;
            float *alone = run_case(best, best->lanes, &one, &row);
            assert_memory_equal(alone, all + r * c.n, (size_t)c.n * sizeof(float));
            mem_free(MEM_GENERAL, alone, row.out_floats * sizeof(float));
        }
        mem_free(MEM_GENERAL, all, d.out_floats * sizeof(float));
        free_data(&c, &d);
    }
}

/* The values that prepared activations stand for, no further from the row's own than half a step. */
static void read_activations(activation_form form, const float *x, int k, const float *norm, float *out)
{
    q8_block q[256 / 32];
    int8_t i8[sizeof(i8_head) + 256];
    i8_head head;
    ref_prepare_row(ACTIVATION_F32, x, k, norm, 1e-5f, out);
    if (form == ACTIVATION_F8)
        ref_prepare_row(ACTIVATION_F8, x, k, norm, 1e-5f, out);
    ref_prepare_row(ACTIVATION_Q8, x, k, norm, 1e-5f, q);
    ref_prepare_row(ACTIVATION_I8, x, k, norm, 1e-5f, i8);
    memcpy(&head, i8, sizeof head);
    for (int i = 0; i < k; i++) {
        const float scale = form == ACTIVATION_I8 ? head.scale : q[i / 32].scale;
        const float v =
            scale * (float)(form == ACTIVATION_I8 ? i8[(int)sizeof head + i] : q[i / 32].q[i % 32]);
        if (form == ACTIVATION_F32 || form == ACTIVATION_F8)
            continue;
        assert_true(fabsf(v - out[i]) <= 0.5001f * scale);
        out[i] = v;
    }
}

/* The oracle of the oracle: a dot product in double of the formats' values and of what the activations stand for. */
static void ref_gives_the_product_that_the_formats_say(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        matmul_case c = { .type = types[t].type,
                          .plain = types[t].plain,
                          .n = 21,
                          .k = whole_blocks(types[t].type, 192),
                          .rows = 3,
                          .norm = true };
        matmul_data d = make_data(&c);
        float *got = run_case(kernel_table_ref(), 16, &c, &d);
        const weight_source source = {
            .data = d.weights, .type = c.type, .cols = c.k, .scale = d.scales, .scale_stride = d.scale_stride
        };
        float weight[256], x[256];
        for (int r = 0; r < c.rows; r++) {
            read_activations(weight_form(c.type, !c.plain), d.x + r * c.k, c.k, d.norm, x);
            for (int n = 0; n < c.n; n++) {
                double y = 0, size = 0;
                matmul_read_source(&source, n, weight);
                for (int i = 0; i < c.k; i++) {
                    y += (double)weight[i] * (double)x[i];
                    size += fabs((double)weight[i] * (double)x[i]);
                }
                assert_true(fabs(y - (double)got[r * c.n + n]) <= 3e-6 * size);
            }
        }
        mem_free(MEM_GENERAL, got, d.out_floats * sizeof(float));
        free_data(&c, &d);
    }
}

/* An e4m3 or e2m1 matrix is the same as its values in f32: one chain of fma, whatever holds the weights. */
static void exact_weights_give_the_bits_of_their_values(void **state)
{
    (void)state;
    static const dtype exact[] = { DTYPE_F8_E4M3, DTYPE_F4_E2M1, DTYPE_MXFP4 };
    for (int t = 0; t < 3; t++)
        for (int gated = 0; gated < 2; gated++) {
            matmul_case c = { .type = exact[t], .plain = true, .n = 300, .k = 384, .rows = 3 };
            c.epilogue = gated ? EPILOGUE_SWIGLU : EPILOGUE_STORE;
            matmul_data d = make_data(&c);
            float *got = run_case(kernel_table_ref(), 16, &c, &d);
            const weight_source source = { .data = d.weights,
                                           .type = c.type,
                                           .cols = c.k,
                                           .scale = d.scales,
                                           .scale_stride = d.scale_stride };
            matmul_case same = c;
            matmul_data values = d;
            same.type = DTYPE_F32;
            values.scales = NULL;
            values.weights = mem_alloc(MEM_GENERAL, (size_t)(c.n * c.k) * sizeof(float));
            for (int n = 0; n < c.n; n++)
                matmul_read_source(&source, n, (float *)(void *)values.weights + n * c.k);
            float *want = run_case(kernel_table_ref(), 16, &same, &values);
            assert_same_bits("values", &c, want, got, d.out_floats);
            mem_free(MEM_GENERAL, values.weights, (size_t)(c.n * c.k) * sizeof(float));
            mem_free(MEM_GENERAL, want, d.out_floats * sizeof(float));
            mem_free(MEM_GENERAL, got, d.out_floats * sizeof(float));
            free_data(&c, &d);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_count_has_the_bits_of_ref),
        cmocka_unit_test(every_shape_has_the_bits_of_ref),
        cmocka_unit_test(types_without_blocks_take_any_number_of_columns),
        cmocka_unit_test(every_epilogue_has_the_bits_of_ref),
        cmocka_unit_test(only_live_rows_are_computed),
        cmocka_unit_test(extreme_and_broken_values_have_the_bits_of_ref),
        cmocka_unit_test(a_row_alone_and_in_a_batch_has_the_same_bits),
        cmocka_unit_test(exact_weights_give_the_bits_of_their_values),
        cmocka_unit_test(ref_gives_the_product_that_the_formats_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* matmul.h: what AVX2 and AVX-512 share of a matmul: tiles, streams, panels and blocks of rows. What differs, the
 * arithmetic, comes in a matmul_ops.
 *
 *   tile    a range of units (a unit is a group of weight rows; gated: a pair of groups) x a block of rows.
 *           Few rows: one block. Many: blocks of 64, and tiles that share weights follow one another.
 *   stream  within a tile of few rows the units are walked in two or four places at once: a core reads several
 *           far-apart streams faster than one, and their dependency chains overlap.
 *   panel   the rows that one call of a dot computes (kernel/panel.h).
 *
 * Scales after sums. The definition multiplies w = code * scale with x, one fma after another. For a block of columns with
 * one power-of-two scale s, a dot may instead divide its sums by s, add code * x, and multiply by s again: every
 * intermediate result then is the defined one over s, and has the same bits but for the exponent, unless one of the two
 * is a denormal or overflows. Of ordinary weights (kernel/scaled.h) and activations of form F8 none is: sums are
 * multiples of 2^-31 2^-9 2^-22 (units of activations, codes, scales) and below 2^15 448 2^2 2^87, and both stay so when
 * divided by a scale, even one of 2^-14 … 2^10 for codes that a format holds as 2^-8 of themselves. All other weights and
 * activations take `widen`.
 *
 * Threads: as kernel/impl.h says; a tile writes outputs that no other tile writes.
 */
#ifndef FORAY_KERNEL_CPU_MATMUL_H
#define FORAY_KERNEL_CPU_MATMUL_H

#include "kernel/impl.h"
#include "kernel/panel.h"

enum { MATMUL_STREAMS = 4, MATMUL_MAX_PANEL = 8, MATMUL_MAX_LANES = 16 };

/* Some groups times one panel, over `cols` columns: y[group][row][lane] continues its chains of fma. */
typedef struct {
    const uint8_t *w[MATMUL_STREAMS]; /* where each group's columns start */
    int groups, rows;                 /* 1 … 4, 1 … panel */
    int cols;
    const void *x; /* the panel's columns */
    float *y;      /* [groups][rows][lanes] */
    size_t ahead;  /* bytes from a weight to the one to prefetch meanwhile */
} matmul_dot;

/* The epilogue for outputs first … first + lanes - 1 (cut at the matrix's last) of `rows` rows from `row`.
 * job: the kernel's arguments. y, up: [rows][lanes]; up only for gated ones. */
typedef void matmul_finish(const void *job, int first, int row, int rows, const float *y, const float *up);

typedef struct {
    int lanes, panel;                  /* weight rows per group, activation rows per panel */
    int streams[MATMUL_MAX_PANEL + 1]; /* groups at once for few rows, by number of rows */
    void (*dot[DTYPE_COUNT])(
        const matmul_dot *job); /* F8_E4M3, e2m1: ordinary and F8; I8: I8, all columns at once */

    /* Columns [first, last) of a group of F16, BF16 or a type of kernel/scaled.h as f32 [columns][lanes], exactly;
     * first is a multiple of 32. */
    void (*widen)(dtype type, const uint8_t *group, int first, int last, float *out);

    /* Rows of x into one panel of that many rows. */
    void (*prepare)(activation_form form, const float *x, size_t stride, int rows, int cols,
                    const float *norm, float eps, void *panel);

    matmul_finish *finish; /* KERNEL_MATMUL's */
} matmul_ops;

/* A walk over units of one matrix for rows that are prepared. */
typedef struct {
    const matmul_ops *ops;
    const packed_weight *w;
    void *rows;              /* panels from row 0 on; a walk begins at the first row of a panel */
    int groups_per_unit;     /* 2: gated */
    int first_row, last_row; /* at most 128 */
    matmul_finish *finish;
    const void *job; /* what finish works for */
} matmul_walk;

/* Bytes that a walk needs, and the walk: units [first, last), each weight read once for all rows. */
size_t matmul_walk_scratch(const packed_weight *w);
void matmul_walk_units(const matmul_walk *t, int first_unit, int last_unit, void *scratch);

int matmul_tiles(const kernel_args *args);
size_t matmul_scratch(const kernel_args *args);
void matmul_prepare(const matmul_ops *ops, const kernel_args *args, void *scratch);
void matmul_run(const matmul_ops *ops, const kernel_args *args, int tile, void *scratch);

/* KERNEL_QUANT: a tile is a panel. */
int quant_tiles(int panel, const kernel_args *args);
void quant_run(const matmul_ops *ops, const kernel_args *args, int tile);

static inline bool matmul_gated(const args_matmul *a)
{
    return a->epilogue == EPILOGUE_SWIGLU || a->epilogue == EPILOGUE_GEGLU;
}

/* A template is an inline function whose type, groups and rows are constants where it is called; its loops over
 * them are taken apart completely. Checked builds run the same functions with variables: copies would only
 * multiply what the sanitizers insert, and the compiler's time. */
#if defined(FORAY_CHECKS)
#define MATMUL_TEMPLATE static
#define MATMUL_UNROLL
#define MATMUL_UNROLL_MOST /* of loops that are not always of constant length */
#elif defined(__clang__)
#define MATMUL_TEMPLATE static inline __attribute__((always_inline))
#define MATMUL_UNROLL _Pragma("clang loop unroll(full)")
#define MATMUL_UNROLL_MOST
#else
#define MATMUL_TEMPLATE static inline __attribute__((always_inline))
#define MATMUL_UNROLL _Pragma("GCC unroll 16")
#define MATMUL_UNROLL_MOST MATMUL_UNROLL
#endif

#endif

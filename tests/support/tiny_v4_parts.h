/* tiny_v4_parts.h: what the files of tiny_v4 share. Only they include this. */
#ifndef FORAY_TESTS_SUPPORT_TINY_V4_PARTS_H
#define FORAY_TESTS_SUPPORT_TINY_V4_PARTS_H

#include "base/arena.h"
#include "support/gguf_write.h"
#include "support/tiny_v4.h"

enum { V4T_NAME_BYTES = 128 };

typedef enum {
    V4T_LINEAR, /* FP8 in quantised files */
    V4T_EXPERT, /* FP4 */
    V4T_BF16,   /* a matrix or vector that stays BF16 */
    V4T_F32,
    V4T_IDS,
} v4t_kind;

/* One tensor by its published name. */
typedef struct {
    char name[V4T_NAME_BYTES];
    v4t_kind kind;
    int rows, cols;     /* cols 0: a vector */
    float centre, half; /* BF16, F32: uniform in centre ± half */
    float gain;         /* LINEAR, EXPERT: how much larger outputs are than inputs, about */
    int experts;        /* IDS: below it, each different in a row */
} v4t_tensor;

/* Calls user for every tensor of the model, in the order of a published file. */
void v4t_each(const tiny_v4_spec *s, void (*call)(void *user, const v4t_tensor *t), void *user);

/* Elements as the file's formats need them. value[i] = unit[i] 2^(shift + exponent), for LINEAR and EXPERT. */
typedef struct {
    float *value; /* [rows * cols] exact in BF16 unless F32 */
    int32_t *id;  /* IDS */
    int8_t *unit; /* LINEAR: whole numbers of e4m3; EXPERT: twice a number of e2m1 */
    int exponent;
} v4t_values;

v4t_values v4t_make(const tiny_v4_spec *s, const v4t_tensor *t, arena *a);
/* The shift of the tile (LINEAR: 128 x 128) or group (EXPERT: 32 columns) that an element lies in. */
int v4t_shift(const tiny_v4_spec *s, const v4t_tensor *t, int row, int col);

/* The name in a format; a stack's when experts are stacked there. */
void v4t_rename(const tiny_v4_spec *s, tiny_v4_format format, const char *official, char out[V4T_NAME_BYTES]);

void v4t_write_config(const tiny_v4_spec *s, tiny_v4_format format, const char *folder);
void v4t_write_keys(const tiny_v4_spec *s, gguf_writer *w);
int v4t_stages(const tiny_v4_spec *s); /* layers of the drafter */

#endif

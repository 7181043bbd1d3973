/* entry_pack.h: entries of compressed sparse attention as they are kept: f32, or, where they were rounded before they
 * were stored, in the few bits that rounding left. Unpacking gives the very floats back.
 *
 *   ENTRY_F8    e4m3 [width - plain] | e8m0 per 64 of them | zeros up to a multiple of 4 | f32 [plain]
 *   ENTRY_FP4   e2m1 [width], two per byte, the even channel low | e8m0 per 32 | zeros up to a multiple of 4
 *
 * The scale of a group is found again from its largest value. It may be half of what rounding used, and the codes then
 * stand for doubled numbers: the products are the same. A NaN in a group makes all of it NaN.
 * Vector form of unpacking: kernel/cpu/avx2_entry.c. Pure. Threads: any, on different entries.
 */
#ifndef FORAY_KERNEL_REF_ENTRY_PACK_H
#define FORAY_KERNEL_REF_ENTRY_PACK_H

#include <string.h>

#include "format/dtype.h"
#include "kernel/ref/latent.h"
#include "kernel/ref/round.h"

static inline uint8_t entry_pack_scale(float scale)
{
    return (uint8_t)(vmath_bits(scale) >> 23); /* powers of two from 2^-126 on; infinity: 255 */
}

/* Codes of values that e4m3 and e2m1 hold exactly. */
static inline uint8_t entry_pack_e4m3(float x)
{
    const uint32_t bits = vmath_bits(x), magnitude = bits & 0x7fffffff;
    const uint32_t code = magnitude >= 0x3c800000 ? (magnitude - 0x3c000000) >> 20
                                                  : (uint32_t)(vmath_float(magnitude) * 0x1p9f);
    return (uint8_t)((bits >> 24 & 0x80) | code);
}

static inline uint8_t entry_pack_e2m1(float x)
{
    const uint32_t bits = vmath_bits(x), magnitude = bits & 0x7fffffff;
    const uint32_t code = magnitude >= 0x3f800000 ? (magnitude - 0x3f000000) >> 22 : magnitude ? 1 : 0;
    return (uint8_t)((bits >> 28 & 8) | code);
}

/* Where things are: channels that are codes, bytes of the codes, and where the f32 begin. */
static inline int entry_coded(const entry_rows *e)
{
    return e->packing == ENTRY_F8 ? e->width - e->plain : e->width;
}

static inline size_t entry_code_bytes(const entry_rows *e)
{
    return e->packing == ENTRY_F8 ? (size_t)entry_coded(e) : (size_t)(e->width + 1) / 2;
}

static inline int entry_group(const entry_rows *e)
{
    return e->packing == ENTRY_F8 ? LATENT_F8_GROUP : LATENT_FP4_GROUP;
}

static inline void entry_pack_group(entry_packing packing, const float *x, int n, int first, uint8_t *codes,
                                    uint8_t *scale)
{
    const uint32_t top = round_top(x, n);
    const float s = packing == ENTRY_F8 ? round_f8_scale(top) : round_fp4_scale(top);
    *scale = entry_pack_scale(s);
    for (int i = 0; i < n && s < INFINITY; i++) {
        if (packing == ENTRY_F8)
            codes[first + i] = entry_pack_e4m3(x[i] / s);
        else
            codes[(first + i) / 2] =
                (uint8_t)(codes[(first + i) / 2] | entry_pack_e2m1(x[i] / s) << ((first + i) % 2 * 4));
    }
}

/* x [width] into entry `entry` of the slot; x has been rounded for the packing (vector_rounding). */
static inline void entry_store(const entry_rows *e, int slot, int entry, const float *x)
{
    uint8_t *to = entry_bytes_at(e, slot, entry);
    if (e->packing == ENTRY_F32) {
        memcpy(to, x, (size_t)e->width * sizeof *x);
        return;
    }
    const int coded = entry_coded(e), group = entry_group(e);
    memset(to, 0, e->stride);
    for (int i = 0; i < coded; i += group)
        entry_pack_group(e->packing, x + i, coded - i < group ? coded - i : group, i, to,
                         to + entry_code_bytes(e) + i / group);
    memcpy(to + e->stride - (size_t)(e->width - coded) * sizeof *x, x + coded,
           (size_t)(e->width - coded) * sizeof *x);
}

/* The entry's floats: where they stand (f32), or unpacked into room [width]. */
static inline const float *entry_load(const entry_rows *e, int slot, int entry, float *room)
{
    const uint8_t *from = entry_bytes_at(e, slot, entry);
    if (e->packing == ENTRY_F32)
        return (const float *)(const void *)from;
    const int coded = entry_coded(e), group = entry_group(e);
    const uint8_t *scale = from + entry_code_bytes(e);
    for (int i = 0; i < coded; i++) {
        const float s = scale[i / group] == 255 ? NAN : vmath_float((uint32_t)scale[i / group] << 23);
        room[i] = s * (e->packing == ENTRY_F8 ? dtype_e4m3_to_f32(from[i])
                                              : dtype_e2m1_to_f32(from[i / 2] >> (i % 2 * 4) & 15));
    }
    memcpy(room + coded, from + e->stride - (size_t)(e->width - coded) * sizeof *room,
           (size_t)(e->width - coded) * sizeof *room);
    return room;
}

#endif

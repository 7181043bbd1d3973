/* rope.h: the angle of a rotation, as foray defines it (design.md P2): position times frequency in double, so it is
 * exact to far below a float's last place at any position; see vmath_sincos for its range.
 *
 * Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_REF_ROPE_H
#define FORAY_KERNEL_REF_ROPE_H

#include "kernel/ref/vmath.h"

static inline vmath_angle rope_angle(int32_t position, float frequency)
{
    return vmath_sincos((double)position * (double)frequency);
}

#endif

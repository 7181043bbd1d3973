/* decimal.h: decimal text to exact integers: times in whole nanoseconds, never by way of a floating-point number.
 *
 * Epoch times in microseconds need 61 bits; as doubles they would move by 0.25 us. Pure. Threads: any.
 */
#ifndef FORAY_TIMELINE_DECIMAL_H
#define FORAY_TIMELINE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text is a decimal number ("12", "-1.5", "1e3") in units of 10^digits ns (3 for microseconds). *out is the nearest
 * nanosecond, halves away from zero. False: not such a number, or beyond int64. */
bool decimal_ns(const char *text, size_t bytes, int digits, int64_t *out);

/* A whole number, in decimal or, with 0x, in hexadecimal. False: none, or beyond 64 bits; negative ones wrap as int64. */
bool decimal_whole(const char *text, size_t bytes, uint64_t *out);

#endif

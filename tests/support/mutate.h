/* mutate.h: broken files made from good ones, the same ones in every run. For tests that fuzz.
 *
 * A mutation is a function of (seed, number): a few bytes, words or lengths changed, pieces cut, doubled or moved, the
 * end cut off. Favourite values are those that break arithmetic: 0, 1, -1, powers of two and their neighbours.
 */
#ifndef FORAY_TESTS_SUPPORT_MUTATE_H
#define FORAY_TESTS_SUPPORT_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* Writes mutation `number` of good[0 … count) to out, which holds 2 * count + 64 bytes. Returns its length. Changes fall
 * into the first `hot` bytes mostly (a header); 0: anywhere. */
size_t mutate(uint64_t seed, uint32_t number, const uint8_t *good, size_t count, size_t hot, uint8_t *out);

/* How many mutations to try: few in the tests, many when they are told to soak (SOAK in the environment). */
uint32_t mutate_count(uint32_t few, uint32_t many);

#endif

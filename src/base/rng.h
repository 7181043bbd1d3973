/* rng.h: Philox-4x32-10, the only source of random numbers (Salmon et al., SC 2011).
 *
 * Counter based: a draw is a pure function of key and counter, so no batch, retry or rejected draft can
 * shift it (design.md 5). Threads: any; no state.
 */
#ifndef FORAY_BASE_RNG_H
#define FORAY_BASE_RNG_H

#include <stdint.h>

/* What a random number is for. Distinct uses are independent. */
typedef enum { RNG_GUMBEL, RNG_DRAFT, RNG_ACCEPT, RNG_RECOVER, RNG_TEST } rng_use;

typedef struct {
    uint32_t word[4];
} rng_block;

/* Ten rounds of Philox-4x32 over counter {c0, c1, c2, c3} with key {k0, k1}. */
rng_block rng_philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1);

/* The block for a request's seed at counter (position, use, choice, id / 4): design.md 5. */
rng_block rng_at(uint64_t seed, uint32_t position, rng_use use, uint32_t choice, uint32_t id_over_4);

/* A seed that was not asked for: from the system's entropy. */
uint64_t rng_fresh_seed(void);

#endif

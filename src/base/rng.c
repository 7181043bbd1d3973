/* rng.c: Philox-4x32-10 as published (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
 * 1, 2, 3; SC 2011): two 32 x 32 -> 64 bit products a round, keys bumped by Weyl constants.
 *
 * Scalar: the plain statement of the bits. Kernels that draw many numbers at once must equal it.
 */
#include "base/rng.h"

#include <sys/random.h>

#include "base/clock.h"

rng_block rng_philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)b;
        c2 = n2;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (rng_block) { { c0, c1, c2, c3 } };
}

rng_block rng_at(uint64_t seed, uint32_t position, rng_use use, uint32_t choice, uint32_t id_over_4)
{
    return rng_philox(position, (uint32_t)use, choice, id_over_4, (uint32_t)seed, (uint32_t)(seed >> 32));
}

uint64_t rng_fresh_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        return seed;
    /* No entropy from the system: the time still differs from run to run. */
    uint64_t now = (uint64_t)clock_ns();
    rng_block b = rng_philox((uint32_t)now, (uint32_t)(now >> 32), 0, 0, 0, 0);
    return (uint64_t)b.word[1] << 32 | b.word[0];
}

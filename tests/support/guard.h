/* guard.h: bytes whose next neighbour is an unmapped page, so that a parser that reads one too many stops at once,
 * sanitizer or not. For tests. */
#ifndef FORAY_TESTS_SUPPORT_GUARD_H
#define FORAY_TESTS_SUPPORT_GUARD_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *map; /* [capacity], and an unmapped page behind */
    size_t capacity;
} guard;

void guard_init(guard *g, size_t capacity);
/* Copies bytes so that they end where the mapped memory ends. Valid until the next copy. */
uint8_t *guard_copy(guard *g, const void *bytes, size_t count);
void guard_free(guard *g);

#endif

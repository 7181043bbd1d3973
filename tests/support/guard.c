/* guard.c: one mapping, its last page without any rights. */
#include "support/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

void guard_init(guard *g, size_t capacity)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    g->capacity = (capacity + page - 1) / page * page;
    g->map = mmap(NULL, g->capacity + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g->map != MAP_FAILED);
    assert_int_equal(mprotect(g->map + g->capacity, page, PROT_NONE), 0);
}

uint8_t *guard_copy(guard *g, const void *bytes, size_t count)
{
    assert_true(count <= g->capacity);
    return memcpy(g->map + g->capacity - count, bytes, count);
}

void guard_free(guard *g)
{
    munmap(g->map, g->capacity + (size_t)sysconf(_SC_PAGESIZE));
}

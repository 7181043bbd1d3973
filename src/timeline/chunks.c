/* chunks.c: see chunks.h. */
#include "timeline/chunks.h"

#include "base/mem.h"
#include "timeline/list.h"

#ifdef FORAY_TORTURE
enum { BLOCK_BYTES = 512 };
#else
enum { BLOCK_BYTES = 2 << 20 };
#endif

/* How many chunks the block has that begins with this one. */
static size_t block_of(size_t number, size_t bytes)
{
    return number == 0 || bytes > BLOCK_BYTES ? 1 : BLOCK_BYTES / bytes;
}

static bool enter_block(chunks *c, char *block, size_t bytes)
{
    size_t n = block_of(c->count, bytes);
    if (!list_reserve(&c->at, &c->cap, c->count + n, sizeof *c->at))
        return false;
    for (size_t i = 0; i < n; i++)
        c->at[c->count++] = block + i * bytes;
    return true;
}

bool chunks_reach(chunks *c, size_t wanted, size_t bytes)
{
    while (c->count <= wanted) {
        size_t size = block_of(c->count, bytes) * bytes;
        char *block = mem_alloc(MEM_RECORDS, size);
        if (block == NULL || !enter_block(c, block, bytes)) {
            mem_free(MEM_RECORDS, block, size);
            return false;
        }
    }
    return true;
}

void chunks_free(chunks *c, size_t bytes)
{
    for (size_t i = 0, n; i < c->count; i += n) {
        n = block_of(i, bytes);
        mem_free(MEM_RECORDS, c->at[i], n * bytes); /* NULL: it was passed on */
    }
    list_free(&c->at, &c->cap, sizeof *c->at);
    c->count = 0;
}

void chunks_pass_on(chunks *from, size_t number, chunks *to, size_t bytes)
{
    size_t n = block_of(1, bytes);
    if (number != 0 && number % n != 0)
        return; /* its block goes on */
    char **block = number == 0 ? &from->at[0] : &from->at[number - n + 1];
    if (number == 0 || to->count == 0 || !enter_block(to, *block, bytes))
        mem_free(MEM_RECORDS, *block, (number == 0 ? 1 : n) * bytes);
    *block = NULL;
}

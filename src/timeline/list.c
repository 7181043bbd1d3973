/* list.c: growth by doubling. */
#include "timeline/list.h"

#include <string.h>

#include "base/mem.h"

/* data points at a pointer of any type: it is read and written by its bytes. */
bool list_reserve(void *data, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return true;
    size_t wanted = *cap < 8 ? 16 : *cap * 2, bytes;
    if (wanted < need)
        wanted = need;
    void *old, *more;
    memcpy(&old, data, sizeof old);
    if (!mem_size_mul(wanted, size, &bytes))
        return false;
    more = mem_resize(MEM_RECORDS, old, *cap * size, bytes);
    if (more == NULL)
        return false;
    memcpy(data, &more, sizeof more);
    *cap = wanted;
    return true;
}

void list_free(void *data, size_t *cap, size_t size)
{
    void *old;
    memcpy(&old, data, sizeof old);
    mem_free(MEM_RECORDS, old, *cap * size);
    old = NULL;
    memcpy(data, &old, sizeof old);
    *cap = 0;
}

/* pass.c: allocation of a pass's buffers. See pass.h. */
#include "model/pass.h"

#include <string.h>

void pass_buffer(device *d, const char *name, size_t rows, size_t width, size_t size, void *out, int *rc,
                 foray_error *err)
{
    if (*rc == 0)
        *rc = device_alloc(d, name, rows * width * size, (void **)out, err);
}

void pass_free_buffers(device *d, void *const *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (buffers[i])
            device_free(d, buffers[i]);
}

int pass_create(device *d, int dim, int vocab, int max_rows, int max_spans, int max_heads, pass *out,
                foray_error *err)
{
    pass p = { .max_rows = max_rows, .max_spans = max_spans, .max_heads = max_heads };
    size_t rows = (size_t)max_rows, heads = (size_t)max_heads;
    int rc = 0;
#define BUFFER(name, count, width) pass_buffer(d, #name, count, width, sizeof *p.name, &p.name, &rc, err)
    BUFFER(count, 1, 16);
    BUFFER(ids, rows, 1);
    BUFFER(position, rows, 1);
    BUFFER(slot, rows, 1);
    BUFFER(spans, (size_t)max_spans, 1);
    BUFFER(head_row, heads, 1);
    BUFFER(hidden, heads, (size_t)dim);
    BUFFER(logits, heads, (size_t)vocab);
#undef BUFFER
    if (rc != 0) {
        pass_destroy(d, &p);
        return rc;
    }
    *out = p;
    return 0;
}

void pass_destroy(device *d, pass *p)
{
    void *all[] = { p->count, p->ids, p->position, p->slot, p->spans, p->head_row, p->hidden, p->logits };
    pass_free_buffers(d, all, sizeof all / sizeof *all);
    memset(p, 0, sizeof *p);
}

/* pass.c: allocation of a pass's buffers. See pass.h. */
#include "model/pass.h"

#include <string.h>

static int widest_input(const model_config *c)
{
    int widest = c->dim > c->ffn ? c->dim : c->ffn;
    int attention = c->heads * c->head_dim;
    return attention > widest ? attention : widest;
}

/* One buffer of rows x width elements; sizes are bounded by the config's limits, so they cannot overflow. */
static int buffer(device *d, const char *name, size_t rows, size_t width, size_t size, void *out,
                  foray_error *err)
{
    return device_alloc(d, name, rows * width * size, (void **)out, err);
}

int pass_create(device *d, const model_config *c, int max_rows, int max_spans, int max_heads, pass *out,
                foray_error *err)
{
    pass p = { .max_rows = max_rows, .max_spans = max_spans, .max_heads = max_heads };
    size_t rows = (size_t)max_rows, heads = (size_t)max_heads;
    size_t q = (size_t)c->heads * (size_t)c->head_dim, kv = (size_t)c->kv_heads * (size_t)c->head_dim;
    size_t ready = activation_bytes(ACTIVATION_F32, max_rows, widest_input(c));
    int rc = 0;
#define BUFFER(name, count, width)                                                                           \
    if (rc == 0)                                                                                             \
    rc = buffer(d, #name, count, width, sizeof *p.name, &p.name, err)
    BUFFER(count, 1, 16);
    BUFFER(ids, rows, 1);
    BUFFER(position, rows, 1);
    BUFFER(slot, rows, 1);
    BUFFER(spans, (size_t)max_spans, 1);
    BUFFER(head_row, heads, 1);
    BUFFER(x, rows, (size_t)c->dim);
    BUFFER(angles, rows, (size_t)c->rope_dim);
    BUFFER(angles_local, rows, (size_t)c->rope_dim);
    BUFFER(qkv, rows, q + 2 * kv);
    BUFFER(att, rows, q);
    BUFFER(ffn, rows, (size_t)c->ffn);
    BUFFER(y, rows, (size_t)c->dim);
    BUFFER(hidden, heads, (size_t)c->dim);
    BUFFER(logits, heads, (size_t)c->vocab);
#undef BUFFER
    if (rc == 0)
        rc = device_alloc(d, "ready", ready, &p.ready, err);
    if (rc != 0) {
        pass_destroy(d, &p);
        return rc;
    }
    *out = p;
    return 0;
}

void pass_destroy(device *d, pass *p)
{
    void *all[] = { p->count, p->ids,    p->position,     p->slot,  p->spans, p->head_row,
                    p->x,     p->angles, p->angles_local, p->qkv,   p->att,   p->ffn,
                    p->y,     p->ready,  p->hidden,       p->logits };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            device_free(d, all[i]);
    memset(p, 0, sizeof *p);
}

/* nextn.c: the NextN layer as the body of a chain. See nextn.h. */
#include "spec/nextn.h"

#include <assert.h>

#include "base/mem.h"
#include "model/deepseek4.h"

typedef struct {
    chain_body base; /* first: a body is one of these */
    device *device;
    cache *cache;
    /* Device memory. */
    float *self;         /* [slots, S, dim]: the streams that the next self-fed row starts from */
    int32_t *slot_entry; /* [slots] a page table: slot s has entry s */
} nextn;

static int launch(const chain_body *base, const pass *p, int rows, int heads, bool from_self,
                  const int32_t *head_slot, stream *s, foray_error *err)
{
    const nextn *b = (const nextn *)base;
    const deepseek4 *m = base->model->deepseek4;
    const int width = m->config.streams * m->config.dim;
    const size_t bytes = sizeof(float) * (size_t)width;
    entry_rows self = { .base = (uint8_t *)b->self,
                        .page_stride = bytes,
                        .table = b->slot_entry,
                        .table_stride = 1,
                        .page_rows = 1,
                        .width = width,
                        .ring = 1,
                        .stride = bytes };
    return deepseek4_nextn(m, p, b->cache, rows, heads, cache_max_length(b->cache), from_self, &self,
                           head_slot, s, err);
}

static void destroy(chain_body *base)
{
    nextn *b = (nextn *)base;
    void *buffers[] = { b->self, b->slot_entry };
    pass_free_buffers(b->device, buffers, sizeof buffers / sizeof *buffers);
    mem_free(MEM_GENERAL, b, sizeof *b);
}

int nextn_open(const nextn_config *config, drafter **out, foray_error *err)
{
    const deepseek4 *m = config->model->deepseek4;
    assert(m && m->nextn);
    nextn *b = mem_alloc_zeroed(MEM_GENERAL, sizeof *b);
    if (!b)
        return fail(err, FORAY_ENOMEM, "drafter nextn: no memory");
    *b = (nextn) { .base = { .name = "nextn",
                             .model = config->model,
                             .vocab = m->config.vocab,
                             .streams = m->config.streams,
                             .window = m->config.window,
                             .launch = launch,
                             .destroy = destroy },
                   .device = config->device,
                   .cache = config->cache };
    const size_t slots = (size_t)config->slots;
    int rc = 0;
    pass_buffer(config->device, "nextn self", slots, (size_t)m->config.streams * (size_t)m->config.dim,
                sizeof *b->self, &b->self, &rc, err);
    pass_buffer(config->device, "nextn slot entry", slots, 1, sizeof *b->slot_entry, &b->slot_entry, &rc,
                err);
    if (rc != 0) {
        destroy(&b->base);
        return rc;
    }
    for (size_t i = 0; i < slots; i++)
        b->slot_entry[i] = (int32_t)i;
    chain_config c = { .device = config->device,
                       .body = &b->base,
                       .slots = config->slots,
                       .max_requests = config->max_requests,
                       .max_length = cache_max_length(config->cache),
                       .max_rows = config->max_rows,
                       .drawing = config->drawing };
    return chain_open(&c, out, err);
}

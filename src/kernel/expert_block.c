/* expert_block.c: packs a layer's experts into one block. See expert_block.h; the packing itself is weight.c's.
 *
 * Threads: any; no state.
 */
#include "kernel/expert_block.h"

#include <assert.h>

#include "base/mem.h"

static bool is_like(const weight_source *a, const weight_source *b)
{
    return a->type == b->type && a->rows == b->rows && a->cols == b->cols;
}

/* Every expert like the first, gate like up, and down turning one's outputs back into the other's inputs. */
static int check_shapes(const expert_source *s, int experts, foray_error *err)
{
    for (int e = 0; e < experts; e++)
        if (!is_like(&s[e].gate, &s[0].gate) || !is_like(&s[e].up, &s[0].gate) ||
            !is_like(&s[e].down, &s[0].down))
            return fail(
                err, FORAY_EUNSUPPORTED,
                "experts: expert %d has gate %d x %d (%s), up %d x %d (%s), down %d x %d (%s), unlike "
                "gate and down of expert 0",
                e, s[e].gate.rows, s[e].gate.cols, dtype_get(s[e].gate.type)->name, s[e].up.rows,
                s[e].up.cols, dtype_get(s[e].up.type)->name, s[e].down.rows, s[e].down.cols,
                dtype_get(s[e].down.type)->name);
    if (s[0].down.cols != s[0].gate.rows || s[0].down.rows != s[0].gate.cols)
        return fail(err, FORAY_EUNSUPPORTED, "experts: down is %d x %d where gate is %d x %d", s[0].down.rows,
                    s[0].down.cols, s[0].gate.rows, s[0].gate.cols);
    return 0;
}

int experts_pack(const expert_source *sources, int experts, bool rounded, int lanes, expert_block *out,
                 foray_error *err)
{
    assert(experts > 0);
    int rc = check_shapes(sources, experts, err);
    packed_weight gate_up, down;
    const weight_source pair[2] = { sources[0].gate, sources[0].up };
    if (rc != 0 || (rc = weight_plan(pair, 2, true, rounded, lanes, &gate_up, err)) != 0 ||
        (rc = weight_plan(&sources[0].down, 1, false, rounded, lanes, &down, err)) != 0)
        return rc;

    const size_t n = (size_t)experts;
    expert_block b = { .experts = experts, .file_bytes = n * (gate_up.file_bytes + down.file_bytes) };
    const bool fits =
        down.bytes <= SIZE_MAX - gate_up.bytes && mem_size_mul(gate_up.bytes + down.bytes, n, &b.bytes);
    b.gate_up = mem_alloc(MEM_WEIGHTS, 2 * n * sizeof *b.gate_up);
    b.data = fits ? mem_alloc(MEM_WEIGHTS, b.bytes) : NULL;
    if (!b.gate_up || !b.data) {
        experts_free(&b);
        return fail(err, FORAY_ENOMEM, "experts: no memory to pack %d experts of %zu bytes", experts,
                    gate_up.bytes + down.bytes);
    }
    b.down = b.gate_up + n;
    uint8_t *at = b.data;
    for (int e = 0; e < experts; e++) {
        const weight_source both[2] = { sources[e].gate, sources[e].up };
        b.gate_up[e] = gate_up;
        b.gate_up[e].data = at;
        weight_pack_into(both, 2, true, &b.gate_up[e]);
        at += gate_up.bytes;
        b.down[e] = down;
        b.down[e].data = at;
        weight_pack_into(&sources[e].down, 1, false, &b.down[e]);
        at += down.bytes;
    }
    *out = b;
    return 0;
}

void experts_free(expert_block *b)
{
    mem_free(MEM_WEIGHTS, b->gate_up, 2 * (size_t)b->experts * sizeof *b->gate_up);
    mem_free(MEM_WEIGHTS, b->data, b->bytes);
    *b = (expert_block) { 0 };
}

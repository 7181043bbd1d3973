/* deepseek4_names.c: from a role to the bytes in the file: the tensor under one of its names, the slice of it where it
 * holds more than one role, the scales beside it, and everything that can be wrong with them.
 *
 * One function, resolve, serves the check and the loader, so that what was checked is what is packed.
 * Threads: any; no state.
 */
#include "model/deepseek4_names.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/deepseek4_faults.h"
#include "model/deepseek4_look.h"
#include "model/deepseek4_roles.h"

enum {
    TILE = 128,             /* rows and columns of an FP8 scale; columns of an activation's group */
    FP4_GROUP = 32,         /* columns of an FP4 scale */
    MAX_INT8_COLS = 132000, /* of which the integer sums fit 32 bits */
};

/* Who asks, and where the faults go. */
typedef struct {
    const model_file *f;
    const deepseek4_config *c;
    fault_list *bad;
    uint8_t *claimed; /* [tensors] whether a role has it; NULL: nobody counts */
} resolver;

/* Where a role stands. */
typedef struct {
    const tensor_view *view;             /* NULL: nowhere; name is then the usual one */
    enum { ALONE, STACKED, BESIDE } how; /* BESIDE: e_proj | h_proj in one row */
    char name[V4_NAME_BYTES];
} place;

static bool find_under_names(const resolver *r, v4_role role, int layer, int expert, place *p)
{
    for (int way = 0; v4_role_name(r->c, role, layer, expert, way, p->name); way++)
        if ((p->view = model_file_tensor(r->f, p->name)))
            return true;
    for (int way = 0; v4_role_stack_name(r->c, role, layer, way, p->name); way++)
        if ((p->view = model_file_tensor(r->f, p->name))) {
            p->how = v4_role_of_expert(role) ? STACKED : BESIDE;
            return true;
        }
    return false;
}

/* The drafter may have an embedding and a head of its own; official files leave them out and mean the trunk's. */
static place find(const resolver *r, v4_role role, int layer, int expert)
{
    place p = { 0 };
    if (find_under_names(r, role, layer, expert, &p))
        return p;
    if (role == V4_HEAD && r->c->tied) /* a head that is there counts, whatever a config says */
        return find(r, V4_EMBED, 0, 0);
    if (role == V4_NEXTN_EMBED || role == V4_NEXTN_HEAD)
        return find(r, role == V4_NEXTN_EMBED ? V4_EMBED : V4_HEAD, 0, 0);
    if (!v4_role_name(r->c, role, layer, expert, 0, p.name))
        v4_role_stack_name(r->c, role, layer, 0, p.name);
    return p;
}

static void claim(const resolver *r, const tensor_view *v)
{
    if (r->claimed && v)
        r->claimed[v - model_file_tensor_at(r->f, 0)] = 1;
}

/* The tensor beside X.weight: X and one of the endings, a list that ends in NULL. */
static const tensor_view *companion(const resolver *r, const tensor_view *v, const char *const *endings)
{
    static const char weight[] = ".weight";
    char name[V4_NAME_BYTES + 32];
    size_t bytes = strlen(v->name), tail = sizeof weight - 1;
    if (bytes < tail || bytes >= V4_NAME_BYTES || strcmp(v->name + bytes - tail, weight) != 0)
        return NULL;
    for (; *endings; endings++) {
        snprintf(name, sizeof name, "%.*s%s", (int)(bytes - tail), v->name, *endings);
        const tensor_view *found = model_file_tensor(r->f, name);
        if (found) {
            claim(r, found);
            return found;
        }
    }
    return NULL;
}

/* Shapes ------------------------------------------------------------------------------------------ */

static void shape_text(int dims, const int64_t *shape, char out[96])
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < dims && used < 70; i++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%" PRId64, i > 0 ? ", " : "", shape[i]);
}

static bool has_shape(const resolver *r, const tensor_view *v, int dims, const int64_t *shape)
{
    bool same = v->dims == dims;
    for (int i = 0; i < dims && same; i++)
        same = v->shape[i] == shape[i];
    if (!same) {
        char got[96], wanted[96];
        shape_text(v->dims, v->shape, got);
        shape_text(dims, shape, wanted);
        faults_wrong(r->bad, FORAY_EFILE, "%s is %s [%s], expected [%s]", v->name, v->type_name, got, wanted);
    }
    return same;
}

/* One value per row: [n, 1], or [n]. */
static bool has_row_values(const resolver *r, const tensor_view *v, int64_t rows)
{
    int64_t shape[2] = { rows, 1 };
    if (v->type != DTYPE_F32) {
        faults_wrong(r->bad, FORAY_EFILE, "%s has type %s, expected F32", v->name, v->type_name);
        return false;
    }
    return has_shape(r, v, v->dims == 1 ? 1 : 2, shape);
}

/* Kinds of matrices ------------------------------------------------------------------------------- */

static bool is_float(dtype type)
{
    return type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16;
}

/* What the description says of a tensor; true: foray runs it. */
static bool scheme_known(const resolver *r, const tensor_view *v)
{
    const char *scheme = model_file_scheme(r->f, v->name);
    static const char *const w4a8[] = { ".scale_bias", NULL };
    if (!model_file_described(r->f))
        return true;
    if (scheme && strcmp(scheme, "FLOAT") != 0 && strcmp(scheme, "W8A8_DYNAMIC") != 0) {
        faults_wrong(r->bad, FORAY_EUNSUPPORTED, "%s has scheme %.40s; foray runs W8A8_DYNAMIC and FLOAT",
                     v->name, scheme);
        return false;
    }
    bool int8 = v->type == DTYPE_I8;
    if (int8 && companion(r, v, w4a8)) { /* two rows per byte, whatever the description says */
        faults_wrong(r->bad, FORAY_EUNSUPPORTED,
                     "%s has scheme W4A8_DYNAMIC (it has a scale_bias); foray runs "
                     "W8A8_DYNAMIC and FLOAT",
                     v->name);
        return false;
    }
    if (int8 != (scheme && strcmp(scheme, "W8A8_DYNAMIC") == 0)) {
        faults_wrong(r->bad, FORAY_EFILE, "%s has type %s, but quant_model_description.json says %s", v->name,
                     v->type_name, scheme ? scheme : "nothing of it");
        return false;
    }
    return true;
}

/* FP8 or FP4 with its power-of-two scales. */
static bool resolve_scaled(const resolver *r, const tensor_view *v, const int64_t shape[2],
                           weight_source *out)
{
    static const char *const endings[] = { ".scale", ".weight_scale_inv", ".weight_scale", NULL };
    bool fp8 = v->type == DTYPE_F8_E4M3;
    const tensor_view *scale = companion(r, v, endings);
    int64_t stored[2] = { shape[0], v->type == DTYPE_I8 ? shape[1] / 2 : shape[1] };
    int64_t scales[2] = { fp8 ? (shape[0] + TILE - 1) / TILE : shape[0],
                          fp8 ? (shape[1] + TILE - 1) / TILE : shape[1] / FP4_GROUP };
    if (!scale) {
        faults_wrong(r->bad, FORAY_EFILE, "%s has type %s, but no scale stands beside it", v->name,
                     v->type_name);
        return false;
    }
    if (shape[1] % TILE != 0) {
        faults_wrong(r->bad, FORAY_EUNSUPPORTED,
                     "%s: %" PRId64 " columns are not groups of 128, which FP8 and FP4 need", v->name,
                     shape[1]);
        return false;
    }
    if (scale->type != DTYPE_F8_E8M0) {
        faults_wrong(r->bad, FORAY_EUNSUPPORTED, "%s has type %s; foray runs F8_E8M0 scales", scale->name,
                     scale->type_name);
        return false;
    }
    out->type = fp8 ? DTYPE_F8_E4M3 : DTYPE_F4_E2M1;
    out->scale = scale->data;
    out->scale_stride = (size_t)scales[1];
    bool matrix_fits = has_shape(r, v, 2, stored);
    return has_shape(r, scale, 2, scales) && matrix_fits;
}

/* int8 with one f32 per row; an offset may only say 0. */
static bool resolve_int8(const resolver *r, const tensor_view *v, const int64_t shape[2], weight_source *out)
{
    static const char *const scales[] = { ".weight_scale", NULL }, *const offsets[] = { ".weight_offset",
                                                                                        NULL };
    const tensor_view *scale = companion(r, v, scales), *offset = companion(r, v, offsets);
    if (!scale) {
        faults_wrong(r->bad, FORAY_EFILE, "%s has scheme W8A8_DYNAMIC, but no weight_scale stands beside it",
                     v->name);
        return false;
    }
    if (shape[1] > MAX_INT8_COLS) {
        faults_wrong(r->bad, FORAY_EUNSUPPORTED, "%s: %" PRId64 " int8 columns; the limit is %d", v->name,
                     shape[1], MAX_INT8_COLS);
        return false;
    }
    out->type = DTYPE_I8;
    out->scale = scale->data;
    bool fits = has_shape(r, v, 2, shape);
    fits = has_row_values(r, scale, shape[0]) && fits;
    if (!offset || !fits)
        return fits;
    if (!has_row_values(r, offset, shape[0]))
        return false;
    for (int64_t i = 0; i < shape[0]; i++) {
        float x;
        memcpy(&x, (const uint8_t *)offset->data + 4 * i, 4);
        if (x != 0) {
            faults_wrong(r->bad, FORAY_EUNSUPPORTED,
                         "%s: row %" PRId64 " is %g; foray runs symmetric weights only", offset->name, i,
                         (double)x);
            return false;
        }
    }
    return true;
}

/* Which part of a tensor with several roles is this one's: rows of a slice, or columns. */
static bool resolve_part(const resolver *r, const place *p, v4_role role, int expert, const int64_t shape[2],
                         weight_source *out)
{
    const tensor_view *v = p->view;
    bool folder = r->c->kind == MODEL_FILE_HF;
    int64_t parts = p->how == STACKED && folder && role != V4_EXPERT_W2 ? 2 : 1;
    int64_t whole[3] = { r->c->experts, parts * shape[0], shape[1] };
    uint64_t row_bytes = 0, part_bytes = 0;
    if (p->how == BESIDE) {
        whole[0] = shape[0];
        whole[1] = 2 * shape[1];
    }
    if (!has_shape(r, v, p->how == STACKED ? 3 : 2, whole))
        return false;
    if (!dtype_bytes(v->type, (uint64_t)whole[p->how == STACKED ? 2 : 1], &row_bytes) ||
        !dtype_bytes(v->type, (uint64_t)shape[1], &part_bytes)) {
        faults_wrong(r->bad, FORAY_EFILE, "%s: %" PRId64 " columns are not whole blocks of %s", v->name,
                     shape[1], v->type_name);
        return false;
    }
    const uint8_t *data = v->data;
    if (p->how == BESIDE) {
        out->data = data + (role == V4_NEXTN_H_PROJ ? part_bytes : 0);
        out->row_bytes = (size_t)row_bytes;
    } else {
        uint64_t first = (uint64_t)expert * (uint64_t)whole[1] +
                         (role == V4_EXPERT_W3 && parts == 2 ? (uint64_t)shape[0] : 0);
        out->data = data + first * row_bytes;
    }
    return true;
}

/* The matrix of a role, or a fault. */
static bool resolve(const resolver *r, v4_role role, int layer, int expert, weight_source *out)
{
    int64_t shape[2];
    v4_role_shape(r->c, role, layer, shape);
    place p = find(r, role, layer, expert);
    const tensor_view *v = p.view;
    if (!v) {
        faults_missing(r->bad, p.name);
        return false;
    }
    claim(r, v);
    *out = (weight_source) { .data = v->data, .type = v->type, .rows = (int)shape[0], .cols = (int)shape[1] };
    if (!scheme_known(r, v))
        return false;
    bool scaled = v->type == DTYPE_F8_E4M3 || v->type == DTYPE_F4_E2M1 ||
                  (v->type == DTYPE_I8 && !model_file_described(r->f));
    bool alone = p.how == ALONE && v4_role_form(role) == V4_MATRIX;
    if (alone && scaled)
        return resolve_scaled(r, v, shape, out);
    if (alone && v->type == DTYPE_I8)
        return resolve_int8(r, v, shape, out);
    if (scaled || v->type == DTYPE_I8 || v->type == DTYPE_UNKNOWN || !weight_type_supported(v->type)) {
        faults_wrong(r->bad, FORAY_EUNSUPPORTED, "%s has type %s, which foray does not compute with here",
                     v->name, v->type_name);
        return false;
    }
    if (p.how != ALONE)
        return resolve_part(r, &p, role, expert, shape, out);
    return has_shape(r, v, 2, shape);
}

/* Values ------------------------------------------------------------------------------------------ */

static const tensor_view *resolve_floats(const resolver *r, v4_role role, int layer)
{
    int64_t shape[2];
    int dims = v4_role_shape(r->c, role, layer, shape);
    place p = find(r, role, layer, 0);
    if (!p.view) {
        faults_missing(r->bad, p.name);
        return NULL;
    }
    claim(r, p.view);
    if (!scheme_known(r, p.view))
        return NULL;
    if (!is_float(p.view->type)) {
        faults_wrong(r->bad, FORAY_EUNSUPPORTED, "%s has type %s, expected F32, BF16 or F16", p.view->name,
                     p.view->type_name);
        return NULL;
    }
    return has_shape(r, p.view, dims, shape) ? p.view : NULL;
}

static int64_t id_at(const tensor_view *v, int64_t i)
{
    int64_t id = 0;
    int32_t narrow;
    if (v->type == DTYPE_I64) {
        memcpy(&id, (const uint8_t *)v->data + 8 * i, 8);
        return id;
    }
    memcpy(&narrow, (const uint8_t *)v->data + 4 * i, 4);
    return narrow;
}

/* Experts by token id: every one must exist, since kernels index with them. */
static const tensor_view *resolve_ids(const resolver *r, int layer)
{
    int64_t shape[2];
    v4_role_shape(r->c, V4_HASH, layer, shape);
    place p = find(r, V4_HASH, layer, 0);
    const tensor_view *v = p.view;
    if (!v) {
        faults_missing(r->bad, p.name);
        return NULL;
    }
    claim(r, v);
    if (v->type != DTYPE_I32 && v->type != DTYPE_I64) {
        faults_wrong(r->bad, FORAY_EFILE, "%s has type %s, expected I64 or I32", v->name, v->type_name);
        return NULL;
    }
    if (!has_shape(r, v, 2, shape))
        return NULL;
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        int64_t id = id_at(v, i);
        if (id < 0 || id >= r->c->experts) {
            faults_wrong(r->bad, FORAY_EFILE, "%s: token %" PRId64 " is sent to expert %" PRId64 " of %d",
                         v->name, i / shape[1], id, r->c->experts);
            return NULL;
        }
    }
    return v;
}

/* Checking ---------------------------------------------------------------------------------------- */

static void check_role(const resolver *r, v4_role role, int layer)
{
    weight_source source;
    switch (v4_role_form(role)) {
    case V4_FLOATS:
        resolve_floats(r, role, layer);
        return;
    case V4_IDS:
        resolve_ids(r, layer);
        return;
    default:
        for (int e = 0; e < (v4_role_of_expert(role) ? r->c->experts : 1); e++) {
            int before = r->bad->wrong_count + r->bad->missing_count;
            resolve(r, role, layer, e, &source);
            /* All experts of a stack share its faults. */
            if (r->bad->wrong_count + r->bad->missing_count > before && r->c->kind == MODEL_FILE_GGUF)
                return;
        }
    }
}

/* Tensors of layers that no role has claimed: read by nobody. The drafter of a kind that is not run from here is left
 * out. */
static void warn_of_rest(const resolver *r)
{
    int count = 0;
    const char *first = NULL;
    for (size_t i = 0; i < model_file_tensor_count(r->f); i++) {
        const char *name = model_file_tensor_at(r->f, i)->name;
        int number;
        bool drafter;
        if (r->claimed[i] || !deepseek4_name_layer(name, &number, &drafter))
            continue;
        if (r->c->drafter == DEEPSEEK4_DSPARK && (drafter || number >= r->c->layers))
            continue;
        if (count++ == 0)
            first = name;
    }
    if (count > 0)
        log_warning(
            "%s: %d tensors of its layers are none that this family has and are not used (the first is %s)",
            model_file_path(r->f), count, first);
}

int v4_names_check(const model_file *f, const deepseek4_config *c, foray_error *err)
{
    fault_list bad = { 0 };
    size_t tensors = model_file_tensor_count(f);
    uint8_t *claimed = mem_alloc_zeroed(MEM_GENERAL, tensors);
    if (!claimed)
        return fail(err, FORAY_ENOMEM, "%s: no memory to check its tensors", model_file_path(f));
    resolver r = { .f = f, .c = c, .bad = &bad, .claimed = claimed };
    for (int role = 0; role < V4_ROLE_COUNT; role++)
        for (int layer = 0; layer <= (v4_role_of_model((v4_role)role) ? 0 : c->layers); layer++)
            if (v4_role_used(c, (v4_role)role, layer))
                check_role(&r, (v4_role)role, layer);
    int rc = faults_report(&bad, model_file_path(f), "tensors",
                           "was the download complete, is it of this config?", err);
    if (rc == 0)
        warn_of_rest(&r);
    mem_free(MEM_GENERAL, claimed, tensors);
    return rc;
}

/* Loading ----------------------------------------------------------------------------------------- */

weight_source v4_matrix(const model_file *f, const deepseek4_config *c, v4_role role, int layer, int expert)
{
    fault_list bad = { 0 };
    resolver r = { .f = f, .c = c, .bad = &bad };
    weight_source out = { 0 };
    bool found = resolve(&r, role, layer, expert, &out);
    assert(found);
    (void)found;
    return out;
}

const char *v4_floats(const model_file *f, const deepseek4_config *c, v4_role role, int layer, float *out)
{
    fault_list bad = { 0 };
    resolver r = { .f = f, .c = c, .bad = &bad };
    const tensor_view *v = resolve_floats(&r, role, layer);
    assert(v);
    dtype_to_f32(v->type, v->data, (size_t)(v->shape[0] * v->shape[1]), out);
    return v->name;
}

void v4_ids(const model_file *f, const deepseek4_config *c, int layer, int32_t *out)
{
    fault_list bad = { 0 };
    resolver r = { .f = f, .c = c, .bad = &bad };
    const tensor_view *v = resolve_ids(&r, layer);
    assert(v);
    for (int64_t i = 0; i < v->shape[0] * v->shape[1]; i++)
        out[i] = (int32_t)id_at(v, i);
}

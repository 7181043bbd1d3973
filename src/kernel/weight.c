/* weight.c: packing of weight matrices into groups of rows, and reading them back one row at a time.
 *
 * Packing runs at load, once per matrix, lane by lane: a source row is read in order and scattered into a group
 * that fits a cache. The 4- and 8-bit blocks of the files already hold four consecutive columns per 32-bit word,
 * so they move as words; K-quants and Q6_K are taken apart and put together again.
 * Reading back is for kernel/ref and for tests: it knows the layout independently of the vector kernels.
 * Threads: any; no state.
 */
#include "kernel/weight.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "kernel/panel.h"
#include "kernel/scaled.h"

enum { SUB = 32, SUPER = 256, SUBS = SUPER / SUB };

size_t activation_bytes(activation_form form, int rows, int cols)
{
    return ((size_t)rows * panel_row_bytes(form, cols) + 63) / 64 * 64;
}

activation activation_at(activation_form form, int rows, int cols, void *buffer)
{
    return (activation) { .data = buffer, .bytes = activation_bytes(form, rows, cols) };
}

bool weight_type_supported(dtype type)
{
    return dtype_get(type)->weight;
}

static bool is_block_type(dtype type)
{
    return dtype_get(type)->block > 1;
}

/* Bytes per lane of one sub-block's quants. */
static size_t lane_quants(dtype type)
{
    switch (type) {
    case DTYPE_Q8_0:
        return 32;
    case DTYPE_Q5_0:
    case DTYPE_Q5_1:
    case DTYPE_Q5_K:
        return 20;
    case DTYPE_Q6_K:
        return 24;
    default:
        return 16;
    }
}

weight_layout weight_layout_of(dtype type, int lanes)
{
    size_t n = (size_t)lanes;
    weight_layout l = { .block = dtype_get(type)->block, .run = 1, .quants = lane_quants(type) * n };
    switch (type) {
    case DTYPE_Q4_1:
    case DTYPE_Q5_1:
        l.scale = l.header = 4 * n;
        break;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        l.scale = l.header = (4 + 2 * SUBS) * n;
        l.quants *= SUBS;
        break;
    case DTYPE_Q6_K:
        l.scale = l.header = (18 * n + 63) / 64 * 64;
        l.quants *= SUBS;
        break;
    default:
        l.run = 32 / lanes;
        l.scale = 2 * n;
        l.header = 64;
    }
    return l;
}

static size_t group_bytes(dtype type, int cols, int lanes)
{
    size_t n = (size_t)lanes, k = (size_t)cols, bytes;
    if (scaled_is(type))
        return (scaled_group_bytes(type, cols, lanes) + 63) / 64 * 64;
    switch (type) {
    case DTYPE_F32:
        bytes = 4 * k * n;
        break;
    case DTYPE_F16:
        bytes = 2 * k * n;
        break;
    case DTYPE_BF16:
        bytes = (k + 1) / 2 * 4 * n;
        break;
    default: {
        weight_layout l = weight_layout_of(type, lanes);
        size_t blocks = k / (size_t)l.block, runs = (blocks + (size_t)l.run - 1) / (size_t)l.run;
        bytes = runs * l.header + blocks * l.quants;
    }
    }
    return (bytes + 63) / 64 * 64;
}

/* ---- one source row into its lane ---- */

static void put_word(uint8_t *vectors, int lanes, int vector, int lane, uint32_t word)
{
    memcpy(vectors + ((size_t)vector * (size_t)lanes + (size_t)lane) * 4, &word, 4);
}

static uint32_t word_at(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, 4);
    return word;
}

/* The fifth bits of a file's block (bit k for column k) as the lane's plane: bit j of byte i is column 4 j + i. */
static uint32_t fifth_bits(uint32_t bits)
{
    uint32_t plane = 0;
    for (int k = 0; k < 32; k++)
        plane |= (bits >> k & 1) << (8 * (k % 4) + k / 4);
    return plane;
}

/* Q4_0 Q4_1 Q5_0 Q5_1 Q8_0: scales first, then words that stay whole. */
static void pack_blocks(dtype type, const uint8_t *src, int cols, int lanes, int lane, uint8_t *group)
{
    const weight_layout l = weight_layout_of(type, lanes);
    const size_t source_bytes = (size_t)dtype_get(type)->bytes;
    const bool min = type == DTYPE_Q4_1 || type == DTYPE_Q5_1,
               five = type == DTYPE_Q5_0 || type == DTYPE_Q5_1;
    const int words = type == DTYPE_Q8_0 ? 8 : 4;
    const uint32_t flip = type == DTYPE_Q8_0 && lanes == 16 ? 0x80808080u : 0;
    for (int b = 0; b < cols / SUB; b++, src += source_bytes) {
        uint8_t *run = group + (size_t)(b / l.run) * (l.header + (size_t)l.run * l.quants);
        uint8_t *scale = run + (size_t)(b % l.run) * l.scale;
        uint8_t *quants = run + l.header + (size_t)(b % l.run) * l.quants;
        const uint8_t *from = src;
        memcpy(scale + 2 * lane, from, 2);
        from += 2;
        if (min) {
            memcpy(scale + 2 * lanes + 2 * lane, from, 2);
            from += 2;
        }
        if (five) {
            put_word(quants, lanes, 0, lane, fifth_bits(word_at(from)));
            quants += 4 * lanes;
            from += 4;
        }
        for (int j = 0; j < words; j++)
            put_word(quants, lanes, j, lane, word_at(from + 4 * j) ^ flip);
    }
}

/* 32 unsigned values of up to 6 bits into planes and nibbles; returns the bytes written per group. */
static size_t put_values(const uint8_t value[SUB], int bits, int lanes, int lane, uint8_t *quants)
{
    int planes = bits - 4;
    for (int p = 0; p < planes; p++) {
        uint32_t word = 0;
        for (int k = 0; k < SUB; k++) {
            if (bits == 5)
                word |= (uint32_t)(value[k] >> 4) << (8 * (k % 4) + k / 4);
            else if (k / 16 == p)
                word |= (uint32_t)(value[k] >> 4) << (8 * (k % 4) + 2 * (k / 4 % 4));
        }
        put_word(quants, lanes, p, lane, word);
    }
    for (int j = 0; j < 4; j++) {
        uint32_t word = 0;
        for (int i = 0; i < 4; i++)
            word |= (uint32_t)((value[4 * j + i] & 15) | (value[4 * j + 16 + i] & 15) << 4) << 8 * i;
        put_word(quants, lanes, planes + j, lane, word);
    }
    return (size_t)(4 + planes) * 4 * (size_t)lanes;
}

static void pack_q45_k(bool five, const uint8_t *src, int cols, int lanes, int lane, uint8_t *group)
{
    const weight_layout l = weight_layout_of(five ? DTYPE_Q5_K : DTYPE_Q4_K, lanes);
    const size_t source_bytes = five ? 176 : 144;
    for (int b = 0; b < cols / SUPER; b++, src += source_bytes, group += l.header + l.quants) {
        const uint8_t *packed = src + 4, *qh = src + 16, *qs = src + (five ? 48 : 16);
        memcpy(group + 2 * lane, src, 2);
        memcpy(group + 2 * lanes + 2 * lane, src + 2, 2);
        uint8_t *scale = group + 4 * lanes, *min = scale + SUBS * lanes, *quants = group + l.header;
        for (int s = 0; s < SUBS; s++) {
            /* Six bits each: plain for the first four, split into low nibbles and top bits for the others. */
            scale[s * lanes + lane] =
                (uint8_t)(s < 4 ? packed[s] & 63 : (packed[s + 4] & 15) | (packed[s - 4] >> 6) << 4);
            min[s * lanes + lane] =
                (uint8_t)(s < 4 ? packed[s + 4] & 63 : packed[s + 4] >> 4 | (packed[s] >> 6) << 4);
            uint8_t value[SUB];
            for (int i = 0; i < SUB; i++) {
                uint8_t byte = qs[SUB * (s / 2) + i];
                value[i] = (uint8_t)((s & 1 ? byte >> 4 : byte & 15) | (five ? (qh[i] >> s & 1) << 4 : 0));
            }
            quants += put_values(value, five ? 5 : 4, lanes, lane, quants);
        }
    }
}

static void pack_q6_k(const uint8_t *src, int cols, int lanes, int lane, uint8_t *group)
{
    const weight_layout l = weight_layout_of(DTYPE_Q6_K, lanes);
    for (int b = 0; b < cols / SUPER; b++, src += 210, group += l.header + l.quants) {
        const uint8_t *ql = src, *qh = src + 128, *scales = src + 192;
        uint8_t *quants = group + l.header;
        for (int s = 0; s < 16; s++)
            group[s * lanes + lane] = scales[s];
        memcpy(group + 16 * lanes + 2 * lane, src + 208, 2);
        for (int s = 0; s < SUBS; s++) {
            /* Within a half of 128: sub-blocks 0 and 1 are low nibbles, 2 and 3 high ones; 2 top bits each. */
            int half = s / 4, part = s % 4;
            uint8_t value[SUB];
            for (int i = 0; i < SUB; i++) {
                int low = ql[64 * half + 32 * (part % 2) + i] >> (part / 2 * 4) & 15;
                value[i] = (uint8_t)(low | (qh[32 * half + i] >> (2 * part) & 3) << 4);
            }
            quants += put_values(value, 6, lanes, lane, quants);
        }
    }
}

static void pack_plain(dtype type, const uint8_t *src, int cols, int lanes, int lane, uint8_t *group)
{
    if (type == DTYPE_F32) {
        for (int k = 0; k < cols; k++)
            put_word(group, lanes, k, lane, word_at(src + 4 * (size_t)k));
        return;
    }
    for (int k = 0; k < cols; k++) {
        size_t at = type == DTYPE_F16
                        ? (size_t)k * (size_t)lanes + (size_t)lane
                        : 2 * ((size_t)(k / 2) * (size_t)lanes + (size_t)lane) + (size_t)(k & 1);
        memcpy(group + 2 * at, src + 2 * (size_t)k, 2);
    }
}

static void pack_row(dtype type, const uint8_t *src, int cols, int lanes, int lane, uint8_t *group)
{
    if (!is_block_type(type))
        pack_plain(type, src, cols, lanes, lane, group);
    else if (type == DTYPE_Q6_K)
        pack_q6_k(src, cols, lanes, lane, group);
    else if (type == DTYPE_Q4_K || type == DTYPE_Q5_K)
        pack_q45_k(type == DTYPE_Q5_K, src, cols, lanes, lane, group);
    else
        pack_blocks(type, src, cols, lanes, lane, group);
}

/* ---- whole matrices ---- */

static const uint8_t *source_row(const weight_source *s, int row, size_t row_bytes)
{
    return (const uint8_t *)s->data + (size_t)row * (s->row_bytes ? s->row_bytes : row_bytes);
}

activation_form weight_form(dtype type, bool rounded)
{
    if (scaled_is(type))
        return !rounded ? ACTIVATION_F32 : type == DTYPE_I8 ? ACTIVATION_I8 : ACTIVATION_F8;
    return is_block_type(type) ? ACTIVATION_Q8 : ACTIVATION_F32;
}

/* Fills *w (all but data) for sources of one type; false when sizes overflow. */
static bool plan_matrix(const weight_source *sources, int count, bool interleave, bool rounded, int lanes,
                        packed_weight *w)
{
    const dtype type = sources[0].type;
    const int cols = sources[0].cols;
    *w = (packed_weight) { .type = type, .cols = cols, .lanes = lanes };
    for (int i = 0; i < count; i++) {
        assert(sources[i].type == type && sources[i].cols == cols && sources[i].rows > 0);
        assert(!interleave || sources[i].rows == sources[0].rows);
        if (__builtin_add_overflow(w->rows, sources[i].rows, &w->rows))
            return false;
    }
    w->groups = interleave ? count * ((sources[0].rows - 1) / lanes + 1) : (w->rows - 1) / lanes + 1;
    w->group_bytes = group_bytes(type, cols, lanes);
    w->form = weight_form(type, rounded);
    w->ordinary = scaled_is(type) && cols <= SCALED_COLS;
    const bool fits = dtype_bytes(type, (uint64_t)w->rows * (uint64_t)cols, &w->file_bytes) &&
                      mem_size_mul((size_t)w->groups, w->group_bytes, &w->bytes);
    for (int i = 0; fits && i < count; i++)
        w->file_bytes += scaled_file_bytes(type, sources[i].rows, cols);
    return fits;
}

static int no_memory(const packed_weight *w, foray_error *err)
{
    return fail(err, FORAY_ENOMEM, "weights: no memory to pack %d rows of %d columns (%s)", w->rows, w->cols,
                dtype_get(w->type)->name);
}

int weight_plan(const weight_source *sources, int count, bool interleave, bool rounded, int lanes,
                packed_weight *out, foray_error *err)
{
    assert(count > 0 && (lanes == 8 || lanes == 16));
    const dtype_info *info = dtype_get(sources[0].type);
    if (!weight_type_supported(sources[0].type) && !scaled_is(sources[0].type))
        return fail(err, FORAY_EUNSUPPORTED, "weights: type %s has no kernels", info->name);
    for (int i = 0; i < count && !weight_type_supported(sources[0].type); i++)
        if (!sources[i].scale)
            return fail(err, FORAY_EUNSUPPORTED, "weights: type %s without its scales", info->name);
    if (sources[0].type == DTYPE_I8 && sources[0].cols > SCALED_I8_MAX_COLS)
        return fail(err, FORAY_EUNSUPPORTED, "weights: %d columns of I8: sums of more than %d do not fit",
                    sources[0].cols, SCALED_I8_MAX_COLS);
    if (sources[0].cols <= 0 || sources[0].cols % info->block != 0)
        return fail(err, FORAY_EUNSUPPORTED, "weights: %d columns are not whole %s blocks of %d",
                    sources[0].cols, info->name, info->block);
    packed_weight w;
    if (!plan_matrix(sources, count, interleave, rounded, lanes, &w))
        return no_memory(&w, err);
    *out = w;
    return 0;
}

void weight_pack_into(const weight_source *sources, int count, bool interleave, packed_weight *w)
{
    const dtype_info *info = dtype_get(w->type);
    const size_t row_bytes = (size_t)w->cols / (size_t)info->block * (size_t)info->bytes;
    int source = 0, row = 0; /* of the next packed row, when not interleaved */
    for (int g = 0; g < w->groups; g++) {
        uint8_t *group = w->data + (size_t)g * w->group_bytes;
        int filled = 0;
        for (int lane = 0; lane < w->lanes; lane++) {
            if (interleave) {
                source = g % count;
                row = g / count * w->lanes + lane;
            } else if (source < count && row == sources[source].rows) {
                source++;
                row = 0;
            }
            if (source == count || row >= sources[source].rows)
                break;
            if (filled++ == 0)
                memset(group, 0, w->group_bytes); /* padding, of lanes and between parts, is zeros */
            const weight_source *s = &sources[source];
            const int from = s->order ? s->order[row] : row;
            row++;
            const uint8_t *src = source_row(s, from, row_bytes);
            if (scaled_is(w->type))
                w->ordinary &= scaled_pack_row(s, src, from, w->lanes, lane, group);
            else
                pack_row(w->type, src, w->cols, w->lanes, lane, group);
        }
    }
}

int weight_pack(const weight_source *sources, int count, bool interleave, bool rounded, int lanes,
                packed_weight *out, foray_error *err)
{
    packed_weight w;
    int rc = weight_plan(sources, count, interleave, rounded, lanes, &w, err);
    if (rc != 0)
        return rc;
    if (!(w.data = mem_alloc(MEM_WEIGHTS, w.bytes)))
        return no_memory(&w, err);
    weight_pack_into(sources, count, interleave, &w);
    *out = w;
    return 0;
}

void weight_free(packed_weight *w)
{
    mem_free(MEM_WEIGHTS, w->data, w->bytes);
    *w = (packed_weight) { 0 };
}

/* ---- reading back ---- */

static float f16_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return dtype_f16_to_f32(h);
}

/* The unsigned (8 bits: signed) integers of 32 columns of a lane. */
static void read_values(int bits, int lanes, int lane, const uint8_t *quants, int value[SUB])
{
    const uint8_t *at = quants + 4 * lane;
    const int step = 4 * lanes, planes = bits == 8 ? 0 : bits - 4;
    for (int k = 0; k < SUB; k++) {
        int chunk = k / 4, i = k % 4;
        if (bits == 8) {
            int byte = at[chunk * step + i];
            value[k] = lanes == 16 ? byte - 128 : (int8_t)byte;
            continue;
        }
        value[k] = at[(planes + chunk % 4) * step + i] >> (chunk / 4 * 4) & 15;
        if (bits == 5)
            value[k] |= (at[i] >> chunk & 1) << 4;
        else if (bits == 6)
            value[k] |= (at[chunk / 4 * step + i] >> (2 * (chunk % 4)) & 3) << 4;
    }
}

void weight_read_block(const packed_weight *w, int group, int lane, int block32, weight_block *out)
{
    const int lanes = w->lanes, bits = w->type == DTYPE_Q8_0 ? 8 : (int)lane_quants(w->type) / 4;
    const weight_layout l = weight_layout_of(w->type, lanes);
    const int b = block32 * SUB / l.block, sub = block32 % (l.block / SUB);
    const uint8_t *run = w->data + (size_t)group * w->group_bytes +
                         (size_t)(b / l.run) * (l.header + (size_t)l.run * l.quants);
    const uint8_t *scale = run + (size_t)(b % l.run) * l.scale;
    const uint8_t *quants =
        run + l.header + (size_t)(b % l.run) * l.quants + (size_t)sub * lane_quants(w->type) * (size_t)lanes;
    int value[SUB], centre = 0;
    read_values(bits, lanes, lane, quants, value);
    out->min = 0;
    switch (w->type) {
    case DTYPE_Q4_1:
    case DTYPE_Q5_1:
        out->scale[0] = out->scale[1] = f16_at(scale + 2 * lane);
        out->min = f16_at(scale + 2 * lanes + 2 * lane);
        break;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        out->scale[0] = out->scale[1] = f16_at(scale + 2 * lane) * (float)scale[(4 + sub) * lanes + lane];
        out->min = -(f16_at(scale + 2 * lanes + 2 * lane) * (float)scale[(4 + SUBS + sub) * lanes + lane]);
        break;
    case DTYPE_Q6_K:
        centre = 32;
        for (int h = 0; h < 2; h++)
            out->scale[h] =
                f16_at(scale + 16 * lanes + 2 * lane) * (float)(int8_t)scale[(2 * sub + h) * lanes + lane];
        break;
    default:
        centre = w->type == DTYPE_Q4_0 ? 8 : w->type == DTYPE_Q5_0 ? 16 : 0;
        out->scale[0] = out->scale[1] = f16_at(scale + 2 * lane);
    }
    for (int k = 0; k < SUB; k++)
        out->q[k] = (int8_t)(value[k] - centre);
}

void weight_read_row(const packed_weight *w, int group, int lane, float *out)
{
    const uint8_t *p = w->data + (size_t)group * w->group_bytes;
    const size_t lanes = (size_t)w->lanes, at = (size_t)lane;
    if (scaled_is(w->type)) {
        scaled_read_row(w, group, lane, out);
        return;
    }
    for (size_t k = 0; k < (size_t)w->cols; k++) {
        if (w->type == DTYPE_F32)
            memcpy(&out[k], p + 4 * (k * lanes + at), 4);
        else if (w->type == DTYPE_F16)
            out[k] = f16_at(p + 2 * (k * lanes + at));
        else {
            uint16_t h;
            memcpy(&h, p + 4 * (k / 2 * lanes + at) + 2 * (k & 1), 2);
            out[k] = dtype_bf16_to_f32(h);
        }
    }
}

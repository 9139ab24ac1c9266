/* From table rows to decoded instructions: fields by position, loops resolved, rectangles merged. */
#ifndef AUTOTUNE_DECODE_H
#define AUTOTUNE_DECODE_H

#include <string.h>

#include "micro/operand.h"
#include "micro/transfer.h"

/* Groups of neighbouring fields. The engine fills one Layout per opcode from the instruction table:
 * the position of each group's first field, -1 where the opcode has none. */
enum { AT_WAITS, AT_SIGNALS, AT_FN, AT_P0, AT_P1, AT_OPERAND, AT_OPERAND_LAST = AT_OPERAND + 4,
       AT_STRIDES, AT_STRIDES_LAST = AT_STRIDES + 3, AT_SIZES, AT_COORDINATES, AT_EXTENTS, AT_TENSOR,
       AT_PRODUCT_SIZES, AT_PRODUCT_STRIDES, AT_PRODUCT_FLAGS, AT_ACCUMULATE, AT_TRIPS, AT_LEVEL,
       AT_UNIT, AT_SEMAPHORE, AT_FORMAT, AT_SCALE, AT_ADDS, AT_RESIDUAL_STRIDES, AT_PRODUCT_FORMATS,
       AT_AXES, AT_ONLINE_NEST, AT_ONLINE_FLAGS, AT_STAGES, AT_CONVERSION, AT_FORWARD, AT_CASE,
       AT_TRANSFORM, AT_BIASED, AT_TRANSFORM_SIZES, AT_NUMBERS_STRIDE, GROUPS };

typedef struct {
    int32_t at[GROUPS];
    int32_t unit;
} Layout;

typedef struct {
    int64_t shape[RANK], stride[RANK]; /* padded with 1 behind the last dimension */
    int32_t rank, format;
    int64_t first_byte;
} Tensor;

static void decode_semaphores(const int64_t *field, uint8_t *out) {
    for (int i = 0; i < 3; i++) if (field[i]) *out++ = (uint8_t)field[i];
}

static void decode_operand(const int64_t *f, Operand *out) {
    Operand o = {f[0], f[1], f[3], f[5], (int32_t)f[2], (int32_t)f[4], (int32_t)f[6]};
    *out = o;
}

/* From elements, as words of a program count, to bytes. */
static void scale_address(Operand *o, int64_t bytes) {
    o->base *= bytes;
    o->step0 *= bytes;
    o->step1 *= bytes;
    o->slot *= bytes;
}

static float float_of(int64_t bits) {
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void decode_region(const Layout *l, const int64_t *row, const Tensor *tensors, Region *out) {
    const int64_t *f = row + l->at[AT_COORDINATES];
    for (int d = 0; d < RANK; d++) {
        out->coord[d] = f[3 * d];
        out->step[d] = f[3 * d + 1];
        out->level[d] = (int32_t)f[3 * d + 2];
        out->size[d] = row[l->at[AT_SIZES] + d];
    }
    if (l->at[AT_EXTENTS] >= 0) {
        memcpy(out->extent, row + l->at[AT_EXTENTS], sizeof out->extent);
        return;
    }
    out->tensor = (int32_t)row[l->at[AT_TENSOR]];
    const Tensor *t = &tensors[out->tensor];
    memcpy(out->extent, t->shape, sizeof out->extent);
    memcpy(out->stride, t->stride, sizeof out->stride);
    out->rank = t->rank;
    out->format = t->format;
    out->first_byte = t->first_byte;
    for (int d = 0; d < RANK && l->at[AT_AXES] >= 0; d++) {
        out->axis[d] = (int32_t)row[l->at[AT_AXES] + 2 * d];
        out->hop[d] = row[l->at[AT_AXES] + 2 * d + 1];
    }
}

/* The stages of a CHAIN that do something. */
static void decode_stages(const int64_t *field, Word *w) {
    for (int i = 0; i < STAGES; i++, field += 4) {
        Stage s = {(int32_t)field[0], (int32_t)field[1], float_of(field[2]), float_of(field[3])};
        if (s.kind == STAGE_NONE) continue;
        w->stage[w->stages++] = s;
    }
    if (w->stages == 0) w->stage[w->stages++] = (Stage){STAGE_UNARY, UN_COPY, 0, 0};
}

/* Two dimensions of dst and src, one of the state. */
static void decode_online(const Layout *l, const int64_t *row, Word *w) {
    const int64_t *f = row + l->at[AT_ONLINE_NEST], *flag = row + l->at[AT_ONLINE_FLAGS];
    Nest nest = {2, {f[0], f[1]}, {{f[2], f[3]}, {f[6], 0}, {f[4], f[5]}, {0}}};
    w->nest = nest;
    w->product.accumulate = (int32_t)flag[0];
    w->product.k_level = (int32_t)flag[1];
}

/* The bias runs along channels alone. */
static void decode_transform(const Layout *l, const int64_t *row, Word *w) {
    const int64_t *size = row + l->at[AT_TRANSFORM_SIZES];
    int64_t code = row[l->at[AT_TRANSFORM]], taken = rows_taken((int)code);
    Nest nest = {RANK, {taken, taken, size[0], size[1], size[2]}, {{0}}};
    for (int o = 0; o < 4; o++)
        if (o != 2) memcpy(nest.stride[o], row + l->at[AT_STRIDES + o], sizeof nest.stride[o]);
    nest.stride[2][4] = 1;
    w->nest = nest;
    w->transform = (int32_t)code;
    w->biased = (int32_t)row[l->at[AT_BIASED]];
    w->adds = (int32_t)row[l->at[AT_ADDS]];
}

static void decode_conversion(const int64_t *f, Conversion *out) {
    Conversion c = {(int32_t)f[0], (int32_t)f[1], (int32_t)f[2], float_of(f[3]), f[4], f[5]};
    *out = c;
}

/* `unused` operands, as bits, keep nothing from being merged. */
static void decode_nest(const Layout *l, const int64_t *row, int operands, int unused, Nest *out) {
    int64_t stride[4][RANK] = {{0}};
    for (int o = 0; o < operands; o++)
        if (!(unused >> o & 1)) memcpy(stride[o], row + l->at[AT_STRIDES + o], sizeof stride[o]);
    if (l->at[AT_COORDINATES] >= 0) { /* coordinates count by dimension: nothing may be merged */
        memcpy(out->stride[0], stride[0], sizeof out->stride[0]);
        memcpy(out->size, row + l->at[AT_SIZES], sizeof out->size);
        out->rank = RANK;
        return;
    }
    *out = merged(row + l->at[AT_SIZES], operands, (const int64_t (*)[RANK])stride);
}

static void decode_product(const Layout *l, const int64_t *row, Product *p) {
    const int64_t *n = row + l->at[AT_PRODUCT_SIZES], *flag = row + l->at[AT_PRODUCT_FLAGS];
    memcpy(&p->m, n, 6 * sizeof *n);
    memcpy(&p->a_m, row + l->at[AT_PRODUCT_STRIDES], 12 * sizeof *n);
    p->accumulate = (int32_t)flag[0];
    p->epilogue = (int32_t)flag[1];
    p->k_level = (int32_t)flag[2];
    p->bias_axis = (int32_t)flag[3];
    memcpy(&p->r_m, row + l->at[AT_RESIDUAL_STRIDES], 3 * sizeof *n);
    p->has_residual = (int32_t)row[l->at[AT_ADDS]];
    const int64_t *format = row + l->at[AT_PRODUCT_FORMATS];
    p->a_format = (int32_t)format[0];
    p->b_format = (int32_t)format[1];
    p->a_zero = (int32_t)format[2];
    p->b_zero = (int32_t)format[3];
}

/* Everything of a word but its costs and where its loop jumps to. */
static void decode_word(const Layout *l, const int64_t *row, const Tensor *tensors, Word *w) {
    int operands = 0, unused = 0;
    memset(w, 0, sizeof *w);
    w->opcode = (int32_t)row[0];
    w->unit = l->unit;
    w->stream = -1;
    decode_semaphores(row + l->at[AT_WAITS], w->waits);
    decode_semaphores(row + l->at[AT_SIGNALS], w->signals);
    for (int i = 1; i < 3 && w->waits[i]; i++)
        for (int j = 0; j < i; j++) w->again[i] += w->waits[j] == w->waits[i];
    for (int o = 0; o < 5; o++) {
        w->operand[o].level0 = w->operand[o].level1 = w->operand[o].turn = LEVELS - 1;
        if (l->at[AT_OPERAND + o] >= 0) decode_operand(row + l->at[AT_OPERAND + o], &w->operand[o]);
        if (o < 4 && l->at[AT_STRIDES + o] >= 0) operands++;
    }
    if (l->at[AT_FN] >= 0) w->fn = (int32_t)row[l->at[AT_FN]];
    if (l->at[AT_P0] >= 0) w->p0 = float_of(row[l->at[AT_P0]]);
    if (l->at[AT_P1] >= 0) w->p1 = float_of(row[l->at[AT_P1]]);
    if (l->at[AT_ACCUMULATE] >= 0) w->p1 = (float)row[l->at[AT_ACCUMULATE]];
    if (l->at[AT_SCALE] >= 0) w->scale = float_of(row[l->at[AT_SCALE]]);
    if (l->at[AT_FORMAT] >= 0) w->format = (int32_t)row[l->at[AT_FORMAT]];
    if (l->at[AT_STAGES] >= 0) {
        decode_stages(row + l->at[AT_STAGES], w);
        unused = ALL_SIDES & ~chain_sides(w);
    }
    if (l->at[AT_CONVERSION] >= 0) decode_conversion(row + l->at[AT_CONVERSION], &w->conversion);
    if (l->at[AT_COORDINATES] >= 0) decode_region(l, row, tensors, &w->region);
    if (l->at[AT_PRODUCT_SIZES] >= 0) decode_product(l, row, &w->product);
    else if (l->at[AT_ONLINE_NEST] >= 0) decode_online(l, row, w);
    else if (l->at[AT_TRANSFORM] >= 0) decode_transform(l, row, w);
    else if (operands) decode_nest(l, row, operands, unused, &w->nest);
    if (w->opcode == OP_LOOKUP) w->nest.stride[1][0] = row[l->at[AT_NUMBERS_STRIDE]];
    if (l->at[AT_TRIPS] >= 0) w->trips = row[l->at[AT_TRIPS]];
    if (l->at[AT_LEVEL] >= 0) w->level = (int32_t)row[l->at[AT_LEVEL]];
    if (l->at[AT_FORWARD] >= 0) w->forward = (int32_t)row[l->at[AT_FORWARD]];
    if (l->at[AT_CASE] >= 0) {
        const int64_t *f = row + l->at[AT_CASE];
        w->parameter = (int32_t)f[0];
        w->low = f[1];
        w->high = f[2];
        w->trips = 1;
    }
    for (int o = 0; o < OPERANDS; o++) scale_address(&w->operand[o], operand_bytes(w, o));
    if (l->at[AT_SEMAPHORE] >= 0) {
        w->unit = (int32_t)row[l->at[AT_UNIT]];
        (w->opcode == OP_WAIT ? w->waits : w->signals)[0] = (uint8_t)row[l->at[AT_SEMAPHORE]];
    }
}

/* Gives LOOP (CASE) and END each other's place. A block without any queued instruction runs 0 trips. */
static void link_loops(Word *words, int64_t count) {
    int64_t open[LEVELS], queued[LEVELS + 1] = {0};
    int depth = 0;
    for (int64_t i = 0; i < count; i++) {
        Word *w = &words[i];
        if (w->opcode == OP_LOOP || w->opcode == OP_CASE) {
            open[depth++] = i;
            queued[depth] = 0;
        } else if (w->opcode == OP_END) {
            Word *loop = &words[open[depth - 1]];
            w->jump = (int32_t)open[depth - 1];
            loop->jump = (int32_t)(i + 1);
            if (!queued[depth]) loop->trips = 0;
            depth--;
            queued[depth] += queued[depth + 1];
        } else if (w->opcode != OP_MARK && w->opcode != OP_HALT) {
            queued[depth]++;
        }
    }
}

#endif

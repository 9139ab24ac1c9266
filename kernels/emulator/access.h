/* What an instruction touches in one trip, element by element: patterns of its operands in the scratchpad
 * and its place in DRAM; the race check's. */
#ifndef AUTOTUNE_ACCESS_H
#define AUTOTUNE_ACCESS_H

#include "micro/operand.h"
#include "emulator/shadow.h"

typedef struct { Pattern operand[OPERANDS]; } Patterns;

static void product_patterns(const Word *w, Pattern *out) {
    const Product *p = &w->product;
    const int64_t rows[] = {p->m, p->n1, p->n0}, left[] = {p->m, p->k2, p->k1, p->k0};
    const int64_t right[] = {p->k2, p->k1, p->k0, p->n1, p->n0}, one = 1;
    const int64_t c[] = {p->c_m, p->c_n1, p->c_n0}, r[] = {p->r_m, p->r_n1, p->r_n0};
    const int64_t a[] = {p->a_m, p->a_k2, p->a_k1, p->a_k0};
    const int64_t b[] = {p->b_k2, p->b_k1, p->b_k0, p->b_n1, p->b_n0};
    out[0] = pattern_of(3, rows, c, 4);
    out[1] = pattern_of(4, left, a, operand_bytes(w, 1));
    out[2] = pattern_of(5, right, b, operand_bytes(w, 2));
    out[3] = pattern_of(1, p->bias_axis == 1 ? &p->m : &p->n0, &one, 4);
    out[4] = pattern_of(3, rows, r, 4);
}

/* Of all operands of a word: trips change where they begin, never their form. */
static void settle_patterns(const Word *w, Patterns *out) {
    if (w->opcode == OP_MATMUL) {
        product_patterns(w, out->operand);
        return;
    }
    for (int o = 0; o < 4; o++) {
        int moved = w->unit == UNIT_LOAD || w->unit == UNIT_STORE;
        int64_t size[RANK];
        for (int d = 0; d < RANK; d++) size[d] = moved ? w->region.size[d] : operand_extent(w, o, d);
        out->operand[o] = pattern_of(moved ? RANK : w->nest.rank, size, w->nest.stride[o], operand_bytes(w, o));
    }
    if (w->opcode == OP_LOOKUP) /* a number per row */
        out->operand[1] = pattern_of(1, w->region.size, w->nest.stride[1], 4);
    if (w->opcode == OP_ONLINE) { /* m, l and f of each row */
        const int64_t size[] = {w->nest.size[0], 3}, stride[] = {w->nest.stride[1][0], 1};
        out->operand[1] = pattern_of(2, size, stride, 4);
    }
}

/* Operands that an instruction reads in this trip, as bits. */
static int read_in_trip(const Word *w, const Loops *at) {
    const Product *p = &w->product; /* ONLINE: its accumulate as well */
    int adds = applies(p->accumulate, p->k_level, at, 0);
    return operands_read(w, adds, w->opcode == OP_MATMUL && applies(p->epilogue, p->k_level, at, 1));
}

static void touch_operands(const Word *w, const Pattern *patterns, const Loops *at, int operands, Touch *t) {
    int32_t stamp = t->stamp;
    for (int o = 0; o < OPERANDS; o++) {
        if (!(operands >> o & 1)) continue;
        t->pattern = &patterns[o];
        t->first_byte = address_of(&w->operand[o], at);
        t->stamp = w->forward && o == 0 ? stamp - 1 : stamp;
        touch_pattern(t);
    }
    t->stamp = stamp;
}

static void touch_tensor(const Shadow *tensors, const Region *region, const Pattern *p, int64_t element, int writes,
                         Touch *t) {
    Touch there = *t;
    there.shadow = &tensors[region->tensor];
    there.memory = region->tensor;
    there.pattern = p;
    there.first_byte = element * p->bytes;
    there.writes = writes;
    touch_pattern(&there);
}

/* The part of a LOAD's or STORE's rectangle that lies inside of its tensor. */
static void touch_region(const Shadow *tensors, const Region *region, const Clip *c, int writes, Touch *t) {
    if (!tensors[region->tensor].write || c->elements == 0) return;
    Pattern p = pattern_of(RANK, c->size, region->stride, FORMAT_BYTES[region->format]);
    touch_tensor(tensors, region, &p, clip_offset(region, c), writes, t);
}

/* Row by row, as gather.h does. */
static void touch_gathered(const Shadow *tensors, const Word *w, const Loops *at, Touch *t) {
    const Region *g = &w->region;
    if (!tensors[g->tensor].write) return;
    int last = RANK - 1;
    while (last > 0 && g->size[last] == 1) last--;
    int64_t trip[RANK] = {0}, offset[1] = {0}, coordinate[RANK], step = g->hop[last] * g->stride[g->axis[last]];
    do {
        row_coordinates(g, at, trip, coordinate);
        Inside in = row_inside(g, coordinate, g->axis[last], g->hop[last], g->size[last]);
        if (in.low == in.high) continue;
        int64_t n = in.high - in.low, element = first_inside(g, coordinate, last, in.low), ahead = step < 0 ? -step : step;
        if (step < 0) element += (n - 1) * step;
        Pattern p = pattern_of(1, &n, &ahead, FORMAT_BYTES[g->format]);
        touch_tensor(tensors, g, &p, element, 0, t);
    } while (next_row(&w->nest, last, 1, trip, offset));
}

/* A rectangle of the operand of a word that has a region: `size` elements from `low` on. */
static void touch_part(const Word *w, const Loops *at, const int64_t *low, const int64_t *size, Touch *t) {
    int bytes = operand_bytes(w, 0);
    Pattern p = pattern_of(RANK, size, w->nest.stride[0], bytes);
    t->pattern = &p;
    t->first_byte = address_of(&w->operand[0], at);
    for (int d = 0; d < RANK; d++) t->first_byte += low[d] * w->nest.stride[0][d] * bytes;
    touch_pattern(t);
}

/* What lies outside in dimension d and inside in all before it, d by d. */
static void touch_masked(const Word *w, const Loops *at, Touch *t) {
    Clip c = clip_region(&w->region, at);
    int64_t low[RANK] = {0}, size[RANK];
    memcpy(size, w->region.size, sizeof size);
    for (int d = 0; d < RANK; d++) {
        if (c.size[d] == 0) {
            touch_part(w, at, low, size, t);
            return;
        }
        int64_t all = size[d], behind = c.low[d] + c.size[d];
        size[d] = c.low[d];
        if (size[d]) touch_part(w, at, low, size, t);
        low[d] = behind;
        size[d] = all - behind;
        if (size[d]) touch_part(w, at, low, size, t);
        low[d] = c.low[d];
        size[d] = c.size[d];
    }
}

/* Reads before writes; `tensors` without `write` are read alone: nothing can race there. What a LOOKUP
 * reads there is never written. */
static void touch_all(const Word *w, const Patterns *patterns, const Loops *at, const Shadow *tensors, Touch *t) {
    t->writes = 0;
    if (w->opcode == OP_STORE) {
        Clip c = clip_region(&w->region, at);
        if (c.elements) touch_part(w, at, c.low, c.size, t);
        touch_region(tensors, &w->region, &c, 1, t);
        return;
    }
    if (w->opcode == OP_LOAD) {
        Clip c = clip_region(&w->region, at);
        touch_region(tensors, &w->region, &c, 0, t);
    } else if (w->opcode == OP_GATHER) {
        touch_gathered(tensors, w, at, t);
    }
    touch_operands(w, patterns->operand, at, read_in_trip(w, at), t);
    t->writes = 1;
    if (w->opcode == OP_MASK) touch_masked(w, at, t);
    else touch_operands(w, patterns->operand, at, operands_written(w), t);
}

#endif

/* CHAIN: up to four element-wise stages in one pass, chunk by chunk through a row buffer. */
#ifndef AUTOTUNE_CHAIN_H
#define AUTOTUNE_CHAIN_H

#include "micro/convert.h"

/* A row of an operand. */
typedef struct { const float *at; int64_t stride; } Row;

ALWAYS_INLINE void stage_row(const Stage *s, int64_t n, float *d, int64_t ds, Row x, Row side) {
    if (s->kind == STAGE_UNARY) {
        unary_row(s->fn, s->p0, s->p1, n, d, ds, x.at, x.stride);
        return;
    }
    int swapped = s->kind == STAGE_FROM0 || s->kind == STAGE_FROM1;
    Row l = swapped ? side : x, r = swapped ? x : side;
    binary_row(s->fn, n, d, ds, l.at, l.stride, r.at, r.stride);
}

ALWAYS_INLINE Row row_from(Row row, int64_t first) {
    Row out = {row.at + first * row.stride, row.stride};
    return out;
}

/* `rows` are those of src, side0 and side1. */
ALWAYS_INLINE void chain_row(const Word *w, int64_t n, float *d, int64_t ds, const Row *rows) {
    float x[CHUNK];
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t part = n - first < CHUNK ? n - first : CHUNK;
        Row from = row_from(rows[0], first), kept = {x, 1};
        for (int i = 0; i < w->stages; i++, from = kept) {
            const Stage *s = &w->stage[i];
            int ends = i == w->stages - 1, side = s->kind == STAGE_WITH1 || s->kind == STAGE_FROM1 ? 2 : 1;
            stage_row(s, part, ends ? d + first * ds : x, ends ? ds : 1, from, row_from(rows[side], first));
        }
    }
}

/* Operands: dst, src, side0, side1. */
ALWAYS_INLINE void chain_body(const Word *w, float *d, const float *s, const float *side0, const float *side1) {
    const Nest *nest = &w->nest;
    int last = nest->rank - 1;
    int64_t trip[RANK] = {0}, offset[4] = {0};
    do {
        Row rows[3] = {{s + offset[1], nest->stride[1][last]}, {side0 + offset[2], nest->stride[2][last]},
                       {side1 + offset[3], nest->stride[3][last]}};
        chain_row(w, nest->size[last], d + offset[0], nest->stride[0][last], rows);
    } while (next_row(nest, last, 4, trip, offset));
}

VERSIONS(chain, (const Word *w, float *d, const float *s, const float *side0, const float *side1),
         (w, d, s, side0, side1))

#endif

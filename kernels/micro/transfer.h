/* Moving rectangles between DRAM tensors and the scratchpad, and masking what lies outside. */
#ifndef AUTOTUNE_TRANSFER_H
#define AUTOTUNE_TRANSFER_H

#include <string.h>

#include "micro/convert.h"

/* The part of a rectangle that lies inside of its tensor: [low, low + size) of the rectangle. */
typedef struct {
    int64_t first[RANK]; /* coordinate where the rectangle begins */
    int64_t low[RANK], size[RANK];
    int64_t elements; /* 0: all of it is outside */
    int whole;        /* none of it is outside */
} Clip;

/* One dimension of a rectangle that begins at `first` of it. */
typedef struct {
    int64_t low, size;
} Side;

/* Of a side that is all outside, `low` is where coordinate 0 would be: addresses made of it stay small. */
ALWAYS_INLINE Side clip_side(const Region *r, int d, int64_t first) {
    int64_t low = first < 0 ? -first : 0;
    int64_t high = r->extent[d] - first < r->size[d] ? r->extent[d] - first : r->size[d];
    Side none = {-first, 0}, out = {low, high - low};
    return high > low ? out : none;
}

ALWAYS_INLINE Clip clip_region(const Region *r, const Loops *at) {
    Clip out;
    out.elements = 1;
    out.whole = 1;
    for (int d = 0; d < RANK; d++) {
        int64_t first = r->coord[d] + r->step[d] * at->index[r->level[d]];
        Side side = clip_side(r, d, first);
        out.first[d] = first;
        out.low[d] = side.low;
        out.size[d] = side.size;
        out.elements *= out.size[d];
        out.whole &= out.size[d] == r->size[d];
    }
    return out;
}

/* Offset in elements of the first inside element in its tensor. */
ALWAYS_INLINE int64_t clip_offset(const Region *r, const Clip *c) {
    int64_t offset = 0;
    for (int d = 0; d < RANK; d++) offset += (c->first[d] + c->low[d]) * r->stride[d];
    return offset;
}

/* Loops without extents of 1, neighbours merged where every operand allows it; rank 1 at least. */
ALWAYS_INLINE Nest merged(const int64_t *size, int operands, const int64_t (*stride)[RANK]) {
    Nest out = {0};
    for (int d = 0; d < RANK; d++) {
        if (size[d] == 1) continue;
        int last = out.rank - 1, joins = last >= 0;
        for (int o = 0; o < operands && joins; o++)
            joins = out.stride[o][last] == size[d] * stride[o][d];
        if (!joins) last = out.rank++;
        out.size[last] = joins ? out.size[last] * size[d] : size[d];
        for (int o = 0; o < operands; o++) out.stride[o][last] = stride[o][d];
    }
    if (out.rank == 0) {
        out.rank = 1;
        out.size[0] = 1;
        for (int o = 0; o < operands; o++) out.stride[o][0] = 1;
    }
    return out;
}

/* n elements of `bytes` each, which is known where this is inlined to. */
ALWAYS_INLINE void copy_row(int bytes, int64_t n, char *to, int64_t ts, const char *from, int64_t fs) {
    if (ts == 1 && fs == 1) memcpy(to, from, (size_t)(n * bytes));
    else for (int64_t i = 0; i < n; i++) memcpy(to + i * ts * bytes, from + i * fs * bytes, (size_t)bytes);
}

ALWAYS_INLINE void copy_elements(int bytes, const Nest *nest, char *to, const char *from) {
    int last = nest->rank - 1;
    int64_t trip[RANK] = {0}, offset[2] = {0};
    do copy_row(bytes, nest->size[last], to + offset[0] * bytes, nest->stride[0][last],
                from + offset[1] * bytes, nest->stride[1][last]);
    while (next_row(nest, last, 2, trip, offset));
}

/* Operands of the nest: to, from. */
static void copy_nest(const Nest *nest, int to_format, char *to, int from_format, const char *from) {
    if (to_format != from_format) {
        Conversion c = recoded(to_format, from_format);
        convert_nest(&c, nest, to, from);
        return;
    }
    switch (FORMAT_BYTES[to_format]) {
    case 1: copy_elements(1, nest, to, from); break;
    case 2: copy_elements(2, nest, to, from); break;
    default: copy_elements(4, nest, to, from); break;
    }
}

ALWAYS_INLINE void fill_elements(int bytes, int64_t n, char *to, int64_t stride, const char *value) {
    uint32_t own = 0; /* a copy that `to` cannot overwrite */
    memcpy(&own, value, (size_t)bytes);
    if (stride == 1) for (int64_t i = 0; i < n; i++) memcpy(to + i * bytes, &own, (size_t)bytes);
    else for (int64_t i = 0; i < n; i++) memcpy(to + i * stride * bytes, &own, (size_t)bytes);
}

/* A row of a value that has the format already. */
ALWAYS_INLINE void pad_row(int format, int64_t n, char *to, int64_t stride, const char *value) {
    switch (FORMAT_BYTES[format]) {
    case 1: fill_elements(1, n, to, stride, value); break;
    case 2: fill_elements(2, n, to, stride, value); break;
    default: fill_elements(4, n, to, stride, value); break;
    }
}

static void pad_nest(const Nest *nest, int format, char *to, const char *value) {
    int last = nest->rank - 1;
    int64_t trip[RANK] = {0}, offset[1] = {0};
    do pad_row(format, nest->size[last], to + offset[0] * FORMAT_BYTES[format], nest->stride[0][last], value);
    while (next_row(nest, last, 1, trip, offset));
}

/* What of a rectangle lies outside of its tensor, slab by slab: before and behind in each dimension,
 * inside in those before it. */
static void pad_outside(const Region *r, const Clip *c, const int64_t *stride, int format, char *to,
                        const char *value) {
    int64_t size[1][RANK];
    memcpy(size[0], r->size, sizeof size[0]);
    for (int d = 0; d < RANK; d++) {
        int64_t first[2] = {0, c->low[d] + c->size[d]};
        int64_t count[2] = {c->low[d], r->size[d] - first[1]};
        for (int i = 0; i < 2; i++) {
            if (count[i] == 0) continue;
            size[0][d] = count[i];
            Nest nest = merged(size[0], 1, (const int64_t (*)[RANK])stride);
            pad_nest(&nest, format, to + first[i] * stride[d] * FORMAT_BYTES[format], value);
        }
        size[0][d] = c->size[d];
        to += c->low[d] * stride[d] * FORMAT_BYTES[format];
    }
}

/* Scratchpad strides are the nest's first operand, one per dimension of the region (not merged). */
static void load_region(const Region *r, const Word *w, const Loops *at, char *to, const char *tensor) {
    Clip c = clip_region(r, at);
    if (!c.whole) {
        float pad;
        narrow_row(w->format, 0, 1, &pad, 1, &w->p0);
        if (c.elements == 0) {
            Nest all = merged(r->size, 1, w->nest.stride);
            pad_nest(&all, w->format, to, (const char *)&pad);
            return;
        }
        pad_outside(r, &c, w->nest.stride[0], w->format, to, (const char *)&pad);
    }
    int64_t stride[2][RANK];
    for (int d = 0; d < RANK; d++) {
        stride[0][d] = w->nest.stride[0][d];
        stride[1][d] = r->stride[d];
        to += c.low[d] * stride[0][d] * FORMAT_BYTES[w->format];
    }
    Nest nest = merged(c.size, 2, (const int64_t (*)[RANK])stride);
    copy_nest(&nest, w->format, to, r->format, tensor + clip_offset(r, &c) * FORMAT_BYTES[r->format]);
}

static inline void load_rectangle(const Word *w, const Loops *at, float *scratchpad, const char *tensor) {
    load_region(&w->region, w, at, (char *)scratchpad + address_of(&w->operand[0], at), tensor);
}

static inline void store_rectangle(const Word *w, const Loops *at, const float *scratchpad, char *tensor) {
    const Region *r = &w->region;
    Clip c = clip_region(r, at);
    if (c.elements == 0) return;
    const char *from = (const char *)scratchpad + address_of(&w->operand[0], at);
    int64_t stride[2][RANK];
    for (int d = 0; d < RANK; d++) {
        stride[0][d] = r->stride[d];
        stride[1][d] = w->nest.stride[0][d];
        from += c.low[d] * stride[1][d] * FORMAT_BYTES[w->format];
    }
    Nest nest = merged(c.size, 2, (const int64_t (*)[RANK])stride);
    copy_nest(&nest, r->format, tensor + clip_offset(r, &c) * FORMAT_BYTES[r->format], w->format, from);
}

/* Only what lies outside is walked: most of a tile at an edge is inside. */
static inline void mask_rectangle(const Word *w, const Loops *at, float *scratchpad) {
    const Region *r = &w->region;
    Clip c = clip_region(r, at);
    if (c.whole) return;
    char *to = (char *)scratchpad + address_of(&w->operand[0], at);
    const char *value = (const char *)&w->p0;
    if (c.elements == 0) {
        Nest all = merged(r->size, 1, w->nest.stride);
        pad_nest(&all, FORMAT_FP32, to, value);
        return;
    }
    pad_outside(r, &c, w->nest.stride[0], FORMAT_FP32, to, value);
}

#endif

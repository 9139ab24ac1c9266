/* GATHER: elements of a DRAM tensor by any tensor dimension and hop, into the scratchpad.
 *
 * A rectangle is walked row by row along its last dimension that is longer than 1. Per row, one
 * range of it lies inside of the tensor: before and behind it is padding. */
#ifndef AUTOTUNE_GATHER_H
#define AUTOTUNE_GATHER_H

#include "micro/transfer.h"

/* Elements [low, high) of a row of n whose coordinate, `first` and `hop` more each, lies in [0, extent). */
typedef struct { int64_t low, high; } Inside;

ALWAYS_INLINE Inside inside_of(int64_t first, int64_t hop, int64_t extent, int64_t n) {
    Inside all = {0, n}, none = {0, 0};
    if (hop == 0) return first >= 0 && first < extent ? all : none;
    if (hop < 0) { /* mirrored, the same coordinates count up */
        first = extent - 1 - first;
        hop = -hop;
    }
    int64_t low = first < 0 ? (-first + hop - 1) / hop : 0;
    int64_t high = first < extent ? (extent - first + hop - 1) / hop : 0;
    Inside out = {low, high < n ? high : n};
    return out.low < out.high ? out : none;
}

/* Where row `trip` begins in the tensor, by dimension. */
ALWAYS_INLINE void row_coordinates(const Region *r, const Loops *at, const int64_t *trip, int64_t *out) {
    for (int t = 0; t < RANK; t++) out[t] = r->coord[t] + r->step[t] * at->index[r->level[t]];
    for (int d = 0; d < RANK; d++) out[r->axis[d]] += r->hop[d] * trip[d];
}

/* Inside range of a row that runs along `axis`; empty where another coordinate is outside. */
ALWAYS_INLINE Inside row_inside(const Region *r, const int64_t *coordinate, int axis, int64_t hop, int64_t n) {
    Inside none = {0, 0};
    for (int t = 0; t < RANK; t++)
        if (t != axis && (coordinate[t] < 0 || coordinate[t] >= r->extent[t])) return none;
    return inside_of(coordinate[axis], hop, r->extent[axis], n);
}

/* The tensor's element where a row, which begins at `coordinate`, is inside first: at its element `low`. */
ALWAYS_INLINE int64_t first_inside(const Region *r, const int64_t *coordinate, int last, int64_t low) {
    int64_t element = low * r->hop[last];
    element = (coordinate[r->axis[last]] + element) * r->stride[r->axis[last]];
    for (int t = 0; t < RANK; t++) if (t != r->axis[last]) element += coordinate[t] * r->stride[t];
    return element;
}

ALWAYS_INLINE void gather_row(int to_format, int64_t n, char *to, int64_t ts, int from_format,
                              const char *from, int64_t fs) {
    if (to_format != from_format) {
        Conversion c = recoded(to_format, from_format);
        convert_row(&c, n, to, ts, from, fs);
        return;
    }
    switch (FORMAT_BYTES[to_format]) {
    case 1: copy_row(1, n, to, ts, from, fs); break;
    case 2: copy_row(2, n, to, ts, from, fs); break;
    default: copy_row(4, n, to, ts, from, fs); break;
    }
}

ALWAYS_INLINE void gather_body(const Word *w, const Loops *at, float *scratchpad, const char *tensor) {
    const Region *r = &w->region;
    const int to_bytes = FORMAT_BYTES[w->format], from_bytes = FORMAT_BYTES[r->format];
    int last = RANK - 1;
    while (last > 0 && r->size[last] == 1) last--;
    int64_t n = r->size[last], hop = r->hop[last], ts = w->nest.stride[0][last];
    int64_t trip[RANK] = {0}, offset[1] = {0}, coordinate[RANK];
    float pad;
    narrow_row(w->format, 0, 1, &pad, 1, &w->p0);
    char *base = (char *)scratchpad + address_of(&w->operand[0], at);
    do {
        char *to = base + offset[0] * to_bytes;
        row_coordinates(r, at, trip, coordinate);
        Inside in = row_inside(r, coordinate, r->axis[last], hop, n);
        pad_row(w->format, in.low, to, ts, (const char *)&pad);
        pad_row(w->format, n - in.high, to + in.high * ts * to_bytes, ts, (const char *)&pad);
        if (in.low == in.high) continue;
        int64_t element = first_inside(r, coordinate, last, in.low);
        gather_row(w->format, in.high - in.low, to + in.low * ts * to_bytes, ts, r->format,
                   tensor + element * from_bytes, hop * r->stride[r->axis[last]]);
    } while (next_row(&w->nest, last, 1, trip, offset));
}

VERSIONS(gather, (const Word *w, const Loops *at, float *scratchpad, const char *tensor),
         (w, at, scratchpad, tensor))

#endif

/* LOOKUP: rows of a DRAM tensor that numbers in the scratchpad choose. */
#ifndef AUTOTUNE_LOOKUP_H
#define AUTOTUNE_LOOKUP_H

#include "micro/transfer.h"

/* The row that a number names: towards zero, and into [0, extent) from outside of it; NaN is row 0. */
ALWAYS_INLINE int64_t row_named(float number, int64_t extent) {
    if (!(number > 0.0f)) return 0;
    return number >= (float)extent ? extent - 1 : (int64_t)number < extent ? (int64_t)number : extent - 1;
}

/* `to` and `index` lie apart. */
static void lookup(const Word *w, const Loops *at, char *to, const float *index, const char *tensor) {
    Region row = w->region;
    row.size[0] = 1;
    row.step[0] = 0;
    int64_t ahead = w->nest.stride[0][0] * FORMAT_BYTES[w->format];
    for (int64_t i = 0; i < w->region.size[0]; i++) {
        row.coord[0] = row_named(index[i * w->nest.stride[1][0]], row.extent[0]);
        load_region(&row, w, at, to + i * ahead, tensor);
    }
}

#endif

/* Operands of gemm.h copied into panels that a register tile reads in order.
 *
 * Copies walk the reduction in stretches of constant stride, along its innermost dimension. */
#ifndef AUTOTUNE_GEMM_PACK_H
#define AUTOTUNE_GEMM_PACK_H

#include <string.h>

#include "micro/word.h"

#define NR 16 /* columns of a panel, and of a register tile */

/* NR neighbouring columns: where they lie in the operands. */
typedef struct {
    int cols;             /* that exist; the others are padding */
    int b_whole, c_whole; /* NR floats side by side in b; in c, residual and bias */
    int64_t b[NR], c[NR], r[NR], bias[NR]; /* offsets; of whole columns only the first is known */
} Columns;

/* Rows are dealt out evenly: a tile of few rows would wait for its own sums. */
typedef struct { int tiles, fewest, larger; } Split;

ALWAYS_INLINE Split split_rows(int rows, int most) {
    int tiles = (rows + most - 1) / most;
    Split s = {tiles, rows / tiles, rows % tiles};
    return s;
}

ALWAYS_INLINE int rows_of(const Split *s, int tile) { return s->fewest + (tile < s->larger); }

/* Position in the three nested reductions. */
typedef struct { int64_t k2, k1, k0; } Depth;

ALWAYS_INLINE Depth depth_at(const Product *p, int64_t k) {
    Depth d = {k / (p->k1 * p->k0), k / p->k0 % p->k1, k % p->k0};
    return d;
}

/* Goes to the end of the innermost dimension, at most `most` further; returns how far that was. */
ALWAYS_INLINE int64_t deeper(const Product *p, Depth *d, int64_t most) {
    int64_t here = p->k0 - d->k0;
    if (here > most) here = most;
    d->k0 += here;
    if (d->k0 < p->k0) return here;
    d->k0 = 0;
    if (++d->k1 < p->k1) return here;
    d->k1 = 0;
    d->k2++;
    return here;
}

/* The one stride of the reduction in an operand, or -1 if it takes several. */
ALWAYS_INLINE int64_t only_stride(int64_t k2, int64_t k1, int64_t k0, int64_t s2, int64_t s1, int64_t s0) {
    int64_t stride = s0, reach = k0 * s0;
    if (k0 == 1) { stride = s1; reach = s1; }
    if (k1 > 1) {
        if (k0 > 1 && s1 != reach) return -1;
        reach = k1 * s1;
    }
    if (k0 == 1 && k1 == 1) stride = s2;
    else if (k2 > 1 && s2 != reach) return -1;
    return stride;
}

/* Two copies of SIZE bytes that may overlap move any count of floats from SIZE / 4 to SIZE / 2. */
#define COPY_ENDS(SIZE)                                                                       \
    for (int64_t i = 0; i < steps; i++, to += NR, from += stride) {                            \
        memcpy(to, from, SIZE);                                                               \
        memcpy(to + count - SIZE / 4, from + count - SIZE / 4, SIZE);                          \
    }

/* `count` neighbouring columns over `steps` of the reduction. */
ALWAYS_INLINE void pack_run(float *to, const float *from, int count, int64_t stride, int64_t steps) {
    if (count >= 8) { COPY_ENDS(32) }
    else if (count >= 4) { COPY_ENDS(16) }
    else if (count >= 2) { COPY_ENDS(8) }
    else { COPY_ENDS(4) }
}

/* Where the columns' runs of neighbours in b begin, then their end; returns how many runs. */
ALWAYS_INLINE int column_runs(const Columns *at, int *first) {
    int runs = 1;
    first[0] = 0;
    if (!at->b_whole)
        for (int j = 1; j < at->cols; j++)
            if (at->b[j] != at->b[j - 1] + 1) first[runs++] = j;
    first[runs] = at->cols;
    return runs;
}

/* panel[k][j] = b[k, column j], padding is 0 */
ALWAYS_INLINE void pack_columns(const Product *p, const float *b, int64_t k, int64_t depth,
                                const Columns *at, float *panel) {
    int first[NR + 1], runs = column_runs(at, first);
    Depth d = depth_at(p, k);
    if (at->cols < NR) memset(panel, 0, sizeof(float) * NR * depth);
    while (depth > 0) {
        const float *from = b + d.k2 * p->b_k2 + d.k1 * p->b_k1 + d.k0 * p->b_k0;
        int64_t steps = deeper(p, &d, depth);
        if (runs <= NR / 2) {
            for (int r = 0; r < runs; r++)
                pack_run(panel + first[r], from + at->b[first[r]], first[r + 1] - first[r], p->b_k0, steps);
        } else {
            for (int64_t i = 0; i < steps; i++, from += p->b_k0)
                for (int j = 0; j < at->cols; j++) panel[i * NR + j] = from[at->b[j]];
        }
        depth -= steps;
        panel += steps * NR;
    }
}

/* panel[tile][k][i] = a[row i of the tile, k] */
ALWAYS_INLINE void pack_rows(const Product *p, const float *a, int64_t k, int64_t depth, const Split *split,
                             float *panel) {
    for (int t = 0; t < split->tiles; t++) {
        int rows = rows_of(split, t);
        Depth d = depth_at(p, k);
        for (int64_t done = 0, steps; done < depth; done += steps, panel += steps * rows) {
            const float *from = a + d.k2 * p->a_k2 + d.k1 * p->a_k1 + d.k0 * p->a_k0;
            steps = deeper(p, &d, depth - done);
            if (p->a_m == 1) {
                for (int64_t s = 0; s < steps; s++)
                    for (int i = 0; i < rows; i++) panel[s * rows + i] = from[i + s * p->a_k0];
                continue;
            }
            for (int i = 0; i < rows; i++)
                for (int64_t s = 0; s < steps; s++) panel[s * rows + i] = from[i * p->a_m + s * p->a_k0];
        }
        a += rows * p->a_m;
    }
}

#endif

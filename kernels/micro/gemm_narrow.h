/* Products of narrow operands: blocks of them are widened to fp32 and multiplied as such.
 *
 * bf16: a product of two is exact in fp32, so that sums depend on their order alone, which is that
 * of fp32 products: ascending k in blocks of NARROW_DEPTH, each from 0, added to c in turn.
 * INT8, UINT8: exact. A block is as deep as its sums stay within 2^24, where fp32 holds every
 * integer (NARROW_DEPTH unless zero points lie far out); blocks are added to c modulo 2^32. */
#ifndef AUTOTUNE_GEMM_NARROW_H
#define AUTOTUNE_GEMM_NARROW_H

#include "micro/convert.h"
#include "micro/gemm.h"

#define NARROW_DEPTH GEMM_BLOCK
#define NARROW_COLUMNS 512
#define NARROW_ROWS 96
/* floats of workspace: blocks of a, b and of sums, and what the fp32 product takes */
#define NARROW_BLOCKS (NARROW_DEPTH * (NARROW_COLUMNS + NARROW_ROWS) + NARROW_COLUMNS * NARROW_ROWS)
#define NARROW_WORKSPACE (NARROW_BLOCKS + GEMM_WORKSPACE)

/* One block of a product: `k` to `k + depth`, `rows` from `row`, columns by n1 and n0. */
typedef struct {
    int64_t k, depth, row, rows, first1, count1, first0, count0;
} NarrowBlock;

typedef struct { int64_t k2, k1, k0; } Reduction;

ALWAYS_INLINE Reduction reduction_at(const Product *p, int64_t k) {
    Reduction at = {k / (p->k1 * p->k0), k / p->k0 % p->k1, k % p->k0};
    return at;
}

/* out[k][n1][n0] = b of the block */
ALWAYS_INLINE void widen_columns(const Product *p, int format, const char *b, const NarrowBlock *at, float *out) {
    for (int64_t k = at->k; k < at->k + at->depth; k++) {
        Reduction r = reduction_at(p, k);
        int64_t element = r.k2 * p->b_k2 + r.k1 * p->b_k1 + r.k0 * p->b_k0 + at->first0 * p->b_n0;
        for (int64_t n1 = at->first1; n1 < at->first1 + at->count1; n1++, out += at->count0)
            widen_row(format, p->b_zero, at->count0, out, b + (element + n1 * p->b_n1) * FORMAT_BYTES[format], p->b_n0);
    }
}

/* out[m][k] = a of the block, by runs of the innermost reduction */
ALWAYS_INLINE void widen_rows(const Product *p, int format, const char *a, const NarrowBlock *at, float *out) {
    int joins = p->k1 == 1 || p->a_k1 == p->k0 * p->a_k0; /* k1 and k0 are one */
    int64_t inner = joins ? p->k1 * p->k0 : p->k0, end = at->k + at->depth;
    for (int64_t m = at->row; m < at->row + at->rows; m++)
        for (int64_t k = at->k, run; k < end; k += run, out += run) {
            Reduction r = reduction_at(p, k);
            run = inner - k % inner < end - k ? inner - k % inner : end - k;
            int64_t element = m * p->a_m + r.k2 * p->a_k2 + r.k1 * p->a_k1 + r.k0 * p->a_k0;
            widen_row(format, p->a_zero, run, out, a + element * FORMAT_BYTES[format], p->a_k0);
        }
}

/* The format is known in each case, so that no element asks for it. */
#define BY_FORMAT(FORMAT, CALL)                                      \
    switch (FORMAT) {                                                \
    case FORMAT_BF16: { enum { format = FORMAT_BF16 }; CALL; } break; \
    case FORMAT_INT8: { enum { format = FORMAT_INT8 }; CALL; } break; \
    default: { enum { format = FORMAT_UINT8 }; CALL; } break;         \
    }

/* c, biases and residual of one row of integer sums; the latter two NULL where there are none. */
typedef struct {
    Whole *c;
    const Whole *row_bias, *col_bias, *residual;
} IntegerRow;

ALWAYS_INLINE void drain_integer_row(const Product *p, const Drain *d, const float *sum, int64_t n, IntegerRow at) {
    for (int64_t j = 0; j < n; j++) {
        Whole *out = at.c + j * p->c_n0;
        uint32_t x = (uint32_t)(int32_t)sum[j] + (d->adds ? (uint32_t)*out : 0);
        if (d->ends) {
            if (at.row_bias) x += (uint32_t)*at.row_bias;
            if (at.col_bias) x += (uint32_t)at.col_bias[j];
            if (at.residual) x += (uint32_t)at.residual[j * p->r_n0];
            if (d->fn == FN_RELU && (int32_t)x < 0) x = 0;
        }
        *out = (int32_t)x;
    }
}

/* c (+)= sums of the block, and the epilogue where they are finished; all of it INT32. */
ALWAYS_INLINE void drain_integers(const Product *p, const Drain *d, const NarrowBlock *at, const float *sums, Whole *c) {
    const Whole *row_bias = (const Whole *)d->row_bias, *col_bias = (const Whole *)d->col_bias;
    const Whole *residual = (const Whole *)d->residual;
    for (int64_t m = at->row; m < at->row + at->rows; m++)
        for (int64_t n1 = at->first1; n1 < at->first1 + at->count1; n1++, sums += at->count0) {
            IntegerRow row = {
                c + m * p->c_m + n1 * p->c_n1 + at->first0 * p->c_n0,
                row_bias ? row_bias + m : 0, col_bias ? col_bias + at->first0 : 0,
                residual ? residual + m * p->r_m + n1 * p->r_n1 + at->first0 * p->r_n0 : 0,
            };
            if (p->c_n0 == 1 && !d->ends) { /* known strides, so that it vectorises */
                Product dense = {.c_n0 = 1};
                Drain inner = {.adds = d->adds};
                drain_integer_row(&dense, &inner, sums, at->count0, row);
            } else {
                drain_integer_row(p, d, sums, at->count0, row);
            }
        }
}

/* The fp32 product of widened rows and columns; into c for bf16, into sums for integers. */
ALWAYS_INLINE void multiply_block(const Product *p, const Drain *d, const NarrowBlock *at, float *c, float *work) {
    float *columns = work, *rows = columns + NARROW_DEPTH * NARROW_COLUMNS;
    float *sums = rows + NARROW_DEPTH * NARROW_ROWS;
    int64_t width = at->count1 * at->count0;
    Product q = {.m = at->rows, .n1 = at->count1, .n0 = at->count0, .k2 = 1, .k1 = 1, .k0 = at->depth,
                 .a_m = at->depth, .a_k0 = 1, .b_k0 = width, .b_n1 = at->count0, .b_n0 = 1,
                 .c_m = width, .c_n1 = at->count0, .c_n0 = 1, .r_m = p->r_m, .r_n1 = p->r_n1, .r_n0 = p->r_n0};
    Drain drain = {.scale = 1.0f};
    if (p->a_format != FORMAT_BF16) {
        gemm(&q, &drain, rows, columns, sums, work + NARROW_BLOCKS);
        drain_integers(p, d, at, sums, (Whole *)c);
        return;
    }
    q.c_m = p->c_m;
    q.c_n1 = p->c_n1;
    q.c_n0 = p->c_n0;
    drain = *d;
    if (d->row_bias) drain.row_bias += at->row;
    if (d->col_bias) drain.col_bias += at->first0;
    if (d->residual) drain.residual += at->row * p->r_m + at->first1 * p->r_n1 + at->first0 * p->r_n0;
    c += at->row * p->c_m + at->first1 * p->c_n1 + at->first0 * p->c_n0;
    gemm(&q, &drain, rows, columns, c, work + NARROW_BLOCKS);
}

/* Largest distance of an element from its zero point. */
ALWAYS_INLINE int64_t farthest(int format, int64_t zero) {
    int64_t down = zero - lowest_of(format), up = highest_of(format) - zero;
    return down > up ? down : up;
}

ALWAYS_INLINE int64_t block_depth(const Product *p) {
    if (p->a_format == FORMAT_BF16) return NARROW_DEPTH;
    int64_t depth = (1 << 24) / (farthest(p->a_format, p->a_zero) * farthest(p->b_format, p->b_zero));
    return depth < NARROW_DEPTH ? depth : NARROW_DEPTH;
}

ALWAYS_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* All reductions and rows of the block's columns. */
ALWAYS_INLINE void narrow_columns(const Product *p, const Drain *last, const char *a, const char *b,
                                  float *c, float *work, NarrowBlock at) {
    int64_t reduction = p->k2 * p->k1 * p->k0, deepest = block_depth(p);
    Drain d = *last;
    for (at.k = 0; at.k < reduction; at.k += deepest) {
        at.depth = least(reduction - at.k, deepest);
        d.adds = last->adds || at.k > 0;
        d.ends = last->ends && at.k + at.depth == reduction;
        BY_FORMAT(p->b_format, widen_columns(p, format, b, &at, work))
        for (at.row = 0; at.row < p->m; at.row += NARROW_ROWS) {
            at.rows = least(p->m - at.row, NARROW_ROWS);
            BY_FORMAT(p->a_format, widen_rows(p, format, a, &at, work + NARROW_DEPTH * NARROW_COLUMNS))
            multiply_block(p, &d, &at, c, work);
        }
    }
}

/* The whole product; `work` has NARROW_WORKSPACE floats. `last` is what happens to finished sums. */
ALWAYS_INLINE void gemm_narrow_body(const Product *p, const Drain *last, const char *a, const char *b,
                                    float *c, float *work) {
    NarrowBlock at = {0};
    int64_t step0 = least(p->n0, NARROW_COLUMNS), step1 = NARROW_COLUMNS / step0; /* whole rows where n0 is short */
    for (at.first1 = 0; at.first1 < p->n1; at.first1 += step1)
        for (at.first0 = 0; at.first0 < p->n0; at.first0 += step0) {
            at.count1 = least(p->n1 - at.first1, step1);
            at.count0 = least(p->n0 - at.first0, step0);
            narrow_columns(p, last, a, b, c, work, at);
        }
}

VERSIONS(gemm_narrow,
         (const Product *p, const Drain *last, const char *a, const char *b, float *c, float *work),
         (p, last, a, b, c, work))

#endif

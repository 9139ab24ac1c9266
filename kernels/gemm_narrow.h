/* Products of narrow operands: panels widened to fp32 run through the tiles of fp32 products.
 *
 * bf16: products of two are exact in fp32, so that sums differ from nothing but their order, which
 * is that of fp32 products: ascending k in blocks of KC, each from 0, added to c one by one.
 * INT8, UINT8: exact. A block of the reduction is as deep as its sums stay within 2^24, where fp32
 * holds every integer: KC for INT8 and for UINT8 around 128. Blocks are added modulo 2^32. */
#ifndef AUTOTUNE_GEMM_NARROW_H
#define AUTOTUNE_GEMM_NARROW_H

#include "convert.h"
#include "gemm.h"

/* panel[k][j] = b[k, col + j], columns beyond the last are 0 */
ALWAYS_INLINE void widen_columns(const Product *p, int format, const char *b, int64_t k, int64_t depth,
                                 int64_t col, int cols, float *panel) {
    int64_t offset[NR], n1 = p->n1 == 1 ? 0 : col / p->n0, n0 = p->n1 == 1 ? col : col % p->n0;
    int dense = cols == NR && p->b_n0 == 1;
    for (int j = 0; j < cols; j++) {
        offset[j] = n1 * p->b_n1 + n0 * p->b_n0;
        dense &= offset[j] == offset[0] + j;
        if (++n0 == p->n0) { n0 = 0; n1++; }
    }
    Depth d = depth_at(p, k);
    const int bytes = FORMAT_BYTES[format];
    for (int64_t i = 0; i < depth; i++, panel += NR, deeper(p, &d)) {
        const char *from = b + (d.k2 * p->b_k2 + d.k1 * p->b_k1 + d.k0 * p->b_k0) * bytes;
        if (dense) { widen_row(format, p->b_zero, NR, panel, from + offset[0] * bytes, 1); continue; }
        for (int j = 0; j < cols; j++) widen_row(format, p->b_zero, 1, panel + j, from + offset[j] * bytes, 1);
        for (int j = cols; j < NR; j++) panel[j] = 0.0f;
    }
}

/* panel[i][k] = a[row + i, k]: runs of the innermost reduction */
ALWAYS_INLINE void widen_rows(const Product *p, int format, const char *a, int64_t k, int64_t depth,
                              int64_t row, int64_t rows, float *panel) {
    const int bytes = FORMAT_BYTES[format];
    int joins = p->k1 == 1 || p->a_k1 == p->k0 * p->a_k0; /* k1 and k0 are one */
    int64_t inner = joins ? p->k1 * p->k0 : p->k0;
    for (int64_t i = 0; i < rows; i++, panel += depth) {
        for (int64_t at = 0, run; at < depth; at += run) {
            Depth d = depth_at(p, k + at);
            int64_t left = inner - (k + at) % inner;
            run = left < depth - at ? left : depth - at;
            int64_t element = (row + i) * p->a_m + d.k2 * p->a_k2 + d.k1 * p->a_k1 + d.k0 * p->a_k0;
            widen_row(format, p->a_zero, run, panel + at, a + element * bytes, p->a_k0);
        }
    }
}

/* The format is known in each case, so that no element asks for it. */
#define BY_FORMAT(FORMAT, CALL)                                      \
    switch (FORMAT) {                                                \
    case FORMAT_BF16: { enum { format = FORMAT_BF16 }; CALL; } break; \
    case FORMAT_INT8: { enum { format = FORMAT_INT8 }; CALL; } break; \
    default: { enum { format = FORMAT_UINT8 }; CALL; } break;         \
    }

ALWAYS_INLINE int32_t drained_integer(int32_t sum, int32_t row_bias, const Whole *col_bias,
                                      const Whole *residual, int fn) {
    uint32_t x = (uint32_t)sum + (uint32_t)row_bias;
    if (col_bias) x += (uint32_t)*col_bias;
    if (residual) x += (uint32_t)*residual;
    return fn == FN_RELU && (int32_t)x < 0 ? 0 : (int32_t)x;
}

/* As drain_tile, modulo 2^32; c, biases and residual are INT32. */
ALWAYS_INLINE void drain_integers(const Product *p, const Drain *d, const float *tile, Whole *c,
                                  int64_t row, int rows, int64_t col, int cols) {
    const Whole *row_bias = (const Whole *)d->row_bias, *col_bias = (const Whole *)d->col_bias;
    const Whole *residual = (const Whole *)d->residual;
    int64_t outer = p->n1 == 1 ? 0 : col / p->n0, inner = p->n1 == 1 ? col : col % p->n0;
    for (int i = 0; i < rows; i++, tile += NR) {
        Whole *line = c + (row + i) * p->c_m;
        int64_t n1 = outer, n0 = inner;
        if (!d->ends && p->c_n0 == 1 && inner + cols <= p->n0) {
            Whole *out = line + n1 * p->c_n1 + n0;
            if (d->adds) for (int j = 0; j < cols; j++) out[j] = (int32_t)((uint32_t)out[j] + (uint32_t)(int32_t)tile[j]);
            else for (int j = 0; j < cols; j++) out[j] = (int32_t)tile[j];
            continue;
        }
        for (int j = 0; j < cols; j++) {
            Whole *out = line + n1 * p->c_n1 + n0 * p->c_n0;
            int32_t sum = (int32_t)((uint32_t)(int32_t)tile[j] + (d->adds ? (uint32_t)*out : 0));
            *out = !d->ends ? sum
                 : drained_integer(sum, row_bias ? row_bias[row + i] : 0, col_bias ? col_bias + n0 : 0,
                                   residual ? residual + (row + i) * p->r_m + n1 * p->r_n1 + n0 * p->r_n0 : 0,
                                   d->fn);
            if (++n0 == p->n0) { n0 = 0; n1++; }
        }
    }
}

/* The rows and columns of one block of the reduction. */
ALWAYS_INLINE void narrow_block(const Product *p, const Drain *d, const char *a, const char *b, void *c,
                                int64_t k, int64_t depth, int64_t col, int64_t cols, float *work) {
    float *a_panel = work + KC * NC;
    float tile[MR * NR];
    for (int64_t j = 0; j < cols; j += NR) {
        int width = (int)(cols - j < NR ? cols - j : NR);
        BY_FORMAT(p->b_format, widen_columns(p, format, b, k, depth, col + j, width, work + j * depth))
    }
    for (int64_t first = 0; first < p->m; first += MC) {
        int64_t last = first + MC < p->m ? first + MC : p->m;
        BY_FORMAT(p->a_format, widen_rows(p, format, a, k, depth, first, last - first, a_panel))
        for (int64_t j = 0; j < cols; j += NR) {
            int width = (int)(cols - j < NR ? cols - j : NR);
            for (int64_t i = first; i < last; i += MR) {
                int rows = (int)(last - i < MR ? last - i : MR);
                tile_product(rows, depth, a_panel + (i - first) * depth, depth, 1, work + j * depth, NR, tile);
                if (p->a_format == FORMAT_BF16) drain_tile(p, d, tile, (float *)c, i, rows, col + j, width);
                else drain_integers(p, d, tile, (Whole *)c, i, rows, col + j, width);
            }
        }
    }
}

/* Largest distance of an element from its zero point. */
ALWAYS_INLINE int64_t farthest(int format, int64_t zero) {
    int64_t down = zero - lowest_of(format), up = highest_of(format) - zero;
    return down > up ? down : up;
}

ALWAYS_INLINE int64_t block_depth(const Product *p) {
    if (p->a_format == FORMAT_BF16) return KC;
    int64_t depth = (1 << 24) / (farthest(p->a_format, p->a_zero) * farthest(p->b_format, p->b_zero));
    return depth < KC ? depth : KC;
}

/* The whole product; `work` has GEMM_WORKSPACE floats. `last` is what happens to finished sums. */
ALWAYS_INLINE void gemm_narrow_body(const Product *p, const Drain *last, const char *a, const char *b,
                                    void *c, float *work) {
    int64_t columns = p->n1 * p->n0, reduction = p->k2 * p->k1 * p->k0, block = block_depth(p);
    for (int64_t col = 0; col < columns; col += NC) {
        int64_t cols = columns - col < NC ? columns - col : NC;
        for (int64_t k = 0; k < reduction; k += block) {
            Drain d = *last;
            d.adds = last->adds || k > 0;
            d.ends = last->ends && k + block >= reduction;
            narrow_block(p, &d, a, b, c, k, reduction - k < block ? reduction - k : block, col, cols, work);
        }
    }
}

VERSIONS(gemm_narrow,
         (const Product *p, const Drain *last, const char *a, const char *b, void *c, float *work),
         (p, last, a, b, c, work))

#endif

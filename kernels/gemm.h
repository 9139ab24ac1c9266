/* Batch-reduce matrix multiply on a float32 scratchpad.
 *
 * c[m,n1,n0] (+)= sum over k2,k1,k0 of a[m,k..] * b[k..,n1,n0], tiled MR x NR in registers. Operands
 * with one reduction stride and whole rows are read in place; the rest is packed into panels first,
 * KC reductions and NC columns at a time, so that the panels stay in the caches. */
#ifndef AUTOTUNE_GEMM_H
#define AUTOTUNE_GEMM_H

#include <string.h>

#include "word.h"

#define MR 6
#define NR 16
#define KC 256
#define NC 512
#define MC 96
/* floats of workspace that one thread needs */
#define GEMM_WORKSPACE (KC * NC + KC * (MC + MR) + 64)

#if defined(__GNUC__)
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
#else
typedef struct { float x[8]; } v8;
#endif

/* tile[MR][NR] = sum over k of a[i*a_row + k*a_k] * b[k*b_k + j] */
#if defined(__GNUC__)
#define TILE(ROWS)                                                                        \
    ALWAYS_INLINE void tile_##ROWS(int64_t depth, const float *a, int64_t a_row,           \
                                   int64_t a_k, const float *b, int64_t b_k, float *out) { \
        v8 acc[ROWS][2];                                                                  \
        for (int i = 0; i < ROWS; i++) acc[i][0] = acc[i][1] = (v8){0};                   \
        for (int64_t k = 0; k < depth; k++, a += a_k, b += b_k) {                          \
            v8 lo = *(const v8 *)b, hi = *(const v8 *)(b + 8);                             \
            _Pragma("GCC unroll 6") for (int i = 0; i < ROWS; i++) {                       \
                float x = a[i * a_row];                                                   \
                acc[i][0] += x * lo;                                                      \
                acc[i][1] += x * hi;                                                      \
            }                                                                             \
        }                                                                                 \
        _Pragma("GCC unroll 6") for (int i = 0; i < ROWS; i++) {                           \
            *(v8 *)(out + i * NR) = acc[i][0];                                            \
            *(v8 *)(out + i * NR + 8) = acc[i][1];                                        \
        }                                                                                 \
    }
#else
#define TILE(ROWS)                                                                        \
    ALWAYS_INLINE void tile_##ROWS(int64_t depth, const float *a, int64_t a_row,           \
                                   int64_t a_k, const float *b, int64_t b_k, float *out) { \
        memset(out, 0, sizeof(float) * ROWS * NR);                                        \
        for (int64_t k = 0; k < depth; k++)                                               \
            for (int i = 0; i < ROWS; i++)                                                \
                for (int j = 0; j < NR; j++)                                              \
                    out[i * NR + j] += a[i * a_row + k * a_k] * b[k * b_k + j];           \
    }
#endif
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

ALWAYS_INLINE void tile_product(int rows, int64_t depth, const float *a, int64_t a_row, int64_t a_k,
                                const float *b, int64_t b_k, float *out) {
    switch (rows) {
    case 1: tile_1(depth, a, a_row, a_k, b, b_k, out); break;
    case 2: tile_2(depth, a, a_row, a_k, b, b_k, out); break;
    case 3: tile_3(depth, a, a_row, a_k, b, b_k, out); break;
    case 4: tile_4(depth, a, a_row, a_k, b, b_k, out); break;
    case 5: tile_5(depth, a, a_row, a_k, b, b_k, out); break;
    default: tile_6(depth, a, a_row, a_k, b, b_k, out); break;
    }
}

/* What happens to a tile on its way out: c = fn(scale * sum + bias + residual) where it `ends`. */
typedef struct {
    int adds, ends;         /* add to c; the sums are finished: apply all of the below */
    float scale;            /* of the finished sum; 1 leaves it as it is */
    const float *row_bias;  /* bias[m] or NULL */
    const float *col_bias;  /* bias[n0] or NULL */
    const float *residual;  /* residual[m, n1, n0], strides r_* of Product, or NULL */
    int fn;
    float p0, p1;
} Drain;

enum { FN_COPY = 0, FN_RELU = 1, FN_LEAKY_RELU = 2, FN_CLIP = 3 };

ALWAYS_INLINE float activated(float x, int fn, float p0, float p1) {
    if (fn == FN_RELU) return x < 0.0f ? 0.0f : x;
    if (fn == FN_LEAKY_RELU) return x < 0.0f ? p0 * x : x;
    if (fn == FN_CLIP) return x < p0 ? p0 : (x > p1 ? p1 : x);
    return x;
}

/* One row of a tile whose columns lie side by side in c. */
ALWAYS_INLINE void drain_dense(const float *tile, float *c, int cols, int row_known, float row_bias,
                               const float *col_bias, const float *residual, const Drain *d) {
    if (d->adds) { INDEPENDENT for (int j = 0; j < cols; j++) c[j] += tile[j]; }
    else { INDEPENDENT for (int j = 0; j < cols; j++) c[j] = tile[j]; }
    if (!d->ends) return;
    if (d->scale != 1.0f) { INDEPENDENT for (int j = 0; j < cols; j++) c[j] *= d->scale; }
    if (row_known) { INDEPENDENT for (int j = 0; j < cols; j++) c[j] += row_bias; }
    if (col_bias) { INDEPENDENT for (int j = 0; j < cols; j++) c[j] += col_bias[j]; }
    if (residual) { INDEPENDENT for (int j = 0; j < cols; j++) c[j] += residual[j]; }
    if (d->fn == FN_RELU) { INDEPENDENT for (int j = 0; j < cols; j++) c[j] = c[j] < 0.0f ? 0.0f : c[j]; }
    else if (d->fn != FN_COPY) {
        INDEPENDENT for (int j = 0; j < cols; j++) c[j] = activated(c[j], d->fn, d->p0, d->p1);
    }
}

ALWAYS_INLINE void drain_tile(const Product *p, const Drain *d, const float *tile, float *c,
                              int64_t row, int rows, int64_t col, int cols) {
    int64_t outer = p->n1 == 1 ? 0 : col / p->n0, inner = p->n1 == 1 ? col : col % p->n0;
    int dense = p->c_n0 == 1 && inner + cols <= p->n0 && (!d->residual || p->r_n0 == 1);
    for (int i = 0; i < rows; i++, tile += NR) {
        float *line = c + (row + i) * p->c_m;
        const float *add = d->residual ? d->residual + (row + i) * p->r_m : 0;
        float bias = d->ends && d->row_bias ? d->row_bias[row + i] : 0.0f;
        if (dense) {
            const float *side = d->col_bias ? d->col_bias + inner : 0;
            if (add) add += outer * p->r_n1 + inner;
            float *out = line + outer * p->c_n1 + inner;
            if (cols == NR) drain_dense(tile, out, NR, d->row_bias != 0, bias, side, add, d);
            else drain_dense(tile, out, cols, d->row_bias != 0, bias, side, add, d);
            continue;
        }
        int64_t n1 = outer, n0 = inner;
        for (int j = 0; j < cols; j++) {
            float *out = line + n1 * p->c_n1 + n0 * p->c_n0;
            float x = d->adds ? *out + tile[j] : tile[j];
            if (d->ends) {
                x = x * d->scale + bias + (d->col_bias ? d->col_bias[n0] : 0.0f);
                if (add) x += add[n1 * p->r_n1 + n0 * p->r_n0];
                x = activated(x, d->fn, d->p0, d->p1);
            }
            *out = x;
            if (++n0 == p->n0) { n0 = 0; n1++; }
        }
    }
}

/* Position in the three nested reductions. */
typedef struct { int64_t k2, k1, k0; } Depth;

ALWAYS_INLINE Depth depth_at(const Product *p, int64_t k) {
    Depth d = {k / (p->k1 * p->k0), k / p->k0 % p->k1, k % p->k0};
    return d;
}

ALWAYS_INLINE void deeper(const Product *p, Depth *d) {
    if (++d->k0 < p->k0) return;
    d->k0 = 0;
    if (++d->k1 < p->k1) return;
    d->k1 = 0;
    d->k2++;
}

/* panel[k][j] = b[k, col + j], columns beyond the last are 0 */
ALWAYS_INLINE void pack_columns(const Product *p, const float *b, int64_t k, int64_t depth,
                                int64_t col, int cols, float *panel) {
    int64_t offset[NR], n1 = p->n1 == 1 ? 0 : col / p->n0, n0 = p->n1 == 1 ? col : col % p->n0;
    int dense = cols == NR && p->b_n0 == 1;
    for (int j = 0; j < cols; j++) {
        offset[j] = n1 * p->b_n1 + n0 * p->b_n0;
        dense &= offset[j] == offset[0] + j;
        if (++n0 == p->n0) { n0 = 0; n1++; }
    }
    Depth d = depth_at(p, k);
    for (int64_t i = 0; i < depth; i++, panel += NR, deeper(p, &d)) {
        const float *from = b + d.k2 * p->b_k2 + d.k1 * p->b_k1 + d.k0 * p->b_k0;
        if (dense) { memcpy(panel, from + offset[0], NR * sizeof(float)); continue; }
        for (int j = 0; j < cols; j++) panel[j] = from[offset[j]];
        for (int j = cols; j < NR; j++) panel[j] = 0.0f;
    }
}

/* panel[k][i] = a[row + i, k], row stride MR */
ALWAYS_INLINE void pack_rows(const Product *p, const float *a, int64_t k, int64_t depth, int64_t row,
                             int rows, float *panel) {
    Depth d = depth_at(p, k);
    a += row * p->a_m;
    for (int64_t i = 0; i < depth; i++, panel += MR, deeper(p, &d)) {
        const float *from = a + d.k2 * p->a_k2 + d.k1 * p->a_k1 + d.k0 * p->a_k0;
        for (int j = 0; j < rows; j++) panel[j] = from[j * p->a_m];
    }
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

/* The rows and columns of one block of the reduction. */
ALWAYS_INLINE void gemm_block(const Product *p, const Drain *d, const float *a, const float *b, float *c,
                              int64_t k, int64_t depth, int64_t col, int64_t cols, float *work) {
    int64_t a_only = only_stride(p->k2, p->k1, p->k0, p->a_k2, p->a_k1, p->a_k0);
    int64_t b_only = only_stride(p->k2, p->k1, p->k0, p->b_k2, p->b_k1, p->b_k0);
    float *a_panel = work + KC * NC;
    float tile[MR * NR];
    for (int64_t first = 0; first < p->m; first += MC) {
        int64_t last = first + MC < p->m ? first + MC : p->m;
        if (a_only < 0)
            for (int64_t i = first; i < last; i += MR)
                pack_rows(p, a, k, depth, i, (int)(last - i < MR ? last - i : MR),
                          a_panel + (i - first) * depth);
        for (int64_t j = 0; j < cols; j += NR) {
            int width = (int)(cols - j < NR ? cols - j : NR);
            const float *right = work + j * depth;
            int64_t b_row = NR, inner = (col + j) % p->n0;
            if (b_only >= 0 && p->b_n0 == 1 && width == NR && inner + NR <= p->n0) {
                right = b + k * b_only + (col + j) / p->n0 * p->b_n1 + inner;
                b_row = b_only;
            } else if (first == 0) {
                pack_columns(p, b, k, depth, col + j, width, work + j * depth);
            }
            for (int64_t i = first; i < last; i += MR) {
                int rows = (int)(last - i < MR ? last - i : MR);
                const float *left = a_only < 0 ? a_panel + (i - first) * depth : a + i * p->a_m + k * a_only;
                tile_product(rows, depth, left, a_only < 0 ? 1 : p->a_m, a_only < 0 ? MR : a_only,
                             right, b_row, tile);
                drain_tile(p, d, tile, c, i, rows, col + j, width);
            }
        }
    }
}

/* The whole product; `work` has GEMM_WORKSPACE floats. `last` is what happens to finished sums. */
ALWAYS_INLINE void gemm_body(const Product *p, const Drain *last, const float *a, const float *b, float *c, float *work) {
    int64_t columns = p->n1 * p->n0, reduction = p->k2 * p->k1 * p->k0;
    for (int64_t col = 0; col < columns; col += NC) {
        int64_t cols = columns - col < NC ? columns - col : NC;
        for (int64_t k = 0; k < reduction; k += KC) {
            Drain d = *last;
            d.adds = last->adds || k > 0;
            d.ends = last->ends && k + KC >= reduction;
            gemm_block(p, &d, a, b, c, k, reduction - k < KC ? reduction - k : KC, col, cols, work);
        }
    }
}

VERSIONS(gemm,
         (const Product *p, const Drain *last, const float *a, const float *b, float *c, float *work),
         (p, last, a, b, c, work))

#endif

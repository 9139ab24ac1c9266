/* Batch-reduce matrix multiply on a float32 scratchpad.
 *
 * c[m,n1,n0] (+)= sum over k2,k1,k0 of a[m,k..] * b[k..,n1,n0]. Order of the additions: the reduction
 * is cut in blocks of GEMM_BLOCK; each block is summed from 0 in ascending k and added to c in turn.
 * That holds for every shape, stride and processor: packing and tiling only move operands.
 *
 * Sums live in registers, up to 6 x 16 of them (12 x 16 with AVX-512). Operands are read in place or
 * copied into panels first, GEMM_BLOCK reductions and NC columns at a time, where the copy is cheaper
 * than what the caches lose to strides. */
#ifndef AUTOTUNE_GEMM_H
#define AUTOTUNE_GEMM_H

#include "micro/gemm_pack.h"

#define GEMM_BLOCK 256 /* fixes the order of additions: part of the emulator's contract */
#define NC 512
#define MC 144 /* a multiple of the rows of every register tile */
#define MOST_ROWS 12
/* More columns or rows than these read an operand often enough to pay for packing it (measured on
 * Zen 3 with strides of a power of two, which crowd into few cache sets). */
#define PACK_A_COLUMNS 192
#define PACK_B_ROWS 80
#define STAGE (MOST_ROWS * NR)
/* floats of workspace that one thread needs */
#define GEMM_WORKSPACE (GEMM_BLOCK * (NC + MC) + 2 * STAGE + NR)

/* What happens to a tile on its way out: c = fn(scale * sum + bias + residual) where it `ends`. */
typedef struct {
    int adds, ends;         /* add to c; the sums are finished: apply all of the below */
    float scale;            /* of the finished sum; 1 leaves it as it is */
    const float *row_bias;  /* bias[m] or NULL */
    const float *col_bias;  /* bias[n0] or NULL */
    const float *residual;  /* residual[m, n1, n0], strides r_* of Product, or NULL; apart from c */
    int fn;
    float p0, p1;
} Drain;

enum { FN_COPY = 0, FN_RELU = 1, FN_LEAKY_RELU = 2, FN_CLIP = 3 };

/* Where one tile goes: NR columns side by side. Biases and residual are NULL if there are none. */
typedef struct {
    float *c;
    const float *row_bias, *col_bias, *residual;
    int64_t c_m, r_m;
} Exit;

/* Rows of a, in place or packed. */
typedef struct {
    const float *at;
    int64_t m, k; /* strides */
} Left;

/* The register tiles of one processor, by their rows. */
typedef void Tile(int64_t depth, const Left *a, const float *b, int64_t b_k, const Exit *e, const Drain *d);
typedef struct {
    int most_rows;
    Tile *tile[MOST_ROWS + 1];
} Kernel;

#if !defined(__GNUC__)
#define NAME plain
#define TARGET
#define LANES 1
#include "micro/gemm_tile.h"
#else
#define NAME base
#define TARGET
#define LANES 4
#include "micro/gemm_tile.h"
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#define NAME avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#include "micro/gemm_tile.h"
#define NAME avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq,fma")))
#define LANES 16
#include "micro/gemm_tile.h"
#endif

/* The widest tiles that this processor can run. */
ALWAYS_INLINE const Kernel *kernel_here(void) {
#if !defined(__GNUC__)
    return &kernel_plain;
#else
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return &kernel_base;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl")
        || !__builtin_cpu_supports("avx512dq")) return &kernel_avx2;
    return &kernel_avx512;
#else
    return &kernel_base;
#endif
#endif
}

/* Columns from (n1, n0) on; only the first offsets are known where the columns are whole. */
ALWAYS_INLINE void columns_at(const Product *p, const Drain *d, int64_t n1, int64_t n0, int64_t left, Columns *out) {
    int one_row = n0 + NR <= p->n0, full = left >= NR;
    out->cols = full ? NR : (int)left;
    out->b_whole = full && p->b_n0 == 1 && (one_row || p->b_n1 == p->n0);
    out->c_whole = full && p->c_n0 == 1 && (one_row || (p->c_n1 == p->n0 && !d->col_bias))
                && (!d->residual || (p->r_n0 == 1 && (one_row || p->r_n1 == p->n0)));
    int known = out->b_whole && out->c_whole ? 1 : out->cols;
    for (int j = 0; j < known; j++) {
        out->b[j] = n1 * p->b_n1 + n0 * p->b_n0;
        out->c[j] = n1 * p->c_n1 + n0 * p->c_n0;
        out->r[j] = n1 * p->r_n1 + n0 * p->r_n0;
        out->bias[j] = n0;
        if (++n0 == p->n0) { n0 = 0; n1++; }
    }
}

/* A tile whose columns lie apart: all that the drain touches passes through `stage`. */
ALWAYS_INLINE void tile_apart(Tile *tile, const Product *p, const Drain *d, const Columns *at, int rows,
                              int64_t depth, const Left *a, const float *b, int64_t b_k, Exit e, float *stage) {
    Exit dense = {stage, e.row_bias, e.col_bias, e.residual, NR, NR};
    float bias[NR] = {0}, *residual = stage + STAGE;
    if (d->adds)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < at->cols; j++) stage[i * NR + j] = e.c[i * p->c_m + at->c[j]];
    if (e.residual) {
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < at->cols; j++) residual[i * NR + j] = e.residual[i * p->r_m + at->r[j]];
        dense.residual = residual;
    }
    if (e.col_bias) {
        for (int j = 0; j < at->cols; j++) bias[j] = e.col_bias[at->bias[j]];
        dense.col_bias = bias;
    }
    tile(depth, a, b, b_k, &dense, d);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < at->cols; j++) e.c[i * p->c_m + at->c[j]] = stage[i * NR + j];
}

/* One block of the reduction for up to NC columns. */
typedef struct {
    const Kernel *kernel;
    const Product *p;
    Drain d;
    const float *a, *b;
    float *c, *work;
    int64_t k, depth, a_only, b_only; /* the only stride along k, or -1 */
    int64_t n1, n0, cols;             /* first column, and how many */
} Block;

/* The rows from `first` on by one panel of columns. */
ALWAYS_INLINE void gemm_rows(const Block *g, const Columns *at, const Split *split, int64_t first,
                             const float *packed_a, const float *b, int64_t b_k) {
    const Product *p = g->p;
    const Drain *d = &g->d;
    for (int t = 0; t < split->tiles; t++) {
        int rows = rows_of(split, t);
        Tile *tile = g->kernel->tile[rows];
        Left left = {g->a + first * p->a_m + g->k * g->a_only, p->a_m, g->a_only};
        if (packed_a) {
            Left packed = {packed_a, 1, rows};
            left = packed;
            packed_a += rows * g->depth;
        }
        Exit e = {g->c + first * p->c_m, 0, d->col_bias, 0, p->c_m, p->r_m};
        if (d->row_bias) e.row_bias = d->row_bias + first;
        if (d->residual) e.residual = d->residual + first * p->r_m;
        if (at->c_whole) {
            e.c += at->c[0];
            if (e.col_bias) e.col_bias += at->bias[0];
            if (e.residual) e.residual += at->r[0];
            tile(g->depth, &left, b, b_k, &e, d);
        } else {
            tile_apart(tile, p, d, at, rows, g->depth, &left, b, b_k, e, g->work + GEMM_BLOCK * (NC + MC));
        }
        first += rows;
    }
}

ALWAYS_INLINE void gemm_block(const Block *g) {
    const Product *p = g->p;
    int pack_a = g->a_only < 0 || (g->a_only != 1 && g->cols > PACK_A_COLUMNS);
    int pack_b = g->b_only < 0 || p->m > PACK_B_ROWS;
    for (int64_t first = 0; first < p->m; first += MC) {
        Split split = split_rows((int)(p->m - first < MC ? p->m - first : MC), g->kernel->most_rows);
        int64_t n1 = g->n1, n0 = g->n0;
        float *rows = pack_a ? g->work + GEMM_BLOCK * NC : 0;
        if (pack_a) pack_rows(p, g->a + first * p->a_m, g->k, g->depth, &split, rows);
        for (int64_t j = 0; j < g->cols; j += NR) {
            Columns at;
            columns_at(p, &g->d, n1, n0, g->cols - j, &at);
            if (pack_b || !at.b_whole) {
                float *panel = g->work + j * g->depth;
                if (first == 0) pack_columns(p, g->b, g->k, g->depth, &at, panel);
                gemm_rows(g, &at, &split, first, rows, panel, NR);
            } else {
                gemm_rows(g, &at, &split, first, rows, g->b + at.b[0] + g->k * g->b_only, g->b_only);
            }
            for (n0 += NR; n0 >= p->n0; n0 -= p->n0) n1++;
        }
    }
}

/* The whole product; `work` has GEMM_WORKSPACE floats. `last` is what happens to finished sums. */
ALWAYS_INLINE void gemm_body(const Product *p, const Drain *last, const float *a, const float *b,
                             float *c, float *work) {
    int64_t columns = p->n1 * p->n0, reduction = p->k2 * p->k1 * p->k0;
    Block g = {.kernel = kernel_here(), .p = p, .a = a, .b = b, .c = c, .work = work,
               .a_only = only_stride(p->k2, p->k1, p->k0, p->a_k2, p->a_k1, p->a_k0),
               .b_only = only_stride(p->k2, p->k1, p->k0, p->b_k2, p->b_k1, p->b_k0)};
    for (int64_t col = 0; col < columns; col += NC) {
        g.cols = columns - col < NC ? columns - col : NC;
        g.n1 = p->n1 == 1 ? 0 : col / p->n0;
        g.n0 = col - g.n1 * p->n0;
        for (g.k = 0; g.k < reduction; g.k += GEMM_BLOCK) {
            g.depth = reduction - g.k < GEMM_BLOCK ? reduction - g.k : GEMM_BLOCK;
            g.d = *last;
            g.d.adds = last->adds || g.k > 0;
            g.d.ends = last->ends && g.k + g.depth == reduction;
            if (!g.d.ends) g.d.row_bias = g.d.col_bias = g.d.residual = 0;
            gemm_block(&g);
        }
    }
}

VERSIONS(gemm,
         (const Product *p, const Drain *last, const float *a, const float *b, float *c, float *work),
         (p, last, a, b, c, work))

#endif

/* Element-wise micro-kernels on strided float32 rectangles: what the vector unit computes. */
#ifndef AUTOTUNE_LANES_H
#define AUTOTUNE_LANES_H

#include "functions.h"

#define EACH(EXPR)                                                                 \
    if (ds == 1 && ss == 1) {                                                      \
        INDEPENDENT for (int64_t i = 0; i < n; i++) { float x = s[i]; d[i] = (EXPR); } \
    } else {                                                                       \
        for (int64_t i = 0; i < n; i++) { float x = s[i * ss]; d[i * ds] = (EXPR); } \
    }                                                                              \
    break

static void library_row(Function *f, int64_t n, float *d, int64_t ds, const float *s, int64_t ss) {
    for (int64_t i = 0; i < n; i++) d[i * ds] = f(s[i * ss]);
}

ALWAYS_INLINE void unary_row(int fn, float p0, float p1, int64_t n, float *d, int64_t ds,
                             const float *s, int64_t ss) {
    switch (fn) {
    case UN_COPY: EACH(x);
    case UN_RELU: EACH(x < 0.0f ? 0.0f : x);
    case UN_LEAKY_RELU: EACH(x < 0.0f ? p0 * x : x);
    case UN_CLIP: EACH(clipped(x, p0, p1));
    case UN_SIGMOID: EACH(1.0f / (1.0f + expf(-x)));
    case UN_TANH: EACH(tanhf(x));
    case UN_ERF: EACH(erff(x));
    case UN_GELU: EACH(0.5f * x * (1.0f + erff(x * SQRT_HALF)));
    case UN_GELU_TANH: EACH(0.5f * x * (1.0f + tanhf(SQRT_2_OVER_PI * (x + 0.044715f * x * x * x))));
    case UN_EXP: EACH(expf(x));
    case UN_LOG: EACH(logf(x));
    case UN_SQRT: EACH(sqrtf(x));
    case UN_RSQRT: EACH(1.0f / sqrtf(x));
    case UN_RECIPROCAL: EACH(1.0f / x);
    case UN_NEG: EACH(-x);
    case UN_ABS: EACH(fabsf(x));
    case UN_SQUARE: EACH(x * x);
    case UN_AFFINE: EACH(p0 * x + p1);
    case UN_FLOOR: EACH(floorf(x));
    case UN_CEIL: EACH(ceilf(x));
    case UN_ROUND: EACH(rintf(x));
    case UN_TRUNC: EACH(truncf(x));
    case UN_SIGN: EACH(sign_of(x));
    case UN_ELU: EACH(x < 0.0f ? p0 * expm1f(x) : p1 * x);
    case UN_SOFTPLUS: EACH(softplus(x));
    default: library_row(LIBRARY[fn - UN_SIN], n, d, ds, s, ss);
    }
}
#undef EACH

#define PAIRS(EXPR)                                                                           \
    if (ds == 1 && ls == 1 && rs == 1) {                                                      \
        INDEPENDENT for (int64_t i = 0; i < n; i++) { float x = l[i], y = r[i]; d[i] = (EXPR); } \
    } else if (ds == 1 && ls == 1 && rs == 0) {                                               \
        const float y = *r;                                                                   \
        INDEPENDENT for (int64_t i = 0; i < n; i++) { float x = l[i]; d[i] = (EXPR); }         \
    } else if (ds == 1 && ls == 0 && rs == 1) {                                               \
        const float x = *l;                                                                   \
        INDEPENDENT for (int64_t i = 0; i < n; i++) { float y = r[i]; d[i] = (EXPR); }         \
    } else {                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                     \
            float x = l[i * ls], y = r[i * rs];                                               \
            d[i * ds] = (EXPR);                                                               \
        }                                                                                     \
    }                                                                                         \
    break

ALWAYS_INLINE void binary_row(int fn, int64_t n, float *d, int64_t ds, const float *l, int64_t ls,
                              const float *r, int64_t rs) {
    switch (fn) {
    case BI_ADD: PAIRS(x + y);
    case BI_SUB: PAIRS(x - y);
    case BI_MUL: PAIRS(x * y);
    case BI_DIV: PAIRS(x / y);
    case BI_MAXIMUM: PAIRS(larger(x, y));
    case BI_MINIMUM: PAIRS(smaller(x, y));
    case BI_POW: PAIRS(powf(x, y));
    case BI_EQUAL: PAIRS(x == y ? 1.0f : 0.0f);
    case BI_LESS: PAIRS(x < y ? 1.0f : 0.0f);
    case BI_LESS_EQUAL: PAIRS(x <= y ? 1.0f : 0.0f);
    case BI_MOD: PAIRS(modulo(x, y));
    case BI_FMOD: PAIRS(fmodf(x, y));
    case BI_KEEP_IF: PAIRS(keep_if(x, y));
    case BI_KEEP_UNLESS: PAIRS(keep_unless(x, y));
    }
}
#undef PAIRS

ALWAYS_INLINE void fma_row(int64_t n, float *d, int64_t ds, const float *l, int64_t ls, const float *r,
                           int64_t rs) {
    if (ds == 1 && ls == 1 && rs == 1) {
        INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] += l[i] * r[i];
    } else if (ds == 1 && ls == 0 && rs == 1) {
        const float x = *l;
        INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] += x * r[i];
    } else if (ds == 1 && ls == 1 && rs == 0) {
        const float y = *r;
        INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] += l[i] * y;
    } else {
        for (int64_t i = 0; i < n; i++) d[i * ds] += l[i * ls] * r[i * rs];
    }
}

ALWAYS_INLINE void fill_row(float value, int64_t n, float *d, int64_t ds) {
    if (ds == 1) for (int64_t i = 0; i < n; i++) d[i] = value;
    else for (int64_t i = 0; i < n; i++) d[i * ds] = value;
}

ALWAYS_INLINE void vector_row(const Word *w, int64_t n, float *d, int64_t ds, const float *l, int64_t ls,
                              const float *r, int64_t rs) {
    switch (w->opcode) {
    case OP_UNARY: unary_row(w->fn, w->p0, w->p1, n, d, ds, l, ls); break;
    case OP_BINARY: binary_row(w->fn, n, d, ds, l, ls, r, rs); break;
    case OP_FMA: fma_row(n, d, ds, l, ls, r, rs); break;
    default: fill_row(w->p0, n, d, ds); break;
    }
}

/* Steps the outer loops of a nest (dimensions below `rank`); 0 when they are through. */
ALWAYS_INLINE int next_row(const Nest *nest, int rank, int operands, int64_t *trip, int64_t *offset) {
    for (int d = rank - 1; d >= 0; d--) {
        for (int o = 0; o < operands; o++) offset[o] += nest->stride[o][d];
        if (++trip[d] < nest->size[d]) return 1;
        for (int o = 0; o < operands; o++) offset[o] -= nest->size[d] * nest->stride[o][d];
        trip[d] = 0;
    }
    return 0;
}

/* UNARY, BINARY, FMA, FILL; the nest has rank 1 at least. */
ALWAYS_INLINE void elementwise_body(const Word *w, float *d, const float *l, const float *r) {
    const Nest *nest = &w->nest;
    int last = nest->rank - 1;
    int64_t trip[RANK] = {0}, offset[3] = {0};
    do vector_row(w, nest->size[last], d + offset[0], nest->stride[0][last], l + offset[1],
                  nest->stride[1][last], r + offset[2], nest->stride[2][last]);
    while (next_row(nest, last, 3, trip, offset));
}

VERSIONS(elementwise, (const Word *w, float *d, const float *l, const float *r), (w, d, l, r))

#define PARTS 16 /* partial sums of a row: vectors, and an error that grows with n / 16 */

ALWAYS_INLINE float joined(int fn, float x, float y) {
    switch (fn) {
    case RE_SUM: return x + y;
    case RE_MAX: return larger(x, y);
    case RE_MIN: return smaller(x, y);
    default: return x * y;
    }
}

/* `fn` is a constant wherever this is written out. */
ALWAYS_INLINE float folded_by(int fn, int64_t n, const float *s, int64_t ss) {
    float total = s[0];
    int64_t i = 1;
    if (ss == 1 && n >= 2 * PARTS) {
        float part[PARTS];
        for (int j = 0; j < PARTS; j++) part[j] = s[j];
        for (i = PARTS; i + PARTS <= n; i += PARTS)
            for (int j = 0; j < PARTS; j++) part[j] = joined(fn, part[j], s[i + j]);
        total = part[0];
        for (int j = 1; j < PARTS; j++) total = joined(fn, total, part[j]);
    }
    for (; i < n; i++) total = joined(fn, total, s[i * ss]);
    return total;
}

ALWAYS_INLINE float folded_row(int fn, int64_t n, const float *s, int64_t ss) {
    switch (fn) {
    case RE_SUM: return folded_by(RE_SUM, n, s, ss);
    case RE_MAX: return folded_by(RE_MAX, n, s, ss);
    case RE_MIN: return folded_by(RE_MIN, n, s, ss);
    default: return folded_by(RE_PROD, n, s, ss);
    }
}

ALWAYS_INLINE void combine_row(int fn, int adds, int64_t n, float *d, int64_t ds, const float *s, int64_t ss) {
    if (!adds) {
        unary_row(UN_COPY, 0, 0, n, d, ds, s, ss);
        return;
    }
    switch (fn) {
    case RE_SUM: binary_row(BI_ADD, n, d, ds, d, ds, s, ss); break;
    case RE_MAX: binary_row(BI_MAXIMUM, n, d, ds, d, ds, s, ss); break;
    case RE_MIN: binary_row(BI_MINIMUM, n, d, ds, d, ds, s, ss); break;
    default: binary_row(BI_MUL, n, d, ds, d, ds, s, ss); break;
    }
}

/* Loops of `from` whose dst stride is 0 (reduced) or not. Operands: dst, src. */
ALWAYS_INLINE Nest loops_of(const Nest *from, int reduced) {
    Nest out = {0};
    for (int d = 0; d < from->rank; d++) {
        if ((from->stride[0][d] == 0) != reduced) continue;
        out.size[out.rank] = from->size[d];
        out.stride[0][out.rank] = from->stride[0][d];
        out.stride[1][out.rank++] = from->stride[1][d];
    }
    return out;
}

/* REDUCE; `p1` of its word says whether dst counts in. Rows are folded where the innermost loop is
 * reduced over, and added to each other where it is not. */
ALWAYS_INLINE void reduction_body(const Word *w, float *d, const float *s) {
    Nest kept = loops_of(&w->nest, 0), reduced = loops_of(&w->nest, 1);
    int adds = w->p1 != 0.0f, by_row = w->nest.stride[0][w->nest.rank - 1] == 0;
    int kept_outer = by_row ? kept.rank : kept.rank - 1;
    int reduced_outer = by_row ? reduced.rank - 1 : reduced.rank;
    int64_t row = by_row ? reduced.size[reduced_outer] : kept.size[kept_outer];
    int64_t trip[RANK] = {0}, at[2] = {0};
    do {
        int64_t inner_trip[RANK] = {0}, inner[2] = {0};
        int joins = adds;
        do {
            const float *from = s + at[1] + inner[1];
            if (by_row) {
                float total = folded_row(w->fn, row, from, reduced.stride[1][reduced_outer]);
                combine_row(w->fn, joins, 1, d + at[0], 1, &total, 1);
            } else {
                combine_row(w->fn, joins, row, d + at[0], kept.stride[0][kept_outer], from,
                            kept.stride[1][kept_outer]);
            }
            joins = 1;
        } while (next_row(&reduced, reduced_outer, 2, inner_trip, inner));
    } while (next_row(&kept, kept_outer, 2, trip, at));
}

VERSIONS(reduction, (const Word *w, float *d, const float *s), (w, d, s))

#endif

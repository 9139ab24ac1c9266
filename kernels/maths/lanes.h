/* Element-wise micro-kernels on strided float32 rectangles: what the vector unit computes. */
#ifndef AUTOTUNE_LANES_H
#define AUTOTUNE_LANES_H

#include "maths/maths.h"

#define EACH(EXPR)                                                                 \
    if (ds == 1 && ss == 1) {                                                      \
        INDEPENDENT for (int64_t i = 0; i < n; i++) { float x = s[i]; d[i] = (EXPR); } \
    } else {                                                                       \
        for (int64_t i = 0; i < n; i++) { float x = s[i * ss]; d[i * ds] = (EXPR); } \
    }                                                                              \
    break
#define UNARY_CASE(CODE, EXPR) case UN_##CODE: EACH(EXPR);

ALWAYS_INLINE void unary_row(int fn, float p0, float p1, int64_t n, float *d, int64_t ds,
                             const float *s, int64_t ss) {
    switch (fn) {
    UNARY_EXPRESSIONS(UNARY_CASE)
    default: maths_row(fn, p0, p1, n, d, ds, s, ss);
    }
}
#undef UNARY_CASE
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
#define BINARY_CASE(CODE, EXPR) case BI_##CODE: PAIRS(EXPR);

ALWAYS_INLINE void binary_row(int fn, int64_t n, float *d, int64_t ds, const float *l, int64_t ls,
                              const float *r, int64_t rs) {
    switch (fn) {
    BINARY_EXPRESSIONS(BINARY_CASE)
    }
}
#undef BINARY_CASE
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

#define ABREAST 64 /* results of a row that are folded side by side */

/* d[i * ds] = (d[i * ds] and) the row of i, for n rows `ks` apart; `fn` is a constant wherever this is
 * written out. The order is that of folded_by, of rows that it does not cut in parts. */
ALWAYS_INLINE void abreast_by(int fn, int adds, int64_t n, float *d, int64_t ds, const float *s, int64_t ks,
                              int64_t row, int64_t rs) {
    float part[ABREAST];
    for (int64_t at = 0; at < n; at += ABREAST, d += ABREAST * ds, s += ABREAST * ks) {
        int64_t count = n - at < ABREAST ? n - at : ABREAST;
        for (int64_t i = 0; i < count; i++) part[i] = s[i * ks];
        for (int64_t j = 1; j < row; j++) {
            const float *from = s + j * rs;
            if (ks == 1) for (int64_t i = 0; i < count; i++) part[i] = joined(fn, part[i], from[i]);
            else if (ks == 2) for (int64_t i = 0; i < count; i++) part[i] = joined(fn, part[i], from[2 * i]);
            else for (int64_t i = 0; i < count; i++) part[i] = joined(fn, part[i], from[i * ks]);
        }
        if (!adds) for (int64_t i = 0; i < count; i++) d[i * ds] = part[i];
        else if (ds == 1) { INDEPENDENT for (int64_t i = 0; i < count; i++) d[i] = joined(fn, d[i], part[i]); }
        else for (int64_t i = 0; i < count; i++) d[i * ds] = joined(fn, d[i * ds], part[i]);
    }
}

ALWAYS_INLINE void abreast(int fn, int adds, int64_t n, float *d, int64_t ds, const float *s, int64_t ks,
                           int64_t row, int64_t rs) {
    switch (fn) {
    case RE_SUM: abreast_by(RE_SUM, adds, n, d, ds, s, ks, row, rs); break;
    case RE_MAX: abreast_by(RE_MAX, adds, n, d, ds, s, ks, row, rs); break;
    case RE_MIN: abreast_by(RE_MIN, adds, n, d, ds, s, ks, row, rs); break;
    default: abreast_by(RE_PROD, adds, n, d, ds, s, ks, row, rs); break;
    }
}

/* How the loops of a REDUCE are walked: rows folded one by one where the innermost loop is reduced over,
 * short ones side by side (a window of a pooling); rows added to each other where it is kept. */
typedef struct {
    Nest kept, reduced;
    int by_row, side_by_side;
    int kept_outer, reduced_outer; /* loops outside of what is done at once */
    int64_t n, ds, ks, row, rs;    /* results at once and their strides; length and stride of a row */
} Folding;

ALWAYS_INLINE Folding folding_of(const Nest *nest) {
    Folding f = {.kept = loops_of(nest, 0), .reduced = loops_of(nest, 1), .n = 1, .row = 1};
    int last_kept = f.kept.rank - 1, last_reduced = f.reduced.rank - 1;
    f.by_row = nest->stride[0][nest->rank - 1] == 0;
    if (f.by_row) {
        f.row = f.reduced.size[last_reduced];
        f.rs = f.reduced.stride[1][last_reduced];
        f.side_by_side = last_kept >= 0 && f.row < 2 * PARTS && f.kept.size[last_kept] > 2;
    }
    int at_once = !f.by_row || f.side_by_side;
    if (at_once) {
        f.n = f.kept.size[last_kept];
        f.ds = f.kept.stride[0][last_kept];
        f.ks = f.kept.stride[1][last_kept];
    }
    f.kept_outer = f.kept.rank - at_once;
    f.reduced_outer = f.reduced.rank - f.by_row;
    return f;
}

ALWAYS_INLINE void fold_at(const Folding *f, int fn, int joins, float *d, const float *s) {
    if (f->side_by_side) {
        abreast(fn, joins, f->n, d, f->ds, s, f->ks, f->row, f->rs);
    } else if (f->by_row) {
        float total = folded_row(fn, f->row, s, f->rs);
        combine_row(fn, joins, 1, d, 1, &total, 1);
    } else {
        combine_row(fn, joins, f->n, d, f->ds, s, f->ks);
    }
}

/* REDUCE; `p1` of its word says whether dst counts in. */
ALWAYS_INLINE void reduction_body(const Word *w, float *d, const float *s) {
    Folding f = folding_of(&w->nest);
    int64_t trip[RANK] = {0}, at[2] = {0};
    do {
        int64_t inner_trip[RANK] = {0}, inner[2] = {0};
        int joins = w->p1 != 0.0f;
        do {
            fold_at(&f, w->fn, joins, d + at[0], s + at[1] + inner[1]);
            joins = 1;
        } while (next_row(&f.reduced, f.reduced_outer, 2, inner_trip, inner));
    } while (next_row(&f.kept, f.kept_outer, 2, trip, at));
}

VERSIONS(reduction, (const Word *w, float *d, const float *s), (w, d, s))

#endif

/* ONLINE: one tile of a softmax that is found tile by tile (Milakov and Gimelshein, arXiv:1805.02867). */
#ifndef AUTOTUNE_ONLINE_H
#define AUTOTUNE_ONLINE_H

#include "maths/lanes.h"

/* One row; `state` is its maximum, sum and factor. Where all scores so far are -inf, all weights are
 * 0 and so is the factor, so that a masked tile leaves no NaN behind. */
ALWAYS_INLINE void online_row(float scale, int64_t n, float *d, int64_t ds, const float *s, int64_t ss,
                              float *state, int continues) {
    float before = continues ? state[0] : -INFINITY, sum = continues ? state[1] : 0.0f;
    unary_row(UN_AFFINE, scale, 0.0f, n, d, ds, s, ss);
    float most = larger(before, folded_row(RE_MAX, n, d, ds));
    float shift = most == -INFINITY ? 0.0f : most;
    binary_row(BI_SUB, n, d, ds, d, ds, &shift, 0);
    maths_row(UN_EXP, 0.0f, 0.0f, n, d, ds, d, ds);
    float factor = before - shift;
    maths_row(UN_EXP, 0.0f, 0.0f, 1, &factor, 1, &factor, 1);
    state[0] = most;
    state[1] = sum * factor + folded_row(RE_SUM, n, d, ds);
    state[2] = factor;
}

/* Operands of the nest, of rank 2: dst, state, src. */
ALWAYS_INLINE void online_body(const Word *w, float *d, float *state, const float *s, int continues) {
    const Nest *nest = &w->nest;
    for (int64_t row = 0; row < nest->size[0]; row++)
        online_row(w->scale, nest->size[1], d + row * nest->stride[0][0], nest->stride[0][1],
                   s + row * nest->stride[2][0], nest->stride[2][1], state + row * nest->stride[1][0],
                   continues);
}

VERSIONS(online, (const Word *w, float *d, float *state, const float *s, int continues),
         (w, d, state, s, continues))

#endif

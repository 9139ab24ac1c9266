/* Scalar float32 helpers of the functions' C expressions (functions.h). */
#ifndef AUTOTUNE_SCALARS_H
#define AUTOTUNE_SCALARS_H

#include <math.h>

#include "micro/word.h"

/* As in numpy, a NaN in either operand is the result. */
ALWAYS_INLINE float larger(float x, float y) { return x < y || y != y ? y : x; }
ALWAYS_INLINE float smaller(float x, float y) { return x > y || y != y ? y : x; }

ALWAYS_INLINE float clipped(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* The nearest number of bf16, ties to even, as a float; NaN stays. */
ALWAYS_INLINE float near_bf16(float x) {
    union { float number; uint32_t bits; } word = {x};
    word.bits = (word.bits + (word.bits >> 16 & 1) + 0x7FFFu) & 0xFFFF0000u;
    return x != x ? x : word.number;
}

/* The nearest number of fp16, ties to even, as a float: below 2^-14 a multiple of 2^-24, beyond 65504 infinity; NaN
 * stays. */
ALWAYS_INLINE float near_fp16(float x) {
    union { float number; uint32_t bits; } word = {x};
    float size = fabsf(x), small = (size + 0.75f) - 0.75f; /* 0.75 = 1.5 * 2^23 * 2^-24 */
    word.bits = ((word.bits & 0x7FFFFFFFu) + (word.bits >> 13 & 1) + 0xFFFu) & 0xFFFFE000u;
    float near = size < 0x1p-14f ? small : word.number > 65504.0f ? INFINITY : word.number;
    return x != x ? x : copysignf(near, x);
}

/* The remainder with the divisor's sign; of 0 too. */
ALWAYS_INLINE float modulo(float x, float y) {
    float rest = fmodf(x, y);
    if (rest == 0.0f) return copysignf(0.0f, y);
    return (rest < 0.0f) != (y < 0.0f) ? rest + y : rest;
}

#endif

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

/* The remainder with the divisor's sign; of 0 too. */
ALWAYS_INLINE float modulo(float x, float y) {
    float rest = fmodf(x, y);
    if (rest == 0.0f) return copysignf(0.0f, y);
    return (rest < 0.0f) != (y < 0.0f) ? rest + y : rest;
}

#endif

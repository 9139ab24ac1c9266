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

/* The remainder with the divisor's sign; of 0 too. */
ALWAYS_INLINE float modulo(float x, float y) {
    float rest = fmodf(x, y);
    if (rest == 0.0f) return copysignf(0.0f, y);
    return (rest < 0.0f) != (y < 0.0f) ? rest + y : rest;
}

#endif

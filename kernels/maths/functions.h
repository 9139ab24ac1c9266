/* Scalar float32 functions of the vector unit, by code: what lanes.h computes along
 * rows; exp and its like have vector code instead (maths.h). */
#ifndef AUTOTUNE_FUNCTIONS_H
#define AUTOTUNE_FUNCTIONS_H

#include <math.h>

#include "micro/word.h"

/* Function codes; values as in autotune.isa.functions. Those from UN_SIN on are LIBRARY's. */
enum { UN_COPY, UN_RELU, UN_LEAKY_RELU, UN_CLIP, UN_SIGMOID, UN_TANH, UN_ERF, UN_GELU, UN_GELU_TANH,
       UN_EXP, UN_LOG, UN_SQRT, UN_RSQRT, UN_RECIPROCAL, UN_NEG, UN_ABS, UN_SQUARE, UN_AFFINE,
       UN_FLOOR, UN_CEIL, UN_ROUND, UN_TRUNC, UN_SIGN, UN_ELU, UN_SOFTPLUS, UN_SIN };
enum { BI_ADD, BI_SUB, BI_MUL, BI_DIV, BI_MAXIMUM, BI_MINIMUM, BI_POW, BI_EQUAL, BI_LESS, BI_LESS_EQUAL,
       BI_MOD, BI_FMOD, BI_KEEP_IF, BI_KEEP_UNLESS };
enum { RE_SUM, RE_MAX, RE_MIN, RE_PROD };

typedef float Function(float);

static Function *const LIBRARY[] = {sinf,  cosf,  tanf,   asinf,  acosf, atanf,
                                    sinhf, coshf, asinhf, acoshf, atanhf};

/* As in numpy, a NaN in either operand is the result. */
ALWAYS_INLINE float larger(float x, float y) { return x < y || y != y ? y : x; }
ALWAYS_INLINE float smaller(float x, float y) { return x > y || y != y ? y : x; }

ALWAYS_INLINE float clipped(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* Of NaN NaN, of a zero itself. */
ALWAYS_INLINE float sign_of(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }

/* The remainder with the divisor's sign; of 0 too. */
ALWAYS_INLINE float modulo(float x, float y) {
    float rest = fmodf(x, y);
    if (rest == 0.0f) return copysignf(0.0f, y);
    return (rest < 0.0f) != (y < 0.0f) ? rest + y : rest;
}

/* Two that are added up choose between operands; -0 changes nothing, not even another -0. */
ALWAYS_INLINE float keep_if(float x, float y) { return y != 0.0f ? x : -0.0f; }
ALWAYS_INLINE float keep_unless(float x, float y) { return y != 0.0f ? -0.0f : x; }

#endif

/* Codes, cost classes and C expressions of functions, generated: python -m autotune.isa.c_header. */
#ifndef AUTOTUNE_FUNCTIONS_H
#define AUTOTUNE_FUNCTIONS_H

#include "maths/scalars.h"

enum { SIMPLE, DIVIDE, TRANSCENDENTAL, CLASSES };
enum { UN_COPY, UN_RELU, UN_LEAKY_RELU, UN_CLIP, UN_SIGMOID, UN_TANH, UN_ERF, UN_GELU, UN_GELU_TANH, UN_EXP,
    UN_LOG, UN_SQRT, UN_RSQRT, UN_RECIPROCAL, UN_NEG, UN_ABS, UN_SQUARE, UN_AFFINE, UN_FLOOR, UN_CEIL,
    UN_ROUND, UN_TRUNC, UN_SIGN, UN_ELU, UN_SOFTPLUS, UN_SIN, UN_COS, UN_TAN, UN_ASIN, UN_ACOS, UN_ATAN,
    UN_SINH, UN_COSH, UN_ASINH, UN_ACOSH, UN_ATANH, UN_BF16, UN_FP16 };
enum { BI_ADD, BI_SUB, BI_MUL, BI_DIV, BI_MAXIMUM, BI_MINIMUM, BI_POW, BI_EQUAL, BI_LESS, BI_LESS_EQUAL,
    BI_MOD, BI_FMOD, BI_KEEP_IF, BI_KEEP_UNLESS, BI_PRELU };
enum { RE_SUM, RE_MAX, RE_MIN, RE_PROD };

/* Cost class of an element, by code. */
static const unsigned char UNARY_CLASS[] = { SIMPLE, SIMPLE, SIMPLE, SIMPLE, TRANSCENDENTAL, TRANSCENDENTAL,
    TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, DIVIDE, DIVIDE, DIVIDE,
    SIMPLE, SIMPLE, SIMPLE, SIMPLE, SIMPLE, SIMPLE, SIMPLE, SIMPLE, SIMPLE, TRANSCENDENTAL, TRANSCENDENTAL,
    TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL,
    TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, TRANSCENDENTAL, SIMPLE, SIMPLE };
static const unsigned char BINARY_CLASS[] = { SIMPLE, SIMPLE, SIMPLE, DIVIDE, SIMPLE, SIMPLE, TRANSCENDENTAL,
    SIMPLE, SIMPLE, SIMPLE, DIVIDE, DIVIDE, SIMPLE, SIMPLE, SIMPLE };

/* F(code, expression of x, p0 and p1) and F(code, expression of x and y). */
#define UNARY_EXPRESSIONS(F) \
    F(COPY, x) \
    F(RELU, x < 0.0f ? 0.0f : x) \
    F(LEAKY_RELU, x < 0.0f ? p0 * x : x) \
    F(CLIP, clipped(x, p0, p1)) \
    F(SQRT, sqrtf(x)) \
    F(RSQRT, 1.0f / sqrtf(x)) \
    F(RECIPROCAL, 1.0f / x) \
    F(NEG, -x) \
    F(ABS, fabsf(x)) \
    F(SQUARE, x * x) \
    F(AFFINE, p0 * x + p1) \
    F(FLOOR, floorf(x)) \
    F(CEIL, ceilf(x)) \
    F(ROUND, rintf(x)) \
    F(TRUNC, truncf(x)) \
    F(SIGN, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x) \
    F(SIN, sinf(x)) \
    F(COS, cosf(x)) \
    F(TAN, tanf(x)) \
    F(ASIN, asinf(x)) \
    F(ACOS, acosf(x)) \
    F(ATAN, atanf(x)) \
    F(SINH, sinhf(x)) \
    F(COSH, coshf(x)) \
    F(ASINH, asinhf(x)) \
    F(ACOSH, acoshf(x)) \
    F(ATANH, atanhf(x)) \
    F(BF16, near_bf16(x)) \
    F(FP16, near_fp16(x))
#define BINARY_EXPRESSIONS(F) \
    F(ADD, x + y) \
    F(SUB, x - y) \
    F(MUL, x * y) \
    F(DIV, x / y) \
    F(MAXIMUM, larger(x, y)) \
    F(MINIMUM, smaller(x, y)) \
    F(POW, powf(x, y)) \
    F(EQUAL, x == y ? 1.0f : 0.0f) \
    F(LESS, x < y ? 1.0f : 0.0f) \
    F(LESS_EQUAL, x <= y ? 1.0f : 0.0f) \
    F(MOD, modulo(x, y)) \
    F(FMOD, fmodf(x, y)) \
    F(KEEP_IF, y != 0.0f ? x : -0.0f) \
    F(KEEP_UNLESS, y != 0.0f ? -0.0f : x) \
    F(PRELU, x < 0.0f ? x * y : x)

/* F(code, name in maths_code.h): what has no expression. */
#define MATHS_FUNCTIONS(F) \
    F(SIGMOID, sigmoid) \
    F(TANH, tanh) \
    F(ERF, erf) \
    F(GELU, gelu) \
    F(GELU_TANH, gelu_tanh) \
    F(EXP, exp) \
    F(LOG, log) \
    F(ELU, elu) \
    F(SOFTPLUS, softplus)

#endif

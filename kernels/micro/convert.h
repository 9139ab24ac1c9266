/* Conversions between number formats: rows of any format to fp32 and back, and whole rectangles.
 *
 * Everything goes through fp32: an integer loses its zero point exactly and is rounded once. To an
 * integer, a value is rounded to nearest, ties to even, and saturates; NaN becomes the zero point. */
#ifndef AUTOTUNE_CONVERT_H
#define AUTOTUNE_CONVERT_H

#include <string.h>

#include "maths/lanes.h"

#define CHUNK 256 /* elements of a row that are worked on at once, in a buffer */

#if defined(__GNUC__)
typedef uint16_t __attribute__((may_alias)) Half; /* scratchpad and tensors are bytes of any format */
typedef int32_t __attribute__((may_alias)) Whole;
#else
typedef uint16_t Half;
typedef int32_t Whole;
#endif

ALWAYS_INLINE float fp32_of_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest, ties to even; every NaN becomes the quiet one of its sign. */
ALWAYS_INLINE uint16_t bf16_of_fp32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? (bits >> 16 & 0x8000) | 0x7FC0 : rounded);
}

ALWAYS_INLINE float fp32_of_fp16(uint16_t half) {
    uint32_t exponent = half & 0x7C00u, sign = (uint32_t)(half & 0x8000u) << 16;
    union { float number; uint32_t bits; } small = {(float)(half & 0x3FF) * 0x1p-24f}, word;
    word.bits = ((uint32_t)(half & 0x7FFF) << 13) + (exponent == 0x7C00u ? 224u << 23 : 112u << 23);
    word.bits = (exponent == 0 ? small.bits : word.bits) | sign;
    return word.number;
}

/* To nearest, ties to even, beyond 65504 to infinity; every NaN becomes the quiet one of its sign. */
ALWAYS_INLINE uint16_t fp16_of_fp32(float value) {
    union { float number; uint32_t bits; } word = {value}, near;
    uint32_t sign = word.bits >> 16 & 0x8000u;
    near.number = near_fp16(fabsf(value));
    float small = near.number < 0x1p-14f ? near.number : 0.0f; /* a NaN is no integer */
    uint32_t bits = near.number < 0x1p-14f ? (uint32_t)(int32_t)(small * 0x1p24f) : (near.bits >> 13) - (112u << 10);
    bits = near.number > 65504.0f ? 0x7C00u : bits;
    return (uint16_t)(sign | (value != value ? 0x7E00u : bits));
}

#define WIDEN(EXPR)                                                              \
    if (stride == 1) { INDEPENDENT for (int64_t i = 0; i < n; i++) to[i] = (EXPR(i)); } \
    else { for (int64_t i = 0; i < n; i++) to[i] = (EXPR(i * stride)); }             \
    break
#define FROM_FP32(I) ((const float *)from)[I]
#define FROM_BF16(I) fp32_of_bf16(((const Half *)from)[I])
#define FROM_FP16(I) fp32_of_fp16(((const Half *)from)[I])
#define FROM_INT8(I) (float)(((const int8_t *)from)[I] - near)
#define FROM_UINT8(I) (float)(((const uint8_t *)from)[I] - near)
#define FROM_INT32(I) (float)((const Whole *)from)[I]
#define FROM_FAR(I) (float)((format == FORMAT_INT32 ? ((const Whole *)from)[I]            \
                           : format == FORMAT_INT8 ? ((const int8_t *)from)[I]            \
                                                   : ((const uint8_t *)from)[I]) - zero)

/* to[i] = from[i * stride] - zero */
ALWAYS_INLINE void widen_row(int format, int64_t zero, int64_t n, float *to, const void *from, int64_t stride) {
    const int32_t near = (int32_t)zero, limit = 1 << 30;
    if (format >= FORMAT_INT8 && format <= FORMAT_INT32 && (zero < -limit || zero > limit || (zero && format == FORMAT_INT32))) {
        for (int64_t i = 0; i < n; i++) to[i] = FROM_FAR(i * stride);
        return;
    }
    switch (format) {
    case FORMAT_FP32: WIDEN(FROM_FP32);
    case FORMAT_BF16: WIDEN(FROM_BF16);
    case FORMAT_FP16: WIDEN(FROM_FP16);
    case FORMAT_INT8: WIDEN(FROM_INT8);
    case FORMAT_UINT8: WIDEN(FROM_UINT8);
    default: WIDEN(FROM_INT32);
    }
}
#undef WIDEN
#undef FROM_FP32
#undef FROM_BF16
#undef FROM_FP16
#undef FROM_INT8
#undef FROM_UINT8
#undef FROM_INT32
#undef FROM_FAR

ALWAYS_INLINE int64_t lowest_of(int format) {
    return format == FORMAT_INT8 ? INT8_MIN : format == FORMAT_UINT8 ? 0 : INT32_MIN;
}
ALWAYS_INLINE int64_t highest_of(int format) {
    return format == FORMAT_INT8 ? INT8_MAX : format == FORMAT_UINT8 ? UINT8_MAX : INT32_MAX;
}

/* An integer of `format`; beyond 2^33 every zero point saturates. */
ALWAYS_INLINE int64_t integer_of(int format, int64_t zero, float value) {
    int64_t x = (int64_t)rintf(clipped(value != value ? 0.0f : value, -0x1p33f, 0x1p33f)) + zero;
    int64_t low = lowest_of(format), high = highest_of(format);
    return x < low ? low : x > high ? high : x;
}

/* An integer whose limits less the zero point are exact in fp32. */
ALWAYS_INLINE int32_t near_integer_of(float value, float low, float high, int32_t zero) {
    return (int32_t)rintf(clipped(value != value ? 0.0f : value, low, high)) + zero;
}

#define NARROW(TYPE, EXPR)                                                                  \
    if (stride == 1) { INDEPENDENT for (int64_t i = 0; i < n; i++) ((TYPE *)to)[i] = (TYPE)(EXPR); } \
    else { for (int64_t i = 0; i < n; i++) ((TYPE *)to)[i * stride] = (TYPE)(EXPR); }           \
    break

/* to[i * stride] = format(from[i]) + zero */
ALWAYS_INLINE void narrow_row(int format, int64_t zero, int64_t n, void *to, int64_t stride, const float *from) {
    const int64_t limit = 1 << 22;
    const int near = zero > -limit && zero < limit;
    const float low = (float)(lowest_of(format) - zero), high = (float)(highest_of(format) - zero);
    switch (format) {
    case FORMAT_FP32: NARROW(float, from[i]);
    case FORMAT_BF16: NARROW(Half, bf16_of_fp32(from[i]));
    case FORMAT_FP16: NARROW(Half, fp16_of_fp32(from[i]));
    case FORMAT_INT8:
        if (near) { NARROW(int8_t, near_integer_of(from[i], low, high, (int32_t)zero)); }
        NARROW(int8_t, integer_of(FORMAT_INT8, zero, from[i]));
    case FORMAT_UINT8:
        if (near) { NARROW(uint8_t, near_integer_of(from[i], low, high, (int32_t)zero)); }
        NARROW(uint8_t, integer_of(FORMAT_UINT8, zero, from[i]));
    default: NARROW(Whole, integer_of(FORMAT_INT32, zero, from[i]));
    }
}
#undef NARROW

ALWAYS_INLINE void convert_row(const Conversion *c, int64_t n, char *to, int64_t ts, const char *from, int64_t fs) {
    float row[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t part = n - at < CHUNK ? n - at : CHUNK;
        widen_row(c->src_format, c->src_zero, part, row, from + at * fs * FORMAT_BYTES[c->src_format], fs);
        if (c->divide) { INDEPENDENT for (int64_t i = 0; i < part; i++) row[i] /= c->scale; }
        else if (c->scale != 1.0f) { INDEPENDENT for (int64_t i = 0; i < part; i++) row[i] *= c->scale; }
        narrow_row(c->dst_format, c->dst_zero, part, to + at * ts * FORMAT_BYTES[c->dst_format], ts, row);
    }
}

/* Operands of the nest: to, from. */
ALWAYS_INLINE void convert_nest_body(const Conversion *c, const Nest *nest, char *to, const char *from) {
    int last = nest->rank - 1;
    int64_t trip[RANK] = {0}, offset[2] = {0};
    do convert_row(c, nest->size[last], to + offset[0] * FORMAT_BYTES[c->dst_format], nest->stride[0][last],
                   from + offset[1] * FORMAT_BYTES[c->src_format], nest->stride[1][last]);
    while (next_row(nest, last, 2, trip, offset));
}

VERSIONS(convert_nest, (const Conversion *c, const Nest *nest, char *to, const char *from), (c, nest, to, from))

/* Storage of one format read as another: nothing but the format changes. */
ALWAYS_INLINE Conversion recoded(int dst_format, int src_format) {
    Conversion c = {dst_format, src_format, 0, 1.0f, 0, 0};
    return c;
}

#endif

/* Rows of exp, erf and their like: the formulas that generated code computes too (maths_code.h), on the
 * widest registers that this processor has. */
#ifndef AUTOTUNE_MATHS_H
#define AUTOTUNE_MATHS_H

#include <string.h>

#include "maths/functions.h"

typedef void MathsRow(float p0, float p1, int64_t n, float *d, const float *s);

#define NAME base
#define TARGET
#if defined(__GNUC__)
#define LANES 4
#else
#define LANES 1
#endif
#if defined(__aarch64__)
#define FUSED 1
#else
#define FUSED 0
#endif
#include "maths/maths_lanes.h"
#if defined(__x86_64__) && defined(__GNUC__)
#define NAME avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define FUSED 1
#include "maths/maths_lanes.h"
#endif

#define MATHS_PART 64 /* elements of a strided row that are brought together at once */

ALWAYS_INLINE MathsRow *maths_row_of(int fn) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return rows_avx2[fn];
#endif
    return rows_base[fn];
}

/* d[i * ds] = fn(s[i * ss]); in place, or apart. */
static void maths_row(int fn, float p0, float p1, int64_t n, float *d, int64_t ds, const float *s, int64_t ss) {
    MathsRow *row = maths_row_of(fn);
    if (ds == 1 && ss == 1) {
        row(p0, p1, n, d, s);
        return;
    }
    float part[MATHS_PART];
    for (int64_t at = 0; at < n; at += MATHS_PART) {
        int64_t count = n - at < MATHS_PART ? n - at : MATHS_PART;
        for (int64_t i = 0; i < count; i++) part[i] = s[(at + i) * ss];
        row(p0, p1, count, part, part);
        for (int64_t i = 0; i < count; i++) d[(at + i) * ds] = part[i];
    }
}

#endif

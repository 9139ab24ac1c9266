/* TRANSFORM: tiles of Winograd's convolutions F(4x4, 3x3) and F(2x2, 3x3) there and back (Lavin and
 * Gray, arXiv:1509.09308), a few channels of a tile at a time. */
#ifndef AUTOTUNE_TRANSFORM_H
#define AUTOTUNE_TRANSFORM_H

#include "maths/lanes.h"

#define TILE 6 /* rows that the largest one has */
#define WIDE 16 /* channels side by side */
typedef float Wide[WIDE];

/* The finite points of F(4x4) besides 0, with both signs (autotune/operators/winograd.py). */
#define NEAR 0.75f
#define FAR 1.5f

/* A line of six along `step` becomes B line. */
ALWAYS_INLINE void f4_input_line(Wide *x, int step) {
    for (int l = 0; l < WIDE; l++) {
        float x0 = x[0][l], x1 = x[step][l], x2 = x[2 * step][l], x3 = x[3 * step][l], x4 = x[4 * step][l],
              x5 = x[5 * step][l];
        float even = x4 - FAR * FAR * x2, odd = NEAR * (x3 - FAR * FAR * x1);
        float wide = x4 - NEAR * NEAR * x2, steep = FAR * (x3 - NEAR * NEAR * x1);
        float product = NEAR * NEAR * FAR * FAR, sum = NEAR * NEAR + FAR * FAR;
        x[0][l] = product * x0 + (x4 - sum * x2);
        x[step][l] = even + odd;
        x[2 * step][l] = even - odd;
        x[3 * step][l] = wide + steep;
        x[4 * step][l] = wide - steep;
        x[5 * step][l] = product * x1 + (x5 - sum * x3);
    }
}

/* A line of six along `step` becomes A line, four long. */
ALWAYS_INLINE void f4_output_line(Wide *x, int step) {
    for (int l = 0; l < WIDE; l++) {
        float x1 = x[step][l], x2 = x[2 * step][l], x3 = x[3 * step][l], x4 = x[4 * step][l];
        float near = x1 + x2, tilt = x1 - x2, far = x3 + x4, steep = x3 - x4;
        x[0][l] += near + far;
        x[step][l] = NEAR * tilt + FAR * steep;
        x[2 * step][l] = NEAR * NEAR * near + FAR * FAR * far;
        x[3 * step][l] = NEAR * NEAR * NEAR * tilt + FAR * FAR * FAR * steep + x[5 * step][l];
    }
}

/* A line of four becomes B line. */
ALWAYS_INLINE void f2_input_line(Wide *x, int step) {
    for (int l = 0; l < WIDE; l++) {
        float x0 = x[0][l], x1 = x[step][l], x2 = x[2 * step][l], x3 = x[3 * step][l];
        x[0][l] = x0 - x2;
        x[step][l] = x1 + x2;
        x[2 * step][l] = x2 - x1;
        x[3 * step][l] = x1 - x3;
    }
}

/* A line of four becomes A line, two long. */
ALWAYS_INLINE void f2_output_line(Wide *x, int step) {
    for (int l = 0; l < WIDE; l++) {
        float x1 = x[step][l], x2 = x[2 * step][l];
        x[0][l] += x1 + x2;
        x[step][l] = (x1 - x2) - x[3 * step][l];
    }
}

ALWAYS_INLINE void transform_line(int code, Wide *x, int step) {
    switch (code) {
    case F4_INPUT: f4_input_line(x, step); break;
    case F4_OUTPUT: f4_output_line(x, step); break;
    case F2_INPUT: f2_input_line(x, step); break;
    default: f2_output_line(x, step);
    }
}

ALWAYS_INLINE void transform_tile(int code, Wide *x) {
    for (int q = 0; q < rows_taken(code); q++) transform_line(code, x + q, TILE);
    for (int i = 0; i < rows_made(code); i++) transform_line(code, x + TILE * i, 1);
}

/* n channels of one tile, from the first of them on. */
ALWAYS_INLINE void transform_part(const Word *w, int64_t n, float *d, const float *s, const float *bias,
                                  const float *r) {
    const int64_t *ds = w->nest.stride[0], *ss = w->nest.stride[1], *rs = w->nest.stride[3];
    Wide x[TILE * TILE] = {{0}};
    int taken = rows_taken(w->transform), rows = rows_made(w->transform);
    for (int p = 0; p < taken; p++)
        for (int q = 0; q < taken; q++)
            unary_row(UN_COPY, 0, 0, n, x[TILE * p + q], 1, s + p * ss[0] + q * ss[1], ss[4]);
    switch (w->transform) {
    case F4_INPUT: transform_tile(F4_INPUT, x); break;
    case F4_OUTPUT: transform_tile(F4_OUTPUT, x); break;
    case F2_INPUT: transform_tile(F2_INPUT, x); break;
    default: transform_tile(F2_OUTPUT, x);
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < rows; j++) {
            float *y = x[TILE * i + j];
            if (w->biased) binary_row(BI_ADD, n, y, 1, y, 1, bias, 1);
            if (w->adds) binary_row(BI_ADD, n, y, 1, y, 1, r + i * rs[0] + j * rs[1], rs[4]);
            unary_row(w->fn, w->p0, w->p1, n, d + i * ds[0] + j * ds[1], ds[4], y, 1);
        }
}

/* Operands: dst, src, bias, r. */
ALWAYS_INLINE void transform_body(const Word *w, float *d, const float *s, const float *bias, const float *r) {
    const Nest *nest = &w->nest;
    int64_t channels = nest->size[4];
    for (int64_t t1 = 0; t1 < nest->size[2]; t1++)
        for (int64_t t0 = 0; t0 < nest->size[3]; t0++)
            for (int64_t c = 0; c < channels; c += WIDE) {
                int64_t at[4];
                for (int o = 0; o < 4; o++)
                    at[o] = t1 * nest->stride[o][2] + t0 * nest->stride[o][3] + c * nest->stride[o][4];
                transform_part(w, channels - c < WIDE ? channels - c : WIDE, d + at[0], s + at[1], bias + at[2], r + at[3]);
            }
}

VERSIONS(transform, (const Word *w, float *d, const float *s, const float *bias, const float *r), (w, d, s, bias, r))

#endif

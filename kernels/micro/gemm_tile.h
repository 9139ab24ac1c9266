/* The register tile of gemm.h: MOST rows x NR columns of sums, made, finished and stored without leaving
 * the registers. Included once per processor with its NAME, its TARGET attribute and LANES, the floats
 * in a vector; the lines are the same for all. Defines the Kernel kernel_NAME.
 *
 * A product and its sum are one rounding where the target has FMA and two where it has not. */

#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
#define OWN(WORD) PASTE(WORD##_, NAME)
#define VECTORS (NR / LANES)
#define MOST (LANES < 4 ? 3 : 12 * LANES / NR) /* 12 vectors of sums hide the latency of FMA */
#define EACH(I, J)                                                        \
    _Pragma("GCC unroll 12") for (int I = 0; I < rows; I++)               \
        _Pragma("GCC unroll 4") for (int J = 0; J < VECTORS; J++)

/* VECTOR in registers, LOOSE in memory (floats need not be aligned); CHOSEN picks by lane. */
#define VECTOR OWN(vector)
#define LOOSE OWN(loose)
#if LANES == 1
typedef float VECTOR, LOOSE;
#define CHOSEN(WHERE, YES, NO) ((WHERE) ? (YES) : (NO))
#else
typedef float VECTOR __attribute__((vector_size(4 * LANES)));
typedef float LOOSE __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t OWN(truth) __attribute__((vector_size(4 * LANES)));
#define CHOSEN(WHERE, YES, NO) \
    ((VECTOR)(((OWN(truth))(YES) & (WHERE)) | ((OWN(truth))(NO) & ~(WHERE))))
#endif

/* The finished sums: scaled, with bias and residual, through the activation. NaN stays NaN. */
ALWAYS_INLINE void OWN(finish)(const int rows, VECTOR sum[][VECTORS], const Exit *e, const Drain *d) {
    const VECTOR zero = {0}, p0 = zero + d->p0, p1 = zero + d->p1;
    if (d->scale != 1.0f) EACH(i, j) sum[i][j] *= d->scale;
    if (e->row_bias) EACH(i, j) sum[i][j] += e->row_bias[i];
    if (e->col_bias) EACH(i, j) sum[i][j] += *(const LOOSE *)(e->col_bias + j * LANES);
    if (e->residual) EACH(i, j) sum[i][j] += *(const LOOSE *)(e->residual + i * e->r_m + j * LANES);
    if (d->fn == FN_RELU) {
        EACH(i, j) sum[i][j] = CHOSEN(sum[i][j] < zero, zero, sum[i][j]);
    } else if (d->fn == FN_LEAKY_RELU) {
        EACH(i, j) sum[i][j] = CHOSEN(sum[i][j] < zero, p0 * sum[i][j], sum[i][j]);
    } else if (d->fn == FN_CLIP) {
        EACH(i, j) {
            VECTOR low = CHOSEN(sum[i][j] > p1, p1, sum[i][j]);
            sum[i][j] = CHOSEN(sum[i][j] < p0, p0, low);
        }
    }
}

/* e->c[i][j] (+)= sum over k of a[i, k] * b[k*b_k + j], finished where it `ends` */
ALWAYS_INLINE void OWN(tile)(const int rows, int64_t depth, const Left *a, const float *b, int64_t b_k,
                             const Exit *e, const Drain *d) {
    const float *left = a->at;
    const int64_t a_m = a->m, a_k = a->k;
    VECTOR sum[MOST][VECTORS];
    EACH(i, j) sum[i][j] = (VECTOR){0};
    for (int64_t k = 0; k < depth; k++, left += a_k, b += b_k) {
        VECTOR right[VECTORS];
        for (int j = 0; j < VECTORS; j++) right[j] = *(const LOOSE *)(b + j * LANES);
        EACH(i, j) sum[i][j] += left[i * a_m] * right[j];
    }
    if (d->adds) EACH(i, j) sum[i][j] += *(const LOOSE *)(e->c + i * e->c_m + j * LANES);
    if (d->ends) OWN(finish)(rows, sum, e, d);
    EACH(i, j) *(LOOSE *)(e->c + i * e->c_m + j * LANES) = sum[i][j];
}

#define TILE(N)                                                                                      \
    TARGET static void OWN(tile##N)(int64_t depth, const Left *a, const float *b, int64_t b_k,        \
                                    const Exit *e, const Drain *d) {                                 \
        OWN(tile)(N, depth, a, b, b_k, e, d);                                                        \
    }
#if LANES == 16
#define TILES TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
#elif LANES == 8
#define TILES TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#else
#define TILES TILE(1) TILE(2) TILE(3)
#endif
TILES
#undef TILE
#define TILE(N) OWN(tile##N),
static const Kernel OWN(kernel) = {MOST, {0, TILES}};

#undef TILES
#undef TILE
#undef CHOSEN
#undef LOOSE
#undef VECTOR
#undef EACH
#undef MOST
#undef VECTORS
#undef OWN
#undef PASTE
#undef PASTE_
#undef LANES
#undef TARGET
#undef NAME

/* One processor's version of the vector maths in maths_code.h. Included once per processor with its NAME,
 * its TARGET attribute and LANES, the floats in a register; FUSED where it multiplies and adds in one
 * rounding. Defines the table rows_NAME.
 *
 * What the formulas do not fuse, the compiler must not: a product passes through ROUNDED. */

#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
#define OWN(WORD) PASTE(WORD##_, NAME)
#define VECTOR OWN(maths_vector)
#define LOOSE OWN(maths_loose)
#define WHOLES OWN(maths_wholes)
#define REGISTERS TARGET ALWAYS_INLINE

#if LANES == 1
typedef float VECTOR, LOOSE;
typedef int32_t WHOLES;
ALWAYS_INLINE WHOLES OWN(bits)(VECTOR x) { WHOLES n; memcpy(&n, &x, sizeof n); return n; }
ALWAYS_INLINE VECTOR OWN(floats)(WHOLES n) { VECTOR x; memcpy(&x, &n, sizeof x); return x; }
#define ROUNDED(X)
#define ALL(VALUE) (VALUE)
#define ALL_WHOLE(VALUE) (VALUE)
#define BITS(X) OWN(bits)(X)
#define FLOATS(N) OWN(floats)(N)
#define FROM_WHOLE(N) (float)(N)
#define MASK(WHERE) (-(WHERE))
#define UP(N, COUNT) (int32_t)((uint32_t)(N) << (COUNT))
#define PLUS(M, N) (int32_t)((uint32_t)(M) + (uint32_t)(N))
#define MINUS(M, N) (int32_t)((uint32_t)(M) - (uint32_t)(N))
#else
typedef float VECTOR __attribute__((vector_size(4 * LANES)));
typedef float LOOSE __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t WHOLES __attribute__((vector_size(4 * LANES)));
typedef uint32_t OWN(maths_bits) __attribute__((vector_size(4 * LANES)));
#if defined(__x86_64__)
#define ROUNDED(X) __asm__("" : "+x"(X))
#elif defined(__aarch64__)
#define ROUNDED(X) __asm__("" : "+w"(X))
#else
#define ROUNDED(X)
#endif
REGISTERS VECTOR OWN(all)(float x) { VECTOR v; for (int i = 0; i < LANES; i++) v[i] = x; return v; }
REGISTERS WHOLES OWN(all_whole)(int32_t n) { WHOLES v; for (int i = 0; i < LANES; i++) v[i] = n; return v; }
#define ALL(VALUE) OWN(all)(VALUE)
#define ALL_WHOLE(VALUE) OWN(all_whole)(VALUE)
#define BITS(X) ((WHOLES)(X))
#define FLOATS(N) ((VECTOR)(N))
#define FROM_WHOLE(N) __builtin_convertvector(N, VECTOR)
#define MASK(WHERE) (WHERE)
#define UP(N, COUNT) ((WHOLES)((OWN(maths_bits))(N) << (COUNT)))
#define PLUS(M, N) ((WHOLES)((OWN(maths_bits))(M) + (OWN(maths_bits))(N)))
#define MINUS(M, N) ((WHOLES)((OWN(maths_bits))(M) - (OWN(maths_bits))(N)))
#endif

#define DOWN(N, COUNT) ((N) >> (COUNT))
#define BOTH(M, N) ((M) & (N))
#define BELOW(M, N) MASK((M) < (N))
#define ADD(X, Y) ((X) + (Y))
#define SUB(X, Y) ((X) - (Y))
#define DIV(X, Y) ((X) / (Y))
#define NEG(X) (-(X))
#define LESS(X, Y) MASK((X) < (Y))
#define MORE(X, Y) MASK((X) > (Y))
#define SAME(X, Y) MASK((X) == (Y))
#define SIZE(X) FLOATS(BITS(X) & ALL_WHOLE(INT32_MAX))
#define SIGNED(X, Y) FLOATS((BITS(X) & ALL_WHOLE(INT32_MAX)) | (BITS(Y) & ALL_WHOLE(INT32_MIN)))
REGISTERS VECTOR OWN(product)(VECTOR x, VECTOR y) {
    VECTOR made = x * y;
    ROUNDED(made);
    return made;
}
#define MUL(X, Y) OWN(product)(X, Y)
#if LANES == 8 && defined(__x86_64__)
#define FMA(X, Y, Z) ((VECTOR)__builtin_ia32_vfmaddps256(X, Y, Z))
#define CHOSEN(WHERE, YES, NO) ((VECTOR)__builtin_ia32_blendvps256(NO, YES, FLOATS(WHERE)))
#define AT_LEAST(X, LOW) ((VECTOR)__builtin_ia32_maxps256(LOW, X)) /* of a NaN the second operand */
#define AT_MOST(X, HIGH) ((VECTOR)__builtin_ia32_minps256(HIGH, X))
#else
#define FMA(X, Y, Z) ((X) * (Y) + (Z)) /* the compiler fuses it where it can */
#define CHOSEN(WHERE, YES, NO) FLOATS((BITS(YES) & (WHERE)) | (BITS(NO) & ~(WHERE)))
#define AT_LEAST(X, LOW) CHOSEN(LESS(X, LOW), LOW, X)
#define AT_MOST(X, HIGH) CHOSEN(MORE(X, HIGH), HIGH, X)
#endif

#include "maths/maths_code.h"

#define ROW(CODE, NAMED)                                                                              \
    TARGET static void OWN(NAMED##_row)(float p0, float p1, int64_t n, float *d, const float *s) { \
        int64_t i = 0;                                                                          \
        for (; i + LANES <= n; i += LANES)                                                      \
            *(LOOSE *)(d + i) = OWN(NAMED)(*(const LOOSE *)(s + i), p0, p1);                     \
        if (i == n) return;                                                                     \
        VECTOR rest = ALL(0.0f);                                                                \
        memcpy(&rest, s + i, (size_t)(n - i) * sizeof *s);                                      \
        rest = OWN(NAMED)(rest, p0, p1);                                                        \
        memcpy(d + i, &rest, (size_t)(n - i) * sizeof *d);                                      \
    }
MATHS_FUNCTIONS(ROW)
#define ENTRY(CODE, NAMED) [UN_##CODE] = OWN(NAMED##_row),
static MathsRow *const OWN(rows)[] = {MATHS_FUNCTIONS(ENTRY)};

#undef ENTRY
#undef ROW
#undef AT_MOST
#undef AT_LEAST
#undef CHOSEN
#undef FMA
#undef MUL
#undef SIGNED
#undef SIZE
#undef SAME
#undef MORE
#undef LESS
#undef NEG
#undef DIV
#undef SUB
#undef ADD
#undef BELOW
#undef BOTH
#undef DOWN
#undef MINUS
#undef PLUS
#undef UP
#undef MASK
#undef FROM_WHOLE
#undef FLOATS
#undef BITS
#undef ALL_WHOLE
#undef ALL
#undef ROUNDED
#undef REGISTERS
#undef WHOLES
#undef LOOSE
#undef VECTOR
#undef OWN
#undef PASTE
#undef PASTE_
#undef FUSED
#undef LANES
#undef TARGET
#undef NAME

/* The steps of a tape: each takes columns of n numbers and writes one. A column is a slot of a register file. */
#ifndef AUTOTUNE_TAPE_STEPS_H
#define AUTOTUNE_TAPE_STEPS_H

#include <math.h>
#include <stdint.h>

#include "micro/word.h"

/* Codes of steps. Truth values are integers, 0 or 1. */
enum {
    DO_COPY, DO_ADD, DO_SUB, DO_MUL, DO_DIV, DO_MOD, DO_MIN, DO_MAX, DO_NEG, DO_ABS, DO_GCD, DO_AND, DO_OR, DO_NOT, DO_EQ, DO_NE,
    DO_LT, DO_LE, DO_SELECT, DO_FADD, DO_FSUB, DO_FMUL, DO_FDIV, DO_FMIN, DO_FMAX, DO_FNEG, DO_FABS, DO_FCEIL, DO_FFLOOR, DO_FRINT,
    DO_FEQ, DO_FNE, DO_FLT, DO_FLE, DO_ISINF, DO_FLOAT, DO_INT, DO_EDGES, DO_BURSTS,
    DO_CONFLICT, DO_STEPS
};

enum { MOST_BANKS = 1024, MOST_AXES = 8 };

/* One step: `to` and a, b, c are slots. Of EDGES, BURSTS and CONFLICT, the slots of b operands stand in a list from a on. */
typedef struct {
    int32_t op, to, a, b, c;
} TapeStep;

typedef union {
    int64_t i;
    double f;
} TapeWord;

/* a / b rounded down, as NumPy divides integers: 0 where b is. */
ALWAYS_INLINE int64_t floor_quotient(int64_t a, int64_t b) {
    if (!b) return 0;
    int64_t q = a / b;
    return q - (q * b != a && (a < 0) != (b < 0));
}

/* Divide columns. Doubles divide integers below 2^50 exactly: a quotient that is no integer lies at least 1 / b below
 * the next one, which is more than it is rounded by. */
ALWAYS_INLINE void divide(TapeWord *to, const TapeWord *a, const TapeWord *b, int64_t n) {
    const int64_t most = (int64_t)1 << 50;
    int64_t beyond = 0;
    for (int64_t i = 0; i < n; i++) beyond |= (a[i].i > most) | (a[i].i < -most) | (b[i].i > most) | (b[i].i < 1);
    if (beyond) {
        for (int64_t i = 0; i < n; i++) to[i].i = floor_quotient(a[i].i, b[i].i);
    } else {
        INDEPENDENT for (int64_t i = 0; i < n; i++) to[i].i = (int64_t)floor((double)a[i].i / (double)b[i].i);
    }
}

ALWAYS_INLINE int64_t divisor(int64_t a, int64_t b) {
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

ALWAYS_INLINE int64_t clipped(int64_t x, int64_t most) {
    if (x < 0) x = 0;
    return x < most ? x : most;
}

/* Elements of a row of full tiles that lie outside of their tensor: `edge_losses` in cost_model/steps/tiling.py. */
ALWAYS_INLINE int64_t edges(int64_t span, int64_t step, int64_t full, int64_t offset, int64_t extent) {
    int64_t lost = 0;
    for (int64_t tile = 0; tile < full && step * tile < -offset; tile++) lost += clipped(-offset - step * tile, span);
    for (int64_t back = 1; back <= full; back++) {
        int64_t over = step * (full - back) + offset + span - extent;
        if (over <= 0) break;
        lost += clipped(over, span);
    }
    return lost;
}

/* Bytes in whole bursts of runs through a line of tiles: `touched_bytes` in cost_model/steps/bursts.py. */
ALWAYS_INLINE int64_t touched(const TapeWord *r, const int32_t *slot, int64_t n, int64_t row) {
    if (!r[slot[0] * n + row].i) return 0;
    int64_t first = r[slot[1] * n + row].i, step = r[slot[2] * n + row].i, tiles = r[slot[3] * n + row].i;
    int64_t span = r[slot[4] * n + row].i, extent = r[slot[5] * n + row].i, pitch = r[slot[6] * n + row].i;
    int64_t grain = r[slot[7] * n + row].i, burst = r[slot[8] * n + row].i, total = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t low = clipped(first + tile * step, extent), length = clipped(first + tile * step + span, extent) - low;
        int64_t reached = ((low * pitch) & (grain - 1)) + length * pitch;
        if (length > 0) total += ((reached + grain - 1) & -grain) + burst - grain;
    }
    return total;
}

/* Cycles per pass for a strided operand: `pass_conflict` in cost_model/steps/bank_conflicts.py. `slot` names sizes, then
 * strides, outer to inner, then lanes and banks. */
APART int64_t conflict(const TapeWord *r, const int32_t *slot, int rank, int64_t n, int64_t row) {
    int64_t lanes = r[slot[2 * rank] * n + row].i, banks = r[slot[2 * rank + 1] * n + row].i;
    int64_t take[MOST_AXES], index[MOST_AXES] = {0}, stride[MOST_AXES], left = lanes, worst = 0, served;
    int32_t words[MOST_BANKS] = {0};
    for (int d = rank - 1; d >= 0; d--) {
        int64_t size = r[slot[d] * n + row].i;
        stride[d] = r[slot[rank + d] * n + row].i;
        take[d] = size < left ? size : left;
        if (take[d] < 1) take[d] = 1;
        left /= take[d];
        if (!stride[d]) take[d] = -take[d]; /* one word serves them all */
    }
    for (;;) {
        int64_t at = 0;
        int d = rank - 1;
        for (int e = 0; e < rank; e++) at += index[e] * stride[e];
        int64_t bank = at % banks;
        if (bank < 0) bank += banks;
        if (++words[bank] > worst) worst = words[bank];
        while (d >= 0 && (take[d] < 0 || ++index[d] == take[d])) index[d--] = 0;
        if (d < 0) break;
    }
    served = -floor_quotient(-lanes, banks);
    return -floor_quotient(-worst, served);
}

/* Neighbouring rows have equal operands often. */
ALWAYS_INLINE void conflicts(TapeWord *to, const TapeWord *r, const int32_t *slot, int count, int64_t n) {
    int rank = count / 2 - 1;
    for (int64_t row = 0; row < n; row++) {
        int same = row > 0;
        for (int k = 0; same && k < count; k++) same = r[slot[k] * n + row].i == r[slot[k] * n + row - 1].i;
        to[row].i = same ? to[row - 1].i : conflict(r, slot, rank, n, row);
    }
}

/* As np.maximum and np.minimum choose: NaN wins. */
ALWAYS_INLINE double larger(double a, double b) { return a >= b || a != a ? a : b; }
ALWAYS_INLINE double smaller(double a, double b) { return a <= b || a != a ? a : b; }

#define EACH(EXPR)                                       \
    {                                                    \
        INDEPENDENT for (int64_t i = 0; i < n; i++) EXPR; \
    }                                                    \
    break

ALWAYS_INLINE void run_steps_narrow_body(TapeWord *r, const TapeStep *step, int64_t count, const int32_t *lists, int64_t n) {
    for (const TapeStep *end = step + count; step < end; step++) {
        TapeWord *to = r + step->to * n;
        const TapeWord *a = r + step->a * n, *b = r + step->b * n, *c = r + step->c * n;
        const int32_t *slot = lists + step->a;
        switch (step->op) {
            case DO_COPY: EACH(to[i].i = a[i].i);
            case DO_ADD: EACH(to[i].i = a[i].i + b[i].i);
            case DO_SUB: EACH(to[i].i = a[i].i - b[i].i);
            case DO_MUL: EACH(to[i].i = a[i].i * b[i].i);
            case DO_DIV: divide(to, a, b, n); break;
            case DO_MOD: EACH(to[i].i = a[i].i - (b[i].i ? floor_quotient(a[i].i, b[i].i) * b[i].i : a[i].i));
            case DO_MIN: EACH(to[i].i = a[i].i < b[i].i ? a[i].i : b[i].i);
            case DO_MAX: EACH(to[i].i = a[i].i > b[i].i ? a[i].i : b[i].i);
            case DO_NEG: EACH(to[i].i = -a[i].i);
            case DO_ABS: EACH(to[i].i = a[i].i < 0 ? -a[i].i : a[i].i);
            case DO_GCD: EACH(to[i].i = divisor(a[i].i, b[i].i));
            case DO_AND: EACH(to[i].i = a[i].i & b[i].i);
            case DO_OR: EACH(to[i].i = a[i].i | b[i].i);
            case DO_NOT: EACH(to[i].i = a[i].i ^ 1);
            case DO_EQ: EACH(to[i].i = a[i].i == b[i].i);
            case DO_NE: EACH(to[i].i = a[i].i != b[i].i);
            case DO_LT: EACH(to[i].i = a[i].i < b[i].i);
            case DO_LE: EACH(to[i].i = a[i].i <= b[i].i);
            case DO_SELECT: EACH(to[i].i = a[i].i ? b[i].i : c[i].i);
            case DO_FADD: EACH(to[i].f = a[i].f + b[i].f);
            case DO_FSUB: EACH(to[i].f = a[i].f - b[i].f);
            case DO_FMUL: EACH(to[i].f = a[i].f * b[i].f);
            case DO_FDIV: EACH(to[i].f = a[i].f / b[i].f);
            case DO_FMIN: EACH(to[i].f = smaller(a[i].f, b[i].f));
            case DO_FMAX: EACH(to[i].f = larger(a[i].f, b[i].f));
            case DO_FNEG: EACH(to[i].f = -a[i].f);
            case DO_FABS: EACH(to[i].f = fabs(a[i].f));
            case DO_FCEIL: EACH(to[i].f = ceil(a[i].f));
            case DO_FFLOOR: EACH(to[i].f = floor(a[i].f));
            case DO_FRINT: EACH(to[i].f = rint(a[i].f));
            case DO_FEQ: EACH(to[i].i = a[i].f == b[i].f);
            case DO_FNE: EACH(to[i].i = a[i].f != b[i].f);
            case DO_FLT: EACH(to[i].i = a[i].f < b[i].f);
            case DO_FLE: EACH(to[i].i = a[i].f <= b[i].f);
            case DO_ISINF: EACH(to[i].i = fabs(a[i].f) == INFINITY);
            case DO_FLOAT: EACH(to[i].f = (double)a[i].i);
            case DO_INT: EACH(to[i].i = (int64_t)a[i].f);
            case DO_EDGES:
                EACH(to[i].i = edges(r[slot[0] * n + i].i, r[slot[1] * n + i].i, r[slot[2] * n + i].i,
                                     r[slot[3] * n + i].i, r[slot[4] * n + i].i));
            case DO_BURSTS: EACH(to[i].i = touched(r, slot, n, i));
            case DO_CONFLICT: conflicts(to, r, slot, step->b, n); break;
        }
    }
}

#undef EACH

APART void run_steps_once(TapeWord *r, const TapeStep *step, int64_t count, const int32_t *lists) {
    run_steps_narrow_body(r, step, count, lists, 1);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512"), noinline)) static void
run_steps_wide(TapeWord *r, const TapeStep *step, int64_t count, const int32_t *lists, int64_t n) {
    run_steps_narrow_body(r, step, count, lists, n);
}
#endif
VERSIONS(run_steps_narrow, (TapeWord *r, const TapeStep *step, int64_t count, const int32_t *lists, int64_t n),
         (r, step, count, lists, n))

/* Run steps on n rows. AVX-512 converts and multiplies 64-bit integers, which AVX2 does one by one. */
static inline void run_steps(TapeWord *r, const TapeStep *step, int64_t count, const int32_t *lists, int64_t n) {
    if (n == 1) {
        run_steps_once(r, step, count, lists);
        return;
    }
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        run_steps_wide(r, step, count, lists, n);
        return;
    }
#endif
    run_steps_narrow(r, step, count, lists, n);
}

#endif

/* One instruction's numbers: picks the micro-kernel and resolves the operands. */
#ifndef AUTOTUNE_EXECUTE_H
#define AUTOTUNE_EXECUTE_H

#include "gemm.h"
#include "lanes.h"
#include "transfer.h"

/* What the numbers of one core live in. `tensors` are the program's, `work` GEMM_WORKSPACE floats. */
typedef struct {
    float *scratchpad;
    float **tensors;
    float *work;
} Memory;

ALWAYS_INLINE int applies(int when, int level, const Loops *at, int to_last) {
    if (when != WHEN_BY_LEVEL) return when == WHEN_ALWAYS;
    return to_last ? at->index[level] == at->trips[level] - 1 : at->index[level] != 0;
}

static void execute_product(const Word *w, const Loops *at, const Memory *memory) {
    const Product *p = &w->product;
    float *s = memory->scratchpad;
    const float *bias = s + address_of(&w->operand[3], at);
    Drain drain = {
        .adds = applies(p->accumulate, p->k_level, at, 0),
        .ends = applies(p->epilogue, p->k_level, at, 1),
        .scale = 1.0f,
        .row_bias = p->bias_axis == 1 ? bias : 0,
        .col_bias = p->bias_axis == 2 ? bias : 0,
        .residual = 0,
        .fn = w->fn, .p0 = w->p0, .p1 = w->p1,
    };
    gemm(p, &drain, s + address_of(&w->operand[1], at), s + address_of(&w->operand[2], at),
         s + address_of(&w->operand[0], at), memory->work);
}

static void execute_word(const Word *w, const Loops *at, const Memory *memory) {
    float *s = memory->scratchpad;
    switch (w->opcode) {
    case OP_LOAD: load_rectangle(w, at, s, memory->tensors[w->region.tensor]); break;
    case OP_STORE: store_rectangle(w, at, s, memory->tensors[w->region.tensor]); break;
    case OP_MATMUL: execute_product(w, at, memory); break;
    case OP_REDUCE: reduction(w, s + address_of(&w->operand[0], at), s + address_of(&w->operand[1], at)); break;
    case OP_MASK: mask_rectangle(w, at, s); break;
    case OP_UNARY: case OP_BINARY: case OP_FMA: case OP_FILL:
        elementwise(w, s + address_of(&w->operand[0], at), s + address_of(&w->operand[1], at),
                    s + address_of(&w->operand[2], at));
        break;
    }
}

#endif

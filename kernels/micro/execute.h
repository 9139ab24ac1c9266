/* One instruction's numbers: picks the micro-kernel and resolves the operands. */
#ifndef AUTOTUNE_EXECUTE_H
#define AUTOTUNE_EXECUTE_H

#include "micro/chain.h"
#include "micro/gather.h"
#include "micro/gemm.h"
#include "micro/gemm_narrow.h"
#include "micro/lookup.h"
#include "micro/online.h"
#include "micro/operand.h"
#include "micro/transform.h"

#define ELEMENT ((int64_t)sizeof(float))

/* What the numbers of one core live in: a scratchpad of words; `tensors`, the program's, each of its
 * own format; `work`, NARROW_WORKSPACE floats. */
typedef struct {
    float *scratchpad;
    void **tensors;
    float *work;
} Memory;

static void execute_product(const Word *w, const Loops *at, const Memory *memory) {
    const Product *p = &w->product;
    char *s = (char *)memory->scratchpad;
    const float *bias = (const float *)(s + address_of(&w->operand[3], at));
    const char *a = s + address_of(&w->operand[1], at), *b = s + address_of(&w->operand[2], at);
    float *c = (float *)(s + address_of(&w->operand[0], at));
    Drain drain = {
        .adds = applies(p->accumulate, p->k_level, at, 0),
        .ends = applies(p->epilogue, p->k_level, at, 1),
        .scale = w->scale,
        .row_bias = p->bias_axis == 1 ? bias : 0,
        .col_bias = p->bias_axis == 2 ? bias : 0,
        .residual = p->has_residual ? (const float *)(s + address_of(&w->operand[4], at)) : 0,
        .fn = w->fn, .p0 = w->p0, .p1 = w->p1,
    };
    if (p->a_format == FORMAT_FP32) gemm(p, &drain, (const float *)a, (const float *)b, c, memory->work);
    else gemm_narrow(p, &drain, a, b, c, memory->work);
}

static void execute_conversion(const Word *w, const Loops *at, char *s) {
    convert_nest(&w->conversion, &w->nest, s + address_of(&w->operand[0], at), s + address_of(&w->operand[1], at));
}

static void execute_vector(const Word *w, const Loops *at, float *s) {
    float *place[4];
    const Product *p = &w->product;
    for (int o = 0; o < 4; o++) place[o] = s + address_of(&w->operand[o], at) / ELEMENT;
    switch (w->opcode) {
    case OP_REDUCE: reduction(w, place[0], place[1]); break;
    case OP_MASK: mask_rectangle(w, at, s); break;
    case OP_CHAIN: chain(w, place[0], place[1], place[2], place[3]); break;
    case OP_ONLINE:
        online(w, place[0], place[1], place[2], applies(p->accumulate, p->k_level, at, 0));
        break;
    case OP_TRANSFORM: transform(w, place[0], place[1], place[2], place[3]); break;
    default: elementwise(w, place[0], place[1], place[2]); break;
    }
}

/* Written into the loop over events, it would take the registers of the timing. */
APART void execute_word(const Word *w, const Loops *at, const Memory *memory) {
    float *s = memory->scratchpad;
    void **tensors = memory->tensors;
    switch (w->opcode) {
    case OP_LOAD: load_rectangle(w, at, s, (const char *)tensors[w->region.tensor]); break;
    case OP_GATHER: gather(w, at, s, (const char *)tensors[w->region.tensor]); break;
    case OP_LOOKUP:
        lookup(w, at, (char *)s + address_of(&w->operand[0], at), s + address_of(&w->operand[1], at) / ELEMENT,
               (const char *)tensors[w->region.tensor]);
        break;
    case OP_STORE: store_rectangle(w, at, s, (char *)tensors[w->region.tensor]); break;
    case OP_MATMUL: execute_product(w, at, memory); break;
    case OP_CONVERT: execute_conversion(w, at, (char *)s); break;
    default: if (w->opcode >= OP_UNARY) execute_vector(w, at, s); break; /* WAIT and SIGNAL compute nothing */
    }
}

#endif

/* Which operands an instruction has in a trip, and how wide their elements are: what its numbers, its
 * cost, its hazards and the race check all go by. Operand o is bit o. */
#ifndef AUTOTUNE_OPERAND_H
#define AUTOTUNE_OPERAND_H

#include "micro/word.h"

#define OPERANDS 5

/* Whether `when` says so in this trip of its level: behind the first one, or in the last one. */
ALWAYS_INLINE int applies(int when, int level, const Loops *at, int to_last) {
    if (when != WHEN_BY_LEVEL) return when == WHEN_ALWAYS;
    return to_last ? at->index[level] == at->trips[level] - 1 : at->index[level] != 0;
}

/* Of `executions`, those in which a part of a product applies: none, all, or all but (only) the one of
 * `trips` that ends (begins) its reduction. */
static inline int64_t applying(int when, int64_t executions, int64_t trips, int to_last) {
    if (when != WHEN_BY_LEVEL) return when == WHEN_ALWAYS ? executions : 0;
    int64_t ends = trips > 0 ? executions / trips : executions;
    return to_last ? ends : executions - ends;
}

/* Bytes of an element in the scratchpad. */
static int operand_bytes(const Word *w, int operand) {
    switch (w->opcode) {
    case OP_LOAD: case OP_STORE: case OP_GATHER: return FORMAT_BYTES[w->format];
    case OP_LOOKUP: return operand ? 4 : FORMAT_BYTES[w->format];
    case OP_CONVERT: return FORMAT_BYTES[operand ? w->conversion.src_format : w->conversion.dst_format];
    case OP_MATMUL:
        return operand == 1 ? FORMAT_BYTES[w->product.a_format] : operand == 2 ? FORMAT_BYTES[w->product.b_format] : 4;
    default: return 4;
    }
}

/* Elements of an operand along a dimension of its word's nest: a TRANSFORM's tiles may leave smaller
 * than they came, and its bias has channels alone. */
static inline int64_t operand_extent(const Word *w, int operand, int d) {
    if (w->opcode != OP_TRANSFORM || operand == 1) return w->nest.size[d];
    if (operand == 2) return d == 4 ? w->nest.size[d] : 1;
    return d < 2 ? rows_made(w->transform) : w->nest.size[d];
}

#define ALL_SIDES (4 | 8)

/* Side operands that a CHAIN's stages take. */
static int chain_sides(const Word *w) {
    int sides = 0;
    for (int i = 0; i < w->stages; i++) {
        int kind = w->stage[i].kind;
        if (kind == STAGE_WITH0 || kind == STAGE_FROM0) sides |= 4;
        if (kind == STAGE_WITH1 || kind == STAGE_FROM1) sides |= 8;
    }
    return sides;
}

/* Read where a product or ONLINE `adds` to what is there, and a product `ends` with its epilogue: 0 or 1. */
static inline int operands_read(const Word *w, int adds, int ends) {
    switch (w->opcode) {
    case OP_MATMUL: return 6 | adds | (ends && w->product.bias_axis ? 8 : 0) | (ends && w->product.has_residual ? 16 : 0);
    case OP_ONLINE: return 4 | adds << 1;
    case OP_STORE: return 1;
    case OP_UNARY: case OP_CONVERT: case OP_LOOKUP: return 2;
    case OP_BINARY: return 6;
    case OP_FMA: return 7;
    case OP_REDUCE: return 2 | (w->p1 != 0.0f);
    case OP_CHAIN: return 2 | chain_sides(w);
    case OP_TRANSFORM: return 2 | (w->biased ? 4 : 0) | (w->adds ? 8 : 0);
    default: return 0;
    }
}

static inline int operands_written(const Word *w) {
    return w->opcode == OP_ONLINE ? 3 : w->opcode >= OP_LOAD && w->opcode != OP_STORE;
}

#endif

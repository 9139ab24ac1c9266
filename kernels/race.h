/* The race check: replays a core's stream in program order with a vector clock per unit.
 *
 * What is ordered does not depend on timing: one queue alone takes from each semaphore, so that every
 * schedule pairs the same signals with the same waits, and program order is a legal schedule. A clock
 * holds per unit the last stamp (shadow.h) that is known to be done; a signal carries its giver's clock
 * to the taker. The sequencer (CONTROL) has one as well: what it has waited for is done before all that
 * it dispatches later. Full queues order nothing, since their depth is the machine's. */
#ifndef AUTOTUNE_RACE_H
#define AUTOTUNE_RACE_H

#include "decode.h"
#include "shadow.h"

#define OPERAND_COUNT 5

/* `late`: stamp of a forwarding MATMUL that is not done yet, 0 none. A vector instruction that takes the
 * token ends no earlier than the MATMUL: c is ordered before it, all else before what comes after it. */
typedef struct { int32_t seen[ACTORS], late; } Token;

typedef struct {
    Token ring[256]; /* counts end at 255 */
    uint8_t head, tail;
} Tokens;

typedef struct { Pattern operand[OPERAND_COUNT]; } Patterns;

typedef struct {
    const Word *words;
    const Patterns *patterns;
    const int64_t *parameters;
    int64_t *begun;    /* trips that each LOOP and CASE has begun */
    Tokens *tokens;    /* by semaphore */
    Shadow scratchpad;
    Shadow *tensors;   /* those without `write` are read alone: nothing can race there */
    int32_t *places;   /* by instruction executed, from 1 on; room for a budget more */
    int64_t pc, executed;
    int32_t lowest, count; /* place of the core's first instruction; their number */
    int32_t clock[UNIT_CONTROL + 1][ACTORS];
    Loops loops;
    Findings found;
} Replay;

static int element_bytes(const Word *w, int operand) {
    switch (w->opcode) {
    case OP_LOAD: case OP_STORE: case OP_GATHER: return FORMAT_BYTES[w->format];
    case OP_CONVERT: return FORMAT_BYTES[operand ? w->conversion.src_format : w->conversion.dst_format];
    case OP_MATMUL:
        return operand == 1 ? FORMAT_BYTES[w->product.a_format] : operand == 2 ? FORMAT_BYTES[w->product.b_format] : 4;
    default: return 4;
    }
}

static void product_patterns(const Word *w, Pattern *out) {
    const Product *p = &w->product;
    const int64_t rows[] = {p->m, p->n1, p->n0}, left[] = {p->m, p->k2, p->k1, p->k0};
    const int64_t right[] = {p->k2, p->k1, p->k0, p->n1, p->n0}, one = 1;
    const int64_t c[] = {p->c_m, p->c_n1, p->c_n0}, r[] = {p->r_m, p->r_n1, p->r_n0};
    const int64_t a[] = {p->a_m, p->a_k2, p->a_k1, p->a_k0};
    const int64_t b[] = {p->b_k2, p->b_k1, p->b_k0, p->b_n1, p->b_n0};
    out[0] = pattern_of(3, rows, c, 4);
    out[1] = pattern_of(4, left, a, element_bytes(w, 1));
    out[2] = pattern_of(5, right, b, element_bytes(w, 2));
    out[3] = pattern_of(1, p->bias_axis == 1 ? &p->m : &p->n0, &one, 4);
    out[4] = pattern_of(3, rows, r, 4);
}

/* Of all operands of a word: trips change where they begin, never their form. */
static void settle_patterns(const Word *w, Patterns *out) {
    if (w->opcode == OP_MATMUL) {
        product_patterns(w, out->operand);
        return;
    }
    for (int o = 0; o < 4; o++) {
        int moved = w->unit == UNIT_LOAD || w->unit == UNIT_STORE;
        out->operand[o] = pattern_of(moved ? RANK : w->nest.rank, moved ? w->region.size : w->nest.size,
                                     w->nest.stride[o], element_bytes(w, o));
    }
    if (w->opcode == OP_ONLINE) { /* m, l and f of each row */
        const int64_t size[] = {w->nest.size[0], 3}, stride[] = {w->nest.stride[1][0], 1};
        out->operand[1] = pattern_of(2, size, stride, 4);
    }
}

static int is_due(int when, int level, const Loops *at, int in_last_trip) {
    if (when != WHEN_BY_LEVEL) return when == WHEN_ALWAYS;
    return in_last_trip ? at->index[level] == at->trips[level] - 1 : at->index[level] != 0;
}

static int chain_sides(const Word *w) {
    int sides = 0;
    for (int i = 0; i < w->stages; i++) {
        int kind = w->stage[i].kind;
        if (kind == STAGE_WITH0 || kind == STAGE_FROM0) sides |= 4;
        if (kind == STAGE_WITH1 || kind == STAGE_FROM1) sides |= 8;
    }
    return sides;
}

/* Operands that an instruction reads in this trip, as bits. */
static int reads_of(const Word *w, const Loops *at) {
    const Product *p = &w->product;
    switch (w->opcode) {
    case OP_MATMUL: {
        int ends = is_due(p->epilogue, p->k_level, at, 1), adds = is_due(p->accumulate, p->k_level, at, 0);
        return 6 | adds | (ends && p->bias_axis ? 8 : 0) | (ends && p->has_residual ? 16 : 0);
    }
    case OP_ONLINE: return 4 | (is_due(p->accumulate, p->k_level, at, 0) ? 2 : 0);
    case OP_UNARY: case OP_CONVERT: return 2;
    case OP_BINARY: return 6;
    case OP_FMA: return 7;
    case OP_REDUCE: return 2 | (w->p1 != 0.0f);
    case OP_CHAIN: return 2 | chain_sides(w);
    default: return 0;
    }
}

static int writes_of(const Word *w) { return w->opcode == OP_ONLINE ? 3 : w->unit == UNIT_MATRIX || w->unit == UNIT_VECTOR; }

static void touch_operands(const Word *w, const Pattern *patterns, const Loops *at, int operands, Touch *t) {
    int32_t stamp = t->stamp;
    for (int o = 0; o < OPERAND_COUNT; o++) {
        if (!(operands >> o & 1)) continue;
        t->pattern = &patterns[o];
        t->first_byte = 4 * address_of(&w->operand[o], at);
        t->stamp = w->forward && o == 0 ? stamp - 1 : stamp;
        touch_pattern(t);
    }
    t->stamp = stamp;
}

static void touch_tensor(const Replay *r, const Region *region, const Pattern *p, int64_t element, int writes, Touch *t) {
    Touch there = *t;
    there.shadow = &r->tensors[region->tensor];
    there.memory = region->tensor;
    there.pattern = p;
    there.first_byte = element * p->bytes;
    there.writes = writes;
    touch_pattern(&there);
}

/* The part of a LOAD's or STORE's rectangle that lies inside of its tensor. */
static void touch_region(const Replay *r, const Region *region, const Clip *c, int writes, Touch *t) {
    if (!r->tensors[region->tensor].write || c->elements == 0) return;
    Pattern p = pattern_of(RANK, c->size, region->stride, FORMAT_BYTES[region->format]);
    touch_tensor(r, region, &p, clip_offset(region, c), writes, t);
}

/* Row by row, as gather.h does. */
static void touch_gathered(const Replay *r, const Word *w, Touch *t) {
    const Region *g = &w->region;
    if (!r->tensors[g->tensor].write) return;
    int last = RANK - 1;
    while (last > 0 && g->size[last] == 1) last--;
    int64_t trip[RANK] = {0}, offset[1] = {0}, coordinate[RANK], step = g->hop[last] * g->stride[g->axis[last]];
    do {
        row_coordinates(g, &r->loops, trip, coordinate);
        Inside in = row_inside(g, coordinate, g->axis[last], g->hop[last], g->size[last]);
        if (in.low == in.high) continue;
        int64_t n = in.high - in.low, element = in.low * step, ahead = step < 0 ? -step : step;
        for (int d = 0; d < RANK; d++) element += coordinate[d] * g->stride[d];
        if (step < 0) element += (n - 1) * step;
        Pattern p = pattern_of(1, &n, &ahead, FORMAT_BYTES[g->format]);
        touch_tensor(r, g, &p, element, 0, t);
    } while (next_row(&w->nest, last, 1, trip, offset));
}

/* A rectangle of the operand of a word that has a region: `size` elements from `low` on. */
static void touch_part(const Word *w, const Loops *at, const int64_t *low, const int64_t *size, Touch *t) {
    int bytes = element_bytes(w, 0);
    Pattern p = pattern_of(RANK, size, w->nest.stride[0], bytes);
    t->pattern = &p;
    t->first_byte = 4 * address_of(&w->operand[0], at);
    for (int d = 0; d < RANK; d++) t->first_byte += low[d] * w->nest.stride[0][d] * bytes;
    touch_pattern(t);
}

/* What lies outside in dimension d and inside in all before it, d by d. */
static void touch_masked(const Word *w, const Loops *at, Touch *t) {
    Clip c = clip_region(&w->region, at);
    int64_t low[RANK] = {0}, size[RANK];
    memcpy(size, w->region.size, sizeof size);
    for (int d = 0; d < RANK; d++) {
        if (c.size[d] == 0) {
            touch_part(w, at, low, size, t);
            return;
        }
        int64_t all = size[d], behind = c.low[d] + c.size[d];
        size[d] = c.low[d];
        if (size[d]) touch_part(w, at, low, size, t);
        low[d] = behind;
        size[d] = all - behind;
        if (size[d]) touch_part(w, at, low, size, t);
        low[d] = c.low[d];
        size[d] = c.size[d];
    }
}

static void touch_all(const Replay *r, const Word *w, Touch *t) {
    const Pattern *patterns = r->patterns[w - r->words].operand;
    const Loops *at = &r->loops;
    t->writes = 0;
    if (w->opcode == OP_STORE) {
        Clip c = clip_region(&w->region, at);
        if (c.elements) touch_part(w, at, c.low, c.size, t);
        touch_region(r, &w->region, &c, 1, t);
        return;
    }
    if (w->opcode == OP_LOAD) {
        Clip c = clip_region(&w->region, at);
        touch_region(r, &w->region, &c, 0, t);
    } else if (w->opcode == OP_GATHER) {
        touch_gathered(r, w, t);
    }
    touch_operands(w, patterns, at, reads_of(w, at), t);
    t->writes = 1;
    if (w->opcode == OP_MASK) touch_masked(w, at, t);
    else touch_operands(w, patterns, at, w->unit == UNIT_LOAD ? 1 : writes_of(w), t);
}

static void join(int32_t *clock, const int32_t *other) {
    for (int u = 0; u < ACTORS; u++) if (other[u] > clock[u]) clock[u] = other[u];
}

/* What an instruction of a queue touches; `late` as in Token. */
static void execute(Replay *r, const Word *w, int32_t late) {
    int32_t *mine = r->clock[w->unit];
    Touch t = {.shadow = &r->scratchpad, .memory = -1, .unit = w->unit, .lowest = r->lowest, .count = r->count,
               .found = &r->found};
    t.place = r->lowest + (int32_t)(w - r->words);
    r->places[++r->executed] = t.place;
    mine[w->unit] = t.stamp = 2 * (int32_t)r->executed;
    memcpy(t.seen, mine, sizeof t.seen);
    if (late > t.seen[UNIT_MATRIX]) t.seen[UNIT_MATRIX] = late - 1;
    t.seen[w->unit] = ALL_SEEN;
    for (int u = 0; u < ACTORS; u++) t.pending |= (r->clock[u][u] > t.seen[u]) << u;
    if (w->opcode >= OP_LOAD) touch_all(r, w, &t); /* WAIT and SIGNAL of a queue touch nothing */
    if (late > mine[UNIT_MATRIX]) mine[UNIT_MATRIX] = late;
}

static void perform(Replay *r, const Word *w) {
    int32_t *mine = r->clock[w->unit], late = 0;
    join(mine, r->clock[UNIT_CONTROL]);
    for (const uint8_t *s = w->waits; *s; s++) {
        Tokens *q = &r->tokens[*s];
        const Token *token = &q->ring[q->head++];
        join(mine, token->seen);
        if (w->unit == UNIT_VECTOR && token->late > late) late = token->late;
    }
    if (w->unit != UNIT_CONTROL) execute(r, w, late);
    for (const uint8_t *s = w->signals; *s; s++) {
        Tokens *q = &r->tokens[*s];
        Token *token = &q->ring[q->tail++];
        memcpy(token->seen, mine, sizeof token->seen);
        token->late = w->forward ? mine[UNIT_MATRIX] : 0;
        if (w->forward) token->seen[UNIT_MATRIX] -= 2;
    }
}

static void begin_turn(Replay *r, int64_t pc, int64_t index) {
    const Word *w = &r->words[pc];
    r->loops.index[w->level] = index;
    r->loops.parity[w->level] = r->begun[pc]++ & 1;
}

static int is_entered(const Replay *r, const Word *w) {
    if (w->trips == 0 || w->opcode == OP_LOOP) return w->trips > 0;
    return w->low <= r->parameters[w->parameter] && r->parameters[w->parameter] <= w->high;
}

static void end_turn(Replay *r, const Word *w) {
    int64_t loop = w->jump, index = r->loops.index[w->level] + 1;
    if (index == r->loops.trips[w->level]) {
        r->pc++;
        return;
    }
    begin_turn(r, loop, index);
    r->pc = loop + 1;
}

/* Up to `budget` instructions more; 0 at HALT or when no more races can be taken in. */
static int replay(Replay *r, int64_t budget) {
    for (;;) {
        const Word *w = &r->words[r->pc];
        switch (w->opcode) {
        case OP_HALT: return 0;
        case OP_MARK: r->pc++; break;
        case OP_END: end_turn(r, w); break;
        case OP_LOOP: case OP_CASE:
            r->loops.trips[w->level] = w->trips;
            if (is_entered(r, w)) begin_turn(r, r->pc++, 0);
            else r->pc = w->jump;
            break;
        default:
            if (budget-- == 0) return 1;
            r->pc++;
            perform(r, w);
            if (r->found.count == r->found.limit) return 0;
        }
    }
}

#endif

/* Where instructions touch the scratchpad over all trips, and so what their semaphores stand for: the
 * cause that a wait is booked under. */
#ifndef AUTOTUNE_HAZARD_H
#define AUTOTUNE_HAZARD_H

#include <stdlib.h>

#include "emulator/cost.h"

#define ID_COUNT 256 /* semaphores of a core */

/* What the cycles of a unit are booked under; names in autotune.targets.emulator.counters. */
enum { SPENT_BUSY, SPENT_DISPATCH, SPENT_OPERAND, SPENT_FULL, SPENT_SEMAPHORE, SPENT_PORT, SPENT_CHANNEL,
       SPENT_TURN, SPENT_ROW, SPENT_COLUMN, SPENT_BANK, SPENDINGS };

/* Lowest and highest word that each operand reaches; operands that are read or written, as bits. */
typedef struct {
    int64_t low[OPERANDS], high[OPERANDS];
    uint8_t reads, writes;
} Touched;

/* From the first element of a product's operand to its last, in elements. */
static int64_t product_span(const Product *p, int operand) {
    int64_t k2 = p->k2 - 1, k1 = p->k1 - 1, k0 = p->k0 - 1, m = p->m - 1, n1 = p->n1 - 1, n0 = p->n0 - 1;
    switch (operand) {
    case 0: return m * p->c_m + n1 * p->c_n1 + n0 * p->c_n0;
    case 1: return m * p->a_m + k2 * p->a_k2 + k1 * p->a_k1 + k0 * p->a_k0;
    case 2: return k2 * p->b_k2 + k1 * p->b_k1 + k0 * p->b_k0 + n1 * p->b_n1 + n0 * p->b_n0;
    case 3: return p->bias_axis == 1 ? m : n0;
    default: return m * p->r_m + n1 * p->r_n1 + n0 * p->r_n0;
    }
}

static int64_t nest_span(const Word *w, int operand) {
    int64_t span = 0;
    for (int d = 0; d < w->nest.rank; d++) {
        int64_t last = operand_extent(w, operand, d) - 1;
        if (w->opcode == OP_ONLINE && operand == 1 && d == 1) { span += 2; continue; } /* m, l, f */
        span += last * w->nest.stride[operand][d];
    }
    return span;
}

/* `span` in elements. */
static void touch(const Word *w, int operand, int64_t span, const Loops *at, Touched *out) {
    const Operand *o = &w->operand[operand];
    int64_t a = o->step0 * (at->trips[o->level0] - 1), b = o->step1 * (at->trips[o->level1] - 1);
    int64_t low = o->base + (a < 0 ? a : 0) + (b < 0 ? b : 0), high = o->base + (a > 0 ? a : 0) + (b > 0 ? b : 0);
    high += span * operand_bytes(w, operand) + (o->turn < LEVELS - 1 ? o->slot : 0);
    out->low[operand] = low / 4;
    out->high[operand] = high / 4;
}

/* `at` holds the trips of the open loops, 1 for all other levels. */
static void touched_by(const Word *w, const Loops *at, Touched *out) {
    const Product *p = &w->product;
    out->writes = (uint8_t)operands_written(w);
    out->reads = (uint8_t)operands_read(w, p->accumulate != WHEN_NEVER, p->epilogue != WHEN_NEVER);
    for (int o = 0; o < OPERANDS; o++) {
        if (!((out->reads | out->writes) >> o & 1)) continue;
        touch(w, o, w->opcode == OP_MATMUL ? product_span(p, o) : nest_span(w, o), at, out);
    }
}

static int overlaps(const Touched *a, int a_operands, const Touched *b, int b_operands) {
    for (int i = 0; i < OPERANDS; i++)
        for (int j = 0; j < OPERANDS; j++)
            if (a_operands >> i & b_operands >> j & 1 && a->low[i] <= b->high[j] && b->low[j] <= a->high[i]) return 1;
    return 0;
}

/* What a wait is for: data that the signaller writes, a place that it still uses, or neither. */
static int wait_cause(const Touched *waiter, const Touched *signaller) {
    if (overlaps(waiter, waiter->reads, signaller, signaller->writes)) return SPENT_OPERAND;
    if (overlaps(waiter, waiter->writes, signaller, signaller->reads | signaller->writes)) return SPENT_FULL;
    return SPENT_SEMAPHORE;
}

#define MEMBERS 8

/* The instructions that a wait or signal stands for: itself, or for a word of its own those of its
 * unit that come next (WAIT) or came last (SIGNAL), up to another such word. Returns how many. */
static int members_of(const Word *words, int64_t count, int64_t at, int64_t *out) {
    int opcode = words[at].opcode, step = opcode == OP_WAIT ? 1 : -1, found = 0;
    out[0] = at;
    if (opcode != OP_WAIT && opcode != OP_SIGNAL) return 1;
    for (int64_t i = at + step; i >= 0 && i < count && found < MEMBERS; i += step) {
        if (words[i].unit != words[at].unit) continue;
        if (words[i].opcode == opcode && found) break;
        if (words[i].opcode != OP_WAIT && words[i].opcode != OP_SIGNAL) out[found++] = i;
    }
    return found;
}

static int cause_between(const Word *words, int64_t count, const Touched *touched, int64_t waiter, int64_t signaller) {
    int64_t takers[MEMBERS], givers[MEMBERS];
    int taking = members_of(words, count, waiter, takers), giving = members_of(words, count, signaller, givers);
    int cause = SPENT_SEMAPHORE;
    for (int i = 0; i < taking; i++)
        for (int j = 0; j < giving; j++) {
            int found = wait_cause(&touched[takers[i]], &touched[givers[j]]);
            if (found == SPENT_OPERAND) return found;
            if (found == SPENT_FULL) cause = found;
        }
    return cause;
}

/* Finds what of a rectangle's place does not depend on trips, or is linear in them. */
static void settle_rectangle(Word *w, const Loops *at) {
    Region *r = &w->region;
    w->address = r->first_byte;
    w->settled_elements = 1;
    for (int d = 0; d < RANK; d++) {
        int64_t pitch = FORMAT_BYTES[r->format] * r->stride[d];
        int64_t reach = r->step[d] * (at->trips[r->level[d]] - 1), down = reach < 0 ? reach : 0;
        int64_t low = r->coord[d] + down < 0, high = r->coord[d] + reach - down + r->size[d] > r->extent[d];
        w->settled[d] = r->size[d];
        if (reach && (low || high)) {
            w->clip_dim[w->clips++] = d;
            continue;
        }
        Side side = clip_side(r, d, r->coord[d]);
        w->settled[d] = side.size;
        w->settled_elements *= side.size;
        w->address += pitch * (r->coord[d] + side.low);
        if (!reach) continue;
        w->move[w->moves] = pitch * r->step[d];
        w->move_level[w->moves++] = r->level[d];
    }
}

static void touch_stream(Word *words, int64_t count, Touched *touched, Cost *costs) {
    Loops at;
    int depth = 0;
    for (int i = 0; i < LEVELS; i++) at.trips[i] = 1;
    for (int64_t i = 0; i < count; i++) {
        Word *w = &words[i];
        if (w->opcode == OP_LOOP || w->opcode == OP_CASE) at.trips[depth++] = w->trips ? w->trips : 1;
        else if (w->opcode == OP_END) at.trips[--depth] = 1;
        touched_by(w, &at, &touched[i]);
        if (w->opcode == OP_LOAD || w->opcode == OP_STORE) settle_rectangle(w, &at);
        for (int o = 0; o < OPERANDS; o++)
            if ((touched[i].reads | touched[i].writes) >> o & 1 && 4 * (touched[i].high[o] + 1) > costs[i].peak_bytes)
                costs[i].peak_bytes = 4 * (touched[i].high[o] + 1);
    }
}

/* Fills in what every wait of a stream is for. Returns 0 without memory. */
static int name_waits(Word *words, int64_t count, Cost *costs) {
    int32_t last[ID_COUNT], *before = (int32_t *)malloc((size_t)count * 3 * sizeof *before);
    Touched *touched = (Touched *)calloc((size_t)count, sizeof *touched);
    if (!before || !touched) { free(before); free(touched); return 0; }
    touch_stream(words, count, touched, costs);
    for (int i = 0; i < ID_COUNT; i++) last[i] = -1;
    for (int64_t i = 0; i < count; i++)
        for (int s = 0; words[i].signals[s]; s++) { /* chains the signals of each semaphore */
            before[3 * i + s] = last[words[i].signals[s]];
            last[words[i].signals[s]] = (int32_t)(3 * i + s);
        }
    for (int64_t i = 0; i < count; i++)
        for (int v = 0; words[i].waits[v]; v++) {
            int cause = SPENT_SEMAPHORE;
            for (int32_t at = last[words[i].waits[v]]; at >= 0 && cause != SPENT_OPERAND; at = before[at]) {
                int found = cause_between(words, count, touched, i, at / 3);
                if (found == SPENT_OPERAND || cause == SPENT_SEMAPHORE) cause = found;
            }
            words[i].why[v] = (uint8_t)cause;
        }
    free(before);
    free(touched);
    return 1;
}

#endif

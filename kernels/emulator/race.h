/* The race check: replays a core's stream in program order with a vector clock per unit.
 *
 * What is ordered does not depend on timing: one queue alone takes from each semaphore, so that every
 * schedule pairs the same signals with the same waits, and program order is a legal schedule. A clock
 * holds per unit the last stamp (shadow.h) that is known to be done; a signal carries its giver's clock
 * to the taker. The sequencer (CONTROL) has one as well: what it has waited for is done before all that
 * it dispatches later. Full queues order nothing, since their depth is the machine's. */
#ifndef AUTOTUNE_RACE_H
#define AUTOTUNE_RACE_H

#include "emulator/access.h"
#include "micro/decode.h"

/* `late`: stamp of a forwarding MATMUL that is not done yet, 0 none. A vector instruction that takes the
 * token ends no earlier than the MATMUL: c is ordered before it, all else before what comes after it. */
typedef struct { int32_t seen[ACTORS], late; } Token;

#define SEMAPHORES 256

/* Tokens of a semaphore from head to tail, which wrap around: counts end at 255. Where they begin and end
 * stands apart, so that semaphores that are not used leave their pages alone. */
typedef struct { Token ring[256]; } Tokens;

typedef struct {
    const Word *words;
    const Patterns *patterns;
    const int64_t *parameters;
    int64_t *begun;    /* trips that each LOOP and CASE has begun */
    Tokens *tokens;    /* by semaphore */
    uint8_t head[SEMAPHORES], tail[SEMAPHORES];
    Shadow scratchpad;
    Shadow *tensors;   /* those without `write` are read alone: nothing can race there */
    int32_t *places;   /* by instruction executed, from 1 on; room for a budget more */
    int64_t pc, executed;
    int32_t lowest, count; /* place of the core's first instruction; their number */
    int32_t clock[UNIT_CONTROL + 1][ACTORS];
    Loops loops;
    Findings found;
} Replay;

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
    if (w->opcode >= OP_LOAD) /* WAIT and SIGNAL of a queue touch nothing */
        touch_all(w, &r->patterns[w - r->words], &r->loops, r->tensors, &t);
    if (late > mine[UNIT_MATRIX]) mine[UNIT_MATRIX] = late;
}

static void perform(Replay *r, const Word *w) {
    int32_t *mine = r->clock[w->unit], late = 0;
    join(mine, r->clock[UNIT_CONTROL]);
    for (const uint8_t *s = w->waits; *s; s++) {
        const Token *token = &r->tokens[*s].ring[r->head[*s]++];
        join(mine, token->seen);
        if (w->unit == UNIT_VECTOR && token->late > late) late = token->late;
    }
    if (w->unit != UNIT_CONTROL) execute(r, w, late);
    for (const uint8_t *s = w->signals; *s; s++) {
        Token *token = &r->tokens[*s].ring[r->tail[*s]++];
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

/* How the native executor walks: steps of one stream, programs of one plan on the threads of a pool.
 *
 * No address is ever computed from loop indices. Every operand and number of every RUN has its own
 * value, all in one array; the end of a trip adds to those that its loop moves, and the end of a
 * loop takes it back. A kernel gets a pointer into that array, so that a RUN is one call. */
#ifndef AUTOTUNE_NATIVE_STEPS_H
#define AUTOTUNE_NATIVE_STEPS_H

#include "thread_pool.h"

enum { STEP_RUN, STEP_LOOP, STEP_END, STEP_CASE, STEP_HALT };
#define NATIVE_LEVELS 14

/* Where a value begins: at the thread's scratchpad, at nothing, or at a pointer of the run. */
enum { FROM_SCRATCHPAD, FROM_NOTHING, FROM_POINTERS };

typedef void (*NativeKernel)(char **operands, const int64_t *numbers);

/* What a trip of a loop adds to a value, and what its end takes back. Unsigned: sums may turn over. */
typedef struct {
    uint64_t step, rewind;
    int64_t value;
} Move;

/* A value that lies `slot` further in every second trip. */
typedef struct {
    uint64_t slot;
    int64_t value;
} Swap;

/* One cache line. An END has what its LOOP has. */
typedef struct {
    union {
        NativeKernel kernel; /* RUN */
        int64_t trips;       /* LOOP, END; 1 for CASE */
    };
    int32_t kind, level;
    union {
        struct { int32_t operands, numbers; };            /* RUN: its first values */
        struct { int32_t jump, turn, move, moves, swap, swaps; }; /* jump: LOOP, CASE: behind END;
                                                                     END: first step of the body */
    };
    int32_t parameter; /* CASE */
    int64_t low, high;
} __attribute__((aligned(64))) NativeStep;

/* A stream in its place in a plan: where its values begin, and where they stand. */
typedef struct {
    const NativeStep *steps;
    const Move *moves;
    const Swap *swaps;
    uint64_t *values, *starts;
    int32_t *sources;
    uint64_t *begun; /* [turns] trips begun by each loop that swaps, less one */
    int64_t value_count, turn_count;
} Track;

typedef struct {
    Track *tracks;
    int64_t count;
} NativeProgram;

typedef struct {
    const NativeProgram *programs;
    int64_t count;
    const uint64_t *pointers;  /* by source, from FROM_NOTHING on */
    const int64_t *parameters;
    int64_t *nanoseconds;      /* [count] that the programs took, or NULL */
} PlanRun;

static void place_values(const Track *t, const char *scratchpad, const uint64_t *pointers) {
    uint64_t here = (uint64_t) (uintptr_t) scratchpad;
    for (int64_t i = 0; i < t->value_count; i++)
        t->values[i] = t->starts[i] + (t->sources[i] ? pointers[t->sources[i]] : here);
    for (int64_t i = 0; i < t->turn_count; i++) t->begun[i] = UINT64_MAX;
}

/* A trip begins: every one but the first of all is in the other slot than the one before. */
static inline void swap_values(const Track *t, const NativeStep *s) {
    if (!s->swaps) return;
    uint64_t count = ++t->begun[s->turn];
    if (!count) return;
    const Swap *swap = t->swaps + s->swap;
    for (int32_t i = 0; i < s->swaps; i++)
        t->values[swap[i].value] += count & 1 ? swap[i].slot : -swap[i].slot;
}

static void walk_steps(const Track *t, const int64_t *parameters) {
    int64_t left[NATIVE_LEVELS];
    uint64_t *values = t->values;
    const NativeStep *s = t->steps;
    for (;;) switch (s->kind) {
        case STEP_RUN:
            do {
                s->kernel((char **) (values + s->operands), (const int64_t *) (values + s->numbers));
                s++;
            } while (s->kind == STEP_RUN);
            continue;
        case STEP_END: {
            const Move *move = t->moves + s->move;
            if (--left[s->level]) {
                for (int32_t i = 0; i < s->moves; i++) values[move[i].value] += move[i].step;
                swap_values(t, s);
                s = t->steps + s->jump;
            } else {
                for (int32_t i = 0; i < s->moves; i++) values[move[i].value] -= move[i].rewind;
                s++;
            }
            continue;
        }
        case STEP_CASE:
            if (parameters[s->parameter] < s->low || parameters[s->parameter] > s->high) {
                s = t->steps + s->jump;
                continue;
            } /* fall through */
        case STEP_LOOP:
            if (!s->trips) {
                s = t->steps + s->jump;
                continue;
            }
            left[s->level] = s->trips;
            swap_values(t, s);
            s++;
            continue;
        default: return;
    }
}

/* Notes what program p − 1 took since it began; returns when p begins. */
static int64_t end_program(int64_t *took, int64_t p, int64_t begin) {
    int64_t now = now_ns();
    if (p) took[p - 1] = now - begin;
    return now;
}

/* A thread's part in a plan. It waits for those who took part in the program before, and they had
 * waited for those before them; who has no stream in a program is not asked. */
static void walk_plan(Pool *pool, int thread, void *argument) {
    const PlanRun *run = argument;
    const int64_t limit_ns = pool->spins ? BETWEEN_NS : 0;
    Worker *me = &pool->workers[thread];
    int64_t others = 0; /* streams of the program before */
    int64_t *took = thread ? NULL : run->nanoseconds, begin = 0;
    for (int64_t p = 0; p < run->count; others = run->programs[p++].count) {
        const NativeProgram *program = &run->programs[p];
        if (thread >= program->count) continue;
        const Track *track = &program->tracks[thread];
        place_values(track, me->scratch, run->pointers);
        for (int64_t t = 0; t < others; t++)
            if (t != thread) await_flag(&pool->workers[t].done, pool->epoch + (uint32_t) p, limit_ns);
        if (took) begin = end_program(took, p, begin);
        walk_steps(track, run->parameters);
        int heard = thread || (p + 1 < run->count && run->programs[p + 1].count > 1);
        if (heard) raise_flag(&me->done, pool->epoch + (uint32_t) p + 1);
    }
    if (thread) raise_flag(&me->done, pool->epoch + (uint32_t) run->count + 1);
    else for (int64_t t = 1; t < others; t++)
        await_flag(&pool->workers[t].done, pool->epoch + (uint32_t) run->count, limit_ns);
    if (took) end_program(took, run->count, begin);
}

#endif

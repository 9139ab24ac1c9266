/* How the native executor walks: steps of one stream, and streams of a plan's programs as the parts
 * that a pool's threads share.
 *
 * No address is ever computed from loop indices. Every operand and number of every RUN has its own
 * value, all in one array of the thread; the end of a trip adds to those that its loop moves, and the end of a
 * loop takes it back. A kernel gets a pointer into that array, so that a RUN is one call. */
#ifndef AUTOTUNE_NATIVE_STEPS_H
#define AUTOTUNE_NATIVE_STEPS_H

#include "native/thread_pool.h"

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

/* A stream in its place in a plan: where its values begin, and what comes before it. */
typedef struct Track {
    const NativeStep *steps;
    const Move *moves;
    const Swap *swaps;
    uint64_t *starts;
    int32_t *sources;
    int64_t value_count, turn_count;
    const struct Track *before;
} Track;

/* Where a thread stands in a stream. */
typedef struct {
    const Track *track;
    uint64_t *values;
    uint64_t *begun; /* [turns] trips begun by each loop that swaps, less one */
} Place;

typedef struct {
    Track *tracks;  /* [laid] its parts, then what comes before them */
    int64_t count;  /* of parts */
    int64_t shared; /* the next program of several parts, or the end of the plan */
    int64_t laid;
} NativeProgram;

typedef struct {
    const NativeProgram *programs;
    int64_t count;
    int64_t value_bytes;       /* at the front of a thread's scratch: values, then trips begun */
    const uint64_t *pointers;  /* by source, from FROM_NOTHING on */
    const int64_t *parameters;
    int64_t *ends;             /* [count] when the programs end, or NULL */
    int threads;
    int own_time;              /* ends are by the only thread's own time, and not the clock's */
} PlanRun;

static Place begin_track(const Track *t, char *scratch, const PlanRun *run) {
    Place at = {t, (uint64_t *) scratch, (uint64_t *) scratch + t->value_count};
    uint64_t here = (uint64_t) (uintptr_t) scratch + (uint64_t) run->value_bytes;
    for (int64_t i = 0; i < t->value_count; i++)
        at.values[i] = t->starts[i] + (t->sources[i] ? run->pointers[t->sources[i]] : here);
    for (int64_t i = 0; i < t->turn_count; i++) at.begun[i] = UINT64_MAX;
    return at;
}

/* A trip begins: every one but the first of all is in the other slot than the one before. */
static inline void swap_values(const Place *at, const NativeStep *s) {
    if (!s->swaps) return;
    uint64_t count = ++at->begun[s->turn];
    if (!count) return;
    const Swap *swap = at->track->swaps + s->swap;
    for (int32_t i = 0; i < s->swaps; i++)
        at->values[swap[i].value] += count & 1 ? swap[i].slot : -swap[i].slot;
}

static void walk_steps(const Place *at, const int64_t *parameters) {
    int64_t left[NATIVE_LEVELS];
    const Track *t = at->track;
    uint64_t *values = at->values;
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
                swap_values(at, s);
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
            swap_values(at, s);
            s++;
            continue;
        default: return;
    }
}

static void walk_track(const PlanRun *run, const Track *t, Worker *me) {
    Place at = begin_track(t, me->scratch, run);
    walk_steps(&at, run->parameters);
}

/* A part, and what comes before it unless that is what the thread's last part of the program had:
 * those that share it leave it as it is, others may not. Returns what to remember of that. */
static const Track *walk_part(const PlanRun *run, const Track *t, Worker *me, const Track *prepared) {
    if (t->before && t->before != prepared) walk_track(run, t->before, me);
    walk_track(run, t, me);
    return t->before;
}

static void end_program(Pool *pool, const PlanRun *run, int64_t p) {
    if (run->ends) run->ends[p] = now_ns();
    int waited_for = p + 1 == run->count || run->programs[p + 1].count > 1;
    raise_flag(&pool->ended, (uint32_t) pool->first + (uint32_t) p + 1, waited_for);
}

/* Parts of program p, a thread's own share first; whether the program has ended with them. Parts are
 * counted together, as a line that all threads write costs each as much as a short part. */
static int walk_program(Pool *pool, Worker *me, const PlanRun *run, int64_t p) {
    const NativeProgram *program = &run->programs[p];
    int64_t threads = run->threads, number = (int64_t) pool->first + p, part, ended = 0;
    const Track *prepared = NULL;
    for (int64_t i = 0; i < threads; i++) {
        int64_t owner = me->number + i < threads ? me->number + i : me->number + i - threads;
        int64_t first = owner * program->count / threads;
        int64_t count = (owner + 1) * program->count / threads - first;
        while ((part = take_part(&pool->workers[owner].share, number, count)) >= 0) {
            prepared = walk_part(run, &program->tracks[first + part], me, prepared);
            ended++;
        }
    }
    return end_parts(pool, number, ended, program->count);
}

/* All of a plan in one thread: what walk_plan does, with nobody to agree with. */
static void walk_alone(Pool *pool, Worker *me, const PlanRun *run) {
    for (int64_t p = 0; p < run->count; p++) {
        const Track *prepared = NULL;
        for (int64_t t = 0; t < run->programs[p].count; t++)
            prepared = walk_part(run, &run->programs[p].tracks[t], me, prepared);
        if (run->ends) run->ends[p] = run->own_time ? thread_ns() : now_ns();
    }
    atomic_store(&pool->ended.value, pool->end);
}

/* A thread's part in a plan, up to where it has to wait (Walk). Who ends a program goes on with the
 * next; of the others nobody is needed before a program that has parts for several. */
static uint32_t walk_plan(Pool *pool, Worker *me, void *argument) {
    const PlanRun *run = argument;
    if (run->threads == 1) walk_alone(pool, me, run);
    for (int64_t p = programs_ended(pool); p < run->count; p = programs_ended(pool)) {
        if (!walk_program(pool, me, run, p)) return (uint32_t) pool->first + (uint32_t) run->programs[p].shared;
        end_program(pool, run, p);
    }
    return pool->end;
}

#endif

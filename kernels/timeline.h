/* The timing model: sequencers, unit queues and semaphores, advanced in order of start times.
 *
 * A core's sequencer walks its stream and puts one instruction per dispatch_cycles into the queue of
 * its unit, and stalls while that is full; loops, their ends and marks take no time. A unit starts
 * the head of its queue at max(unit free, dispatched, semaphores). The earliest start is taken first,
 * so that no start found later can be earlier. Numbers are computed when an instruction is
 * dispatched: program order is one of the orders that the semaphores allow. */
#ifndef AUTOTUNE_TIMELINE_H
#define AUTOTUNE_TIMELINE_H

#include "dram.h"
#include "execute.h"

#define NEVER INT64_MAX
#define UNITS 4
#define RUNNING (-1)
#define HALTED (-2)
#define TOKENS 1024 /* signals that can wait at once: 255 in program order and 3 per queue entry */

enum { SPENT_BUSY, SPENT_DISPATCH, SPENT_SEMAPHORE, SPENT_CHANNEL, SPENT_ROW, SPENT_BANK, SPENDINGS };

typedef struct {
    int64_t dispatch_cycles, queue_depth, dma_setup_cycles, scratchpad_banks;
    DramNumbers dram;
} Numbers;

typedef struct {
    const Word *word;
    int64_t dispatched;
    int64_t elements, address; /* of a DMA: inside of the tensor; its first byte */
    int64_t size[RANK];
} Entry;

typedef struct {
    Entry *ring; /* [queue_depth] */
    int64_t head, count;
    int64_t free, start; /* start of the head, NEVER while it cannot */
    int64_t spent[SPENDINGS];
} Queue;

typedef struct {
    int64_t *ring; /* [TOKENS] times of the signals not yet taken */
    uint32_t head, tail;
    int32_t taker; /* unit that waits for it */
} Semaphore;

typedef struct {
    const Word *words;
    Memory memory;
    Loops loops;
    int64_t *begun;  /* trips that each LOOP has begun */
    Shape *shapes;   /* of each DMA instruction */
    Semaphore *semaphores;
    Queue queue[UNITS];
    int64_t pc, clock;
    int32_t state;   /* RUNNING, HALTED, or the unit whose queue is full (or CONTROL: waits itself) */
    int64_t full_cycles, wait_cycles; /* what held the sequencer up */
} Core;

typedef struct {
    Numbers numbers;
    Channel channel;
    Core *cores;
    int32_t core_count, has_numbers;
} Machine;

/* When the head of a queue can start. */
static void refresh(Core *core, Queue *q) {
    q->start = NEVER;
    if (q->count == 0) return;
    const Entry *e = &q->ring[q->head];
    int64_t start = e->dispatched > q->free ? e->dispatched : q->free;
    for (const uint8_t *w = e->word->waits; *w; w++) {
        const Semaphore *s = &core->semaphores[*w];
        uint32_t before = 0; /* the same semaphore, taken more than once */
        for (const uint8_t *v = e->word->waits; v < w; v++) before += *v == *w;
        if (s->tail - s->head <= before) return;
        int64_t time = s->ring[(s->head + before) % TOKENS];
        if (time > start) start = time;
    }
    q->start = start;
}

static void advance(Machine *m, Core *core);

static void signal_at(Machine *m, Core *core, int semaphore, int64_t time) {
    Semaphore *s = &core->semaphores[semaphore];
    s->ring[s->tail++ % TOKENS] = time;
    if (s->taker == UNIT_CONTROL) {
        if (core->state == UNIT_CONTROL) advance(m, core);
    } else if (core->queue[s->taker].start == NEVER) {
        refresh(core, &core->queue[s->taker]);
    }
}

/* Puts the instruction at pc into its queue, which has room. */
static void dispatch(Machine *m, Core *core, const Word *w) {
    Queue *q = &core->queue[w->unit];
    core->clock += m->numbers.dispatch_cycles;
    int64_t place = q->head + q->count;
    if (place >= m->numbers.queue_depth) place -= m->numbers.queue_depth;
    Entry *e = &q->ring[place];
    e->word = w;
    e->dispatched = core->clock;
    if (w->opcode == OP_LOAD || w->opcode == OP_STORE) {
        Clip c = clip_region(&w->region, &core->loops);
        e->elements = c.elements;
        e->address = w->region.first_byte + 4 * clip_offset(&w->region, &c);
        memcpy(e->size, c.size, sizeof e->size);
    }
    if (m->has_numbers) execute_word(w, &core->loops, &core->memory);
    if (++q->count == 1) refresh(core, q);
}

static void begin_trip(Core *core, int64_t pc, int64_t index) {
    const Word *w = &core->words[pc];
    core->loops.index[w->level] = index;
    core->loops.parity[w->level] = core->begun[pc]++ & 1;
}

/* WAIT or SIGNAL of the sequencer itself; 0 if it has to wait. */
static int control(Machine *m, Core *core, const Word *w) {
    if (w->waits[0]) {
        Semaphore *s = &core->semaphores[w->waits[0]];
        if (s->head == s->tail) return 0;
        int64_t time = s->ring[s->head++ % TOKENS];
        if (time > core->clock) {
            core->wait_cycles += time - core->clock;
            core->clock = time;
        }
    }
    core->clock += m->numbers.dispatch_cycles;
    return 1;
}

/* Lets a core's sequencer run until it has to stop. */
static void advance(Machine *m, Core *core) {
    core->state = RUNNING;
    for (;;) {
        const Word *w = &core->words[core->pc];
        switch (w->opcode) {
        case OP_HALT:
            core->state = HALTED;
            return;
        case OP_LOOP:
            core->loops.trips[w->level] = w->trips;
            if (w->trips) begin_trip(core, core->pc++, 0);
            else core->pc = w->jump; /* nothing in its body takes time */
            continue;
        case OP_END: {
            int64_t loop = w->jump, index = core->loops.index[w->level] + 1;
            if (index == core->loops.trips[w->level]) { core->pc++; continue; }
            begin_trip(core, loop, index);
            core->pc = loop + 1;
            continue;
        }
        case OP_MARK:
            core->pc++;
            continue;
        }
        if (w->unit == UNIT_CONTROL) {
            if (!control(m, core, w)) { core->state = UNIT_CONTROL; return; }
            core->pc++;
            if (w->signals[0]) signal_at(m, core, w->signals[0], core->clock);
            continue;
        }
        if (core->queue[w->unit].count == m->numbers.queue_depth) { core->state = w->unit; return; }
        core->pc++;
        dispatch(m, core, w);
    }
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* A DMA that starts at `start`; returns its end. `bank_cycles` of its word are the elements of the
 * rectangle: scratchpad lines are `banks` words wide, and conflicting accesses take turns. */
static int64_t run_dma(Machine *m, Core *core, Queue *q, const Entry *e, int64_t start) {
    const Word *w = e->word;
    int64_t ready = start + w->cycles, writes = w->opcode == OP_STORE;
    Grant grant = {ready, 0, 0, 0};
    if (e->elements > 0)
        grant = transfer(&m->numbers.dram, &m->channel, &w->region, e->size, e->elements, e->address,
                         ready, (int)writes, &core->shapes[w - core->words]);
    int64_t lines = writes ? e->elements : w->bank_cycles, banks = m->numbers.scratchpad_banks;
    int64_t latency = e->elements > 0 ? m->numbers.dram.column_cycles : 0;
    int64_t moved = grant.begin + grant.turn + grant.row + latency + grant.data;
    int64_t ideal = later(moved, grant.begin + (lines + banks - 1) / banks);
    int64_t end = later(moved, grant.begin + (lines * w->conflict + banks - 1) / banks);
    q->spent[SPENT_CHANNEL] += grant.begin - ready;
    q->spent[SPENT_ROW] += grant.row + grant.turn;
    q->spent[SPENT_BANK] += end - ideal;
    q->spent[SPENT_BUSY] += w->cycles + ideal - grant.begin - grant.row - grant.turn;
    return end;
}

/* Starts the head of a queue at its start time. */
static void start_head(Machine *m, Core *core, Queue *q) {
    Entry *e = &q->ring[q->head];
    const Word *w = e->word;
    int64_t start = q->start, issued = later(e->dispatched, q->free), end;
    q->spent[SPENT_DISPATCH] += issued - q->free;
    q->spent[SPENT_SEMAPHORE] += start - issued;
    for (const uint8_t *s = w->waits; *s; s++) core->semaphores[*s].head++;
    if (w->opcode == OP_LOAD || w->opcode == OP_STORE) {
        end = run_dma(m, core, q, e, start);
    } else {
        end = start + w->cycles + w->bank_cycles;
        q->spent[SPENT_BUSY] += w->cycles;
        q->spent[SPENT_BANK] += w->bank_cycles;
    }
    q->free = end;
    if (++q->head == m->numbers.queue_depth) q->head = 0;
    q->count--;
    refresh(core, q);
    for (const uint8_t *s = w->signals; *s; s++) signal_at(m, core, *s, end);
    if (core->state == q - core->queue) {
        core->full_cycles += later(start - core->clock, 0);
        core->clock = later(core->clock, start);
        advance(m, core);
    }
}

/* Starts up to `budget` instructions; 0 when none can start any more. */
static int run_machine(Machine *m, int64_t budget) {
    while (budget-- > 0) {
        Queue *first = 0;
        Core *owner = 0;
        int64_t best = NEVER;
        for (int c = 0; c < m->core_count; c++)
            for (int u = 0; u < UNITS; u++)
                if (m->cores[c].queue[u].start < best) {
                    best = m->cores[c].queue[u].start;
                    first = &m->cores[c].queue[u];
                    owner = &m->cores[c];
                }
        if (!first) return 0;
        start_head(m, owner, first);
    }
    return 1;
}

#endif

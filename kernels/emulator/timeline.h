/* The timing model: sequencers, unit queues and semaphores, advanced in order of start times.
 *
 * A core's sequencer walks its stream and puts one instruction per dispatch_cycles into the queue of
 * its unit, and stalls while that is full; loops, cases, their ends and marks take no time. A unit
 * starts the head of its queue at max(unit free, dispatched, semaphores, a free scratchpad port). The
 * earliest start is taken first, so that no start found later can be earlier; of equal ones the lower
 * core's, then the lower unit's, which so takes a port that several wait for. Numbers are computed
 * when an instruction is dispatched: program order is one of the orders that the semaphores allow. */
#ifndef AUTOTUNE_TIMELINE_H
#define AUTOTUNE_TIMELINE_H

#include "emulator/machine.h"

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* When the head of a queue can start, and what it waits for. */
static void refresh(Core *core, Queue *q) {
    q->start = NEVER;
    if (q->count == 0) return;
    const Entry *e = &q->ring[q->head];
    const Word *word = e->word;
    int64_t start = later(e->dispatched, q->free), bound = 0;
    int32_t cause = SPENT_SEMAPHORE, bound_cause = SPENT_SEMAPHORE;
    for (int i = 0; word->waits[i]; i++) {
        const Semaphore *s = &core->semaphores[word->waits[i]];
        if (s->tail - s->head <= word->again[i]) return;
        uint32_t at = (s->head + word->again[i]) % TOKENS;
        if (s->ring[at] > start) {
            start = s->ring[at];
            cause = word->why[i];
        }
        if (s->bound && s->bound[at] > bound) {
            bound = s->bound[at];
            bound_cause = word->why[i];
        }
    }
    q->start = q->wanted = start;
    q->bound = bound;
    q->cause = cause;
    q->bound_cause = bound_cause;
}

static void advance(Machine *m, Core *core);

static void signal_at(Machine *m, Core *core, int semaphore, int64_t time, int64_t bound) {
    Semaphore *s = &core->semaphores[semaphore];
    if (s->head == s->tail) s->head = s->tail = 0; /* keeps to few cache lines */
    uint32_t at = s->tail++ % TOKENS;
    s->ring[at] = time;
    if (s->bound) s->bound[at] = bound;
    if (s->taker == UNIT_CONTROL) {
        if (core->state == UNIT_CONTROL) advance(m, core);
    } else if (core->queue[s->taker].start == NEVER) {
        refresh(core, &core->queue[s->taker]);
    }
}

/* What a LOAD or STORE moves in this trip. */
static void place_rectangle(const Word *w, const Loops *at, Entry *e) {
    const Region *r = &w->region;
    int64_t elements = w->settled_elements, address = w->address;
    for (int i = 0; i < w->moves; i++) address += w->move[i] * at->index[w->move_level[i]];
    if (w->clips) memcpy(e->size, w->settled, sizeof e->size);
    for (int i = 0; i < w->clips; i++) {
        int d = w->clip_dim[i];
        int64_t first = r->coord[d] + r->step[d] * at->index[r->level[d]];
        Side side = clip_side(r, d, first);
        e->size[d] = side.size;
        elements *= side.size;
        address += FORMAT_BYTES[r->format] * r->stride[d] * (first + side.low);
    }
    e->elements = elements;
    e->address = address;
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
    if (w->opcode == OP_LOAD || w->opcode == OP_STORE) place_rectangle(w, &core->loops, e);
    else if (w->opcode == OP_GATHER || w->opcode == OP_LOOKUP) *e->loops = core->loops;
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
    core->accounts[w->at].executions++;
    return 1;
}

static int enters(const Machine *m, const Word *w) {
    if (w->opcode == OP_LOOP) return w->trips > 0;
    int64_t value = m->parameters[w->parameter];
    return w->trips > 0 && w->low <= value && value <= w->high;
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
        case OP_LOOP: case OP_CASE:
            core->loops.trips[w->level] = w->trips;
            if (enters(m, w)) begin_trip(core, core->pc++, 0);
            else core->pc = w->jump;
            continue;
        case OP_END: {
            int64_t loop = w->jump, index = core->loops.index[w->level] + 1;
            if (index == core->loops.trips[w->level]) {
                core->pc++;
                continue;
            }
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
            if (w->signals[0]) signal_at(m, core, w->signals[0], core->clock, 0);
            continue;
        }
        if (core->queue[w->unit].count == m->numbers.queue_depth) { core->state = w->unit; return; }
        core->pc++;
        dispatch(m, core, w);
    }
}

RARE void record(Machine *m, int64_t since, int64_t start, int64_t end, int core, int unit, int64_t word, int cause) {
    Event event = {since, start, end, core, unit, (int32_t)word, cause};
    if (m->trace.count < m->trace.limit) m->trace.ring[m->trace.count] = event;
    m->trace.count++;
}

/* What walks over rows, in a function of its own: within run_dma it takes registers from the others. */
RARE Request ask_walking(const DramNumbers *n, Channel *channel, const Entry *e) {
    const Region *r = &e->word->region;
    return e->word->opcode == OP_GATHER ? ask_gather(n, channel, r, e->loops) : ask_lookup(n, channel, r, e->loops);
}

/* A DMA that starts at `start`; returns its end. `bank_cycles` of its word are the elements of the
 * rectangle: a scratchpad line is all banks wide, and conflicting accesses take turns. */
static int64_t run_dma(Machine *m, Core *core, const Entry *e, int64_t start, Account *a) {
    const Word *w = e->word;
    const DramNumbers *dram = &m->numbers.dram;
    int64_t ready = start + w->cycles, writes = w->opcode == OP_STORE, elements = e->elements, column = 0;
    Stream *stream = &core->streams[w->stream];
    Grant grant = {ready, 0, 0, 0};
    int walks = w->opcode == OP_GATHER || w->opcode == OP_LOOKUP;
    if (walks || elements > 0) {
        Request request = walks ? ask_walking(dram, &m->channel, e)
            : ask_rectangle(dram, &m->channel, w, w->clips ? e->size : w->settled, elements, e->address, stream);
        elements = request.elements;
        if (elements) {
            grant = grant_channel(dram, &m->channel, &request, FORMAT_BYTES[w->region.format], ready, (int)writes,
                                  &stream->traffic);
            column = dram->column_cycles;
            if (m->trace.limit)
                record(m, -1, grant.begin, m->channel.free, (int)(core - m->cores), UNITS, w->at, 0);
        }
    }
    int64_t lines = writes ? elements : w->bank_cycles;
    int64_t moved = grant.begin + grant.turn + grant.row + column + grant.data;
    int64_t round = ((int64_t)1 << w->line_shift) - 1;
    int64_t ideal = later(moved, grant.begin + ((lines + round) >> w->line_shift));
    int64_t end = later(moved, grant.begin + ((lines * w->conflict + round) >> w->line_shift));
    a->spent[SPENT_CHANNEL] += grant.begin - ready;
    a->spent[SPENT_TURN] += grant.turn;
    a->spent[SPENT_ROW] += grant.row;
    a->spent[SPENT_COLUMN] += column;
    a->spent[SPENT_BANK] += end - ideal;
    a->spent[SPENT_BUSY] += w->cycles + grant.data + ideal - moved;
    return end;
}

/* Takes the scratchpad port that is free first; 0 if that is later than the head's start, which it
 * then becomes. */
static int take_port(Machine *m, Core *core, Queue *q, int64_t **port) {
    *port = &core->port_free[0];
    for (int i = 1; i < m->numbers.ports; i++)
        if (core->port_free[i] < **port) *port = &core->port_free[i];
    if (**port <= q->start) return 1;
    q->start = **port;
    return 0;
}

/* Starts the head of a queue at its start time. */
static void start_head(Machine *m, Core *core, Queue *q) {
    int64_t *port = 0;
    Entry *e = &q->ring[q->head];
    const Word *w = e->word;
    if (m->numbers.ports < UNITS && w->opcode >= OP_LOAD && !take_port(m, core, q, &port)) return;
    Account *a = &core->accounts[w->at];
    int64_t start = q->start, issued = later(e->dispatched, q->free), since = q->free, end;
    a->spent[SPENT_DISPATCH] += issued - since;
    a->spent[q->cause] += q->wanted - issued;
    a->spent[SPENT_PORT] += start - q->wanted;
    for (const uint8_t *s = w->waits; *s; s++) core->semaphores[*s].head++;
    if (w->stream >= 0) {
        end = run_dma(m, core, e, start, a);
    } else {
        end = start + w->cycles + w->bank_cycles;
        a->spent[SPENT_BUSY] += w->cycles;
        a->spent[SPENT_BANK] += w->bank_cycles;
    }
    if (end < q->bound) {
        a->spent[q->bound_cause] += q->bound - end;
        end = q->bound;
    }
    int64_t signalled = w->forward ? start + w->lead_cycles : end;
    if (!a->executions++) a->first = start;
    a->last = end;
    if (port) *port = end;
    if (m->trace.limit)
        record(m, since, start, end, (int)(core - m->cores), (int)(q - core->queue), w->at,
               start == issued ? SPENT_DISPATCH : start > q->wanted ? SPENT_PORT : q->cause);
    q->free = end;
    if (++q->head == m->numbers.queue_depth) q->head = 0;
    q->count--;
    refresh(core, q);
    for (const uint8_t *s = w->signals; *s; s++) signal_at(m, core, *s, signalled, w->forward ? end : 0);
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

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Lays a nest's loads, stages and stores out on the units of a core, as the emulator would start them.

A step is a whole stage, load or store of a tile, not an instruction. Units take their steps in order; a
sequencer dispatches them into bounded queues; loads and stores take turns on one DRAM channel in the order
of their starts. A loop is laid out until it settles; what is left of it shifts all times by as many
intervals (max-plus recurrence, Baccelli et al. 1992, *Synchronization and Linearity*, ch. 1). The timing
rules are those of ``kernels/emulator/timeline.h``.
"""

from libc.stdint cimport int64_t

import numpy as np

DEF LOAD = 0
DEF STORE = 1
DEF MATRIX = 2
DEF UNITS = 4
DEF RING = 256
DEF STEPS = 512
DEF BUFFERS = 512
DEF DIMS = 64
DEF PENDING = 32
DEF LEVELS = 8

cdef double OTHERS = 0.6
"""Part of another core's transfers that a core's own wait for. Over 222 programs on two cores the error is
5.8 % with it, 7.0 % where cores do not see each other and 10.6 % where each waits for all others."""

cdef struct Machine:
    double dispatch, setup, column, turnaround
    int64_t queue_depth

cdef struct Queue:
    double free
    double start[RING]
    double duration[RING]
    int64_t first[RING]
    int64_t items, instructions, asked

cdef struct Waiting:
    double dispatched, ready, channel, rest
    int64_t instructions
    int step, slot

cdef struct State:
    double clock
    double channel_free
    int way
    Queue queue[UNITS]
    double written[BUFFERS][2]
    double used[BUFFERS][2]
    int slot[BUFFERS]
    Waiting pending[PENDING]
    int waiting
    int flags[DIMS]
    int64_t cost[STEPS]
    double interval, latency

cdef struct Nest:
    int steps, buffers, depth
    const int64_t *unit
    const int64_t *result
    const int64_t *reads_at
    const int64_t *reads
    const int64_t *product
    const int64_t *kinds_at
    const int64_t *kind_dims
    const int64_t *reduction
    int64_t level[STEPS]
    double pieces[STEPS]
    int64_t slots[BUFFERS]
    int64_t turn[BUFFERS]
    int64_t loop_dim[LEVELS]
    int64_t trips[LEVELS]
    int64_t rest[LEVELS]
    int64_t dim_full[DIMS]
    int64_t dim_rest[DIMS]
    double demand
    int64_t level_at[LEVELS + 2]
    int64_t level_steps[STEPS]
    const double *cycles
    const double *channel
    const double *instructions
    int64_t stride_step, stride_kind, row


cdef inline double later(double a, double b) noexcept nogil:
    return a if a > b else b


cdef inline double start_of(Queue *q, int64_t instruction) noexcept nogil:
    """When an instruction of a queue left it; those of a step leave evenly. It never asks for one before the
    last that was asked for, so that a step is passed once."""
    cdef int64_t i = q.asked, at, count, next
    if i < q.items - RING:
        i = q.items - RING
    while i + 1 < q.items and q.first[(i + 1) & (RING - 1)] <= instruction:
        i += 1
    q.asked = i
    at = i & (RING - 1)
    next = q.instructions if i + 1 == q.items else q.first[(i + 1) & (RING - 1)]
    count = next - q.first[at]
    if instruction <= q.first[at] or count <= 0:
        return q.start[at]
    return q.start[at] + q.duration[at] * (instruction - q.first[at]) / count


cdef inline void note(Queue *q, double start, double duration, int64_t instructions) noexcept nogil:
    cdef int64_t at = q.items & (RING - 1)
    q.start[at], q.duration[at], q.first[at] = start, duration, q.instructions
    q.items += 1
    q.instructions += instructions


cdef inline double moved(const Machine *m, const Nest *nest, State *s, double start, double channel,
                         double rest, int way) noexcept nogil:
    """The end of a transfer that starts at ``start``."""
    cdef double begin = later(start + m.setup, s.channel_free), turn = 0.0
    if channel <= 0:
        return start + m.setup + rest
    if s.way == 3 - way:
        turn = m.turnaround
    s.way = way
    s.channel_free = begin + turn + channel * nest.demand
    return begin + turn + channel + m.column + rest


cdef void commit(const Machine *m, const Nest *nest, State *s) noexcept nogil:
    """Start the store that waits longest."""
    cdef Waiting *w = &s.pending[0]
    cdef Queue *q = &s.queue[STORE]
    cdef double start = later(later(w.dispatched, q.free), w.ready)
    cdef double end = moved(m, nest, s, start, w.channel, w.rest, 2)
    cdef int64_t r, b
    cdef int i
    note(q, start, end - start, w.instructions)
    q.free = end
    for r in range(nest.reads_at[w.step], nest.reads_at[w.step + 1]):
        b = nest.reads[r]
        s.used[b][w.slot] = later(s.used[b][w.slot], end)
    s.waiting -= 1
    for i in range(s.waiting):
        s.pending[i] = s.pending[i + 1]


cdef inline void commit_readers(const Machine *m, const Nest *nest, State *s, int64_t buffer, int slot) noexcept nogil:
    """Start all stores up to the last one that reads a slot of a buffer, or either if it is -1."""
    cdef int i, last = -1
    cdef int64_t r
    for i in range(s.waiting):
        for r in range(nest.reads_at[s.pending[i].step], nest.reads_at[s.pending[i].step + 1]):
            if nest.reads[r] == buffer and (slot < 0 or s.pending[i].slot == slot):
                last = i
    for i in range(last + 1):
        commit(m, nest, s)


cdef double dispatched(const Machine *m, const Nest *nest, State *s, int unit) noexcept nogil:
    """When the first instruction of a step enters its queue."""
    cdef Queue *q = &s.queue[unit]
    cdef int64_t oldest = q.instructions - m.queue_depth
    if unit == STORE:
        oldest += s.waiting
        while s.waiting and oldest >= q.instructions:
            commit(m, nest, s)
    if oldest >= 0 and q.items:
        s.clock = later(s.clock, start_of(q, oldest))
    s.clock += m.dispatch
    return s.clock


cdef void place(const Machine *m, const Nest *nest, State *s, int step) noexcept nogil:
    """Start one step."""
    cdef int unit = <int> nest.unit[step], slot
    cdef int64_t r, b, result = nest.result[step], cost = s.cost[step], count
    cdef double start, end, ready = 0.0, work = nest.cycles[cost], channel = nest.channel[cost], first, head
    cdef Queue *q = &s.queue[unit]
    if work <= 0 and channel <= 0:
        return
    count = <int64_t> later(1.0, nest.instructions[cost])
    first = dispatched(m, nest, s, unit)
    for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
        b = nest.reads[r]
        ready = later(ready, s.written[b][s.slot[b]])
    if unit == STORE:
        if s.waiting == PENDING:
            commit(m, nest, s)
        s.pending[s.waiting].dispatched = first
        s.pending[s.waiting].ready = ready
        s.pending[s.waiting].channel = channel
        s.pending[s.waiting].rest = later(0.0, work - channel - m.setup - m.column)
        s.pending[s.waiting].instructions = count
        s.pending[s.waiting].step = step
        s.pending[s.waiting].slot = s.slot[nest.reads[nest.reads_at[step]]]
        s.waiting += 1
        return
    if result >= 0:
        slot = s.slot[result]
        commit_readers(m, nest, s, result, slot)
        ready = later(ready, later(s.written[result][slot], s.used[result][slot]))
    start = later(later(first, q.free), ready)
    if unit == LOAD:
        while s.waiting:
            head = later(later(s.pending[0].dispatched, s.queue[STORE].free), s.pending[0].ready)
            if head >= start:
                break
            commit(m, nest, s)
        end = moved(m, nest, s, start, channel, later(0.0, work - channel - m.setup - m.column), 1)
    else:
        end = start + work
    note(q, start, end - start, count)
    q.free = end
    if count > 1:
        s.clock += (count - 1) * m.dispatch
        if q.instructions - 1 - m.queue_depth >= 0:
            s.clock = later(s.clock, start_of(q, q.instructions - 1 - m.queue_depth))
    for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
        b = nest.reads[r]
        s.used[b][s.slot[b]] = later(s.used[b][s.slot[b]], end)
    if result >= 0:
        s.written[result][s.slot[result]] = end


cdef double now(const Machine *m, const Nest *nest, State *s) noexcept nogil:
    """When all that has been dispatched has ended, if nothing else comes."""
    cdef int u, i
    cdef double end = s.clock, free = s.queue[STORE].free, channel = s.channel_free, begin
    for i in range(s.waiting):
        begin = later(later(s.pending[i].dispatched, free), s.pending[i].ready) + m.setup
        begin = later(begin, channel)
        channel = begin + s.pending[i].channel * nest.demand
        free = begin + s.pending[i].channel + m.column + s.pending[i].rest
    for u in range(UNITS):
        end = later(end, s.queue[u].free)
    return later(end, free)


cdef void begin(const Nest *nest, State *s) noexcept nogil:
    """Set all that is read before it is written; rings of queues are not."""
    cdef int u, b, i
    s.clock = s.channel_free = s.interval = s.latency = 0.0
    s.way = s.waiting = 0
    for u in range(UNITS):
        s.queue[u].free = 0.0
        s.queue[u].items = s.queue[u].instructions = s.queue[u].asked = 0
    for b in range(nest.buffers):
        s.slot[b] = 0
        for i in range(2):
            s.written[b][i] = s.used[b][i] = 0.0
    for i in range(DIMS):
        s.flags[i] = 0
    for i in range(nest.steps):
        s.cost[i] = i * nest.stride_step + nest.row


cdef void choose(const Nest *nest, State *s, int64_t dim, int rest) noexcept nogil:
    """Take full pieces of a dimension, or its rest, from now on."""
    cdef int step
    cdef int64_t k, kind
    if s.flags[dim] == rest:
        return
    s.flags[dim] = rest
    for step in range(nest.steps):
        kind = 0
        for k in range(nest.kinds_at[step], nest.kinds_at[step + 1]):
            kind = kind * 2 + s.flags[nest.kind_dims[k]]
        s.cost[step] = step * nest.stride_step + kind * nest.stride_kind + nest.row


cdef void shift(const Machine *m, const Nest *nest, State *s, double by) noexcept nogil:
    """Move all times on. Of a queue, no step is asked for that more than its depth of others followed."""
    cdef int u, b, i
    cdef int64_t at
    s.clock += by
    s.channel_free += by
    for u in range(UNITS):
        s.queue[u].free += by
        for at in range(max(0, s.queue[u].items - m.queue_depth - 1), s.queue[u].items):
            s.queue[u].start[at & (RING - 1)] += by
    for b in range(nest.buffers):
        for i in range(2):
            s.written[b][i] += by
            s.used[b][i] += by
    for i in range(s.waiting):
        s.pending[i].dispatched += by
        s.pending[i].ready += by


cdef void turn(const Nest *nest, State *s, int64_t level) noexcept nogil:
    """Go on to the other slot of buffers that alternate in a loop."""
    cdef int b
    for b in range(nest.buffers):
        if nest.slots[b] == 2 and nest.turn[b] == level:
            s.slot[b] ^= 1


cdef void settle(const Nest *nest, State *s, int64_t level) noexcept nogil:
    """Between a loop and its rest, both slots of what alternates in it count as one."""
    cdef int b
    for b in range(nest.buffers):
        if nest.slots[b] == 2 and nest.turn[b] == level:
            s.written[b][0] = s.written[b][1] = later(s.written[b][0], s.written[b][1])
            s.used[b][0] = s.used[b][1] = later(s.used[b][0], s.used[b][1])


cdef void enter(const Machine *m, const Nest *nest, State *s, int64_t level) noexcept nogil:
    """Units wait before a loop with a rest until the others have left what they fill in it. Without a
    rest nothing but the loop uses it, and its semaphores go on counting."""
    cdef int step
    cdef int64_t b
    cdef double used
    for step in range(nest.steps):
        b = nest.result[step]
        if nest.level[step] < level or b < 0:
            continue
        commit_readers(m, nest, s, b, -1)
        used = later(s.used[b][0], s.used[b][1])
        s.queue[nest.unit[step]].free = later(s.queue[nest.unit[step]].free, used)


cdef void body(const Machine *m, const Nest *nest, State *s, int64_t level, int64_t most) noexcept nogil:
    """One trip of the loop at ``level``, or what is outside of all."""
    cdef int step
    cdef int64_t at
    for at in range(nest.level_at[level + 1], nest.level_at[level + 2]):
        step = <int> nest.level_steps[at]
        if nest.product[step] >= 0 and nest.pieces[nest.product[step]] > 1:
            continue  # a piece of a reduction, loaded beside its product
        if nest.pieces[step] > 1:
            reduce(m, nest, s, step, most)
        else:
            place(m, nest, s, step)
    if level < nest.depth:
        loop(m, nest, s, level + 1, most)


cdef void loop(const Machine *m, const Nest *nest, State *s, int64_t level, int64_t most) noexcept nogil:
    cdef int64_t trips = nest.trips[level], dim = nest.loop_dim[level], trip = 0
    cdef double before, ends[8]
    if nest.rest[level]:
        enter(m, nest, s, level)
    choose(nest, s, dim, 0)
    before = now(m, nest, s)
    for trip in range(trips):
        body(m, nest, s, level, most)
        turn(nest, s, level)
        ends[trip % 8] = now(m, nest, s)
        if level == nest.depth and trip == 0:
            s.latency = ends[0] - before
        if trip >= most or settled(ends, trip, level == nest.depth):
            break
    if trip > 0:
        before = ends[trip % 8] - ends[(trip - 1) % 8] if trip < 2 else (ends[trip % 8] - ends[(trip - 2) % 8]) / 2
    else:
        before = ends[0] - before
    if level == nest.depth:
        s.interval = before
    if trips - 1 - trip > 0:
        shift(m, nest, s, before * (trips - 1 - trip))
    if nest.rest[level]:
        settle(nest, s, level)
        choose(nest, s, dim, 1)
        body(m, nest, s, level, most)
        choose(nest, s, dim, 0)
        settle(nest, s, level)


cdef bint settled(const double *ends, int64_t trip, bint thrice) noexcept nogil:
    """The last two intervals are equal, or the last three."""
    cdef double a, b, c
    if trip < 2 + thrice:
        return False
    a, b = ends[trip % 8] - ends[(trip - 1) % 8], ends[(trip - 1) % 8] - ends[(trip - 2) % 8]
    c = ends[(trip - 2) % 8] - ends[(trip - 3) % 8] if thrice else b
    return -0.002 * a <= a - b <= 0.002 * a and -0.002 * a <= b - c <= 0.002 * a


cdef void reduce(const Machine *m, const Nest *nest, State *s, int product, int64_t most) noexcept nogil:
    """A product in pieces of its reduction, each with the loads that it needs."""
    cdef int64_t dim = nest.reduction[product], full = nest.dim_full[dim], trip = 0
    cdef int step
    cdef double ends[8], interval
    choose(nest, s, dim, 0)
    for trip in range(full):
        piece(m, nest, s, product)
        for step in range(nest.steps):
            if nest.product[step] == product and nest.slots[nest.result[step]] == 2:
                s.slot[nest.result[step]] ^= 1
        ends[trip % 8] = now(m, nest, s)
        if trip >= most or settled(ends, trip, True):
            break
    if full - 1 - trip > 0:
        interval = (ends[trip % 8] - ends[(trip - 2) % 8]) / 2
        shift(m, nest, s, interval * (full - 1 - trip))
    if nest.dim_rest[dim]:
        settle_pieces(nest, s, product)
        choose(nest, s, dim, 1)
        piece(m, nest, s, product)
        choose(nest, s, dim, 0)
        settle_pieces(nest, s, product)


cdef void settle_pieces(const Nest *nest, State *s, int product) noexcept nogil:
    """Between a loop over pieces and the rest, both slots of what it loads count as one."""
    cdef int step
    cdef int64_t b
    for step in range(nest.steps):
        if nest.product[step] == product:
            b = nest.result[step]
            s.written[b][0] = s.written[b][1] = later(s.written[b][0], s.written[b][1])
            s.used[b][0] = s.used[b][1] = later(s.used[b][0], s.used[b][1])


cdef void piece(const Machine *m, const Nest *nest, State *s, int product) noexcept nogil:
    cdef int step
    for step in range(nest.steps):
        if nest.product[step] == product:
            place(m, nest, s, step)
    place(m, nest, s, product)


cdef void sort_by_level(Nest *nest) noexcept nogil:
    """List the steps of each level, those outside of all loops first, in their order."""
    cdef int64_t level, at = 0
    cdef int step
    for level in range(-1, LEVELS):
        nest.level_at[level + 1] = at
        for step in range(nest.steps):
            if nest.level[step] == level:
                nest.level_steps[at] = step
                at += 1
    nest.level_at[LEVELS + 1] = at


def lay_out(spec, const int64_t[::1] unit, const int64_t[::1] result, const int64_t[::1] reads_at,
            const int64_t[::1] reads, const int64_t[::1] product, const int64_t[::1] reduction,
            const int64_t[::1] kinds_at, const int64_t[::1] kind_dims, const int64_t[:, ::1] level,
            const double[:, ::1] pieces, const int64_t[:, ::1] slots, const int64_t[:, ::1] turns,
            const int64_t[:, ::1] loop_dim, const int64_t[:, ::1] trips, const int64_t[:, ::1] rest,
            const int64_t[:, ::1] dim_full, const int64_t[:, ::1] dim_rest, const int64_t[::1] depth,
            const double[::1] cores, const double[:, :, ::1] cycles, const double[:, :, ::1] channel,
            const double[:, :, ::1] instructions):
    """Return cycles, interval and latency [3, n] of the nests that the columns describe.

    Arrays are as ``cost_model/scratchpad/pipeline.py`` packs them: steps [S] or [S, n], buffers [B, n],
    loops [L, n], dimensions [D, n], costs [S, K, n] by kind of tile.
    """
    cdef Machine m
    cdef Nest nest
    cdef State s
    cdef int64_t row, i, n = cycles.shape[2]
    found = np.empty((3, n))
    cdef double[:, ::1] out = found
    assert unit.shape[0] <= STEPS and slots.shape[0] <= BUFFERS and dim_full.shape[0] <= DIMS
    m.dispatch, m.queue_depth = spec.control.dispatch_cycles, spec.control.queue_depth
    m.setup, m.column = spec.dram.setup_cycles, spec.dram.column_cycles
    m.turnaround = spec.dram.turnaround_cycles
    m.queue_depth = min(m.queue_depth, RING - 1)
    nest.steps, nest.buffers = <int> unit.shape[0], <int> slots.shape[0]
    nest.unit, nest.result, nest.product = &unit[0], &result[0], &product[0]
    nest.reads_at, nest.reads = &reads_at[0], &reads[0]
    nest.kinds_at, nest.kind_dims, nest.reduction = &kinds_at[0], &kind_dims[0], &reduction[0]
    nest.cycles, nest.channel, nest.instructions = &cycles[0, 0, 0], &channel[0, 0, 0], &instructions[0, 0, 0]
    nest.stride_step, nest.stride_kind = cycles.shape[1] * n, n
    with nogil:
        for row in range(n):
            nest.depth, nest.demand = <int> depth[row], 1.0 + OTHERS * (cores[row] - 1.0)
            for i in range(nest.steps):
                nest.level[i], nest.pieces[i] = level[i, row], pieces[i, row]
            for i in range(nest.buffers):
                nest.slots[i], nest.turn[i] = slots[i, row], turns[i, row]
            for i in range(loop_dim.shape[0]):
                nest.loop_dim[i], nest.trips[i], nest.rest[i] = loop_dim[i, row], trips[i, row], rest[i, row]
            for i in range(dim_full.shape[0]):
                nest.dim_full[i], nest.dim_rest[i] = dim_full[i, row], dim_rest[i, row]
            sort_by_level(&nest)
            nest.row = row
            begin(&nest, &s)
            body(&m, &nest, &s, -1, 6)
            while s.waiting:
                commit(&m, &nest, &s)
            out[0, row], out[1, row], out[2, row] = now(&m, &nest, &s), s.interval, s.latency
    return found

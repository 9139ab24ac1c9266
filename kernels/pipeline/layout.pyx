# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Lays a nest's loads, stages and stores out on the units of its cores, as the emulator would start them.

A step is a whole stage, load or store of a tile, not an instruction. The sequencer of a core runs ahead and puts
steps into bounded queues; units take them in order; of all heads the earliest starts first; transfers of all cores
take turns on one DRAM channel. A loop is laid out until it settles; what is left of it shifts all times by as many
intervals (max-plus recurrence, Baccelli et al. 1992, *Synchronization and Linearity*, ch. 1). The timing
rules are those of ``kernels/emulator/timeline.h``.
"""

from libc.stdint cimport int32_t, int64_t

import numpy as np

include "queues.pxi"


cdef void choose_on(const Nest *nest, Core *core, int64_t dim, int rest) noexcept nogil:
    """Take full pieces of a dimension, or its rest, from now on."""
    cdef int step
    cdef int64_t k, kind
    if core.flags[dim] == rest:
        return
    core.flags[dim] = rest
    for step in range(nest.steps):
        kind = 0
        for k in range(nest.kinds_at[step], nest.kinds_at[step + 1]):
            kind = kind * 2 + core.flags[nest.kind_dims[k]]
        core.cost[step] = step * nest.stride_step + kind * nest.stride_kind + nest.row


cdef inline void choose(const Nest *nest, State *s, int64_t dim, int rest) noexcept nogil:
    """The same on all cores."""
    cdef int c
    for c in range(s.cores):
        choose_on(nest, &s.core[c], dim, rest)


cdef void turn(const Nest *nest, State *s, int64_t level) noexcept nogil:
    """Go on to the other slot of buffers that alternate in a loop."""
    cdef int b
    for b in range(nest.buffers):
        if nest.slots[b] == 2 and nest.turn[b] == level:
            s.slot[b] ^= 1


cdef inline void join_slots(State *s, int64_t b) noexcept nogil:
    """Let both slots of a buffer count as one."""
    cdef int c, u, kind
    cdef int64_t last
    for c in range(s.cores):
        for kind in range(2):
            for u in range(UNITS):
                last = max(s.core[c].last[kind][b][0][u], s.core[c].last[kind][b][1][u])
                s.core[c].last[kind][b][0][u] = s.core[c].last[kind][b][1][u] = last


cdef void settle(const Nest *nest, State *s, int64_t level) noexcept nogil:
    """Between a loop and its rest, both slots of what alternates in it count as one."""
    cdef int b
    for b in range(nest.buffers):
        if nest.slots[b] == 2 and nest.turn[b] == level:
            join_slots(s, b)


cdef void cross(const Nest *nest, State *s, int64_t level, bint leaves) noexcept nogil:
    """Before a loop its units wait for what others do outside of it with the same buffers; behind it
    those wait until a unit has left the loop (``lowering/synchronisation.py``)."""
    cdef int step
    cdef int64_t r
    for step in range(nest.steps):
        if nest.level[step] < level:
            continue
        if nest.result[step] >= 0:
            cross_by(nest, s, level, leaves, <int> nest.unit[step], nest.result[step], True)
        for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
            cross_by(nest, s, level, leaves, <int> nest.unit[step], nest.reads[r], False)


cdef void cross_by(const Nest *nest, State *s, int64_t level, bint leaves, int unit, int64_t b,
                   bint writes) noexcept nogil:
    """The same for one buffer that a unit reads or writes in the loop; with a rest the loop is not alone."""
    cdef int c, u, slot
    cdef int64_t last
    cdef Queue *q
    if not nest.rest[level] and nest.lowest[b] >= level:
        return
    for c in range(s.cores):
        q = &s.core[c].queue[unit]
        for slot in range(2):
            if slot != s.slot[b] and nest.turn[b] != level:
                continue
            if leaves:
                s.core[c].last[WRITES if writes else USES][b][slot][unit] = q.items - 1
                continue
            q.is_barred = True
            for u in range(UNITS):
                last = s.core[c].last[WRITES][b][slot][u]
                if writes:
                    last = max(last, s.core[c].last[USES][b][slot][u])
                q.barrier[u] = max(q.barrier[u], last)


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
    cdef int64_t trips = nest.trips[level], dim = nest.loop_dim[level]
    cdef bint is_shared = level == 0 and s.cores > 1
    if is_shared:  # all cores have so many full tiles
        trips = (nest.tiles - nest.tiles_rest) // s.sharing
    if trips > 1:
        cross(nest, s, level, False)
    choose(nest, s, dim, 0)
    repeat(m, nest, s, level, trips, most)
    if trips > 1:
        cross(nest, s, level, True)
    if is_shared:
        share(m, nest, s, nest.tiles - trips * s.sharing, most)
    if nest.rest[level]:
        settle(nest, s, level)
        choose(nest, s, dim, 1)
        body(m, nest, s, level, most)
        choose(nest, s, dim, 0)
        settle(nest, s, level)


cdef void share(const Machine *m, const Nest *nest, State *s, int64_t left, int64_t most) noexcept nogil:
    """The last tiles of the outermost loop: one on each of the last cores, the rest on the last of all."""
    cdef Core *last = &s.core[s.cores - 1]
    if left <= 0:
        return
    left = (left * s.cores + s.sharing - 1) // s.sharing  # of the cores that are laid out
    s.first = <int> max(0, s.cores - left)
    choose_on(nest, last, nest.loop_dim[0], <int> nest.tiles_rest)
    body(m, nest, s, 0, most)
    choose_on(nest, last, nest.loop_dim[0], 0)
    s.first = 0


cdef void repeat(const Machine *m, const Nest *nest, State *s, int64_t level, int64_t trips,
                 int64_t most) noexcept nogil:
    """The trips of a loop; after ``most`` at the latest it counts as settled. Nothing is asked of a loop with
    fewer: what starts only when it is asked for may start too late for what comes behind."""
    cdef int64_t trip = 0
    cdef double ends[KEPT]
    cdef Mark mark
    set_mark(s, &mark)
    for trip in range(trips):
        body(m, nest, s, level, most)
        turn(nest, s, level)
        if trips <= (most if level == nest.depth else SHORT):
            continue
        ends[trip % KEPT] = reached(m, s, &mark)
        set_mark(s, &mark)
        if trip >= most or settled(ends, trip, level == nest.depth):
            extrapolate(s, ends, trip, trips)
            return


cdef void extrapolate(State *s, const double *ends, int64_t trip, int64_t trips) noexcept nogil:
    """Shift by the trips behind ``trip``, of which ``ends`` tell when each of those so far began."""
    shift(s, (ends[trip % KEPT] - ends[(trip - 2) % KEPT]) / 2 * (trips - 1 - trip))


cdef bint settled(const double *ends, int64_t trip, bint thrice) noexcept nogil:
    """The last two intervals are equal, or the last three; that of the first trip does not count."""
    cdef double a, b, c
    if trip < 3 + thrice:
        return False
    a = ends[trip % KEPT] - ends[(trip - 1) % KEPT]
    b = ends[(trip - 1) % KEPT] - ends[(trip - 2) % KEPT]
    c = ends[(trip - 2) % KEPT] - ends[(trip - 3) % KEPT] if thrice else b
    return -0.002 * a <= a - b <= 0.002 * a and -0.002 * a <= b - c <= 0.002 * a


cdef void reduce(const Machine *m, const Nest *nest, State *s, int product, int64_t most) noexcept nogil:
    """A product in pieces of its reduction, each with the loads that it needs."""
    cdef int64_t dim = nest.reduction[product], full = nest.dim_full[dim], trip = 0, at
    cdef double ends[KEPT]
    cdef Mark mark
    choose(nest, s, dim, 0)
    set_mark(s, &mark)
    for trip in range(full):
        piece(m, nest, s, product)
        for at in range(nest.brought_at[product], nest.brought_at[product + 1]):
            if nest.slots[nest.result[nest.brought[at]]] == 2:
                s.slot[nest.result[nest.brought[at]]] ^= 1
        if full <= SHORT:
            continue
        ends[trip % KEPT] = reached(m, s, &mark)
        set_mark(s, &mark)
        if trip >= most or settled(ends, trip, True):
            extrapolate(s, ends, trip, full)
            break
    if nest.dim_rest[dim]:
        settle_pieces(nest, s, product)
        choose(nest, s, dim, 1)
        piece(m, nest, s, product)
        choose(nest, s, dim, 0)
        settle_pieces(nest, s, product)


cdef void settle_pieces(const Nest *nest, State *s, int product) noexcept nogil:
    """Between a loop over pieces and the rest, both slots of what it loads count as one."""
    cdef int64_t at
    for at in range(nest.brought_at[product], nest.brought_at[product + 1]):
        join_slots(s, nest.result[nest.brought[at]])


cdef void piece(const Machine *m, const Nest *nest, State *s, int product) noexcept nogil:
    cdef int64_t at
    for at in range(nest.brought_at[product], nest.brought_at[product + 1]):
        place(m, nest, s, <int> nest.brought[at])
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


cdef void innermost(const Nest *nest, double *interval, double *latency) noexcept nogil:
    """Cycles of a full trip of the innermost loop: of the busiest unit, and of all."""
    cdef double busy[UNITS]
    cdef int u, step
    cdef double cycles
    for u in range(UNITS):
        busy[u] = 0.0
    latency[0] = interval[0] = 0.0
    for step in range(nest.steps):
        if nest.level[step] == nest.depth:
            cycles = nest.cycles[step * nest.stride_step + nest.row] * nest.pieces[step]
            busy[nest.unit[step]] += cycles
            latency[0] += cycles
    for u in range(UNITS):
        interval[0] = later(interval[0], busy[u])


cdef void find_lowest(Nest *nest) noexcept nogil:
    """Find the outermost level at which each buffer is read or written."""
    cdef int step
    cdef int64_t b, r
    for b in range(nest.buffers):
        nest.lowest[b] = LEVELS
    for step in range(nest.steps):
        if nest.result[step] >= 0:
            b = nest.result[step]
            nest.lowest[b] = min(nest.lowest[b], nest.level[step])
        for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
            b = nest.reads[r]
            nest.lowest[b] = min(nest.lowest[b], nest.level[step])


cdef int watch(const int32_t *units, Watch *to, int64_t b, int unit, int kind, int left) noexcept nogil:
    """Let a step wait for a unit, if it writes or uses a buffer; return 1 if so."""
    if not units[2 * b + kind] >> unit & 1:
        return 0
    to.buffer, to.code, to.kind = <int32_t> b, unit + left, kind
    return 1


cdef void find_watched(Nest *nest, int32_t *units, Watch *to) noexcept nogil:
    """List what each step waits for, code by code; ``units`` [B, 2] become bits of units that write a buffer, and
    use it."""
    cdef int step, unit
    cdef int64_t r, at = 0
    for step in range(nest.steps):
        if nest.result[step] >= 0:
            units[2 * nest.result[step] + WRITES] |= 1 << nest.unit[step]
        for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
            units[2 * nest.reads[r] + USES] |= 1 << nest.unit[step]
    for step in range(nest.steps):
        nest.watched_at[step] = at
        for unit in range(UNITS):
            if unit == nest.unit[step]:
                continue
            for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
                at += watch(units, to + at, nest.reads[r], unit, WRITES, 0)
            if nest.result[step] >= 0:
                at += watch(units, to + at, nest.result[step], unit, WRITES, 0)
                at += watch(units, to + at, nest.result[step], unit, USES, LEFT)
    nest.watched_at[nest.steps] = at
    nest.watched = to


cdef void find_brought(Nest *nest) noexcept nogil:
    """List the loads that bring pieces for each product."""
    cdef int product, step
    cdef int64_t at = 0
    for product in range(nest.steps):
        nest.brought_at[product] = at
        for step in range(nest.steps):
            if nest.product[step] == product:
                nest.brought[at] = step
                at += 1
    nest.brought_at[nest.steps] = at


cdef void keep(double *fewest, int64_t count, double cycles) noexcept nogil:
    """Put a number in its place among the fewest, if it is one of them."""
    cdef int64_t at = count
    while at > 0 and cycles < fewest[at - 1]:
        if at < count:
            fewest[at] = fewest[at - 1]
        fewest[at - 1] = cycles
        at -= 1


def lay_out(spec, const int64_t[::1] unit, const int64_t[::1] result, const int64_t[::1] reads_at,
            const int64_t[::1] reads, const int64_t[::1] product, const int64_t[::1] reduction,
            const int64_t[::1] kinds_at, const int64_t[::1] kind_dims, const int64_t[:, ::1] level,
            const double[:, ::1] pieces, const int64_t[:, ::1] slots, const int64_t[:, ::1] turns,
            const int64_t[:, ::1] loop_dim, const int64_t[:, ::1] trips, const int64_t[:, ::1] rest,
            const int64_t[:, ::1] dim_full, const int64_t[:, ::1] dim_rest, const int64_t[::1] depth,
            const int64_t[:, ::1] cores, const double[:, :, ::1] cycles, const double[:, :, ::1] channel,
            const double[:, :, ::1] instructions, const double[:, :, ::1] behind, best=None):
    """Return cycles [3, n] of the nests that the columns describe, and of a trip of their innermost loops on the
    busiest unit and on all.

    ``best`` are the order [n] in which nests are laid out, the ``least`` cycles [n] that each takes, and the fewest
    that were found so far [k], ascending, which are brought up to date. Once k take fewer than the least of a nest, it
    is left out: its least cycles stand for all three.

    Arrays are as ``cost_model/scratchpad/pipeline.py`` packs them: steps [S] or [S, n], buffers [B, n],
    loops [L, n], dimensions [D, n], cores, the tiles that they share, whether one is a rest
    [3, n], costs [S, K, n] by kind of tile.
    """
    cdef Machine m
    cdef Nest nest
    cdef State s
    cdef int64_t row, i, at, n = cycles.shape[2]
    cdef bint chooses = best is not None
    cdef const int64_t[::1] order
    cdef const double[::1] least
    cdef double[::1] fewest
    if chooses:
        order, least, fewest = best
    found = np.empty((3, n))
    cdef double[:, ::1] out = found
    assert unit.shape[0] <= STEPS and slots.shape[0] <= BUFFERS and dim_full.shape[0] <= DIMS
    m.dispatch, m.queue_depth = spec.control.dispatch_cycles, spec.control.queue_depth
    m.setup, m.column = spec.dram.setup_cycles, spec.dram.column_cycles
    m.turnaround = spec.dram.turnaround_cycles
    m.queue_depth, m.ports = min(m.queue_depth, RING - 1), min(spec.scratchpad.ports, UNITS)
    nest.steps, nest.buffers = <int> unit.shape[0], <int> slots.shape[0]
    nest.unit, nest.result, nest.product = &unit[0], &result[0], &product[0]
    nest.reads_at, nest.reads = &reads_at[0], &reads[0]
    nest.kinds_at, nest.kind_dims, nest.reduction = &kinds_at[0], &kind_dims[0], &reduction[0]
    nest.cycles, nest.channel, nest.instructions = &cycles[0, 0, 0], &channel[0, 0, 0], &instructions[0, 0, 0]
    nest.behind = &behind[0, 0, 0]
    nest.stride_step, nest.stride_kind = cycles.shape[1] * n, n
    cdef int32_t[:, ::1] units = np.zeros((slots.shape[0] + 1, 2), dtype=np.int32)
    cdef int32_t[:, ::1] watched = np.empty((UNITS * (reads.shape[0] + 2 * unit.shape[0]), 3), dtype=np.int32)
    find_watched(&nest, &units[0, 0], <Watch *> &watched[0, 0])
    find_brought(&nest)
    with nogil:
        for at in range(n):
            row = order[at] if chooses else at
            if chooses and least[row] > fewest[fewest.shape[0] - 1]:
                out[0, row] = out[1, row] = out[2, row] = least[row]
                continue
            nest.depth, nest.tiles, nest.tiles_rest = <int> depth[row], cores[1, row], cores[2, row]
            s.sharing, s.cores = cores[0, row], <int> min(cores[0, row], CORES)
            s.demand = <double> cores[0, row] / s.cores
            for i in range(nest.steps):
                nest.level[i], nest.pieces[i] = level[i, row], pieces[i, row]
            for i in range(nest.buffers):
                nest.slots[i], nest.turn[i] = slots[i, row], turns[i, row]
            for i in range(loop_dim.shape[0]):
                nest.loop_dim[i], nest.trips[i], nest.rest[i] = loop_dim[i, row], trips[i, row], rest[i, row]
            for i in range(dim_full.shape[0]):
                nest.dim_full[i], nest.dim_rest[i] = dim_full[i, row], dim_rest[i, row]
            sort_by_level(&nest)
            find_lowest(&nest)
            nest.row = row
            begin(&m, &nest, &s)
            body(&m, &nest, &s, -1, 8)
            out[0, row] = now(&m, &s)
            innermost(&nest, &out[1, row], &out[2, row])
            if chooses:
                keep(&fewest[0], fewest.shape[0], later(out[0, row], least[row]))
    return found

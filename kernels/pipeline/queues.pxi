# Cores with their sequencers and queues, and the channel: what starts when, of the steps that the loops of
# layout.pyx dispatch.

DEF LOAD = 0
DEF STORE = 1
DEF MATRIX = 2
DEF UNITS = 4
DEF RING = 64
DEF CAUSES = 8
DEF CORES = 8
DEF STEPS = 512
DEF BUFFERS = 512
DEF DIMS = 64
DEF LEVELS = 8
DEF KEPT = 16
DEF SHORT = 4
DEF NEVER = 1e300

cdef struct Machine:
    double dispatch, setup, column, turnaround
    int64_t queue_depth
    int ports

cdef struct Item:
    double start, duration, dispatched, ready, channel, rest, behind
    int64_t first
    int64_t cause[CAUSES]
    int cause_unit[CAUSES]
    bint cause_left[CAUSES]
    int causes

cdef struct Queue:
    double free, head
    Item ring[RING]
    int64_t items, started, instructions, asked
    int64_t barrier[UNITS]

cdef struct Core:
    double clock
    double port_free[UNITS]
    Queue queue[UNITS]
    int64_t written[BUFFERS][2][UNITS]
    int64_t used[BUFFERS][2][UNITS]
    int flags[DIMS]
    int64_t cost[STEPS]

cdef struct Mark:
    int64_t items[CORES][UNITS]

cdef struct State:
    Core core[CORES]
    int cores, first
    double channel_free, demand
    int way
    int slot[BUFFERS]

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
    int64_t tiles, tiles_rest
    int64_t lowest[BUFFERS]
    int64_t level_at[LEVELS + 2]
    int64_t level_steps[STEPS]
    const double *cycles
    const double *channel
    const double *instructions
    const double *behind
    int64_t stride_step, stride_kind, row


cdef inline double later(double a, double b) noexcept nogil:
    return a if a > b else b


cdef inline bint is_known(const Queue *q, int64_t item) noexcept nogil:
    """Return True if an item has started; those that have left the ring have."""
    return item < q.started


cdef inline double end_of(const Queue *q, int64_t item) noexcept nogil:
    """When a started item ends; 0 where it has left the ring."""
    if item < 0 or item < q.items - RING:
        return 0.0
    return q.ring[item & (RING - 1)].start + q.ring[item & (RING - 1)].duration


cdef inline double left_at(const Queue *q, int64_t item) noexcept nogil:
    """When a started item has read its operands for the last time."""
    if item < 0 or item < q.items - RING:
        return 0.0
    return end_of(q, item) - q.ring[item & (RING - 1)].behind


cdef void refresh(Core *core, int unit) noexcept nogil:
    """Find when the head of a queue can start: ``NEVER`` while what it waits for has not started."""
    cdef Queue *q = &core.queue[unit]
    cdef Item *e
    cdef int i, left = 0
    q.head = NEVER
    if q.started == q.items:
        return
    e = &q.ring[q.started & (RING - 1)]
    for i in range(e.causes):
        if is_known(&core.queue[e.cause_unit[i]], e.cause[i]):
            if e.cause_left[i]:
                e.ready = later(e.ready, left_at(&core.queue[e.cause_unit[i]], e.cause[i]))
            else:
                e.ready = later(e.ready, end_of(&core.queue[e.cause_unit[i]], e.cause[i]))
        else:
            e.cause[left], e.cause_unit[left], e.cause_left[left] = e.cause[i], e.cause_unit[i], e.cause_left[i]
            left += 1
    e.causes = left
    if left == 0:
        q.head = later(later(e.dispatched, q.free), e.ready)


cdef inline bint port_is_free(const Machine *m, Core *core, Queue *q, int *port) noexcept nogil:
    """Take the port that is free first; False if that is later than the head's start, which it then becomes."""
    cdef int i
    port[0] = 0
    for i in range(1, m.ports):
        if core.port_free[i] < core.port_free[port[0]]:
            port[0] = i
    if core.port_free[port[0]] <= q.head:
        return True
    q.head = core.port_free[port[0]]
    return False


cdef inline double moved(const Machine *m, State *s, double start, const Item *e, int way) noexcept nogil:
    """The end of a transfer that starts at ``start``."""
    cdef double begin = later(start + m.setup, s.channel_free), turn = 0.0
    if e.channel <= 0:
        return start + m.setup + e.rest
    if s.way == 3 - way:
        turn = m.turnaround
    s.way = way
    s.channel_free = begin + turn + e.channel * s.demand
    return begin + turn + e.channel + m.column + e.rest


cdef bint start_one(const Machine *m, State *s) noexcept nogil:
    """Start the head that can start first, of equal ones the lower core's, then the lower unit's."""
    cdef int c, u, core = -1, unit = 0, port = 0
    cdef double best = NEVER, end
    cdef Queue *q
    cdef Item *e
    for c in range(s.cores):
        for u in range(UNITS):
            if s.core[c].queue[u].head < best:
                best, core, unit = s.core[c].queue[u].head, c, u
    if core < 0:
        return False
    q = &s.core[core].queue[unit]
    if m.ports < UNITS and not port_is_free(m, &s.core[core], q, &port):
        return True
    e = &q.ring[q.started & (RING - 1)]
    if unit == LOAD or unit == STORE:
        end = moved(m, s, best, e, 1 + unit)
    else:
        end = best + e.duration
    e.start, e.duration = best, end - best
    q.free = s.core[core].port_free[port] = end
    q.started += 1
    for u in range(UNITS):
        if u == unit or s.core[core].queue[u].head == NEVER:
            refresh(&s.core[core], u)
    return True


cdef inline void start_until(const Machine *m, State *s, Queue *q, int64_t item) noexcept nogil:
    """Start heads until a queue has started ``item``."""
    while q.started <= item:
        if not start_one(m, s):
            return


cdef double instruction_start(const Machine *m, State *s, Queue *q, int64_t instruction) noexcept nogil:
    """When an instruction of a queue left it; those of an item leave evenly. It never asks for one before the
    last that was asked for, so that an item is passed once."""
    cdef int64_t i = q.asked, next, count
    cdef Item *e
    if i < q.items - RING:
        i = q.items - RING
    while i + 1 < q.items and q.ring[(i + 1) & (RING - 1)].first <= instruction:
        i += 1
    q.asked = i
    start_until(m, s, q, i)
    e = &q.ring[i & (RING - 1)]
    next = q.instructions if i + 1 == q.items else q.ring[(i + 1) & (RING - 1)].first
    count = next - e.first
    if instruction <= e.first or count <= 0:
        return e.start
    return e.start + e.duration * (instruction - e.first) / count


cdef inline void wait_for(const Machine *m, State *s, Core *core, Item *e, int unit, int64_t item,
                          bint until_left) noexcept nogil:
    """Let an item start no earlier than another one of its core ends, or has left its operands."""
    cdef Queue *q = &core.queue[unit]
    if item < 0:
        return
    if e.causes == CAUSES:
        start_until(m, s, q, item)
    if is_known(q, item):
        e.ready = later(e.ready, left_at(q, item) if until_left else end_of(q, item))
    else:
        e.cause[e.causes], e.cause_unit[e.causes], e.cause_left[e.causes] = item, unit, until_left
        e.causes += 1


cdef void find_causes(const Machine *m, const Nest *nest, State *s, Core *core, Item *e, int step) noexcept nogil:
    """Wait for what a step reads to be written, and for what it writes to be left."""
    cdef int unit = <int> nest.unit[step], u, slot
    cdef int64_t r, b, result = nest.result[step]
    e.ready, e.causes = 0.0, 0
    for u in range(UNITS):
        if u == unit:
            continue
        wait_for(m, s, core, e, u, core.queue[unit].barrier[u], False)
        core.queue[unit].barrier[u] = -1
        for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
            b = nest.reads[r]
            wait_for(m, s, core, e, u, core.written[b][s.slot[b]][u], False)
        if result >= 0:
            slot = s.slot[result]
            wait_for(m, s, core, e, u, core.written[result][slot][u], False)
            wait_for(m, s, core, e, u, core.used[result][slot][u], True)


cdef void emit(const Machine *m, const Nest *nest, State *s, Core *core, int step) noexcept nogil:
    """Let a sequencer dispatch one step."""
    cdef int unit = <int> nest.unit[step]
    cdef int64_t r, b, cost = core.cost[step], count, result = nest.result[step]
    cdef double work = nest.cycles[cost], channel = nest.channel[cost]
    cdef Queue *q = &core.queue[unit]
    cdef Item *e
    if work <= 0 and channel <= 0:
        return
    count = <int64_t> later(1.0, nest.instructions[cost])
    if q.instructions >= m.queue_depth:
        core.clock = later(core.clock, instruction_start(m, s, q, q.instructions - m.queue_depth))
    start_until(m, s, q, q.items - RING)
    core.clock += m.dispatch
    e = &q.ring[q.items & (RING - 1)]
    find_causes(m, nest, s, core, e, step)
    e.dispatched, e.duration, e.channel, e.first = core.clock, work, channel, q.instructions
    e.behind = nest.behind[cost]
    e.rest = later(0.0, work - channel - m.setup - m.column)
    for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
        b = nest.reads[r]
        core.used[b][s.slot[b]][unit] = q.items
    if result >= 0:
        core.written[result][s.slot[result]][unit] = q.items
    q.items += 1
    q.instructions += count
    if q.started == q.items - 1:
        refresh(core, unit)
    if count > 1:
        core.clock += (count - 1) * m.dispatch
        if q.instructions > m.queue_depth:
            core.clock = later(core.clock, instruction_start(m, s, q, q.instructions - 1 - m.queue_depth))


cdef inline void place(const Machine *m, const Nest *nest, State *s, int step) noexcept nogil:
    """Dispatch one step on all cores that have work."""
    cdef int c
    for c in range(s.first, s.cores):
        emit(m, nest, s, &s.core[c], step)


cdef inline void set_mark(const State *s, Mark *mark) noexcept nogil:
    """Note what has been dispatched so far."""
    cdef int c, u
    for c in range(s.cores):
        for u in range(UNITS):
            mark.items[c][u] = s.core[c].queue[u].items


cdef double reached(const Machine *m, State *s, const Mark *mark) noexcept nogil:
    """When all that was dispatched before a mark has ended. What is behind it may start before."""
    cdef int c, u
    cdef double end = 0.0
    cdef Queue *q
    for c in range(s.cores):
        for u in range(UNITS):
            q = &s.core[c].queue[u]
            if mark.items[c][u] <= q.items - RING:
                end = later(end, q.free)
                continue
            start_until(m, s, q, mark.items[c][u] - 1)
            end = later(end, end_of(q, mark.items[c][u] - 1))
    return end


cdef double now(const Machine *m, State *s) noexcept nogil:
    """When all that has been dispatched has ended."""
    cdef int c
    cdef double end
    cdef Mark mark
    set_mark(s, &mark)
    end = reached(m, s, &mark)
    for c in range(s.cores):
        end = later(end, s.core[c].clock)
    return end


cdef void begin(const Machine *m, const Nest *nest, State *s) noexcept nogil:
    """Set all that is read before it is written; rings of queues are not."""
    cdef int c, u, v, b, i
    cdef Queue *q
    s.channel_free = 0.0
    s.way = s.first = 0
    for c in range(s.cores):
        s.core[c].clock = 0.0
        for u in range(UNITS):
            q = &s.core[c].queue[u]
            s.core[c].port_free[u] = q.free = 0.0
            q.head = NEVER
            q.items = q.started = q.instructions = q.asked = 0
            for v in range(UNITS):
                q.barrier[v] = -1
        for i in range(DIMS):
            s.core[c].flags[i] = 0
        for i in range(nest.steps):
            s.core[c].cost[i] = i * nest.stride_step + nest.row
        for b in range(nest.buffers):
            for i in range(2):
                for u in range(UNITS):
                    s.core[c].written[b][i][u] = s.core[c].used[b][i][u] = -1
    for b in range(nest.buffers):
        s.slot[b] = 0


cdef void shift(State *s, double by) noexcept nogil:
    """Move all times on."""
    cdef int c, u
    cdef int64_t at
    cdef Queue *q
    cdef Item *e
    s.channel_free += by
    for c in range(s.cores):
        s.core[c].clock += by
        for u in range(UNITS):
            q = &s.core[c].queue[u]
            q.free += by
            s.core[c].port_free[u] += by
            if q.head < NEVER:
                q.head += by
            for at in range(max(0, q.items - RING), q.items):
                e = &q.ring[at & (RING - 1)]
                e.start += by
                e.dispatched += by
                e.ready += by

# Cores with their sequencers and queues, and the channel: what starts when, of the steps that the loops of
# layout.pyx dispatch.

DEF LOAD = 0
DEF STORE = 1
DEF MATRIX = 2
DEF UNITS = 4
DEF WRITES = 0
DEF USES = 1
DEF RING = 64
DEF CAUSES = 3 * UNITS
DEF LEFT = UNITS  # of a cause's code: until its operands are left
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
    double duration, dispatched, ready, channel, rest, behind
    int64_t first
    int32_t cause[CAUSES]  # 2 · UNITS · item + code
    int32_t causes

cdef struct Queue:
    double free, head
    int waits  # a bit for each unit that its head waits for
    bint is_barred
    int64_t items, started, instructions, asked
    int64_t barrier[UNITS]
    double start[RING]  # of items in the ring; apart, so that a shift is one loop
    double end[RING]
    Item ring[RING]

cdef struct Core:
    double clock
    double port_free[UNITS]
    Queue queue[UNITS]
    int64_t last[2][BUFFERS][2][UNITS]  # item of each unit that WRITES a slot of a buffer, or USES it
    int flags[DIMS]
    int64_t cost[STEPS]

cdef struct Watch:
    # a step waits for the ``code``: a unit has written a buffer, or, + LEFT, has left it
    int32_t buffer, code, kind

cdef struct Mark:
    int64_t items[CORES][UNITS]

cdef struct State:
    Core core[CORES]
    int64_t sharing  # cores that share the outermost loop; the first ``cores`` of them are laid out
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
    const Watch *watched
    int64_t watched_at[STEPS + 1]
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
    int64_t brought_at[STEPS + 1]
    int64_t brought[STEPS]
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
    return q.end[item & (RING - 1)]


cdef inline double left_at(const Queue *q, int64_t item) noexcept nogil:
    """When a started item has read its operands for the last time."""
    if item < 0 or item < q.items - RING:
        return 0.0
    return q.end[item & (RING - 1)] - q.ring[item & (RING - 1)].behind


cdef inline double over_at(const Core *core, int32_t code, int64_t item) noexcept nogil:
    """When a started item ends, or has left its operands."""
    if code >= LEFT:
        return left_at(&core.queue[code - LEFT], item)
    return end_of(&core.queue[code], item)


cdef void refresh(Core *core, int unit) noexcept nogil:
    """Find when the head of a queue can start: ``NEVER`` while what it waits for has not started."""
    cdef Queue *q = &core.queue[unit]
    cdef Item *e
    cdef int32_t code
    cdef int64_t item
    cdef int i, left = 0
    q.head = NEVER
    q.waits = 0
    if q.started == q.items:
        return
    e = &q.ring[q.started & (RING - 1)]
    for i in range(e.causes):
        item, code = e.cause[i] >> 3, e.cause[i] & 7
        if is_known(&core.queue[code & 3], item):
            e.ready = later(e.ready, over_at(core, code, item))
        else:
            e.cause[left] = e.cause[i]
            q.waits |= 1 << (code & 3)
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
    q.start[q.started & (RING - 1)], q.end[q.started & (RING - 1)] = best, end
    q.free = s.core[core].port_free[port] = end
    q.started += 1
    for u in range(UNITS):
        if u == unit or s.core[core].queue[u].waits >> unit & 1:
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
    cdef double start
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
    start = q.start[i & (RING - 1)]
    if instruction <= e.first or count <= 0:
        return start
    return start + (q.end[i & (RING - 1)] - start) * (instruction - e.first) / count


cdef inline void wait_for(const Core *core, Item *e, int32_t code, int64_t item) noexcept nogil:
    """Let an item start no earlier than another one of its core is over."""
    if item < 0:
        return
    if is_known(&core.queue[code & 3], item):
        e.ready = later(e.ready, over_at(core, code, item))
    else:
        e.cause[e.causes] = <int32_t> (item << 3) | code
        e.causes += 1


cdef inline void find_causes(const Nest *nest, State *s, Core *core, Item *e, int step) noexcept nogil:
    """Wait for what a step reads to be written, and for what it writes to be left. Of several items of a unit the last
    one counts, as it ends last."""
    cdef int unit = <int> nest.unit[step]
    cdef Queue *q = &core.queue[unit]
    cdef const Watch *watch = &nest.watched[nest.watched_at[step]]
    cdef const Watch *end = &nest.watched[nest.watched_at[step + 1]]
    cdef int64_t item
    cdef int32_t code
    cdef int u
    e.ready, e.causes = 0.0, 0
    if q.is_barred:
        q.is_barred = False
        for u in range(UNITS):
            if u != unit:
                wait_for(core, e, u, q.barrier[u])
            q.barrier[u] = -1
    while watch < end:
        code, item = watch.code, -1
        while watch < end and watch.code == code:
            item = max(item, core.last[watch.kind][watch.buffer][s.slot[watch.buffer]][code & 3])
            watch += 1
        wait_for(core, e, code, item)


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
    find_causes(nest, s, core, e, step)
    e.dispatched, e.duration, e.channel, e.first = core.clock, work, channel, q.instructions
    e.behind = nest.behind[cost]
    e.rest = later(0.0, work - channel - m.setup - m.column)
    for r in range(nest.reads_at[step], nest.reads_at[step + 1]):
        b = nest.reads[r]
        core.last[USES][b][s.slot[b]][unit] = q.items
    if result >= 0:
        core.last[WRITES][result][s.slot[result]][unit] = q.items
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
            q.waits = q.is_barred = 0
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
                    s.core[c].last[WRITES][b][i][u] = s.core[c].last[USES][b][i][u] = -1
    for b in range(nest.buffers):
        s.slot[b] = 0


cdef void shift(State *s, double by) noexcept nogil:
    """Move all times on."""
    cdef int c, u, i
    cdef int64_t at
    cdef Queue *q
    s.channel_free += by
    for c in range(s.cores):
        s.core[c].clock += by
        for u in range(UNITS):
            q = &s.core[c].queue[u]
            q.free += by
            s.core[c].port_free[u] += by
            if q.head < NEVER:
                q.head += by
            for i in range(<int> min(q.items, RING)):
                q.start[i] += by
                q.end[i] += by
            for at in range(q.started, q.items):
                q.ring[at & (RING - 1)].dispatched += by
                q.ring[at & (RING - 1)].ready += by

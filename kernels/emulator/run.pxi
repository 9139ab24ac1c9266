# One execution of a loaded program: its memory, its end, its results.

cdef class Run:
    """The state of one execution."""

    cdef Machine machine
    cdef Loaded loaded
    cdef void **blocks
    cdef int block_count
    cdef list arrays, scratchpads
    cdef int64_t[::1] parameters
    cdef object events

    def __cinit__(self, Loaded loaded, double bandwidth, tensors, parameters, trace_limit):
        self.loaded = loaded
        self.blocks = <void **> calloc(4 + loaded.core_count * 16, sizeof(void *))
        if not self.blocks:
            raise MemoryError
        memset(&self.machine, 0, sizeof(Machine))
        cdef Machine *m = &self.machine
        m.numbers = loaded.numbers
        m.numbers.dram.cycles_per_burst = (
            loaded.numbers.dram.burst_bytes / (loaded.bytes_per_cycle * bandwidth)
        )
        m.core_count = loaded.core_count
        m.cores = <Core *> self._block(m.core_count * sizeof(Core))
        m.channel.open = <int64_t *> self._block(m.numbers.dram.banks * sizeof(int64_t))
        memset(m.channel.open, 0xFF, m.numbers.dram.banks * sizeof(int64_t))
        self._set_parameters(parameters)
        m.parameters = &self.parameters[0]
        cdef int core
        for core in range(m.core_count):
            self._prepare(core, &m.cores[core])
        if trace_limit:
            self._trace(trace_limit)
        if tensors is not None:
            self._attach(tensors)

    cdef _set_parameters(self, given):
        values = np.zeros(PARAMETERS, np.int64)
        for number in sorted(self.loaded.parameters):
            if number not in given:
                raise ProgramError(
                    f"{self.loaded.program.name}: dispatches on parameter {number}, which has no value; "
                    f"pass parameters={{{number}: …}}"
                )
            values[number] = given[number]
        self.parameters = values

    cdef _trace(self, limit):
        cdef int64_t[::1] memory
        self.events = np.zeros(limit, EVENT)
        memory = self.events.view(np.int64)
        self.machine.trace.ring = <Event *> &memory[0]
        self.machine.trace.limit = limit

    cdef void *_block(self, size_t size) except NULL:
        """Zeroed memory that lives as long as the run."""
        cdef void *block = calloc(size + 64, 1)
        if not block:
            raise MemoryError
        self.blocks[self.block_count] = block
        self.block_count += 1
        return <void *> ((<size_t> block + 63) // 64 * 64)

    def __dealloc__(self):
        cdef int i
        for i in range(self.block_count):
            free(self.blocks[i])
        free(self.blocks)

    cdef _prepare(self, int number, Core *core):
        cdef int64_t i, length = self.loaded.lengths[number]
        cdef int u
        cdef const Word *word
        cdef uint8_t waited
        cdef int64_t streams = self.loaded.streams[number]
        core.words = self.loaded.words[number]
        core.begun = <int64_t *> self._block(length * sizeof(int64_t))
        core.accounts = <Account *> self._block(length * sizeof(Account))
        core.streams = <Stream *> self._block(streams * sizeof(Stream))
        for i in range(streams):
            for u in range(SHAPES):
                core.streams[i].shape[u].phase = -1
        core.semaphores = <Semaphore *> self._block(256 * sizeof(Semaphore))
        for u in range(UNITS):
            core.queue[u].ring = <Entry *> self._block(self.loaded.numbers.queue_depth * sizeof(Entry))
            core.queue[u].start = NEVER
        self._place_loops(core)
        used = set()
        for i in range(length):
            word = &core.words[i]
            for u in range(3):
                waited = word.waits[u]
                if waited:
                    core.semaphores[waited].taker = word.unit
                    used.add(waited)
        cdef int64_t *rings = <int64_t *> self._block((len(used) + 1) * TOKENS * sizeof(int64_t))
        for i in range(256):  # what nobody waits for shares the first ring
            core.semaphores[i].ring = rings
        for i, semaphore in enumerate(used, 1):
            core.semaphores[<int> semaphore].ring = rings + i * TOKENS
        for i, count in enumerate(self.loaded.credits[number]):
            core.semaphores[i].tail = count
        if self.loaded.forwards:
            self._bound(number, core)

    cdef _place_loops(self, Core *core):
        """Entries of the load queue hold the loops of a GATHER or LOOKUP."""
        cdef int64_t i, depth = self.loaded.numbers.queue_depth
        cdef Loops *loops = <Loops *> self._block(depth * sizeof(Loops))
        for i in range(depth):
            core.queue[0].ring[i].loops = &loops[i]

    cdef _bound(self, int number, Core *core):
        """Room for the ends of forwarding products, in the semaphores that they signal."""
        cdef int64_t i
        cdef int s
        cdef const Word *word
        forwarded = set()
        for i in range(self.loaded.lengths[number]):
            word = &core.words[i]
            if word.forward:
                forwarded.update(word.signals[s] for s in range(3) if word.signals[s])
        cdef int64_t *bounds = <int64_t *> self._block(len(forwarded) * TOKENS * sizeof(int64_t))
        for i, semaphore in enumerate(forwarded):
            core.semaphores[<int> semaphore].bound = bounds + i * TOKENS

    cdef _attach(self, tensors):
        """Give every core a scratchpad of NaN, and all of them the arrays and a workspace."""
        cdef Machine *m = &self.machine
        cdef int core
        cdef Scratchpad pad, work = scratchpad_of(NARROW_WORKSPACE)  # cores compute one at a time
        cdef const unsigned char[::1] flat
        cdef void **pointers = <void **> self._block(max(1, len(tensors)) * sizeof(void *))
        self.arrays, self.scratchpads = [], [work]
        for i, array in enumerate(tensors):
            flat = array.reshape(-1).view(np.uint8)
            self.arrays.append(flat)
            pointers[<int> i] = <void *> &flat[0]
        m.has_numbers = 1
        for core in range(m.core_count):
            pad = scratchpad_of(self.loaded.scratchpad_elements)
            self.scratchpads.append(pad)
            fill_row(NAN, self.loaded.scratchpad_elements, pad.words, 1)
            m.cores[core].memory.scratchpad = pad.words
            m.cores[core].memory.tensors = pointers
            m.cores[core].memory.work = work.words

    cdef complete(self, by):
        cdef Machine *m = &self.machine
        cdef int core, more = 1
        cdef int64_t budget = EVENTS_PER_CHECK
        with nogil:
            for core in range(m.core_count):
                advance(m, &m.cores[core])
        while more:
            with nogil:
                more = run_machine(m, budget)
            PyErr_CheckSignals()
        self._refuse_deadlock()
        if self.scratchpads is not None:
            give_back(self.scratchpads)
        return self._outcome(by)

    cdef _refuse_deadlock(self):
        cdef int core, unit
        cdef Core *c
        waiting = []
        for core in range(self.machine.core_count):
            c = &self.machine.cores[core]
            stream = self.loaded.program.streams[core]
            for unit in range(UNITS):
                if c.queue[unit].count:
                    at = c.queue[unit].ring[c.queue[unit].head].word - c.words
                    waiting.append((core, Unit(unit).name, at, stream[at].opcode.name))
            if c.state == UNIT_CONTROL:
                waiting.append((core, Unit.CONTROL.name, c.pc, stream[c.pc].opcode.name))
        if not waiting:
            return
        places = "; ".join(
            f"core {core}, instruction {at} ({name}) in the {unit} queue"
            for core, unit, at, name in waiting
        )
        raise ProgramError(
            f"{self.loaded.program.name}: deadlock: no semaphore arrives for {places}; "
            "signal it before it is waited for"
        )

    cdef _outcome(self, by):
        cdef Machine *m = &self.machine
        cdef int core, unit
        cdef Core *c
        cycles, sequencers = 0, []
        for core in range(m.core_count):
            c = &m.cores[core]
            cycles = max(cycles, c.clock, *[c.queue[unit].free for unit in range(UNITS)])
            sequencers.append((c.clock, c.full_cycles, c.wait_cycles))
        kept = min(m.trace.count, m.trace.limit)
        events = None if self.events is None else self.events[:kept]
        return Outcome(cycles, sequencers, {one: self._sums(one) for one in by}, events, m.trace.count - kept)

    cdef _sums(self, by):
        """One row per region: the program, its marks in order of their first place (row 0: before
        any), or its instructions, core by core."""
        cdef Loaded loaded = self.loaded
        cdef int core, unit
        cdef int64_t i, row = 0, mode = by
        cdef const Word *word
        cdef Core *c
        cdef Sums *sums
        count = {By.PROGRAM: 1, By.MARK: len(loaded.marks)}.get(by)
        if count is None:
            count = sum([loaded.lengths[core] for core in range(loaded.core_count)])
        out = np.zeros((count, SUM_COUNT), np.int64)
        cdef int64_t[:, ::1] memory = out
        for i in range(count):
            (<Sums *> &memory[i, 0]).first = NEVER
        for core in range(loaded.core_count):
            c = &self.machine.cores[core]
            for i in range(loaded.lengths[core]):
                word = &c.words[i]
                sums = <Sums *> &memory[row if mode else 0, 0]
                if mode == 1:
                    sums = <Sums *> &memory[loaded.regions[core][i], 0]
                if word.opcode == OP_LOOP:
                    sums.trips += c.begun[i]
                elif word.opcode == OP_CASE:
                    sums.cases += c.begun[i]
                else:
                    add_instruction(word, &loaded.costs[core][i], &c.accounts[i],
                                    &c.streams[word.stream] if word.stream >= 0 else NULL, sums)
                row += mode == 2
        for i in range(count):
            sums = <Sums *> &memory[i, 0]
            if sums.first == NEVER:
                sums.first = 0
        return out

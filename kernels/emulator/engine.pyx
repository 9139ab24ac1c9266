# cython: language_level=3, boundscheck=True, wraparound=False
"""The emulator's engine: loads a verified program once, then runs it with or without numbers.

The timing model is in the headers beside this file. Each includes those before it: ``dram.h`` (the
channel), ``cost.h`` (cycles of units), ``hazard.h`` (causes of waits), ``account.h`` (sums),
``machine.h`` (state), ``timeline.h`` (sequencers, queues, semaphores). Numbers come from
``micro/execute.h``.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from kernels.emulator.timeline cimport (
    NARROW_WORKSPACE, NEVER, OP_CASE, OP_LOOP, OP_MARK, SHAPES, TOKENS, UNIT_CONTROL, UNITS,
    Account, Core, Cost, CostNumbers, Entry, Event, Machine, Numbers, Queue, Semaphore, Stream, Sums,
    add_instruction, advance, cost_stream, fill_row, name_waits, run_machine,
)
from kernels.micro.decode cimport (
    GROUPS, RANK, Layout, Loops, Tensor, Word, decode_word, link_loops,
)

import numpy as np

from autotune.errors import ProgramError
from autotune.isa.fields import PARAMETERS
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import field_index
from autotune.kernels.emulator.outcome import EVENT, MAC_FORMATS, SUM_COUNT, By, Outcome
from autotune.kernels.emulator.scratchpads import give_back, take_scratchpad
from autotune.kernels.micro.layouts import LAYOUTS

cdef const int32_t[:, ::1] layout_rows = LAYOUTS
assert layout_rows.shape[1] == GROUPS + 1
assert SUM_COUNT * sizeof(int64_t) == sizeof(Sums)
assert EVENT.itemsize == sizeof(Event)

DATAFLOWS = ("os", "ws", "is")
"""Operand that the array holds, by the codes of cost.h."""

EVENTS_PER_CHECK = 1 << 20
"""Instructions started between two looks for Ctrl-C."""

DMA_OPCODES = frozenset(map(int, (Opcode.LOAD, Opcode.STORE, Opcode.GATHER, Opcode.LOOKUP)))
MARK_ID = field_index(Opcode.MARK)["id"]


cdef class Loaded:
    """A program decoded for one machine; runs from any number of threads at once.

    ``numbers`` is a HardwareSpec. The program must be verified: nothing is checked here any more.
    Raises ``ProgramError`` when it would execute more than the counters can hold.
    """

    cdef Word **words
    cdef int64_t *lengths
    cdef Tensor *tensors
    cdef Cost **costs
    cdef int32_t **regions
    cdef Numbers numbers
    cdef int core_count
    cdef int64_t scratchpad_elements
    cdef readonly object program
    cdef readonly tuple marks
    cdef readonly frozenset parameters
    cdef list credits
    cdef list streams
    cdef bint forwards
    cdef double bytes_per_cycle

    def __cinit__(self, program, numbers):
        cdef int core
        self.core_count = len(program.streams)
        self.words = <Word **> calloc(self.core_count, sizeof(Word *))
        self.costs = <Cost **> calloc(self.core_count, sizeof(Cost *))
        self.regions = <int32_t **> calloc(self.core_count, sizeof(int32_t *))
        self.lengths = <int64_t *> calloc(self.core_count, sizeof(int64_t))
        self.tensors = <Tensor *> calloc(max(1, len(program.tensors)), sizeof(Tensor))
        if not (self.words and self.costs and self.regions and self.lengths and self.tensors):
            raise MemoryError
        for core in range(self.core_count):
            self.lengths[core] = len(program.streams[core])
            self.words[core] = <Word *> calloc(self.lengths[core], sizeof(Word))
            self.costs[core] = <Cost *> calloc(self.lengths[core], sizeof(Cost))
            self.regions[core] = <int32_t *> calloc(self.lengths[core], sizeof(int32_t))
            if not (self.words[core] and self.costs[core] and self.regions[core]):
                raise MemoryError

    def __init__(self, program, numbers):
        self.program = program
        self.scratchpad_elements = max(1, program.scratchpad_elements)
        self.credits = [list(row) for row in program.credits]
        self._take_numbers(numbers)
        self._place_tensors(program.tensors, numbers.dram.row_bytes)
        self._decode(program, numbers)

    def __dealloc__(self):
        cdef int core
        for core in range(self.core_count):
            if self.words:
                free(self.words[core])
            if self.costs:
                free(self.costs[core])
            if self.regions:
                free(self.regions[core])
        free(self.words)
        free(self.costs)
        free(self.regions)
        free(self.lengths)
        free(self.tensors)

    cdef _take_numbers(self, spec):
        cdef Numbers *n = &self.numbers
        n.dispatch_cycles = spec.control.dispatch_cycles
        n.queue_depth = spec.control.queue_depth
        n.scratchpad_banks = spec.scratchpad.banks
        n.ports = spec.scratchpad.ports
        n.dram.burst_bytes = spec.dram.burst_bytes
        n.dram.burst_shift = spec.dram.burst_bytes.bit_length() - 1
        n.dram.row_bytes = spec.dram.row_bytes
        n.dram.row_shift = spec.dram.row_bytes.bit_length() - 1
        n.dram.banks = spec.dram.banks
        n.dram.bank_shift = spec.dram.banks.bit_length() - 1
        n.dram.activate_cycles = spec.dram.activate_cycles
        n.dram.precharge_cycles = spec.dram.precharge_cycles
        n.dram.column_cycles = spec.dram.column_cycles
        n.dram.turnaround_cycles = spec.dram.turnaround_cycles
        self.bytes_per_cycle = spec.dram.bytes_per_cycle

    cdef _place_tensors(self, tensors, int64_t row_bytes):
        """One after the other, each at the begin of a row."""
        cdef int64_t at = 0, stride
        cdef Tensor *tensor
        cdef int i, d
        for i, declared in enumerate(tensors):
            tensor = &self.tensors[i]
            tensor.rank = len(declared.shape)
            tensor.format = int(declared.format)
            tensor.first_byte = at
            stride = 1
            for d in range(RANK - 1, -1, -1):
                tensor.shape[d] = declared.shape[d] if d < tensor.rank else 1
                tensor.stride[d] = stride
                stride *= tensor.shape[d]
            at += -(-declared.format.bytes * stride // row_bytes) * row_bytes

    cdef _decode(self, program, spec):
        cdef CostNumbers n
        cdef int core, place
        cdef int32_t *served
        n.rows, n.cols = spec.matrix.rows, spec.matrix.cols
        n.dataflow = DATAFLOWS.index(spec.matrix.dataflow)
        n.matrix_setup_cycles = spec.matrix.setup_cycles
        for place, format in enumerate(MAC_FORMATS):
            n.macs_per_cell[place] = max(1, spec.matrix.macs_per_cell(format))  # 0 is refused before
        n.lanes, n.vector_setup_cycles = spec.vector.lanes, spec.vector.setup_cycles
        n.divide_cycles = spec.vector.divide_cycles
        n.transcendental_cycles = spec.vector.transcendental_cycles
        n.banks, n.dma_setup_cycles = spec.scratchpad.banks, spec.dram.setup_cycles
        served = <int32_t *> malloc(n.banks * sizeof(int32_t))
        if not served:
            raise MemoryError
        marks, self.streams, parameters = {None: 0}, [], set()
        try:
            for core in range(self.core_count):
                self._decode_core(core, program.table(core), marks, parameters)
                if not cost_stream(&n, self.words[core], self.costs[core], self.lengths[core], served):
                    raise ProgramError(
                        f"{program.name}: core {core} would execute more than the counters hold "
                        "(2e18); lower the trips of its loops"
                    )
                if not name_waits(self.words[core], self.lengths[core], self.costs[core]):
                    raise MemoryError
        finally:
            free(served)
        self.marks = tuple(marks)
        self.parameters = frozenset(parameters)

    cdef _decode_core(self, int core, const int64_t[:, ::1] table, dict marks, set parameters):
        cdef int64_t i
        cdef int32_t region = 0, streams = 0
        cdef Word *word
        for i in range(self.lengths[core]):
            word = &self.words[core][i]
            decode_word(<const Layout *> &layout_rows[table[i, 0], 0], &table[i, 0], self.tensors, word)
            if word.opcode == OP_MARK:
                region = marks.setdefault(table[i, MARK_ID], len(marks))
            elif word.opcode == OP_CASE:
                parameters.add(word.parameter)
            elif word.opcode in DMA_OPCODES:
                word.stream = streams
                streams += 1
            self.forwards |= word.forward
            self.regions[core][i] = region
        link_loops(self.words[core], self.lengths[core])
        self.streams.append(streams)

    def execute(self, double bandwidth, tensors=None, parameters=None, by=(By.PROGRAM,), trace_limit=0):
        """Run once; returns an ``Outcome``.

        ``bandwidth`` multiplies the channel's bytes per cycle. ``tensors`` are C-contiguous arrays
        of their tensors' formats in the order of the tensor table, outputs writable; None times
        alone. ``by`` are the ways to sum up. ``parameters`` maps runtime parameters to values; ``trace_limit`` is how many events
        are kept. Raises ``ProgramError`` for a deadlock, with the instructions that wait, and for a
        parameter that is missing.
        """
        cdef Run run = Run(self, bandwidth, tensors, parameters or {}, trace_limit)
        return run.complete(by)


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
        cdef float *words
        work = take_scratchpad(NARROW_WORKSPACE)  # cores compute one at a time
        cdef const unsigned char[::1] flat
        cdef void **pointers = <void **> self._block(max(1, len(tensors)) * sizeof(void *))
        self.arrays, self.scratchpads = [], [work]
        for i, array in enumerate(tensors):
            flat = array.reshape(-1).view(np.uint8)
            self.arrays.append(flat)
            pointers[<int> i] = <void *> &flat[0]
        m.has_numbers = 1
        for core in range(m.core_count):
            pad = take_scratchpad(self.loaded.scratchpad_elements)
            self.scratchpads.append(pad)
            words = <float *> <uintptr_t> pad.address
            fill_row(NAN, self.loaded.scratchpad_elements, words, 1)
            m.cores[core].memory.scratchpad = words
            m.cores[core].memory.tensors = pointers
            m.cores[core].memory.work = <float *> <uintptr_t> work.address

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

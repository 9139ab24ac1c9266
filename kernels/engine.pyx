# cython: language_level=3, boundscheck=True, wraparound=False
"""The emulator's engine: loads a verified program once, then runs it with or without numbers.

The model is in the headers beside this file: ``timeline.h`` (sequencers, queues, semaphores),
``dram.h`` (the channel), ``cost.h`` (units), ``execute.h`` (numbers). Here stand allocation, the
tables that the headers decode by, and what a run is summed up to.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

from autotune.errors import ProgramError
from autotune.isa.program import field_index
from autotune.isa.table import CHAIN_STAGES, INSTRUCTIONS, MAX_RANK, OPERANDS, Opcode, Unit

cdef extern from "timeline.h" nogil:
    enum: RANK, LEVELS, UNITS, TOKENS, NARROW_WORKSPACE, NEVER, HALTED, SPENDINGS
    enum: UNIT_CONTROL
    ctypedef struct Word:
        int opcode, unit
        uint8_t waits[4]
    ctypedef struct DramNumbers:
        double cycles_per_burst
        int64_t burst_bytes, row_bytes, banks
        int64_t activate_cycles, precharge_cycles, column_cycles, turnaround_cycles
        int row_shift, burst_shift
    ctypedef struct Numbers:
        int64_t dispatch_cycles, queue_depth, dma_setup_cycles, scratchpad_banks
        DramNumbers dram
    ctypedef struct Shape:
        int64_t phase
    ctypedef struct Traffic:
        int64_t transfers[2]
        int64_t bursts[2]
        int64_t bytes[2]
        int64_t hits, closed, conflicts, turnarounds, data_cycles, row_cycles
    ctypedef struct Channel:
        int64_t free
        int64_t *open
        Traffic traffic
    ctypedef struct Entry:
        const Word *word
    ctypedef struct Queue:
        Entry *ring
        int64_t head, count, free, start
        int64_t spent[6]
    ctypedef struct Semaphore:
        int64_t *ring
        unsigned int head, tail
        int taker
    ctypedef struct Memory:
        float *scratchpad
        void **tensors
        float *work
    ctypedef struct Core:
        const Word *words
        Memory memory
        int64_t *begun
        Shape *shapes
        Semaphore *semaphores
        Queue queue[4]
        int64_t pc, clock
        int state
        int64_t full_cycles, wait_cycles
    ctypedef struct Machine:
        Numbers numbers
        Channel channel
        Core *cores
        int core_count, has_numbers
    void advance(Machine *m, Core *core)
    int run_machine(Machine *m, int64_t budget)

cdef extern from "cost.h" nogil:
    enum: GROUPS, AT_OPERAND, AT_STRIDES
    ctypedef struct Layout:
        int at[64]
        int unit
    ctypedef struct Tensor:
        int64_t shape[5]
        int64_t stride[5]
        int rank, format
        int64_t first_byte
    ctypedef struct CostNumbers:
        int64_t rows, cols, dataflow, matrix_setup_cycles
        int64_t lanes, vector_setup_cycles, divide_cycles, transcendental_cycles
        int64_t banks, dma_setup_cycles
    ctypedef struct Totals:
        int64_t instructions[5]
        int64_t waits, signals, trips, folds, macs_issued, macs_useful
        int64_t vector_elements[3]
        int64_t vector_passes, vector_work, scratchpad_read, scratchpad_written
        int64_t load_elements, peak_elements
    void decode_word(const Layout *l, const int64_t *row, const Tensor *tensors, Word *w)
    void link_loops(Word *words, int64_t count)
    int cost_stream(const CostNumbers *n, const Layout *layouts, Word *words, int64_t count,
                    int32_t *served, Totals *t)

DATAFLOWS = ("os", "ws", "is")
"""Operand that the array holds, by the codes of cost.h."""

EVENTS_PER_CHECK = 1 << 20
"""Instructions started between two looks for Ctrl-C."""

cdef Layout LAYOUTS[64]

_OPERAND_NAMES = {
    opcode: [name for name, _ in operands] for opcode, operands in OPERANDS.items()
}


def _narrow_and_fused():
    """Groups of number formats and of fused instructions."""
    return [
        ("format",),
        ("scale",),
        ("adds",),
        ("r_m", "r_n1", "r_n0"),
        ("a_format", "b_format", "a_zero", "b_zero"),
        tuple(f"{part}{d}" for d in range(MAX_RANK) for part in ("axis", "hop")),
        ("size0", "size1", "dst_stride0", "dst_stride1", "src_stride0", "src_stride1", "state_stride0"),
        ("accumulate", "k_level"),
        tuple(f"stage{i}_{part}" for i in range(CHAIN_STAGES) for part in ("kind", "fn", "p0", "p1")),
        ("dst_format", "src_format", "divide", "scale", "src_zero", "dst_zero"),
    ]


def _groups(opcode):
    """Per Layout slot the names of its neighbouring fields, for one opcode."""
    names = _OPERAND_NAMES.get(opcode, [])
    parts = ("base", "step0", "level0", "step1", "level1", "slot", "turn")
    dims = range(MAX_RANK)
    groups = [("wait0", "wait1", "wait2"), ("signal0", "signal1", "signal2"), ("fn",), ("p0",), ("p1",)]
    if opcode in (Opcode.LOAD, Opcode.GATHER):
        groups[3] = ("pad",)
    is_reduction = opcode is Opcode.REDUCE
    padded = [*names, None, None, None, None, None]
    groups += [tuple(f"{name}_{part}" for part in parts) for name in padded[:5]]
    groups += [tuple(f"{name}_stride{d}" for d in dims) for name in padded[:4]]
    return [
        *groups,
        tuple(f"size{d}" for d in dims),
        tuple(f"{part}{d}" for d in dims for part in ("coord", "step", "level")),
        tuple(f"extent{d}" for d in dims),
        ("tensor",),
        ("m", "n1", "n0", "k2", "k1", "k0"),
        ("a_m", "a_k2", "a_k1", "a_k0", "b_k2", "b_k1", "b_k0", "b_n1", "b_n0", "c_m", "c_n1", "c_n0"),
        ("none",) if is_reduction else ("accumulate", "epilogue", "k_level", "bias_axis"),
        ("accumulate",) if is_reduction else ("none",),
        ("trips",),
        ("level",),
        ("unit",),
        ("semaphore",),
        *_narrow_and_fused(),
    ]


cdef void _fill_layouts() except *:
    cdef int opcode, slot
    for row in INSTRUCTIONS.values():
        index = field_index(row.opcode)
        opcode = int(row.opcode)
        groups = _groups(row.opcode)
        assert len(groups) == GROUPS
        LAYOUTS[opcode].unit = int(row.unit)
        for slot, names in enumerate(groups):
            first = index.get(names[0], -1)
            places = [index.get(name, -1) for name in names]
            if first >= 0 and places != list(range(first, first + len(names))):
                first = -1  # a row with its own arrangement of these fields
            LAYOUTS[opcode].at[slot] = first


_fill_layouts()


cdef class Loaded:
    """A program decoded for one machine; runs from any number of threads at once.

    ``numbers`` is a HardwareSpec. The program must be verified: nothing is checked here any more.
    Raises ``ProgramError`` when it would execute more than the counters can hold.
    """

    cdef Word **words
    cdef int64_t *lengths
    cdef Tensor *tensors
    cdef Numbers numbers
    cdef Totals totals
    cdef int core_count
    cdef int64_t scratchpad_elements
    cdef readonly object program
    cdef list credits
    cdef double bytes_per_cycle

    def __cinit__(self, program, numbers):
        cdef int core
        self.core_count = len(program.streams)
        self.words = <Word **> calloc(self.core_count, sizeof(Word *))
        self.lengths = <int64_t *> calloc(self.core_count, sizeof(int64_t))
        self.tensors = <Tensor *> calloc(max(1, len(program.tensors)), sizeof(Tensor))
        if not (self.words and self.lengths and self.tensors):
            raise MemoryError
        for core in range(self.core_count):
            self.lengths[core] = len(program.streams[core])
            self.words[core] = <Word *> calloc(self.lengths[core], sizeof(Word))
            if not self.words[core]:
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
        if self.words:
            for core in range(self.core_count):
                free(self.words[core])
        free(self.words)
        free(self.lengths)
        free(self.tensors)

    cdef _take_numbers(self, spec):
        cdef Numbers *n = &self.numbers
        n.dispatch_cycles = spec.control.dispatch_cycles
        n.queue_depth = spec.control.queue_depth
        n.dma_setup_cycles = spec.dram.setup_cycles
        n.scratchpad_banks = spec.scratchpad.banks
        n.dram.burst_bytes = spec.dram.burst_bytes
        n.dram.burst_shift = spec.dram.burst_bytes.bit_length() - 1
        n.dram.row_bytes = spec.dram.row_bytes
        n.dram.row_shift = spec.dram.row_bytes.bit_length() - 1
        n.dram.banks = spec.dram.banks
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
        cdef int core
        cdef int64_t i
        cdef const int64_t[:, ::1] table
        cdef int32_t *served
        n.rows, n.cols = spec.matrix.rows, spec.matrix.cols
        n.dataflow = DATAFLOWS.index(spec.matrix.dataflow)
        n.matrix_setup_cycles = spec.matrix.setup_cycles
        n.lanes, n.vector_setup_cycles = spec.vector.lanes, spec.vector.setup_cycles
        n.divide_cycles = spec.vector.divide_cycles
        n.transcendental_cycles = spec.vector.transcendental_cycles
        n.banks, n.dma_setup_cycles = spec.scratchpad.banks, spec.dram.setup_cycles
        memset(&self.totals, 0, sizeof(Totals))
        served = <int32_t *> malloc(n.banks * sizeof(int32_t))
        if not served:
            raise MemoryError
        try:
            for core in range(self.core_count):
                table = program.table(core)
                for i in range(self.lengths[core]):
                    decode_word(&LAYOUTS[table[i, 0]], &table[i, 0], self.tensors, &self.words[core][i])
                link_loops(self.words[core], self.lengths[core])
                if not cost_stream(&n, LAYOUTS, self.words[core], self.lengths[core], served, &self.totals):
                    raise ProgramError(
                        f"{program.name}: core {core} would execute more than the counters hold "
                        "(4e18); lower the trips of its loops"
                    )
        finally:
            free(served)

    def execute(self, double bandwidth, tensors=None):
        """Run once; returns raw counts by name.

        ``bandwidth`` multiplies the channel's bytes per cycle. ``tensors`` are C-contiguous arrays
        of their tensors' formats in the order of the tensor table, outputs writable; None times
        alone.
        Raises ``ProgramError`` for a deadlock, with the instructions that wait.
        """
        cdef Run run = Run(self, bandwidth, tensors)
        return run.complete()


cdef class Run:
    """The state of one execution."""

    cdef Machine machine
    cdef Loaded loaded
    cdef void **blocks
    cdef int block_count
    cdef list arrays

    def __cinit__(self, Loaded loaded, double bandwidth, tensors):
        self.loaded = loaded
        self.blocks = <void **> calloc(4 + loaded.core_count * 10, sizeof(void *))
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
        cdef int core
        for core in range(m.core_count):
            self._prepare(core, &m.cores[core])
        if tensors is not None:
            self._attach(tensors)

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
        core.words = self.loaded.words[number]
        core.begun = <int64_t *> self._block(length * sizeof(int64_t))
        core.shapes = <Shape *> self._block(length * sizeof(Shape))
        core.semaphores = <Semaphore *> self._block(256 * sizeof(Semaphore))
        for u in range(UNITS):
            core.queue[u].ring = <Entry *> self._block(self.loaded.numbers.queue_depth * sizeof(Entry))
            core.queue[u].start = NEVER
        used = set()
        for i in range(length):
            core.shapes[i].phase = -1
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

    cdef _attach(self, tensors):
        """Give every core a scratchpad of NaN and all of them the arrays."""
        cdef Machine *m = &self.machine
        cdef int core
        cdef float[::1] pad
        cdef const unsigned char[::1] flat
        cdef void **pointers = <void **> self._block(max(1, len(tensors)) * sizeof(void *))
        self.arrays = []
        for i, array in enumerate(tensors):
            flat = array.reshape(-1).view(np.uint8)
            self.arrays.append(flat)
            pointers[<int> i] = <void *> &flat[0]
        m.has_numbers = 1
        for core in range(m.core_count):
            pad = np.full(self.loaded.scratchpad_elements, np.nan, np.float32)
            self.arrays.append(pad)
            m.cores[core].memory.scratchpad = &pad[0]
            m.cores[core].memory.tensors = pointers
            m.cores[core].memory.work = <float *> self._block(NARROW_WORKSPACE * sizeof(float))

    cdef complete(self):
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
        return self._counts()

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

    cdef _counts(self):
        """Raw counts; ``spent`` is [core][unit][cause] cycles."""
        cdef Machine *m = &self.machine
        cdef Totals *t = &self.loaded.totals
        cdef Traffic *d = &m.channel.traffic
        cdef int core, unit
        cdef Core *c
        cycles, spent, sequencers = 0, [], []
        for core in range(m.core_count):
            c = &m.cores[core]
            cycles = max(cycles, c.clock, *(c.queue[unit].free for unit in range(UNITS)))
            spent.append([[c.queue[unit].spent[i] for i in range(SPENDINGS)] for unit in range(UNITS)])
            sequencers.append((c.clock, c.full_cycles, c.wait_cycles))
        return {
            "cycles": cycles, "spent": spent, "sequencers": sequencers,
            "instructions": [t.instructions[i] for i in range(5)],
            "waits": t.waits, "signals": t.signals, "trips": t.trips, "folds": t.folds,
            "macs_issued": t.macs_issued, "macs_useful": t.macs_useful,
            "vector_elements": [t.vector_elements[i] for i in range(3)],
            "vector_passes": t.vector_passes, "vector_work": t.vector_work,
            "scratchpad_read": t.scratchpad_read, "scratchpad_written": t.scratchpad_written,
            "load_elements": t.load_elements, "peak_elements": t.peak_elements,
            "transfers": [d.transfers[0], d.transfers[1]], "bursts": [d.bursts[0], d.bursts[1]],
            "bytes": [d.bytes[0], d.bytes[1]], "row_hits": d.hits, "row_misses": d.closed + d.conflicts,
            "data_cycles": d.data_cycles, "row_cycles": d.row_cycles,
        }

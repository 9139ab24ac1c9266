# cython: language_level=3, boundscheck=True, wraparound=False
"""The emulator's engine: loads a verified program once, then runs it with or without numbers.

The model is in the headers beside this file: ``timeline.h`` (sequencers, queues, semaphores),
``machine.h`` (their state), ``dram.h`` (the channel), ``cost.h`` (units), ``hazard.h`` (what waits
are for), ``account.h`` (sums), ``execute.h`` (numbers). Here stands what is loaded; ``run.pxi`` has one
execution of it, ``scratchpad.pxi`` memory for it, ``outcome.pxi`` its results, ``decode.pxi``, ``machine.pxi``
and ``layouts.pxi`` the borders to C and to the instruction table; ``words.pxi`` lends the numbers of single instructions to the native engine.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.math cimport NAN
from libc.string cimport memcpy, memset

from enum import IntEnum

import numpy as np

from autotune.errors import ProgramError
from autotune.isa.program import field_index
from autotune.isa.fields import CHAIN_STAGES, MAX_RANK, PARAMETERS
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.table import INSTRUCTIONS, OPERANDS

include "decode.pxi"
include "machine.pxi"
include "layouts.pxi"

DATAFLOWS = ("os", "ws", "is")
"""Operand that the array holds, by the codes of cost.h."""

EVENTS_PER_CHECK = 1 << 20
"""Instructions started between two looks for Ctrl-C."""

DMA_OPCODES = frozenset(map(int, (Opcode.LOAD, Opcode.STORE, Opcode.GATHER, Opcode.LOOKUP)))
MARK_ID = field_index(Opcode.MARK)["id"]

include "outcome.pxi"


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
        cdef int core
        cdef int32_t *served
        n.rows, n.cols = spec.matrix.rows, spec.matrix.cols
        n.dataflow = DATAFLOWS.index(spec.matrix.dataflow)
        n.matrix_setup_cycles = spec.matrix.setup_cycles
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
            decode_word(&LAYOUTS[table[i, 0]], &table[i, 0], self.tensors, word)
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


include "scratchpad.pxi"
include "run.pxi"
include "words.pxi"

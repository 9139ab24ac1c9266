# cython: language_level=3, boundscheck=True, wraparound=False
"""The race check's replay of a verified program; behind ``autotune.targets.emulator.races``.

The model is in ``race.h`` (order), ``access.h`` (who touches what) and ``shadow.h`` (memory); here stand decoding, allocation and results.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from kernels.micro.decode cimport (
    GROUPS, RANK, Layout, Loops, Tensor, Word, decode_word, link_loops,
)

import numpy as np

from autotune.errors import ProgramError
from autotune.kernels.micro.layouts import LAYOUTS

cdef const int32_t[:, ::1] layout_rows = LAYOUTS
assert layout_rows.shape[1] == GROUPS + 1

cdef extern from "emulator/race.h" nogil:
    enum: ACTORS, UNIT_LOAD, UNIT_STORE, SEMAPHORES
    ctypedef struct Shadow:
        int32_t *write
        int32_t *read[4]
        int32_t *writer
        int32_t *reader
    ctypedef struct Finding:
        int kind, memory, first, second
        int64_t word
    ctypedef struct Findings:
        Finding *rows
        int64_t count, limit
        const int32_t *places
        int64_t touched
    ctypedef struct Patterns:
        pass
    ctypedef struct Token:
        pass
    ctypedef struct Tokens:
        Token ring[256]
    ctypedef struct Replay:
        const Word *words
        const Patterns *patterns
        const int64_t *parameters
        int64_t *begun
        Tokens *tokens
        uint8_t head[SEMAPHORES]
        uint8_t tail[SEMAPHORES]
        Shadow scratchpad
        Shadow *tensors
        int32_t *places
        int64_t pc, executed
        int32_t lowest, count
        int32_t clock[5][4]
        Loops loops
        Findings found
    void settle_patterns(const Word *w, Patterns *out)
    int replay(Replay *r, int64_t budget)

BUDGET = 1 << 16
"""Instructions replayed between two looks for Ctrl-C."""
FINDING = np.dtype([
    ("kind", "i4"), ("memory", "i4"), ("first", "i4"), ("second", "i4"), ("word", "i8")
])
"""A race: 0 RAW, 1 WAR, 2 WAW; tensor or -1; places, which count instructions over all cores; word."""
assert FINDING.itemsize == sizeof(Finding)


cdef class Replayed:
    """One program's replay. ``parameters`` is ``[PARAMETERS]`` int64; ``shadowed`` the tensors that
    are written, by number; ``executed_limit`` how many instructions of one core are replayed."""

    cdef Replay state
    cdef object program
    cdef list kept
    cdef object places
    cdef int64_t executed_limit
    cdef readonly int64_t executed, touched
    cdef readonly object findings
    cdef object shadowed

    def __init__(self, program, parameters, shadowed, limit, executed_limit):
        self.program = program
        self.executed_limit = executed_limit
        self.shadowed = shadowed
        self.kept = []
        self.state.parameters = <int64_t *> self._memory(parameters)
        self.findings = np.zeros(limit, FINDING)
        self.state.found.rows = <Finding *> self._memory(self.findings)
        self.state.found.limit = limit
        self.state.tokens = <Tokens *> self._zeros(SEMAPHORES * sizeof(Tokens))
        self._shadow_scratchpad()
        self._shadow_tensors(shadowed)
        self._grow(BUDGET)

    cdef void *_memory(self, array) except NULL:
        """Of an array that lives as long as this."""
        cdef uint8_t[::1] flat = array.view(np.uint8)
        self.kept.append(flat)
        return <void *> &flat[0]

    cdef void *_zeros(self, size_t size) except NULL:
        return self._memory(np.zeros(size + 1, np.uint8))

    cdef int32_t *_stamps(self, int64_t words) except NULL:
        return <int32_t *> self._zeros(4 * words)

    cdef _shadow_scratchpad(self):
        cdef int unit
        words = max(1, self.program.scratchpad_elements)
        self.state.scratchpad.write = self._stamps(words)
        for unit in range(ACTORS):
            self.state.scratchpad.read[unit] = self._stamps(words)

    cdef _shadow_tensors(self, shadowed):
        cdef Shadow *shadow
        tensors = self.program.tensors
        self.state.tensors = <Shadow *> self._zeros(len(tensors) * sizeof(Shadow))
        for number, words in shadowed.items():
            shadow = &self.state.tensors[<int> number]
            shadow.write = self._stamps(words)
            shadow.read[UNIT_LOAD] = self._stamps(words)
            if len(self.program.streams) > 1:
                shadow.writer = self._stamps(words)
                shadow.reader = self._stamps(words)

    cdef _grow(self, int64_t room):
        places = np.zeros(room, np.int32)
        if self.places is not None:
            places[: len(self.places)] = self.places
        cdef int32_t[::1] memory = places
        self.places = places
        self.state.places = &memory[0]
        self.state.found.places = &memory[0]

    def run(self):
        """Replay every core; returns the findings as FINDING rows. ``executed`` and ``touched`` then say
        how many instructions ran and how many words they looked at."""
        cdef int core
        for core in range(len(self.program.streams)):
            self._run_core(core)
        self.touched = self.state.found.touched
        return self.findings[: self.state.found.count]

    cdef _run_core(self, int core):
        cdef int more = 1
        cdef int64_t budget
        self._begin(core)
        while more:
            budget = min(BUDGET, self.executed_limit - self.state.executed)
            if self.state.executed + budget >= len(self.places):
                self._grow(2 * len(self.places))
            with nogil:
                more = replay(&self.state, budget)
            if more and budget == 0:
                self._refuse(core)
            PyErr_CheckSignals()
        self.executed += self.state.executed

    cdef _begin(self, int core):
        """At the first instruction of a core, with nothing behind it but what other cores did."""
        cdef int64_t i
        self.state.pc = self.state.executed = 0
        self.state.lowest += self.state.count
        self.state.count = len(self.program.streams[core])
        memset(self.state.clock, 0, sizeof(self.state.clock))
        memset(&self.state.loops, 0, sizeof(Loops))
        self._begin_tokens(self.program.credits[core])
        self._forget()
        self._decode(self.program.table(core))

    cdef _begin_tokens(self, credits):
        """Only credits are taken before they are given: the rest of a ring may stay as it is."""
        cdef int i, count
        memset(self.state.head, 0, SEMAPHORES)
        memset(self.state.tail, 0, SEMAPHORES)
        for i, count in enumerate(credits):
            memset(self.state.tokens[i].ring, 0, count * sizeof(Token))
            self.state.tail[i] = count

    cdef _forget(self):
        """What an earlier core did, but for its accesses to DRAM."""
        cdef int64_t bytes = 4 * max(1, self.program.scratchpad_elements)
        cdef int unit, number
        cdef Shadow *shadow
        if not self.executed:
            return
        memset(self.state.scratchpad.write, 0, bytes)
        for unit in range(ACTORS):
            memset(self.state.scratchpad.read[unit], 0, bytes)
        for number in range(len(self.program.tensors)):
            shadow = &self.state.tensors[number]
            if shadow.write:
                bytes = 4 * self.shadowed[number]
                memset(shadow.write, 0, bytes)
                memset(shadow.read[UNIT_LOAD], 0, bytes)

    cdef _decode(self, const int64_t[:, ::1] table):
        cdef int64_t i, count = table.shape[0]
        cdef Word *words = <Word *> self._zeros(count * sizeof(Word))
        cdef Patterns *patterns = <Patterns *> self._zeros(count * sizeof(Patterns))
        cdef Tensor *tensors = self._tensors()
        for i in range(count):
            decode_word(<const Layout *> &layout_rows[table[i, 0], 0], &table[i, 0], tensors, &words[i])
            settle_patterns(&words[i], &patterns[i])
        link_loops(words, count)
        self.state.words = words
        self.state.patterns = patterns
        self.state.begun = <int64_t *> self._zeros(count * sizeof(int64_t))

    cdef Tensor *_tensors(self) except NULL:
        cdef Tensor *tensors = <Tensor *> self._zeros(len(self.program.tensors) * sizeof(Tensor))
        cdef int64_t stride
        cdef int i, d
        for i, declared in enumerate(self.program.tensors):
            tensors[i].rank = len(declared.shape)
            tensors[i].format = int(declared.format)
            stride = 1
            for d in range(RANK - 1, -1, -1):
                tensors[i].shape[d] = declared.shape[d] if d < tensors[i].rank else 1
                tensors[i].stride[d] = stride
                stride *= tensors[i].shape[d]
        return tensors

    cdef _refuse(self, int core):
        raise ProgramError(
            f"{self.program.name}: core {core} executes more than {self.executed_limit} instructions; the "
            "race check follows no more; lower the trips of its loops"
        )

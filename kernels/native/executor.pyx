# cython: language_level=3, boundscheck=True, wraparound=False
"""The native engine's executor: runs step tables that call compiled micro-kernels, without the GIL.

A ``Stream`` is one part of a program, which one thread does, made by the loader from five int64 tables:

========  =====================================================================================
steps     [n, 6]; what a row means is said by its first column:
          RUN   (0, kernel address, first operand, operand count, first number, number count)
          LOOP  (1, trips, level, 0, 0, 0)
          END   (2, level, 0, 0, 0, 0)
          CASE  (3, parameter, low, high, level, row of its END)
operands  [m, 6]: (base, byte, first term, term count, first turn, turn count)
numbers   [k, 3]: (constant, first term, term count)
terms     [t, 2]: (step, level): bytes of an operand, units of a number, for each trip
turns     [u, 2]: (slot, level): bytes
========  =====================================================================================

A RUN calls ``void kernel(char **operands, const int64_t *numbers)``. An operand's address is
``pointer_table[base] + byte + Σ step · index[level] + Σ slot · (begun[level] mod 2)``; base 0 is the
thread's scratchpad, and a row of base −1 is NULL. A number is ``constant + Σ step · index[level]``.
Rows may be shared. ``level`` is the number of blocks around a LOOP or CASE, 14 at most; terms and
turns name open blocks alone. ``index`` counts a loop's trips from 0, ``begun`` all those that this
row of the table has begun before the current one since its program started; a CASE is a loop of
one trip that is entered while low ≤ parameters[parameter] ≤ high (docs/isa.md). Trips may be 0.

A ``Plan`` is a sequence of programs, one call on a ``ThreadPool``. A kernel must not raise, return
late or call Python. How steps are walked stands in ``native_steps.h``, how threads share the parts
of programs and wait for each other in ``thread_pool.h``. A ``Call`` gives a plan its tensors by name.
"""

from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError, PyDict_Size
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

import os
from queue import Empty, SimpleQueue
from threading import RLock

import numpy as np

cimport numpy as cnp

from autotune.errors import InputError, ProgramError
from autotune.isa.fields import PARAMETERS

cdef extern from "native/steps.h" nogil:
    const int NATIVE_LEVELS
    enum:
        STEP_RUN, STEP_LOOP, STEP_END, STEP_CASE, STEP_HALT
        FROM_SCRATCHPAD, FROM_NOTHING, FROM_POINTERS

    ctypedef void (*NativeKernel)(char **, const int64_t *)

    ctypedef struct Pool:
        int threads, spins, most_lanes

    Pool *make_pool(int threads)
    void end_pool(Pool *pool)
    void set_apart(Pool *pool, int apart) nogil
    ctypedef struct Worker:
        pass

    ctypedef uint32_t (*Walk)(Pool *, Worker *, void *)
    const int COUNT_BITS, LINE
    const int64_t OVERDUE_NS

    ctypedef int64_t (*Clock)()
    int run_job(Pool *pool, int many, int threads, uint32_t programs, size_t scratch_bytes, Walk walk, void *argument,
                Clock clock, int64_t *begun)
    int64_t now_ns()
    int64_t thread_ns()

    ctypedef struct Move:
        uint64_t step, rewind
        int64_t value

    ctypedef struct Swap:
        uint64_t slot
        int64_t value

    ctypedef struct NativeStep:
        NativeKernel kernel
        int64_t trips, low, high
        int32_t kind, level, operands, numbers, jump, turn, move, moves, swap, swaps, parameter

    ctypedef struct Track:
        const NativeStep *steps
        const Move *moves
        const Swap *swaps
        uint64_t *starts
        int32_t *sources
        int64_t value_count, turn_count
        const Track *before

    ctypedef struct NativeProgram:
        Track *tracks
        int64_t count, shared, laid

    ctypedef struct PlanRun:
        const NativeProgram *programs
        int64_t count, value_bytes
        const uint64_t *pointers
        const int64_t *parameters
        int64_t *ends
        int threads, own_time

    uint32_t walk_plan(Pool *pool, Worker *me, void *argument)

cdef extern from "native/samples.h" nogil:
    void nothing_kernel(char **, const int64_t *)
    void count_kernel(char **, const int64_t *)
    void add_kernel(char **, const int64_t *)
    void record_kernel(char **, const int64_t *)

cdef extern from "native/clock.h" nogil:
    void clock_kernel(char **, const int64_t *)

cnp.import_array()

RUN, LOOP, END, CASE = STEP_RUN, STEP_LOOP, STEP_END, STEP_CASE
"""First column of a step."""

NULL_BASE = -1
"""Base of an operand that is NULL."""

LEVELS = NATIVE_LEVELS
"""How deep LOOPs and CASEs may nest."""

SAMPLE_KERNELS = {
    "nothing": <uintptr_t> &nothing_kernel,
    "count": <uintptr_t> &count_kernel,
    "add": <uintptr_t> &add_kernel,
    "record": <uintptr_t> &record_kernel,
}
"""Addresses of the kernels in native_samples.h, for tests and benchmarks."""

CLOCK_KERNEL = <uintptr_t> &clock_kernel
"""Address of the kernel that times the steps before it (native_clock.h)."""

STEP_COLUMNS, OPERAND_COLUMNS, NUMBER_COLUMNS, TERM_COLUMNS = 6, 6, 3, 2


cdef void *room(int64_t count, size_t size) except NULL:
    """Zeroed memory for ``count`` of something and one more."""
    cdef void *block = calloc(count + 1, size)
    if not block:
        raise MemoryError
    return block


cdef extern from "native/token_ring.h" nogil:
    int time_ring(Pool *pool, int threads, uint32_t rounds, double *hop_ns)


cdef class ThreadPool:
    """``threads`` threads that run plans; the one that calls is the first of them.

    The others begin with the first plan that needs them, and sleep when they have had nothing to do
    for a while. Calls from several threads are served one after the other; plans for ``many`` callers run on ``lanes`` at once,
    each of so many threads, which all of the process's cores have room for. A forked child may go on
    using the pool; it gets threads of its own. They run on the cores of the thread that made the pool, whichever
    core a caller holds itself to (``set_apart``); up to eight keep off that of the caller where several
    take turns. Raises ``InputError`` for less than one thread.
    """

    cdef Pool *pool
    cdef readonly int threads

    def __cinit__(self, int threads):
        if not 1 <= threads <= 1024:
            raise InputError(f"a pool of {threads} threads; it has 1 to 1024")
        self.threads = threads
        self.pool = make_pool(threads)
        if not self.pool:
            raise MemoryError

    @property
    def lanes(self):
        """How many plans of its threads the cores have room for at once, at least 1."""
        return self.pool.most_lanes

    def set_apart(self, bint apart):
        """Keep every thread but the caller on a core of its own, the caller's the first of the pool's; or let all of
        them run where there is room. Of lanes it is the first, which is that of plans for one caller at a time. Waits for its run. Does nothing where the system binds no threads."""
        with nogil:
            set_apart(self.pool, apart)

    def hop_nanoseconds(self, int threads, unsigned int rounds):
        """Return the nanoseconds until a core sees what another one wrote: of a number that goes round the first ``threads``
        ones, the mean of ``rounds``. 0.0 where a thread does not come within a millisecond, and where cores are fewer
        than the pool's threads, which then cannot all wait awake.

        Raises ``InputError`` for less than two threads or rounds, or more than the pool has; ``MemoryError`` where a
        thread cannot begin."""
        if not 2 <= threads <= self.threads or not 2 <= rounds <= 1 << 20:
            raise InputError(f"a number goes round {threads} of {self.threads} threads {rounds} times; both are 2 at least")
        cdef double hop_ns = 0.0
        cdef int error = 0
        if self.pool.spins:
            with nogil:
                error = time_ring(self.pool, threads, rounds, &hop_ns)
        if error:
            raise MemoryError(f"{threads} threads: {os.strerror(error)}")
        return hop_ns

    def __dealloc__(self):
        if self.pool:
            end_pool(self.pool)


include "stream.pxi"
include "memory.pxi"
include "plan.pxi"
include "call.pxi"

# cython: language_level=3, boundscheck=True, wraparound=False
"""Scratchpads of runs with numbers, handed on from one run to the next."""

from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free

cdef extern from "emulator/scratchpad.h" nogil:
    enum: SPARE_LIMIT_BYTES
    float *make_scratchpad(int64_t elements)


cdef class Scratchpad:
    """``elements`` uninitialised floats at ``address``."""

    cdef float *words
    cdef readonly int64_t elements

    def __cinit__(self, int64_t elements):
        self.elements = elements
        self.words = make_scratchpad(elements)
        if not self.words:
            raise MemoryError

    @property
    def address(self):
        return <uintptr_t> self.words

    def __dealloc__(self):
        free(self.words)


cdef list spare_scratchpads = []


def take_scratchpad(int64_t elements):
    """Take the smallest spare scratchpad of at least ``elements``, or make a new one."""
    cdef Scratchpad spare
    for i, spare in enumerate(spare_scratchpads):
        if spare.elements >= elements:
            return spare_scratchpads.pop(i)
    return Scratchpad(elements)


def give_back(list scratchpads):
    """Keep the largest spare scratchpads within the limit, in ascending order of size."""
    cdef Scratchpad spare
    room, largest = SPARE_LIMIT_BYTES, []
    for spare in sorted(spare_scratchpads + scratchpads, key=lambda pad: -pad.elements):
        if 4 * spare.elements <= room:
            room -= 4 * spare.elements
            largest.append(spare)
    spare_scratchpads[:] = reversed(largest)

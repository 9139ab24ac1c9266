# Scratchpads of runs with numbers, handed on from one run to the next.

cdef extern from "emulator/scratchpad.h" nogil:
    enum: SPARE_LIMIT_BYTES
    float *make_scratchpad(int64_t elements)


cdef class Scratchpad:
    """``elements`` floats of no particular value."""

    cdef float *words
    cdef readonly int64_t elements

    def __cinit__(self, int64_t elements):
        self.elements = elements
        self.words = make_scratchpad(elements)
        if not self.words:
            raise MemoryError

    def __dealloc__(self):
        free(self.words)


cdef list spare_scratchpads = []


cdef Scratchpad scratchpad_of(int64_t elements):
    """One of ``elements`` at least: the smallest that is spare, or a new one."""
    cdef Scratchpad one
    for i, one in enumerate(spare_scratchpads):
        if one.elements >= elements:
            return spare_scratchpads.pop(i)
    return Scratchpad(elements)


cdef give_back(list scratchpads):
    """Keep the largest of all that are spare, within the limit; the smallest first."""
    cdef Scratchpad one
    room, kept = SPARE_LIMIT_BYTES, []
    for one in sorted(spare_scratchpads + scratchpads, key=lambda pad: -pad.elements):
        if 4 * one.elements <= room:
            room -= 4 * one.elements
            kept.append(one)
    spare_scratchpads[:] = reversed(kept)

# The packed trees of a model, for Cython and C: predictions without Python (see forest.h).

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t

cdef extern from "trees/forest.h" nogil:
    enum: FOREST_DEPTH, FOREST_LEVELS, FOREST_COLUMNS
    ctypedef struct Forest:
        int32_t features, columns, trees
        float base
        const int32_t *feature
        const uint8_t *nan_left
        const uint8_t *levels
        const int32_t *first
        const float *threshold
        const uint8_t *depth
        const int32_t *node
        const int32_t *leaf
        const uint16_t *column
        const uint8_t *rank
        const float *value


cdef class PackedForest:
    cdef Forest forest
    cdef tuple arrays
    cdef float predict_row(self, const float *x) noexcept nogil

# cython: language_level=3, boundscheck=True, wraparound=False
"""Predictions by packed trees, without the GIL: a few rows one by one, more in blocks side by side.

What the tables mean stands in ``trees/forest.h``; ``autotune.cost_model.forest`` makes them, and checks that
every number in them stays inside the others.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.stdlib cimport free, malloc
import numpy as np

cimport numpy as cnp

cdef extern from "trees/forest.h" nogil:
    float forest_row(const Forest *forest, const float *x)

cdef extern from "trees/lanes.h" nogil:
    enum: FOREST_BLOCK
    ctypedef float Lanes[FOREST_BLOCK]
    ctypedef uint8_t Block[FOREST_BLOCK]
    void predict_block(const Forest *forest, const Lanes *x, Block *ranks, float *total)

cnp.import_array()

ctypedef fused Number:
    float
    double

MAX_DEPTH = FOREST_DEPTH
MAX_LEVELS = FOREST_LEVELS
MAX_COLUMNS = FOREST_COLUMNS
ROWS_APART = 16
"""Fewer rows than these are walked one by one: a block costs the same however many it holds."""
cdef int64_t rows_apart = ROWS_APART


cdef class PackedForest:
    """Trees over ``features`` columns of numbers; immutable, usable from several threads.

    ``columns`` are their features, whether NaN goes left, levels of search and first thresholds
    [4, C]; ``trees`` their depths, first nodes and first leaves [3, T]; ``nodes`` column and rank [2, N].
    """

    def __cinit__(
        self, int features, float base, columns, threshold, trees, nodes, value
    ):
        cdef const int32_t[::1] feature = np.ascontiguousarray(columns[0], dtype=np.int32)
        cdef const uint8_t[::1] nan_left = np.ascontiguousarray(columns[1], dtype=np.uint8)
        cdef const uint8_t[::1] levels = np.ascontiguousarray(columns[2], dtype=np.uint8)
        cdef const int32_t[::1] first = np.ascontiguousarray(columns[3], dtype=np.int32)
        cdef const float[::1] thresholds = np.ascontiguousarray(threshold, dtype=np.float32)
        cdef const uint8_t[::1] depth = np.ascontiguousarray(trees[0], dtype=np.uint8)
        cdef const int32_t[::1] node = np.ascontiguousarray(trees[1], dtype=np.int32)
        cdef const int32_t[::1] leaf = np.ascontiguousarray(trees[2], dtype=np.int32)
        cdef const uint16_t[::1] column = np.ascontiguousarray(nodes[0], dtype=np.uint16)
        cdef const uint8_t[::1] rank = np.ascontiguousarray(nodes[1], dtype=np.uint8)
        cdef const float[::1] values = np.ascontiguousarray(value, dtype=np.float32)
        self.arrays = (
            feature, nan_left, levels, first, thresholds, depth, node, leaf, column, rank, values
        )
        f = &self.forest
        f.features, f.base = features, base
        f.columns, f.trees = <int32_t> feature.shape[0], <int32_t> depth.shape[0]
        if f.columns:
            f.feature, f.nan_left, f.levels = &feature[0], &nan_left[0], &levels[0]
            f.first, f.threshold = &first[0], &thresholds[0]
        if f.trees:
            f.depth, f.node, f.leaf = &depth[0], &node[0], &leaf[0]
            f.value = &values[0]
        if column.shape[0]:
            f.column, f.rank = &column[0], &rank[0]

    cdef float predict_row(self, const float *x) noexcept nogil:
        """Predict one row of features."""
        return forest_row(&self.forest, x)

    def predict(self, x):
        """Return predictions [n] of float32 or float64 rows [n, features]; float64 ones are rounded first."""
        if x.dtype != np.float32 and x.dtype != np.float64:
            raise TypeError(f"trees take rows of float32 or float64, not {x.dtype}")
        if x.ndim != 2 or x.shape[1] != self.forest.features:
            raise ValueError(f"trees take rows of {self.forest.features} features, not {x.shape}")
        out = np.empty(x.shape[0])
        rows = np.ascontiguousarray(x)
        if x.dtype == np.float32:
            predict_rows[float](&self.forest, <const float *> cnp.PyArray_DATA(rows), len(out), out)
        else:
            predict_rows[double](&self.forest, <const double *> cnp.PyArray_DATA(rows), len(out), out)
        return out


cdef int predict_rows(const Forest *f, const Number *x, int64_t n, double[::1] out) except -1:
    """Predict rows [n, features], rounded to float32."""
    if not n:
        return 0
    cdef int64_t whole = n - n % FOREST_BLOCK if n % FOREST_BLOCK < rows_apart else n
    cdef int64_t size = FOREST_BLOCK * (f.features * sizeof(float) + f.columns)
    cdef float *lanes = <float *> malloc(max(size, FOREST_BLOCK))
    cdef double *to = &out[0]
    if not lanes:
        raise MemoryError
    with nogil:
        predict_blocks(f, x, whole, to, lanes)
        predict_apart(f, x + whole * f.features, n - whole, to + whole, lanes)
    free(lanes)
    return 0


cdef void predict_blocks(
    const Forest *f, const Number *x, int64_t n, double *out, float *lanes
) noexcept nogil:
    """Predict rows block by block; a last block of fewer rows is filled with zeros."""
    cdef Block *ranks = <Block *> (lanes + f.features * FOREST_BLOCK)
    cdef float total[FOREST_BLOCK]
    cdef int64_t at = 0, count, i
    cdef int32_t k
    while at < n:
        count = min(n - at, <int64_t> FOREST_BLOCK)
        for i in range(count):
            for k in range(f.features):
                lanes[k * FOREST_BLOCK + i] = <float> x[(at + i) * f.features + k]
        for i in range(count, FOREST_BLOCK):
            for k in range(f.features):
                lanes[k * FOREST_BLOCK + i] = 0
        predict_block(f, <const Lanes *> lanes, ranks, total)
        for i in range(count):
            out[at + i] = total[i]
        at += count


cdef void predict_apart(
    const Forest *f, const Number *x, int64_t n, double *out, float *row
) noexcept nogil:
    """Predict rows one by one."""
    cdef int64_t i
    cdef int32_t k
    for i in range(n):
        for k in range(f.features):
            row[k] = <float> x[i * f.features + k]
        out[i] = forest_row(f, row)

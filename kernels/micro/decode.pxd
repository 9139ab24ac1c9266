# Decoded instructions: the declarations of micro/decode.h. Cython resolves this file by its path in
# the repository (`from kernels.micro.decode cimport …`); nothing imports it at run time.

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "micro/decode.h" nogil:
    enum: RANK, GROUPS
    ctypedef struct Word:
        int opcode, unit, stream, forward, parameter
        uint8_t waits[4]
        uint8_t signals[4]
    ctypedef struct Layout:
        int at[64]
        int unit
    ctypedef struct Tensor:
        int64_t shape[5]
        int64_t stride[5]
        int rank, format
        int64_t first_byte
    ctypedef struct Loops:
        pass
    void decode_word(const Layout *l, const int64_t *row, const Tensor *tensors, Word *w)
    void link_loops(Word *words, int64_t count)

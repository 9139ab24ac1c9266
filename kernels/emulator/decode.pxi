# What the engine and the race check take from the decoded instructions in decode.h.

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

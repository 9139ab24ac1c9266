# cython: language_level=3, boundscheck=True, wraparound=False
"""Compiled micro-kernels of every instruction, called by address with the arguments of ``words.h``."""

from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport calloc, free

from kernels.micro.decode cimport GROUPS, RANK, Layout, Tensor, Word, decode_word

from autotune.isa.opcodes import Opcode
from autotune.kernels.micro.layouts import LAYOUTS

cdef const int32_t[:, ::1] layout_rows = LAYOUTS
assert layout_rows.shape[1] == GROUPS + 1

cdef extern from "micro/words.h" nogil:
    void word_product(char **, const int64_t *)
    void word_elementwise(char **, const int64_t *)
    void word_reduction(char **, const int64_t *)
    void word_chain(char **, const int64_t *)
    void word_online(char **, const int64_t *)
    void word_conversion(char **, const int64_t *)
    void word_transform(char **, const int64_t *)
    void word_load(char **, const int64_t *)
    void word_gather(char **, const int64_t *)
    void word_lookup(char **, const int64_t *)
    void word_store(char **, const int64_t *)
    void word_mask(char **, const int64_t *)

WORD_KERNELS = {
    Opcode.MATMUL: <uintptr_t> &word_product,
    Opcode.UNARY: <uintptr_t> &word_elementwise,
    Opcode.BINARY: <uintptr_t> &word_elementwise,
    Opcode.FMA: <uintptr_t> &word_elementwise,
    Opcode.FILL: <uintptr_t> &word_elementwise,
    Opcode.REDUCE: <uintptr_t> &word_reduction,
    Opcode.CHAIN: <uintptr_t> &word_chain,
    Opcode.ONLINE: <uintptr_t> &word_online,
    Opcode.CONVERT: <uintptr_t> &word_conversion,
    Opcode.TRANSFORM: <uintptr_t> &word_transform,
    Opcode.LOAD: <uintptr_t> &word_load,
    Opcode.GATHER: <uintptr_t> &word_gather,
    Opcode.LOOKUP: <uintptr_t> &word_lookup,
    Opcode.STORE: <uintptr_t> &word_store,
    Opcode.MASK: <uintptr_t> &word_mask,
}
"""Address of the kernel of each opcode that computes or moves."""


cdef class Words:
    """Decoded instructions at fixed addresses.

    ``table`` has a row of field values per instruction, as ``Program.table``. Operand addresses must
    be 0, and coordinates must depend on loops 0 to 4: the executor supplies both.
    """

    cdef Word *words
    cdef Tensor *tensors
    cdef readonly int64_t count

    def __cinit__(self, const int64_t[:, ::1] table, tensors):
        self.count = table.shape[0]
        self.words = <Word *> calloc(self.count + 1, sizeof(Word))
        self.tensors = <Tensor *> calloc(len(tensors) + 1, sizeof(Tensor))
        if not (self.words and self.tensors):
            raise MemoryError

    def __init__(self, const int64_t[:, ::1] table, tensors):
        cdef int64_t i
        cdef int d
        cdef Tensor *tensor
        for i, declared in enumerate(tensors):
            tensor = &self.tensors[i]
            tensor.rank, tensor.format = len(declared.shape), int(declared.format)
            for d in range(RANK - 1, -1, -1):
                tensor.shape[d] = declared.shape[d] if d < tensor.rank else 1
                tensor.stride[d] = 1 if d == RANK - 1 else tensor.stride[d + 1] * tensor.shape[d + 1]
        for i in range(self.count):
            decode_word(<const Layout *> &layout_rows[table[i, 0], 0], &table[i, 0], self.tensors, &self.words[i])

    def __dealloc__(self):
        free(self.words)
        free(self.tensors)

    def addresses(self):
        """Return the address of each word."""
        cdef int64_t i
        return [<uintptr_t> &self.words[i] for i in range(self.count)]

# cython: language_level=3, boundscheck=False, wraparound=False
"""Records NumPy arithmetic over columns: a ``Traced`` array stands for one value per row, a ``Recorder`` keeps what is
done to it as steps.

Code that computes columns [..., n] from columns runs on ``Traced`` arrays unchanged, with n = 1. Equal steps are kept
once, steps over constants are done at once. What depends on more than one row cannot be recorded and raises
``Untraceable``. ``steps.h`` runs the steps; NumPy runs functions whose bits depend on its own code.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

import numpy as np

cimport numpy as cnp

cnp.import_array()

cdef extern from "tape/steps.h" nogil:
    ctypedef struct TapeStep:
        int32_t op, to, a, b, c
    ctypedef union TapeWord:
        int64_t i
        double f
    enum:
        DO_COPY, DO_ADD, DO_SUB, DO_MUL, DO_DIV, DO_MOD, DO_MIN, DO_MAX, DO_NEG, DO_ABS, DO_GCD, DO_AND, DO_OR, DO_NOT, DO_EQ, DO_NE
        DO_LT, DO_LE, DO_SELECT, DO_FADD, DO_FSUB, DO_FMUL, DO_FDIV, DO_FMIN, DO_FMAX, DO_FNEG, DO_FABS, DO_FCEIL, DO_FFLOOR
        DO_FRINT, DO_FEQ, DO_FNE, DO_FLT, DO_FLE, DO_ISINF, DO_FLOAT, DO_INT, DO_EDGES, DO_BURSTS, DO_CONFLICT, DO_STEPS
        MOST_BANKS, MOST_AXES
    void run_steps(TapeWord *r, const TapeStep *step, int64_t count, const int32_t *lists, int64_t n)

DEF BOOL = 0
DEF INT = 1
DEF FLOAT = 2
DEF SAME = -1  # as its operands
# codes of what is no step
DEF INPUT = 100
DEF CONSTANT = 101
DEF RESULT = 102
# what is known of a number
DEF NOT_BELOW = 1  # +0 or larger, or NaN
DEF NO_MINUS_ZERO = 2

MOST_NODES = 60_000
"""More steps are not recorded: NumPy is as fast by then."""

_KINDS = (np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64))


class Untraceable(Exception):
    """What was to be recorded depends on more than one row, or on something that has no step."""


cdef struct Node:
    int32_t op, kind, known, phase, a, b, c
    int64_t bits


cdef inline int64_t bits_of(double value) noexcept nogil:
    cdef TapeWord word
    word.f = value
    return word.i


cdef inline double value_of(int64_t bits) noexcept nogil:
    cdef TapeWord word
    word.i = bits
    return word.f


cdef class Recorder:
    """Steps recorded so far. A node is an input, a constant, a step, or a result of a function."""

    cdef Node *nodes
    cdef int32_t *table
    cdef int32_t count, room, slots
    cdef readonly int inputs
    cdef readonly list functions
    """Functions outside: (callable, node ids of the arguments, phase, node ids of the results, whether calls are joined)."""
    cdef list lists
    cdef dict wide, scalars

    def __cinit__(self, int inputs):
        """``inputs`` columns of integers come from outside, each at least 0."""
        cdef int32_t i
        self.room, self.slots = 4096, 16384
        self.nodes = <Node *> malloc(self.room * sizeof(Node))
        self.table = <int32_t *> calloc(self.slots, sizeof(int32_t))
        if not self.nodes or not self.table:
            raise MemoryError
        self.inputs, self.functions, self.lists, self.wide = inputs, [], [], {}
        self.scalars = {}
        for i in range(inputs):
            self.append(INPUT, INT, NOT_BELOW | NO_MINUS_ZERO, 0, i, 0, 0, 0)

    def __dealloc__(self):
        free(self.nodes)
        free(self.table)

    cdef int32_t append(self, int32_t op, int32_t kind, int32_t known, int32_t phase, int32_t a, int32_t b,
                        int32_t c, int64_t bits) except -1:
        cdef Node *node
        if self.count == self.room:
            if self.room > MOST_NODES:
                raise Untraceable(f"more than {MOST_NODES} steps")
            node = <Node *> realloc(self.nodes, 2 * self.room * sizeof(Node))
            if not node:
                raise MemoryError
            self.nodes = node
            self.room *= 2
        node = &self.nodes[self.count]
        node.op, node.kind, node.known, node.phase = op, kind, known, phase
        node.a, node.b, node.c, node.bits = a, b, c, bits
        self.count += 1
        return self.count - 1

    cdef int32_t find(self, int32_t op, int32_t kind, int32_t known, int32_t phase, int32_t a, int32_t b, int32_t c,
                      int64_t bits) except -1:
        """The node of a step, which is added if there is none."""
        cdef unsigned long long key
        cdef int32_t at, id
        cdef Node *node
        if 3 * self.count > self.slots:
            self.widen()
        key = hashed(op, a, b, c, bits + kind)
        at = <int32_t> (key & (self.slots - 1))
        while self.table[at]:
            node = &self.nodes[self.table[at] - 1]
            if (node.op == op and node.a == a and node.b == b and node.c == c and node.bits == bits
                    and node.kind == kind):
                return self.table[at] - 1
            at = (at + 1) & (self.slots - 1)
        id = self.append(op, kind, known, phase, a, b, c, bits)
        self.table[at] = id + 1
        return id

    cdef int widen(self) except -1:
        cdef int32_t *old = self.table
        cdef int32_t count = self.slots, i, at
        cdef Node *node
        self.table = <int32_t *> calloc(4 * count, sizeof(int32_t))
        if not self.table:
            self.table = old
            raise MemoryError
        self.slots = 4 * count
        for i in range(count):
            if old[i]:
                node = &self.nodes[old[i] - 1]
                at = <int32_t> (hashed(node.op, node.a, node.b, node.c, node.bits + node.kind) & (self.slots - 1))
                while self.table[at]:
                    at = (at + 1) & (self.slots - 1)
                self.table[at] = old[i]
        free(old)
        return 0

    cdef int32_t constant(self, int32_t kind, int64_t bits) except -1:
        cdef int32_t known = 0
        if kind != FLOAT:
            known = NO_MINUS_ZERO | (NOT_BELOW if bits >= 0 else 0)
        elif bits >= 0:  # the sign bit is not set
            known = NO_MINUS_ZERO | NOT_BELOW
        elif value_of(bits) != 0:
            known = NO_MINUS_ZERO
        return self.find(CONSTANT, kind, known, 0, 0, 0, 0, bits)

    cdef int32_t known_of(self, int32_t op, int32_t a, int32_t b, int32_t c) noexcept:
        """What is known of a step's result."""
        cdef int32_t x = self.nodes[a].known, y = self.nodes[b].known
        cdef int32_t both = x & y & NOT_BELOW
        if op in (DO_ADD, DO_MUL, DO_DIV, DO_MOD, DO_MIN):
            return both | NO_MINUS_ZERO
        if op == DO_MAX:
            return ((x | y) & NOT_BELOW) | NO_MINUS_ZERO
        if op in (DO_FADD,):
            return both | ((x | y) & NO_MINUS_ZERO)
        if op in (DO_FMUL, DO_FDIV, DO_FMIN, DO_FMAX):
            return both | (NO_MINUS_ZERO if both else 0)
        if op in (DO_FCEIL, DO_FFLOOR, DO_FRINT):
            return x if x & NOT_BELOW else 0
        if op in (DO_FABS, DO_ABS):
            return NOT_BELOW | NO_MINUS_ZERO
        if op in (DO_FLOAT, DO_INT):
            return (x & NOT_BELOW) | NO_MINUS_ZERO
        if op == DO_SELECT:
            return y & self.nodes[c].known
        if op in (DO_SUB, DO_NEG):
            return NO_MINUS_ZERO
        if op in (DO_FSUB, DO_FNEG):
            return 0
        return NOT_BELOW | NO_MINUS_ZERO

    cdef inline bint is_bits(self, int32_t id, int64_t bits) noexcept:
        return self.nodes[id].op == CONSTANT and self.nodes[id].bits == bits

    cdef int32_t shortened(self, int32_t op, int32_t a, int32_t b, int32_t c) noexcept:
        """The node that equals a step bit for bit, or -1."""
        cdef int64_t one = bits_of(1.0)
        if op == DO_MUL:
            if self.is_bits(a, 1) or self.is_bits(b, 0):
                return b
            if self.is_bits(b, 1) or self.is_bits(a, 0):
                return a
        elif op == DO_ADD or op == DO_OR:
            if self.is_bits(a, 0):
                return b
            if self.is_bits(b, 0):
                return a
        elif op == DO_AND:
            if self.is_bits(a, 0) or (self.is_bits(b, 1) and self.nodes[a].kind == BOOL):
                return a
            if self.is_bits(b, 0) or (self.is_bits(a, 1) and self.nodes[b].kind == BOOL):
                return b
        elif op == DO_SUB or op == DO_DIV:
            if self.is_bits(b, 0 if op == DO_SUB else 1):
                return a
        elif op == DO_MIN or op == DO_MAX:
            if a == b:
                return a
        elif op == DO_FADD:
            if self.is_bits(a, 0) and self.nodes[b].known & NO_MINUS_ZERO:
                return b
            if self.is_bits(b, 0) and self.nodes[a].known & NO_MINUS_ZERO:
                return a
        elif op == DO_FMUL:
            if self.is_bits(a, one):
                return b
            if self.is_bits(b, one):
                return a
        elif op == DO_FDIV or op == DO_FSUB:
            if self.is_bits(b, one if op == DO_FDIV else 0):
                return a
        elif op == DO_SELECT:
            if b == c or (self.nodes[a].op == CONSTANT and self.nodes[a].bits):
                return b
            if self.nodes[a].op == CONSTANT:
                return c
        return -1

    cdef int32_t emit(self, int32_t op, int32_t kind, int32_t a, int32_t b, int32_t c) except -1:
        """The node of a step of up to three operands; those that it has not are given as the first."""
        cdef TapeWord words[4]
        cdef TapeStep step
        cdef int32_t same = self.shortened(op, a, b, c), phase
        if same >= 0:
            return same
        if self.nodes[a].op == CONSTANT and self.nodes[b].op == CONSTANT and self.nodes[c].op == CONSTANT:
            words[0].i, words[1].i, words[2].i = self.nodes[a].bits, self.nodes[b].bits, self.nodes[c].bits
            step.op, step.to, step.a, step.b, step.c = op, 3, 0, 1, 2
            run_steps(words, &step, 1, NULL, 1)
            return self.constant(kind, words[3].i)
        phase = max(self.nodes[a].phase, self.nodes[b].phase, self.nodes[c].phase)
        return self.find(op, kind, self.known_of(op, a, b, c), phase, a, b, c, 0)

    cdef int32_t emit_wide(self, int32_t op, tuple ids) except -1:
        """The node of a step of many operands."""
        cdef int32_t id, phase = 0, at, first, known = NOT_BELOW | NO_MINUS_ZERO
        key = (op, ids)
        if key in self.wide:
            return self.wide[key]
        for at in ids:
            phase = max(phase, self.nodes[at].phase)
        first = len(self.lists)
        self.lists.extend(ids)
        id = self.append(op, INT, known, phase, first, len(ids), -1, 0)
        self.wide[key] = id
        return id

    def traced(self, ids, kind):
        """Return the array of some nodes; ``kind`` is that of ``np.dtype.kind``."""
        return made(self, np.asarray(ids, dtype=np.int32), "bif".index(kind))

    def float_node(self, x):
        """Return the node of a number [1] or of one for all rows, as a float."""
        (id,) = as_kind(lifted(self, x), FLOAT).ids.ravel().tolist()
        return id

    def call(self, function, arguments, int results, joined=False):
        """Return nodes [results] of floats that ``function`` returns as [results, n] for arguments [m, n] of bits.

        ``joined`` calls of a function of one phase are one: [sum of m, n], results in their order."""
        cdef int32_t phase = 0, id, number
        key = (function, tuple(arguments)) if joined else None
        if joined and key in self.wide:
            return self.functions[self.wide[key]][3]
        for id in arguments:
            phase = max(phase, self.nodes[id].phase)
        number = len(self.functions)
        ids = [self.append(RESULT, FLOAT, 0, phase + 1, number, id, 0, 0) for id in range(results)]
        self.functions.append((function, list(arguments), phase, ids, joined))
        if joined:
            self.wide[key] = number
        return ids

    def constants(self, ids):
        """Return bits of nodes that are constants, None for others."""
        return [self.nodes[<int32_t> id].bits if self.nodes[<int32_t> id].op == CONSTANT else None for id in ids]

    def compiled(self, outputs):
        """Return what ``Tape`` holds of the recording, for output nodes in order: see the compiler."""
        return _Compiler(self, outputs).found


cdef inline unsigned long long hashed(int32_t op, int32_t a, int32_t b, int32_t c, int64_t bits) noexcept nogil:
    cdef unsigned long long key = <unsigned long long> bits
    key = (key ^ <unsigned long long> op) * 0x9E3779B97F4A7C15ULL
    key = (key ^ (key >> 29) ^ <unsigned long long> a) * 0xBF58476D1CE4E5B9ULL
    key = (key ^ (key >> 31) ^ <unsigned long long> b) * 0x94D049BB133111EBULL
    key = (key ^ (key >> 29) ^ <unsigned long long> c) * 0x9E3779B97F4A7C15ULL
    return key ^ (key >> 32)


cdef class _Compiler:
    """Lays nodes out in slots: inputs, arguments and results of functions, outputs, constants, then what is free again
    after its last use."""

    cdef Recorder of
    cdef readonly tuple found
    cdef object home, last

    def __init__(self, Recorder of, outputs):
        self.of = of
        cdef int32_t count = of.count, id, i, phases = 1, slot, steps = 0, top, number, to
        cdef int32_t[::1] out = np.asarray(outputs, dtype=np.int32)
        needed_array = np.zeros(count, dtype=np.uint8)
        cdef unsigned char[::1] needed = needed_array
        home_array, last_array = np.full(count, -1, dtype=np.int32), np.full(count, -1, dtype=np.int32)
        cdef int32_t[::1] home = home_array, last = last_array
        cdef Node *node
        called = set()
        for i in range(out.shape[0]):
            needed[out[i]] = 1
        for id in range(count - 1, -1, -1):
            if not needed[id]:
                continue
            node = &of.nodes[id]
            if node.op == RESULT:
                if node.a not in called:
                    called.add(node.a)
                    for other in of.functions[node.a][1]:
                        needed[<int32_t> other] = 1
            elif node.op < DO_STEPS:
                if node.c < 0:
                    for i in range(node.b):
                        needed[<int32_t> of.lists[node.a + i]] = 1
                else:
                    needed[node.a] = needed[node.b] = needed[node.c] = 1
        # slots that are fixed: inputs, then functions phase by phase, then outputs
        slot = of.inputs
        for id in range(of.inputs):
            home[id] = id
        batches = {}
        for number in sorted(called):
            function, arguments, phase, results, joined = of.functions[number]
            batches.setdefault((phase, function if joined else number), []).append(number)
        copies, fixed, calls = [], [], []
        for (phase, _), numbers in sorted(batches.items(), key=lambda item: (item[0][0], item[1][0])):
            function, width = of.functions[numbers[0]][0], len(of.functions[numbers[0]][1])
            joined = of.functions[numbers[0]][4]
            begin = slot
            if joined:  # operand after operand, each of all calls
                arguments = [of.functions[x][1][k] for k in range(width) for x in numbers]
            else:
                arguments = of.functions[numbers[0]][1]
            for other in arguments:
                slot = self.placed(other, slot, phase, home, copies, fixed)
            middle = slot
            for x in numbers:
                for other in of.functions[x][3]:
                    home[<int32_t> other] = slot
                    slot += 1
            calls.append((phase, function, begin, middle, slot, width if joined else 0))
            phases = max(phases, phase + 2)
        first_output = slot
        for i in range(out.shape[0]):
            slot = self.placed(out[i], slot, -1, home, copies, fixed)
        # constants that steps read
        values = {}
        for id in range(count):
            node = &of.nodes[id]
            if needed[id] and node.op == CONSTANT and home[id] < 0:
                home[id] = slot
                fixed.append((slot, node.bits))
                slot += 1
        # steps by phase, in their order; where each node is read last
        order = [[] for _ in range(phases)]
        for id in range(count):
            if needed[id] and of.nodes[id].op < DO_STEPS:
                order[of.nodes[id].phase].append(id)
        copied = [[] for _ in range(phases)]
        for id, to in copies:
            copied[of.nodes[id].phase].append((id, to))
        cdef int32_t[::1] sequence = np.array([x for ids in order for x in ids], dtype=np.int32)
        cdef int32_t total = sequence.shape[0], at
        for at in range(total):
            node = &of.nodes[sequence[at]]
            if node.c < 0:
                for i in range(node.b):
                    last[<int32_t> of.lists[node.a + i]] = at
            else:
                last[node.a] = last[node.b] = last[node.c] = at
        at = 0
        for ids, pairs in zip(order, copied):
            at += len(ids)
            for other, _ in pairs:
                last[<int32_t> other] = max(last[<int32_t> other], at)  # read before the next phase begins
        code_array = np.zeros((total + len(copies), 5), dtype=np.int32)
        cdef int32_t[:, ::1] code = code_array
        lists = []
        free_slots = []
        dying = {}
        ends = []
        cdef int32_t line = 0, operand
        cdef int32_t ids3[3]
        at = 0
        for ids, pairs in zip(order, copied):
            for other in ids:
                id = other
                node = &of.nodes[id]
                if node.c < 0:
                    first = len(lists)
                    for i in range(node.b):
                        operand = of.lists[node.a + i]
                        lists.append(home[operand])
                    code[line, 2], code[line, 3] = first, node.b
                else:
                    code[line, 2], code[line, 3], code[line, 4] = home[node.a], home[node.b], home[node.c]
                    ids3[0], ids3[1], ids3[2] = node.a, node.b, node.c
                    for i in range(3):
                        operand = ids3[i]
                        if last[operand] == at and home[operand] >= 0 and of.nodes[operand].op < DO_STEPS:
                            if operand in dying:
                                free_slots.append(dying.pop(operand))
                if home[id] < 0:
                    if free_slots:
                        home[id] = free_slots.pop()
                    else:
                        home[id] = slot
                        slot += 1
                    dying[id] = home[id]
                code[line, 0], code[line, 1] = node.op, home[id]
                line += 1
                at += 1
            for other, to in pairs:
                code[line, 0], code[line, 1] = DO_COPY, to
                code[line, 2] = code[line, 3] = code[line, 4] = home[<int32_t> other]
                line += 1
            ends.append(line)
        template = np.zeros(slot, dtype=np.int64)
        for to, bits in fixed:
            template[to] = bits
        self.found = (template, code_array, np.array(lists or [0], dtype=np.int32), ends, calls, first_output)

    cdef int32_t placed(self, int32_t id, int32_t slot, phase, int32_t[::1] home, list copies, list fixed) except -1:
        """Give a slot to a node that must be there: as its own, else by a copy. Return the next slot."""
        cdef Node *node = &self.of.nodes[id]
        if node.op == CONSTANT:
            fixed.append((slot, node.bits))
        elif node.op < DO_STEPS and home[id] < 0:
            home[id] = slot
        else:
            copies.append((id, slot))
        return slot + 1


def run(int64_t[:, ::1] registers, const int32_t[:, ::1] code, const int32_t[::1] lists, int64_t begin, int64_t end):
    """Run the steps ``begin`` to ``end`` on registers [slots, n]."""
    if end <= begin or not registers.shape[1]:
        return
    with nogil:
        run_steps(<TapeWord *> &registers[0, 0], <const TapeStep *> &code[begin, 0], end - begin, &lists[0],
                  registers.shape[1])


include "traced.pxi"

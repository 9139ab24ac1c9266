"""The instruction table: the one place from which codec, assembler, verifier, manual derive.

An instruction word is ``WORD_BITS`` wide. Every instruction starts with the same header (opcode,
up to three semaphores to wait for and three to signal); what follows is its row's fields, packed
in order from the least significant bit. Scratchpad operands and tensor coordinates are affine in
the indices of the enclosing hardware loops, so that a program does not grow with its trip counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

WORD_BITS = 1536
WORD_BYTES = WORD_BITS // 8
MAX_RANK = 5
"""Dimensions of a rectangle that one instruction moves or computes on."""
NO_LEVEL = 15
"""Loop level that means 'does not depend on a loop'; levels count from 0, the outermost."""
MAX_LOOP_DEPTH = 14
SEMAPHORES = 256
"""Semaphore ids of one core; id 0 means 'none' in a wait or signal field."""
ELEMENT_BYTES = 4
"""Bytes of a scratchpad word, the unit of every operand address; wide formats fill one word."""
PARAMETERS = 256
"""Runtime parameters that a program may dispatch on."""
CHAIN_STAGES = 4
CHAIN_SIDES = 2


class Unit(IntEnum):
    """The in-order queues of a core."""

    LOAD = 0
    STORE = 1
    MATRIX = 2
    VECTOR = 3
    CONTROL = 4


class Opcode(IntEnum):
    """Operation codes."""

    HALT = 0
    LOOP = 1
    END = 2
    WAIT = 3
    SIGNAL = 4
    MARK = 5
    CASE = 6
    LOAD = 8
    STORE = 9
    GATHER = 10
    MATMUL = 16
    UNARY = 24
    BINARY = 25
    FMA = 26
    REDUCE = 27
    FILL = 28
    MASK = 29
    CHAIN = 30
    ONLINE = 31
    CONVERT = 32


class Format(IntEnum):
    """How a number is stored. Narrow formats are packed: four INT8 or two BF16 to a word."""

    FP32 = 0
    BF16 = 1  # upper half of an fp32; rounding to nearest, ties to even
    INT8 = 2
    UINT8 = 3
    INT32 = 4

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return _FORMAT_BYTES[self]


_FORMAT_BYTES = {
    Format.FP32: 4, Format.BF16: 2, Format.INT8: 1, Format.UINT8: 1, Format.INT32: 4,
}  # fmt: skip


class UnaryFn(IntEnum):
    """Element-wise functions of one operand; ``p0`` and ``p1`` are the instruction's scalars."""

    COPY = 0
    RELU = 1
    LEAKY_RELU = 2  # slope p0
    CLIP = 3  # to [p0, p1]
    SIGMOID = 4
    TANH = 5
    ERF = 6
    GELU = 7  # x/2 · (1 + erf(x/√2))
    GELU_TANH = 8
    EXP = 9
    LOG = 10
    SQRT = 11
    RSQRT = 12
    RECIPROCAL = 13
    NEG = 14
    ABS = 15
    SQUARE = 16
    AFFINE = 17  # p0 · x + p1


class BinaryFn(IntEnum):
    """Element-wise functions of two operands."""

    ADD = 0
    SUB = 1
    MUL = 2
    DIV = 3
    MAXIMUM = 4
    MINIMUM = 5
    POW = 6


class ReduceFn(IntEnum):
    """Reductions; dimensions whose destination stride is 0 are reduced over."""

    SUM = 0
    MAX = 1


class StageKind(IntEnum):
    """What a stage of a CHAIN does with the value x that runs through it."""

    NONE = 0  # x
    UNARY = 1  # fn(x), a UnaryFn
    WITH0 = 2  # fn(x, side0), a BinaryFn
    WITH1 = 3  # fn(x, side1)
    FROM0 = 4  # fn(side0, x)
    FROM1 = 5  # fn(side1, x)


class When(IntEnum):
    """When an optional part of a MATMUL or ONLINE applies."""

    NEVER = 0
    ALWAYS = 1
    BY_LEVEL = 2  # accumulate: index[k_level] != 0; epilogue: last trip of k_level


class FieldType(StrEnum):
    """How the bits of a field are read."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float32"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an instruction word."""

    name: str
    bits: int
    doc: str
    type: FieldType = FieldType.UNSIGNED
    default: int | float = 0

    @property
    def low(self) -> int:
        """Smallest value the field holds (integer fields)."""
        return -(1 << (self.bits - 1)) if self.type is FieldType.SIGNED else 0

    @property
    def high(self) -> int:
        """Largest value the field holds (integer fields)."""
        return (1 << (self.bits - (self.type is FieldType.SIGNED))) - 1


HEADER = (
    Field("opcode", 8, "operation code"),
    *(Field(f"wait{i}", 8, "semaphore to take one from before starting, 0 none") for i in range(3)),
    *(Field(f"signal{i}", 8, "semaphore to add one to when done, 0 none") for i in range(3)),
)


def _level(name: str, doc: str) -> Field:
    return Field(name, 4, doc, default=NO_LEVEL)


def _operand(name: str, doc: str) -> tuple[Field, ...]:
    """A scratchpad address in words of ``ELEMENT_BYTES``:
    ``base + Σᵢ stepᵢ · index[levelᵢ] + slot · (count[turn] mod 2)``, where ``index`` is a loop's
    current trip and ``count`` the trips it has begun since the program started, so that double
    buffers keep alternating when a loop is entered again."""
    return (
        Field(f"{name}_base", 26, f"{doc}: first element"),
        Field(f"{name}_step0", 26, f"{doc}: elements per trip of level0", FieldType.SIGNED),
        _level(f"{name}_level0", f"{doc}: loop of step0"),
        Field(f"{name}_step1", 26, f"{doc}: elements per trip of level1", FieldType.SIGNED),
        _level(f"{name}_level1", f"{doc}: loop of step1"),
        Field(f"{name}_slot", 26, f"{doc}: distance of the second buffer"),
        _level(f"{name}_turn", f"{doc}: loop whose begun trips choose the buffer"),
    )


def _strides(name: str, rank: int = MAX_RANK) -> tuple[Field, ...]:
    return tuple(
        Field(f"{name}_stride{d}", 22, f"scratchpad stride of dimension {d} of {name}, elements")
        for d in range(rank)
    )


_SIZES = tuple(
    Field(f"size{d}", 16, f"extent of dimension {d}", default=1) for d in range(MAX_RANK)
)
_SCALARS = (
    Field("p0", 32, "first scalar", FieldType.FLOAT),
    Field("p1", 32, "second scalar", FieldType.FLOAT),
)


def _coordinates() -> tuple[Field, ...]:
    """Where a rectangle begins in its tensor: ``coord_d + step_d · index[level_d]``. Parts outside
    the tensor are padding: a load fills them with ``pad``, a store leaves them out."""
    fields: list[Field] = []
    for d in range(MAX_RANK):
        fields += [
            Field(f"coord{d}", 24, f"first coordinate in dimension {d}", FieldType.SIGNED),
            Field(f"step{d}", 24, f"coordinates per trip in dimension {d}", FieldType.SIGNED),
            _level(f"level{d}", f"loop of step{d}"),
        ]
    return tuple(fields)


@dataclass(frozen=True, slots=True)
class InstructionRow:
    """One instruction: unit, opcode, fields after the header, meaning."""

    opcode: Opcode
    unit: Unit
    fields: tuple[Field, ...]
    doc: str

    @property
    def all_fields(self) -> tuple[Field, ...]:
        """Header and own fields, in word order."""
        return HEADER + self.fields

    @property
    def bits(self) -> int:
        """Bits in use."""
        return sum(field.bits for field in self.all_fields)


_UNIT = Field("unit", 3, "the queue that waits or signals")
_SEM = Field("semaphore", 8, "semaphore id, 1 to 255")
_FN = Field("fn", 6, "function code")


def _format(name: str, doc: str) -> Field:
    return Field(name, 3, f"Format of {doc}")


def _stage(i: int) -> tuple[Field, ...]:
    return (
        Field(f"stage{i}_kind", 3, f"StageKind of stage {i}"),
        Field(f"stage{i}_fn", 6, f"function code of stage {i}"),
        Field(f"stage{i}_p0", 32, f"first scalar of stage {i}", FieldType.FLOAT),
        Field(f"stage{i}_p1", 32, f"second scalar of stage {i}", FieldType.FLOAT),
    )


def _axes() -> tuple[Field, ...]:
    """Dimension d of a gathered rectangle runs along tensor dimension ``axis_d``, ``hop_d``
    coordinates per element; several dimensions may share one (a window and its place in a row)."""
    fields: list[Field] = []
    for d in range(MAX_RANK):
        fields += [
            Field(f"axis{d}", 3, f"tensor dimension that dimension {d} runs along", default=d),
            Field(f"hop{d}", 16, f"coordinates per element of dimension {d}", FieldType.SIGNED, 1),
        ]
    return tuple(fields)

INSTRUCTIONS: dict[Opcode, InstructionRow] = {
    row.opcode: row
    for row in (
        InstructionRow(Opcode.HALT, Unit.CONTROL, (), "End of the stream; waits for every unit."),
        InstructionRow(
            Opcode.LOOP,
            Unit.CONTROL,
            (
                Field("trips", 24, "how often the body runs, ≥ 1"),
                Field("level", 4, "nesting level: the number of loops around this one"),
            ),
            "Begin of a hardware loop; its body ends at the matching END.",
        ),
        InstructionRow(
            Opcode.END,
            Unit.CONTROL,
            (Field("level", 4, "level of the loop it closes"),),
            "End of the innermost open loop.",
        ),
        InstructionRow(
            Opcode.WAIT,
            Unit.CONTROL,
            (_UNIT, _SEM),
            "The queue `unit` takes one from `semaphore` before its next instruction.",
        ),
        InstructionRow(
            Opcode.SIGNAL,
            Unit.CONTROL,
            (_UNIT, _SEM),
            "The queue `unit` adds one to `semaphore` when all before it in the queue is done.",
        ),
        InstructionRow(
            Opcode.MARK,
            Unit.CONTROL,
            (Field("id", 16, "profile mark"),),
            "Counters of the instructions behind it in the stream, up to the next MARK, go to "
            "profile mark `id`.",
        ),
        InstructionRow(
            Opcode.CASE,
            Unit.CONTROL,
            (
                Field("parameter", 8, "runtime parameter"),
                Field("low", 32, "smallest value that enters", FieldType.SIGNED),
                Field("high", 32, "largest value that enters", FieldType.SIGNED),
                Field("level", 4, "nesting level: the number of blocks around this one"),
            ),
            "Dispatch: the body, up to the matching END, runs once if the runtime parameter lies in "
            "[low, high], and not at all otherwise.",
        ),
        InstructionRow(
            Opcode.LOAD,
            Unit.LOAD,
            (
                Field("tensor", 10, "index in the tensor table"),
                *_operand("dst", "destination"),
                *_SIZES,
                *_strides("dst"),
                *_coordinates(),
                Field("pad", 32, "value outside the tensor", FieldType.FLOAT),
                _format("format", "the destination; converts where the tensor has another one"),
            ),
            "Copy a rectangle of a DRAM tensor into the scratchpad, padding what lies outside.",
        ),
        InstructionRow(
            Opcode.STORE,
            Unit.STORE,
            (
                Field("tensor", 10, "index in the tensor table"),
                *_operand("src", "source"),
                *_SIZES,
                *_strides("src"),
                *_coordinates(),
                _format("format", "the source; converts where the tensor has another one"),
            ),
            "Copy a scratchpad rectangle to a DRAM tensor; parts outside the tensor are left out.",
        ),
        InstructionRow(
            Opcode.GATHER,
            Unit.LOAD,
            (
                Field("tensor", 10, "index in the tensor table"),
                *_operand("dst", "destination"),
                *_SIZES,
                *_strides("dst"),
                *_coordinates(),
                *_axes(),
                Field("pad", 32, "value outside the tensor", FieldType.FLOAT),
                _format("format", "the destination; converts where the tensor has another one"),
            ),
            "Copy elements of a DRAM tensor into the scratchpad, each rectangle dimension along any "
            "tensor dimension with any hop: patches (im2col), channel blocks, sampling, broadcast "
            "(hop 0). What lies outside is padding. `coord`, `step` and `level` go by tensor "
            "dimension.",
        ),
        InstructionRow(
            Opcode.MATMUL,
            Unit.MATRIX,
            (
                *_operand("a", "left operand"),
                *_operand("b", "right operand"),
                *_operand("c", "accumulator"),
                *_operand("bias", "bias"),
                Field("m", 16, "rows of c", default=1),
                Field("n1", 16, "outer columns of c", default=1),
                Field("n0", 16, "inner columns of c", default=1),
                Field("k2", 12, "outermost reduction", default=1),
                Field("k1", 12, "middle reduction", default=1),
                Field("k0", 16, "innermost reduction", default=1),
                *(
                    Field(name, 22, f"stride of {name.split('_')[1]} in {name[0]}, elements")
                    for name in (
                        "a_m",
                        "a_k2",
                        "a_k1",
                        "a_k0",
                        "b_k2",
                        "b_k1",
                        "b_k0",
                        "b_n1",
                        "b_n0",
                        "c_m",
                        "c_n1",
                        "c_n0",
                    )
                ),
                Field("accumulate", 2, "When: add to c instead of overwriting it"),
                Field("epilogue", 2, "When: apply bias and activation on the way out"),
                _level("k_level", "the reduction loop, for BY_LEVEL"),
                Field("bias_axis", 2, "0 no bias, 1 bias[m], 2 bias[n0]"),
                Field("fn", 6, "UnaryFn of the epilogue (COPY for none)"),
                *_SCALARS,
                Field("scale", 32, "factor on the sums in the epilogue", FieldType.FLOAT, 1.0),
                Field("adds", 1, "1: the epilogue adds the residual"),
                *_operand("r", "residual"),
                *(
                    Field(f"r_{d}", 22, f"stride of {d} in r, elements")
                    for d in ("m", "n1", "n0")
                ),
                _format("a_format", "a"),
                _format("b_format", "b"),
                Field("a_zero", 9, "zero point of an integer a", FieldType.SIGNED),
                Field("b_zero", 9, "zero point of an integer b", FieldType.SIGNED),
                Field("forward", 1, "1: signals when the first results leave the array"),
            ),
            "Batch-reduce matrix multiply: c[m,n1,n0] (+)= Σ a[m,k2,k1,k0] · b[k2,k1,k0,n1,n0], "
            "then fn(scale · c + bias + r) where the epilogue applies. fn: COPY RELU LEAKY_RELU "
            "CLIP only. a and b are both FP32 or both BF16 (c, bias, r are FP32), or each INT8 or "
            "UINT8 (c, bias, r are INT32; Σ (a − a_zero) · (b − b_zero) modulo 2³²; fn COPY or "
            "RELU, scale 1). With `forward` the signals are given when the first results leave the "
            "array, and the vector instruction that takes one ends no earlier than the last.",
        ),
        InstructionRow(
            Opcode.UNARY,
            Unit.VECTOR,
            (
                _FN,
                *_operand("dst", "result"),
                *_operand("src", "operand"),
                *_SIZES,
                *_strides("dst"),
                *_strides("src"),
                *_SCALARS,
            ),
            "dst = fn(src), element by element; dst may be src.",
        ),
        InstructionRow(
            Opcode.BINARY,
            Unit.VECTOR,
            (
                _FN,
                *_operand("dst", "result"),
                *_operand("lhs", "left operand"),
                *_operand("rhs", "right operand"),
                *_SIZES,
                *_strides("dst"),
                *_strides("lhs"),
                *_strides("rhs"),
            ),
            "dst = fn(lhs, rhs); a stride of 0 broadcasts; dst may be lhs or rhs.",
        ),
        InstructionRow(
            Opcode.FMA,
            Unit.VECTOR,
            (
                *_operand("dst", "result"),
                *_operand("lhs", "left operand"),
                *_operand("rhs", "right operand"),
                *_SIZES,
                *_strides("dst"),
                *_strides("lhs"),
                *_strides("rhs"),
            ),
            "dst += lhs · rhs; a stride of 0 in lhs or rhs broadcasts.",
        ),
        InstructionRow(
            Opcode.REDUCE,
            Unit.VECTOR,
            (
                _FN,
                *_operand("dst", "result"),
                *_operand("src", "operand"),
                *_SIZES,
                *_strides("dst"),
                *_strides("src"),
                Field("accumulate", 1, "1: combine with what dst holds"),
            ),
            "dst = reduction of src over the dimensions whose dst stride is 0 and size > 1.",
        ),
        InstructionRow(
            Opcode.FILL,
            Unit.VECTOR,
            (*_operand("dst", "result"), *_SIZES, *_strides("dst"), *_SCALARS[:1]),
            "dst = p0.",
        ),
        InstructionRow(
            Opcode.MASK,
            Unit.VECTOR,
            (
                *_operand("dst", "result"),
                *_SIZES,
                *_strides("dst"),
                *_coordinates(),
                *(
                    Field(f"extent{d}", 24, f"extent of the tensor in dimension {d}", default=1)
                    for d in range(MAX_RANK)
                ),
                *_SCALARS[:1],
            ),
            "dst = p0 where the element's coordinate lies outside [0, extent) in any dimension.",
        ),
        InstructionRow(
            Opcode.CHAIN,
            Unit.VECTOR,
            (
                *_operand("dst", "result"),
                *_operand("src", "operand"),
                *_operand("side0", "first side operand"),
                *_operand("side1", "second side operand"),
                *_SIZES,
                *_strides("dst"),
                *_strides("src"),
                *_strides("side0"),
                *_strides("side1"),
                *(field for i in range(CHAIN_STAGES) for field in _stage(i)),
            ),
            "dst = stage3(stage2(stage1(stage0(src)))), element by element in one pass; the vector "
            "unit's stages run behind each other, so that a pass takes as long as its slowest one. "
            "A side operand that no stage uses is not read; dst may be any operand.",
        ),
        InstructionRow(
            Opcode.ONLINE,
            Unit.VECTOR,
            (
                *_operand("dst", "weights"),
                *_operand("src", "scores"),
                *_operand("state", "running state"),
                Field("size0", 16, "rows", default=1),
                Field("size1", 16, "columns of this tile", default=1),
                *_strides("dst", 2),
                *_strides("src", 2),
                *_strides("state", 1),
                Field("accumulate", 2, "When: continue from the state instead of beginning anew"),
                _level("k_level", "the reduction loop, for BY_LEVEL"),
                Field("scale", 32, "factor on the scores", FieldType.FLOAT, 1.0),
            ),
            "Online softmax of one tile: state holds per row its running maximum m, running sum l "
            "and factor f, side by side. m' = max(m, max scale·src), f = exp(m − m'), "
            "dst = exp(scale·src − m'), l' = l·f + Σ dst. Anew, m = −∞, l = 0 and f = 0. What was "
            "summed with older weights is to be multiplied by f; dst may be src. (Milakov and "
            "Gimelshein, arXiv:1805.02867.)",
        ),
        InstructionRow(
            Opcode.CONVERT,
            Unit.VECTOR,
            (
                *_operand("dst", "result"),
                *_operand("src", "operand"),
                *_SIZES,
                *_strides("dst"),
                *_strides("src"),
                _format("dst_format", "dst"),
                _format("src_format", "src"),
                Field("divide", 1, "1: divide by the scale instead of multiplying"),
                Field("scale", 32, "scale", FieldType.FLOAT, 1.0),
                Field("src_zero", 32, "zero point of src", FieldType.SIGNED),
                Field("dst_zero", 32, "zero point of dst", FieldType.SIGNED),
            ),
            "dst = format((src − src_zero) · scale) + dst_zero: quantises, dequantises and "
            "requantises. src − src_zero is exact in int64 for integers, then one rounding to fp32, "
            "one of the product; to an integer it rounds to nearest, ties to even, adds dst_zero "
            "and saturates; NaN becomes dst_zero. Zero points of floating-point formats are 0.",
        ),
    )
}

OPERANDS: dict[Opcode, tuple[tuple[str, bool], ...]] = {
    # (operand prefix, is written) of every instruction that touches the scratchpad
    Opcode.LOAD: (("dst", True),),
    Opcode.STORE: (("src", False),),
    Opcode.GATHER: (("dst", True),),
    Opcode.MATMUL: (("c", True), ("a", False), ("b", False), ("bias", False), ("r", False)),
    Opcode.UNARY: (("dst", True), ("src", False)),
    Opcode.BINARY: (("dst", True), ("lhs", False), ("rhs", False)),
    Opcode.FMA: (("dst", True), ("lhs", False), ("rhs", False)),
    Opcode.REDUCE: (("dst", True), ("src", False)),
    Opcode.FILL: (("dst", True),),
    Opcode.MASK: (("dst", True),),
    Opcode.CHAIN: (("dst", True), ("src", False), ("side0", False), ("side1", False)),
    Opcode.ONLINE: (("dst", True), ("state", True), ("src", False)),
    Opcode.CONVERT: (("dst", True), ("src", False)),
}

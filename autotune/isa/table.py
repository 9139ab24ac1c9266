"""The instruction table: codec, assembler, verifier, emulator and manual derive from it.

An instruction word is ``WORD_BITS`` wide. Every instruction starts with the same header: opcode,
up to three semaphores to wait for, and up to three to signal. The fields of its row follow, packed
in order from the least significant bit. Scratchpad operands and tensor coordinates are affine in
the indices of the enclosing hardware loops, so a program does not grow with its trip counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.isa.fields import (
    CHAIN_STAGES,
    HEADER,
    MAX_RANK,
    SCALARS,
    SIZES,
    Field,
    FieldType,
    axes,
    coordinates,
    extent,
    format_of,
    level,
    operand,
    stage,
    stride,
    strides,
    tensor,
)
from autotune.isa.opcodes import Opcode, Unit


@dataclass(frozen=True, slots=True)
class InstructionRow:
    """One instruction: opcode, unit, fields after the header, meaning, written and read
    operands."""

    opcode: Opcode
    unit: Unit
    fields: tuple[Field, ...]
    doc: str
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

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

CONTROL_ROWS = (
    InstructionRow(Opcode.HALT, Unit.CONTROL, (), "End of the stream; waits for every unit."),
    InstructionRow(
        Opcode.LOOP,
        Unit.CONTROL,
        (
            Field("trips", 32, "how often the body runs, ≥ 1"),
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
)

TRANSFER_ROWS = (
    InstructionRow(
        Opcode.LOAD,
        Unit.LOAD,
        (
            tensor(),
            *operand("dst", "destination"),
            *SIZES,
            *strides("dst"),
            *coordinates(),
            Field("pad", 32, "value outside the tensor", FieldType.FLOAT),
            format_of("format", "the destination; converts where the tensor has another one"),
        ),
        "Copy a rectangle of a DRAM tensor into the scratchpad, padding what lies outside.",
        writes=("dst",),
    ),
    InstructionRow(
        Opcode.STORE,
        Unit.STORE,
        (
            tensor(),
            *operand("src", "source"),
            *SIZES,
            *strides("src"),
            *coordinates(),
            format_of("format", "the source; converts where the tensor has another one"),
        ),
        "Copy a scratchpad rectangle to a DRAM tensor; parts outside the tensor are left out.",
        reads=("src",),
    ),
    InstructionRow(
        Opcode.GATHER,
        Unit.LOAD,
        (
            tensor(),
            *operand("dst", "destination"),
            *SIZES,
            *strides("dst"),
            *coordinates(),
            *axes(),
            Field("pad", 32, "value outside the tensor", FieldType.FLOAT),
            format_of("format", "the destination; converts where the tensor has another one"),
        ),
        "Copy elements of a DRAM tensor into the scratchpad; each rectangle dimension runs along any "
        "tensor dimension with any hop: patches (im2col), channel blocks, sampling, broadcast "
        "(hop 0). Elements outside the tensor are padding. `coord`, `step` and `level` go by tensor "
        "dimension.",
        writes=("dst",),
    ),
    InstructionRow(
        Opcode.LOOKUP,
        Unit.LOAD,
        (
            tensor(),
            *operand("dst", "destination"),
            *operand("src", "numbers, one per row"),
            *SIZES,
            *strides("dst"),
            *strides("src", 1),
            *coordinates(),
            Field("pad", 32, "value outside the tensor, from dimension 1 on", FieldType.FLOAT),
            format_of("format", "the destination; converts where the tensor has another one"),
        ),
        "Copy rows of a DRAM tensor into the scratchpad: dst[i] is the row numbered src[i], an fp32 "
        "rounded towards zero. NaN and numbers below the first row mean row 0, numbers behind the "
        "last row the last row. Coordinates of dimension 0 are 0; the other dimensions are a "
        "rectangle as of LOAD. dst lies apart from src; nothing may store to the tensor. Time "
        "does not depend on the numbers: every row is a transfer from closed banks.",
        writes=("dst",),
        reads=("src",),
    ),
)

MATRIX_ROWS = (
    InstructionRow(
        Opcode.MATMUL,
        Unit.MATRIX,
        (
            *operand("a", "left operand"),
            *operand("b", "right operand"),
            *operand("c", "accumulator"),
            *operand("bias", "bias"),
            extent("m", "rows of c"),
            extent("n1", "outer columns of c"),
            extent("n0", "inner columns of c"),
            extent("k2", "outermost reduction"),
            extent("k1", "middle reduction"),
            extent("k0", "innermost reduction"),
            *(
                stride(name, f"stride of {name.split('_')[1]} in {name[0]}, elements")
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
            level("k_level", "the reduction loop, for BY_LEVEL"),
            Field("bias_axis", 2, "0 no bias, 1 bias[m], 2 bias[n0]"),
            Field("fn", 6, "UnaryFn of the epilogue (COPY for none)"),
            *SCALARS,
            Field("scale", 32, "factor on the sums in the epilogue", FieldType.FLOAT, 1.0),
            Field("adds", 1, "1: the epilogue adds the residual"),
            *operand("r", "residual"),
            *(stride(f"r_{d}", f"stride of {d} in r, elements") for d in ("m", "n1", "n0")),
            format_of("a_format", "a"),
            format_of("b_format", "b"),
            Field("a_zero", 9, "zero point of an integer a", FieldType.SIGNED),
            Field("b_zero", 9, "zero point of an integer b", FieldType.SIGNED),
            Field("forward", 1, "1: signals when the first results leave the array"),
        ),
        "Batch-reduce matrix multiply: c[m,n1,n0] (+)= Σ a[m,k2,k1,k0] · b[k2,k1,k0,n1,n0], "
        "then fn(scale · c + bias + r) where the epilogue applies. fn: COPY RELU LEAKY_RELU "
        "CLIP only. a and b are both FP32 or both BF16 (c, bias, r are FP32), or each INT8 or "
        "UINT8 (c, bias, r are INT32; Σ (a − a_zero) · (b − b_zero) modulo 2³²; fn COPY or "
        "RELU, scale 1). With `forward` the signals are given when the first results leave the "
        "array, and the instruction that takes one ends no earlier than the last.",
        writes=("c",),
        reads=("a", "b", "bias", "r"),
    ),
)

_TRANSFORM_SIZES = tuple(
    extent(f"size{d}", doc) for d, doc in enumerate(("tiles down", "tiles across", "channels"), 2)
)

_FN = Field("fn", 6, "function code")

VECTOR_ROWS = (
    InstructionRow(
        Opcode.UNARY,
        Unit.VECTOR,
        (
            _FN,
            *operand("dst", "result"),
            *operand("src", "operand"),
            *SIZES,
            *strides("dst"),
            *strides("src"),
            *SCALARS,
        ),
        "dst = fn(src), element by element; dst may be src.",
        writes=("dst",),
        reads=("src",),
    ),
    InstructionRow(
        Opcode.BINARY,
        Unit.VECTOR,
        (
            _FN,
            *operand("dst", "result"),
            *operand("lhs", "left operand"),
            *operand("rhs", "right operand"),
            *SIZES,
            *strides("dst"),
            *strides("lhs"),
            *strides("rhs"),
        ),
        "dst = fn(lhs, rhs); a stride of 0 broadcasts; dst may be lhs or rhs.",
        writes=("dst",),
        reads=("lhs", "rhs"),
    ),
    InstructionRow(
        Opcode.FMA,
        Unit.VECTOR,
        (
            *operand("dst", "result"),
            *operand("lhs", "left operand"),
            *operand("rhs", "right operand"),
            *SIZES,
            *strides("dst"),
            *strides("lhs"),
            *strides("rhs"),
        ),
        "dst += lhs · rhs; a stride of 0 in lhs or rhs broadcasts.",
        writes=("dst",),
        reads=("lhs", "rhs"),
    ),
    InstructionRow(
        Opcode.REDUCE,
        Unit.VECTOR,
        (
            _FN,
            *operand("dst", "result"),
            *operand("src", "operand"),
            *SIZES,
            *strides("dst"),
            *strides("src"),
            Field("accumulate", 1, "1: combine with what dst holds"),
        ),
        "dst = reduction of src over the dimensions whose dst stride is 0 and size > 1.",
        writes=("dst",),
        reads=("src",),
    ),
    InstructionRow(
        Opcode.FILL,
        Unit.VECTOR,
        (*operand("dst", "result"), *SIZES, *strides("dst"), *SCALARS[:1]),
        "dst = p0.",
        writes=("dst",),
    ),
    InstructionRow(
        Opcode.MASK,
        Unit.VECTOR,
        (
            *operand("dst", "result"),
            *SIZES,
            *strides("dst"),
            *coordinates(),
            *(
                Field(f"extent{d}", 32, f"extent of the tensor in dimension {d}", default=1)
                for d in range(MAX_RANK)
            ),
            *SCALARS[:1],
        ),
        "dst = p0 where the element's coordinate lies outside [0, extent) in any dimension.",
        writes=("dst",),
    ),
    InstructionRow(
        Opcode.CHAIN,
        Unit.VECTOR,
        (
            *operand("dst", "result"),
            *operand("src", "operand"),
            *operand("side0", "first side operand"),
            *operand("side1", "second side operand"),
            *SIZES,
            *strides("dst"),
            *strides("src"),
            *strides("side0"),
            *strides("side1"),
            *(field for i in range(CHAIN_STAGES) for field in stage(i)),
        ),
        "dst = stage3(stage2(stage1(stage0(src)))), element by element in one pass; the vector "
        "unit's stages form a pipeline, so a pass takes as long as its slowest stage. "
        "A side operand that no stage uses is not read; dst may be any operand.",
        writes=("dst",),
        reads=("src", "side0", "side1"),
    ),
    InstructionRow(
        Opcode.ONLINE,
        Unit.VECTOR,
        (
            *operand("dst", "weights"),
            *operand("src", "scores"),
            *operand("state", "running state"),
            extent("size0", "rows"),
            extent("size1", "columns of this tile"),
            *strides("dst", 2),
            *strides("src", 2),
            *strides("state", 1),
            Field("accumulate", 2, "When: continue from the state instead of beginning anew"),
            level("k_level", "the reduction loop, for BY_LEVEL"),
            Field("scale", 32, "factor on the scores", FieldType.FLOAT, 1.0),
        ),
        "Online softmax of one tile: state holds per row its running maximum m, running sum l "
        "and factor f, side by side. m' = max(m, max scale·src), f = exp(m − m'), "
        "dst = exp(scale·src − m'), l' = l·f + Σ dst. Anew, m = −∞, l = 0 and f = 0. Sums "
        "of older weights are to be multiplied by f; dst may be src (Milakov and "
        "Gimelshein, arXiv:1805.02867).",
        writes=("dst", "state"),
        reads=("src",),
    ),
    InstructionRow(
        Opcode.CONVERT,
        Unit.VECTOR,
        (
            *operand("dst", "result"),
            *operand("src", "operand"),
            *SIZES,
            *strides("dst"),
            *strides("src"),
            format_of("dst_format", "dst"),
            format_of("src_format", "src"),
            Field("divide", 1, "1: divide by the scale instead of multiplying"),
            Field("scale", 32, "scale", FieldType.FLOAT, 1.0),
            Field("src_zero", 32, "zero point of src", FieldType.SIGNED),
            Field("dst_zero", 32, "zero point of dst", FieldType.SIGNED),
        ),
        "dst = format((src − src_zero) · scale) + dst_zero: quantises, dequantises and "
        "requantises. src − src_zero is exact in int64 for integers, then one rounding to fp32, "
        "one of the product; to an integer it rounds to nearest, ties to even, adds dst_zero "
        "and saturates; NaN becomes dst_zero. Zero points of floating-point formats are 0.",
        writes=("dst",),
        reads=("src",),
    ),
    InstructionRow(
        Opcode.TRANSFORM,
        Unit.VECTOR,
        (
            Field("transform", 2, "matrix T"),
            *operand("dst", "result"),
            *operand("src", "operand"),
            *operand("bias", "bias"),
            *operand("r", "residual"),
            *_TRANSFORM_SIZES,
            *strides("dst"),
            *strides("src"),
            *strides("r"),
            Field("biased", 1, "1: adds bias[channel], a dense vector"),
            Field("adds", 1, "1: adds the residual"),
            _FN,
            *SCALARS,
        ),
        "dst[i,j,t1,t0,c] = fn(Σ T[i,p] · T[j,q] · src[p,q,t1,t0,c] + bias[c] + r[i,j,t1,t0,c]) over "
        "p and q. Dimensions 0 and 1 are rows and columns inside of a tile: in src as many as the "
        "matrix has columns, in dst as it has rows. Dimensions 2 to 4 are tiles down, tiles across and channels. fn: COPY RELU LEAKY_RELU CLIP "
        "only. Source tiles may overlap each other; dst lies apart from src and bias, and may be r.",
        writes=("dst",),
        reads=("src", "bias", "r"),
    ),
)

INSTRUCTIONS: dict[Opcode, InstructionRow] = {
    row.opcode: row for row in (*CONTROL_ROWS, *TRANSFER_ROWS, *MATRIX_ROWS, *VECTOR_ROWS)
}
"""Every instruction by opcode."""

OPERANDS: dict[Opcode, tuple[tuple[str, bool], ...]] = {
    opcode: (*((name, True) for name in row.writes), *((name, False) for name in row.reads))
    for opcode, row in INSTRUCTIONS.items()
    if row.writes or row.reads
}
"""(operand prefix, is written) by opcode, for the instructions that access the scratchpad."""

"""Rows of the vector instructions: element-wise, reductions, conversions; part of the table."""

from __future__ import annotations

from autotune.isa.field_groups import (
    SCALARS,
    SIZES,
    coordinates,
    extent,
    format_of,
    level,
    operand,
    stage,
    strides,
)
from autotune.isa.fields import CHAIN_STAGES, MAX_RANK, Field, FieldType
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.row import InstructionRow

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
    ),
    InstructionRow(
        Opcode.FILL,
        Unit.VECTOR,
        (*operand("dst", "result"), *SIZES, *strides("dst"), *SCALARS[:1]),
        "dst = p0.",
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
        "unit's stages run behind each other, so that a pass takes as long as its slowest one. "
        "A side operand that no stage uses is not read; dst may be any operand.",
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
        "dst = exp(scale·src − m'), l' = l·f + Σ dst. Anew, m = −∞, l = 0 and f = 0. What was "
        "summed with older weights is to be multiplied by f; dst may be src (Milakov and "
        "Gimelshein, arXiv:1805.02867).",
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
        "p and q: dimensions 0 and 1 are rows and columns inside of a tile, in src as many as the "
        "matrix has columns, in dst as it has rows, 2 to 4 tiles down, tiles across and channels. fn: COPY RELU LEAKY_RELU CLIP "
        "only. Source tiles may overlap each other; dst lies apart from src and bias, and may be r.",
    ),
)

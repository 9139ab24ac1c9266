"""Row of the matrix multiply; part of the table."""

from __future__ import annotations

from autotune.isa.field_groups import SCALARS, extent, format_of, level, operand, stride
from autotune.isa.fields import Field, FieldType
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.row import InstructionRow

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
    ),
)

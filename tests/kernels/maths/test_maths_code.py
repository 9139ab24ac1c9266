"""The emulator's vector maths is what generated code computes, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.isa.functions import UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.targets.native.codegen.maths.c_maths import FUNCTIONS, code
from autotune.targets.native.codegen.vector.elementwise import elementwise
from autotune.targets.native.codegen.vector.vector_run import Load, Output, Unary, VectorRun
from autotune.targets.native.cpu.vector_isa import AVX2, VectorIsa
from tests.kernels.emulator.engine_case import output, outputs_of
from tests.targets.machine_case import load, make, program, store, tensor
from tests.targets.native.codegen.generated_code import compiled, host_isas

HEADER = Path(__file__).parents[3] / "kernels" / "maths" / "maths_code.h"
ISA = [isa for isa in host_isas() if isa is AVX2]
P0, P1 = 0.25, 6.0
COUNT = 1 << 15


def arguments() -> np.ndarray:
    """Bit patterns of all exponents and both signs, NaN and infinities among them, and common numbers."""
    patterns = np.linspace(0, 2**32 - 1, COUNT // 2).astype(np.uint32).view(np.float32)
    drawn = np.random.default_rng(5).uniform(-12, 12, COUNT // 2).astype(np.float32)
    return np.concatenate([patterns, drawn])


def emulated(fn: UnaryFn, x: np.ndarray, step: int = 1) -> np.ndarray:
    """Every ``step``-th element goes through the vector unit, in place."""
    count = len(x) // step
    fields = {"size4": count, "dst_stride4": step, "src_stride4": step}
    one = make(Opcode.UNARY, fn=int(fn), p0=P0, p1=P1, **fields)
    tensors = (tensor("x", len(x)), output("y", len(x)))
    given = program(load(0, 0, len(x)), one, store(1, 0, len(x)), tensors=tensors, elements=len(x))
    return outputs_of(given, x=x)["y"]


def generated(fn: UnaryFn, x: np.ndarray, isa: VectorIsa) -> np.ndarray:
    """What the native engine's code for the function gives."""
    body = (Load(0), Unary(fn, 0, P0, P1))
    out = np.empty_like(x)
    run = VectorRun((len(x),), ((1,),), (Output((1,), 1),), body)
    compiled(elementwise(run, isa), isa)(x, out)
    return out


def test_the_header_is_the_generated_one() -> None:
    hint = "renew it: python -m autotune.targets.native.codegen.maths.c_maths > kernels/maths/maths_code.h"
    assert HEADER.read_text(encoding="utf-8") == code(), hint


@pytest.mark.parametrize("isa", ISA, ids=lambda isa: isa.name)
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.name.lower())
def test_both_engines_compute_the_same_bits(fn: UnaryFn, isa: VectorIsa) -> None:
    x = arguments()
    np.testing.assert_array_equal(emulated(fn, x), generated(fn, x, isa))


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.name.lower())
def test_a_result_does_not_depend_on_where_its_element_lies(fn: UnaryFn) -> None:
    x = np.random.default_rng(6).uniform(-12, 12, 331).astype(np.float32)
    dense, strided = emulated(fn, x), emulated(fn, x, 3)
    taken = np.arange(len(x) // 3) * 3
    np.testing.assert_array_equal(strided[taken], dense[taken])
    np.testing.assert_array_equal(np.delete(strided, taken), np.delete(x, taken))

"""What tests of the engine's numbers are made of: a program runs on the engine and by the interpreter,
and both must agree."""

from __future__ import annotations

import numpy as np

from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from tests.oracle import Interpreter
from tests.targets.machine_case import every_format, load, make, program, store, tensor

WORDS = 6000
HALF = WORDS // 2
TARGET = EmulatorTarget(every_format(load_spec("server")))


def output(name: str, *shape: int, format: Format = Format.FP32) -> DramTensor:
    """A row of the tensor table that a program writes."""
    return tensor(name, *shape, role=Role.OUTPUT, format=format)


def outputs_of(case: Program, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    """What the engine computes."""
    return TARGET.run(case, feeds)[1]


def assert_as_interpreted(
    case: Program, rtol: float = 0.0, atol: float = 0.0, **feeds: np.ndarray
) -> None:
    """Engine and interpreter agree, exactly unless told, NaN with NaN; numbers cost no time."""
    execution, got = TARGET.run(case, feeds)
    for name, want in Interpreter(case, feeds).run().items():
        assert got[name].dtype == want.dtype
        np.testing.assert_allclose(  # every format's numbers are exact in 64 bits
            got[name].astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol
        )
    assert TARGET.time(case) == execution


def through_scratchpad(*body: Instruction, words: int = WORDS) -> Program:
    """``x`` fills the scratchpad, ``y`` is what ``body`` leaves there."""
    tensors = (tensor("x", words), output("y", words))
    return program(load(0, 0, words), *body, store(1, 0, words), tensors=tensors, elements=words)


def assert_on_scratchpad(
    *body: Instruction, rtol: float = 0.0, atol: float = 0.0, positive: bool = False
) -> None:
    """Compare the whole scratchpad after ``body``, which begins with random numbers in it."""
    x = np.random.default_rng(7).standard_normal(WORDS).astype(np.float32)
    x = np.abs(x) + 0.1 if positive else x
    assert_as_interpreted(through_scratchpad(*body), rtol, atol, x=x)


def dense_product(
    m: int,
    columns: tuple[int, int],
    k: int,
    formats: tuple[Format, Format] = (Format.FP32, Format.FP32),
    **fields: int,
) -> Program:
    """``c[m, n1·n0] = a[m, k] · b[k, n1·n0]`` in one MATMUL; ``columns`` are n1 and n0."""
    n1, n0 = columns
    n, at_b, at_c = n1 * n0, m * k, (m + n1 * n0) * k
    left, right = formats
    wide = Format.FP32 if left in (Format.FP32, Format.BF16) else Format.INT32
    given = {
        "m": m, "n1": n1, "n0": n0, "k0": k, "b_base": at_b * 4 // right.bytes, "c_base": at_c, "a_m": k, "a_k0": 1, "b_k0": n,
        "b_n1": n0, "b_n0": 1, "c_m": n, "c_n1": n0, "c_n0": 1, "a_format": int(left), "b_format": int(right),
    }  # fmt: skip
    return program(
        make(Opcode.LOAD, tensor=0, size0=m, size1=k, dst_stride0=k, dst_stride1=1, format=int(left)),
        make(Opcode.LOAD, tensor=1, dst_base=at_b * 4 // right.bytes, size0=k, size1=n, dst_stride0=n, dst_stride1=1, format=int(right)),
        make(Opcode.MATMUL, **given, **fields),
        make(Opcode.STORE, tensor=2, src_base=at_c, size0=m, size1=n, src_stride0=n, src_stride1=1, format=int(wide)),
        tensors=(tensor("a", m, k, format=left), tensor("b", k, n, format=right), output("c", m, n, format=wide)),
        elements=at_c + m * n,
    )  # fmt: skip

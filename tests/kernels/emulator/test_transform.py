"""TRANSFORM computes what its table row says, and costs what it states."""

from __future__ import annotations

import pytest
from hypothesis import given

from autotune.isa.functions import Transform, UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction
from tests.kernels.emulator.engine_case import assert_on_scratchpad
from tests.kernels.emulator.transform_case import ERROR, image, points, transforms
from tests.targets.machine_case import alone

LANES, VECTOR_SETUP = 8, 3


@given(transforms())
def test_the_emulator_transforms_tiles_by_the_matrices(word: Instruction) -> None:
    assert_on_scratchpad(word, atol=100 * ERROR)


@pytest.mark.parametrize(
    ("code", "additions", "rows", "out"),
    [
        (Transform.F4_INPUT, 144, 6, 36),
        (Transform.F4_OUTPUT, 100, 6, 16),
        (Transform.F2_INPUT, 32, 4, 16),
        (Transform.F2_OUTPUT, 24, 4, 4),
    ],
)
@pytest.mark.parametrize("channels", [8, 11])
def test_a_transform_takes_a_pass_for_each_addition(
    code: Transform, additions: int, rows: int, out: int, channels: int
) -> None:
    source, target = points("src", rows, (1, 2), channels), image("dst", 4, 2, channels)
    word = Instruction.make(
        Opcode.TRANSFORM, transform=int(code), size3=2, size4=channels, **source, **target,
        dst_base=1000, biased=1, fn=int(UnaryFn.RELU),
    )  # fmt: skip
    found = alone(word)
    passes = -(-2 * channels // LANES)
    stalled = found["vector_stall_bank_cycles"]
    assert found["cycles"] - stalled == VECTOR_SETUP + 2 + passes * additions
    assert found["vector_passes"] == passes * additions
    assert found["vector_simple_elements"] == 2 * channels * additions
    assert found["scratchpad_vector_read_bytes"] == 4 * (rows * rows * 2 * channels + channels)
    assert found["scratchpad_vector_write_bytes"] == 4 * out * 2 * channels

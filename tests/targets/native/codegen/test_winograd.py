"""Generated and compiled transforms against the interpreter, for every width of vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from autotune.isa.functions import Transform, UnaryFn
from autotune.isa.program import Instruction
from autotune.targets.native.binding.binding import tile_transform_of
from autotune.targets.native.codegen.winograd import TileTransform, tile_transform
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import VECTOR_ISAS, VectorIsa
from tests.kernels.emulator.engine_case import WORDS, through_scratchpad
from tests.kernels.emulator.transform_case import ERROR, image, points, transforms
from tests.oracle import Interpreter
from tests.targets.native.codegen.generated_code import compiled, host_isas
from tests.targets.native.native_case import executed

X = np.random.default_rng(7).standard_normal(WORDS).astype(np.float32)


def strides(fields: dict[str, int]) -> tuple[int, ...]:
    return tuple(fields.values())


def wanted(word: Instruction) -> np.ndarray:
    return Interpreter(through_scratchpad(word), {"x": X}).run()["y"]


@given(transforms())
def test_the_compiled_transform_equals_the_interpreter(word: Instruction) -> None:
    got = executed(through_scratchpad(word), {"x": X})["y"]
    np.testing.assert_allclose(got, wanted(word), rtol=0, atol=100 * ERROR)


@pytest.mark.parametrize("isa", host_isas(), ids=lambda isa: isa.name)
@settings(max_examples=settings().max_examples // 3)
@given(word=transforms())
def test_the_generated_transform_equals_the_interpreter(isa: VectorIsa, word: Instruction) -> None:
    spec = tile_transform_of(
        word,
        {
            name: tuple(word.get(f"{name}_stride{d}") for d in range(5))
            for name in ("src", "dst", "r")
            if name != "r" or word.get("adds")
        },
    )
    got = X.copy()
    places = {name: got[word.get(f"{name}_base") :] for name in spec.operands}
    compiled(tile_transform(spec, isa), isa)(*(places[name] for name in spec.operands))
    np.testing.assert_allclose(got, wanted(word), rtol=0, atol=100 * ERROR)


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("code", Transform)
def test_a_transform_becomes_code_of_every_machine(code: Transform, isa: VectorIsa) -> None:
    source, target = points("src", 6, (3, 5), 37), image("dst", 4, 5, 37)
    spec = TileTransform(
        code, (3, 5), 37, strides(source), strides(target), biased=True, fn=UnaryFn.RELU
    )
    assert CodeGenerator(GENERIC[isa]).object(tile_transform(spec, isa))

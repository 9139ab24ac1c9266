"""Vector runs of narrow operands equal numpy: widened when loaded, rounded and saturated when stored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.codegen.vector.elementwise import elementwise
from autotune.targets.native.codegen.vector.vector_run import Binary, Load, Node, Output, VectorRun
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import DOT_ISAS, VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.generated_code import compiled, dot_isas, host_isas

LOADED = (Format.FP32, Format.BF16, Format.FP16, Format.INT8, Format.UINT8, Format.INT32)
STORED = (Format.FP32, Format.BF16, Format.FP16, Format.INT8, Format.UINT8)
SPECIAL = (np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, 127.5, -128.5, 254.5, 255.5, 3e38, -0.0, 65504.0, 65520.0,
           2.0**-14, 2.0**-24, 2.0**-25, 3 * 2.0**-25, 1.00048828125, -6e-5)  # fmt: skip
GUARD, MARGIN = 55, 40


def values(format: Format, count: int, seed: int) -> np.ndarray:
    """Numbers all over a format, special ones among floats."""
    rng, dtype = np.random.default_rng(seed), ARRAY_TYPES[format]
    if format.is_float:
        drawn = rng.normal(0, 150, count)
        special = rng.random(count) < 0.3
        with np.errstate(over="ignore"):
            return np.where(special, rng.choice(SPECIAL, count), drawn).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, count, dtype, endpoint=True)


def stored(value: np.ndarray, format: Format) -> np.ndarray:
    """What a STORE makes of fp32."""
    if format is Format.FP32:
        return value
    if format.is_float:
        with np.errstate(over="ignore"):
            return value.astype(ARRAY_TYPES[format])
    limits = np.iinfo(ARRAY_TYPES[format])
    with np.errstate(invalid="ignore"):
        whole = np.rint(np.where(np.isnan(value), 0, value))
    return np.clip(whole, limits.min, limits.max).astype(ARRAY_TYPES[format])


@pytest.mark.parametrize("isa", dot_isas(), ids=lambda isa: isa.name)
@given(
    source=st.sampled_from(LOADED),
    target=st.sampled_from(STORED),
    rows=st.integers(1, 3),
    columns=st.integers(1, 40),
    apart=st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 3), (0, 1)]),
    adds=st.booleans(),
    seed=st.integers(0, 999),
)
def test_a_run_converts_as_it_loads_and_stores(
    isa: VectorIsa,
    source: Format,
    target: Format,
    rows: int,
    columns: int,
    apart: tuple[int, int],
    adds: bool,
    seed: int,
) -> None:
    step, spread = apart
    sizes = (rows, columns)
    read, written = (step * columns + 1, step), (spread * columns + 2, spread)
    body: tuple[Node, ...] = (Load(0), Load(1), Binary(BinaryFn.ADD, 0, 1)) if adds else (Load(0),)
    inputs = (read, (0, 1))[: 1 + adds]
    formats = (source, Format.UINT8)[: 1 + adds]
    run = VectorRun(sizes, inputs, (Output(written, len(body) - 1),), body, (*formats, target))
    given_ = values(source, rows * read[0] + columns * step, seed)
    added = values(Format.UINT8, columns, seed)
    result = np.full(rows * written[0] + 2 * MARGIN, GUARD, ARRAY_TYPES[target])
    compiled(elementwise(run, isa), isa)(*(given_, added)[: 1 + adds], result[MARGIN:])
    size = given_.itemsize
    seen = np.lib.stride_tricks.as_strided(given_, sizes, [size * s for s in read])
    with np.errstate(invalid="ignore"):
        wanted = seen.astype(np.float32)
        wanted = wanted + added.astype(np.float32) if adds else wanted
    got = np.lib.stride_tricks.as_strided(
        result[MARGIN:], sizes, [result.itemsize * s for s in written]
    )
    wanted = stored(wanted, target)
    as_floats = (x.astype(np.float32) for x in (got, wanted))  # numpy compares no NaN of BF16
    np.testing.assert_array_equal(*as_floats)
    quiet = {Format.BF16: 0x7FC0, Format.FP16: 0x7E00}
    nans = got[got != got]
    assert target not in quiet or (nans.view(np.uint16) & 0x7FFF == quiet[target]).all()
    got[...] = GUARD
    assert (result == GUARD).all(), "wrote outside of its rectangle"


@pytest.mark.parametrize("isa", (*DOT_ISAS, *VECTOR_ISAS), ids=lambda isa: isa.name)
def test_every_instruction_set_has_code_that_converts(isa: VectorIsa) -> None:
    for formats in ((Format.INT8, Format.UINT8), (Format.FP16, Format.FP16)):
        run = VectorRun((3, 37), ((37, 1),), (Output((37, 1), 0),), (Load(0),), formats)
        assert CodeGenerator(GENERIC[isa]).object(elementwise(run, isa))


@pytest.mark.parametrize("isa", host_isas(), ids=lambda isa: isa.name)
def test_every_number_of_fp16_is_widened_and_stored_again(isa: VectorIsa) -> None:
    """Also where an instruction set has no conversion of its own."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    there = VectorRun(
        (1 << 16,), ((1,),), (Output((1,), 0),), (Load(0),), (Format.FP16, Format.FP32)
    )
    back = VectorRun(
        (1 << 16,), ((1,),), (Output((1,), 0),), (Load(0),), (Format.FP32, Format.FP16)
    )
    wide, again = np.empty(1 << 16, np.float32), np.empty(1 << 16, np.float16)
    compiled(elementwise(there, isa), isa)(every, wide)
    compiled(elementwise(back, isa), isa)(wide, again)
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    same = every == every
    np.testing.assert_array_equal(again[same].view(np.uint16), every[same].view(np.uint16))
    assert np.isnan(again[~same]).all()

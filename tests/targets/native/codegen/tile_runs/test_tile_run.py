"""A product of bytes and the run on its sums equal numpy bit by bit, and write nothing but the results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, UnaryFn, When
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.binding.narrow_panels import narrow_packed
from autotune.targets.native.codegen.gemm.narrow_blocking import narrow_panel_width
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.gemm.shape import BiasAxis, VectorAxis
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.tile_runs.tile_run_writer import tile_run
from autotune.targets.native.codegen.vector.vector_run import (
    Binary,
    Load,
    Node,
    Output,
    Unary,
    VectorRun,
)
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import DOT_ISAS, VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.gemm.test_narrow_gemm import (
    drawn,
    expected,
    extent,
    narrow_shapes,
    walk,
)
from tests.targets.native.codegen.generated_code import compiled, dot_isas

GUARD, GUARDS = 77, 40
RESULTS = (Format.FP32, Format.INT8, Format.UINT8)


def requantised(narrow: NarrowShape, isa: VectorIsa, format: Format, beside: Format) -> TileRun:
    """round(clip(sums · scale + shift + beside)), by lane of the vector axis but for ``beside``; its second
    result is what is rounded."""
    product = replace(narrow.product, accumulate=When.NEVER, adds=False)
    if product.epilogue is When.BY_LEVEL:
        product = replace(product, epilogue=When.ALWAYS)
    narrow = replace(narrow, product=product)
    width = narrow_panel_width(narrow, isa)
    narrow = replace(narrow, product=replace(product, panel=width))
    lane = (1, 0, 0) if narrow.axis is VectorAxis.M else (0, 0, 1)
    c, r = (tuple(getattr(product, f"{x}_{d}") for d in ("m", "n1", "n0")) for x in ("c", "r"))
    body: tuple[Node, ...] = (
        Load(0), Load(1), Binary(BinaryFn.MUL, 0, 1), Load(2), Binary(BinaryFn.ADD, 2, 3),
        Load(3), Binary(BinaryFn.ADD, 4, 5), Unary(UnaryFn.ROUND, 6), Unary(UnaryFn.CLIP, 7, -128.0, 255.0),
    )  # fmt: skip
    run = VectorRun(
        (product.m, product.n1, product.n0),
        (c, lane, (0, 0, 0), r),
        (Output(c, 8), Output(r, 6)),
        body,
        (Format.INT32, Format.FP32, Format.FP32, beside, format, Format.FP32),
    )
    return TileRun(narrow, run, 0)


@pytest.mark.parametrize("isa", dot_isas(), ids=lambda isa: isa.name)
@settings(max_examples=60, deadline=None)
@given(
    narrow_shapes(),
    st.sampled_from(RESULTS),
    st.sampled_from((*RESULTS, Format.INT32)),
    st.integers(0, 2**32 - 1),
)
def test_a_run_on_any_product_of_bytes_equals_numpy(
    isa: VectorIsa, narrow: NarrowShape, format: Format, beside: Format, seed: int
) -> None:
    tile, rng = requantised(narrow, isa, format, beside), np.random.default_rng(seed)
    s = tile.product.product
    limits = np.iinfo(np.int8 if beside is Format.INT8 else np.uint8)
    lanes = s.m if tile.product.axis is VectorAxis.M else s.n0
    arrays = {
        "a": drawn(rng, tile.product.a, extent(s, "a"), None),
        "b": drawn(rng, tile.product.b, extent(s, "b"), None),
        "bias": rng.integers(-(2**20), 2**20, s.m if s.bias == BiasAxis.M else s.n0).astype(
            np.int32
        ),
        "c": np.zeros(extent(s, "c") + 2 * GUARDS, np.int32),
    }
    scale = rng.uniform(1e-4, 1e-2, lanes).astype(np.float32)
    shift = np.array([rng.normal()], np.float32)
    other = rng.integers(limits.min, limits.max, extent(s, "r"), endpoint=True)
    other = other.astype(ARRAY_TYPES[beside])
    results = [
        np.full(extent(s, name) + 2 * GUARDS, GUARD, ARRAY_TYPES[kind])
        for name, kind in (("c", format), ("r", Format.FP32))
    ]
    packed = narrow_packed(tile.product, isa)
    assert packed is not None
    panels = np.empty(packed.elements, np.float32)
    factor = "a" if tile.product.axis is VectorAxis.M else "b"
    packed.pack(arrays[factor], panels)
    given_ = {**arrays, factor: panels}
    run = compiled(tile_run(tile, isa), isa)
    run(*(given_[x] for x in tile.operands), scale, shift, other, *(x[GUARDS:] for x in results))
    sums = expected(tile.product, arrays, 0).astype(np.float32)
    along = scale[:, None, None] if factor == "a" else scale
    wanted = sums * along + shift + walk(other, s, "r").astype(np.float32)
    whole = np.clip(np.rint(wanted), -128, 255)
    if format is not Format.FP32:
        ends = np.iinfo(ARRAY_TYPES[format])
        whole = np.clip(whole, ends.min, ends.max)
    for array, name, value in zip(results, "cr", (whole, wanted), strict=True):
        got = walk(array[GUARDS:], s, name)
        np.testing.assert_array_equal(got, value.astype(array.dtype))
        got[...] = GUARD
        assert (array == GUARD).all(), "wrote outside of its results"


@pytest.mark.parametrize("isa", (*DOT_ISAS, *VECTOR_ISAS), ids=lambda isa: isa.name)
@settings(max_examples=5, deadline=None)
@given(narrow_shapes())
def test_every_instruction_set_has_code(isa: VectorIsa, narrow: NarrowShape) -> None:
    tile = requantised(narrow, isa, Format.UINT8, Format.INT8)
    assert CodeGenerator(GENERIC[isa]).object(tile_run(tile, isa))

"""Products of several narrow groups in a register equal numpy in float64, and write nothing but c."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.functions import UnaryFn, When
from autotune.targets.native.codegen.gemm.gemm import gemm
from autotune.targets.native.codegen.gemm.shape import BiasAxis, GemmShape, VectorAxis
from autotune.targets.native.cpu.vector_isa import AVX2, VectorIsa
from tests.targets.native.codegen.generated_code import compiled, host_isas

GUARD = np.float32(-77.5)
WIDE = [isa for isa in host_isas() if isa.lanes > 2]


def product(
    group: int, groups: int, rows: tuple[int, int], taps: tuple[int, int], **rest: object
) -> GemmShape:
    """A channels-last image without a border by a weight [outputs, taps, inputs of a group]."""
    channels = group * groups
    width = rows[1] + taps[1] - 1
    steps = {"m": 1, "n1": rows[1] * channels, "n0": channels}
    return GemmShape(
        m=channels, n1=rows[0], n0=rows[1], k2=taps[0], k1=taps[1], k0=group,
        a_m=taps[0] * taps[1] * group, a_k2=taps[1] * group, a_k1=group, a_k0=1,
        b_k2=width * channels, b_k1=channels, b_k0=1, b_n1=width * channels, b_n0=channels,
        **{f"{x}_{axis}": step for x in "cr" for axis, step in steps.items()},
        lanes=VectorAxis.M, group=group, **rest,
    )  # fmt: skip


@st.composite
def products(draw: st.DrawFn, lanes: int) -> GemmShape:
    group = draw(st.sampled_from([n for n in (2, 4, 8) if n < lanes]))
    return product(
        group,
        draw(st.integers(1, 9)),
        draw(st.tuples(st.integers(1, 3), st.integers(1, 30))),
        draw(st.sampled_from([(1, 1), (3, 3), (1, 3), (5, 2)])),
        panel=lanes,
        accumulate=draw(st.sampled_from([When.NEVER, When.ALWAYS])),
        epilogue=draw(st.sampled_from([When.NEVER, When.ALWAYS])),
        bias=draw(st.sampled_from([BiasAxis.NONE, BiasAxis.M])),
        fn=draw(st.sampled_from([UnaryFn.COPY, UnaryFn.RELU])),
        adds=draw(st.booleans()),
    )


@pytest.mark.parametrize("isa", WIDE, ids=lambda isa: isa.name)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_groups_in_lanes_equal_numpy(isa: VectorIsa, data: st.DataObject, seed: int) -> None:
    shape = data.draw(products(isa.lanes))
    rng = np.random.default_rng(seed)
    groups, taps = shape.m // shape.group, (shape.k2, shape.k1)
    image = rng.standard_normal(
        (shape.n1 + taps[0] - 1, shape.n0 + taps[1] - 1, shape.m), np.float32
    )
    weight = rng.standard_normal((shape.m, *taps, shape.group), np.float32)
    bias = rng.standard_normal(shape.m, np.float32)
    c, r = (rng.standard_normal((shape.n1, shape.n0, shape.m), np.float32) for _ in "cr")
    whole = np.concatenate([np.full(40, GUARD), c.ravel(), np.full(40, GUARD)])
    given = {"a": panels(weight, isa.lanes), "b": image, "c": whole[40:], "bias": bias, "r": r}
    compiled(gemm(shape, isa), isa)(*[given[name] for name in shape.operands])
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(float), taps, (0, 1))
    apart = windows.reshape(shape.n1, shape.n0, groups, shape.group, *taps)
    grouped = weight.astype(float).reshape(groups, shape.group, *taps, shape.group)
    expected = np.einsum("yxgcij,goijc->yxgo", apart, grouped).reshape(c.shape)
    if shape.accumulate is When.ALWAYS:
        expected += c
    if shape.epilogue is When.ALWAYS:
        expected += bias if shape.has_bias else 0.0
        expected += r if shape.has_residual else 0.0
        expected = np.maximum(expected, 0.0) if shape.fn is UnaryFn.RELU else expected
    np.testing.assert_allclose(whole[40:-40].reshape(c.shape), expected, rtol=1e-4, atol=1e-4)
    assert (whole[:40] == GUARD).all()
    assert (whole[-40:] == GUARD).all()


def panels(weight: np.ndarray, width: int) -> np.ndarray:
    """The weight as [panels][taps · inputs][width], zeros behind the last output."""
    outputs = len(weight)
    count = -(-outputs // width)
    padded = np.zeros((count * width, weight[0].size), np.float32)
    padded[:outputs] = weight.reshape(outputs, -1)
    return np.ascontiguousarray(padded.reshape(count, width, -1).swapaxes(1, 2))


def test_an_image_ends_with_its_last_channel() -> None:
    """A register of a group that is not there would be read from behind the image."""
    shape = product(4, 1, (1, 1), (1, 1), panel=AVX2.lanes)
    text = gemm(shape, AVX2).ir
    assert text.count("@llvm.masked.load") > 1, "one is the declaration"


@pytest.mark.parametrize(
    "change",
    [{"k0": 2}, {"m": 6}, {"b_k0": 2}, {"lanes": None}, {"panel": None}],
    ids=lambda change: next(iter(change)),
)
def test_groups_that_no_product_has_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ProgramError, match="groups of 4"):
        replace(product(4, 2, (2, 3), (3, 3), panel=AVX2.lanes), **change)

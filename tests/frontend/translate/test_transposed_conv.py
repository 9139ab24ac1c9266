"""Transposed convolutions by one convolution for the places that have equally many taps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.native_table import link_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.targets.opening import target
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.frontend.onnx_case import imported, single
from tests.graph.graph_cases import normal

CHANNELS = 32
AXIS = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2))  # fmt: skip
"""Extent, kernel, stride, dilation, padding before."""


def scattered(x: np.ndarray, w: np.ndarray, strides, dilations) -> np.ndarray:
    """ConvTranspose by its definition: every input element adds its taps."""
    spans = [
        (n - 1) * s + (k - 1) * d + 1
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[1], *spans))
    for k, m in np.ndindex(*w.shape[2:]):
        rows, columns = (
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip((k, m), dilations, x.shape[2:], strides, strict=True)
        )
        y[:, :, rows, columns] += np.einsum("nihw,io->nohw", x, w[:, :, k, m])
    return y


def convolutions(graph: Graph) -> int:
    return sum(op.kind is OpKind.CONV for op in graph.ops)


@settings(max_examples=60, deadline=None)
@given(rows=AXIS, columns=AXIS, biased=st.booleans())
def test_any_kernel_and_stride_scatter(rows: tuple, columns: tuple, biased: bool) -> None:
    extent, kernel, strides, dilations, before = zip(rows, columns, strict=True)
    x, w = normal(0, 1, CHANNELS, *extent), normal(1, CHANNELS, CHANNELS, *kernel)
    bias = [normal(2, CHANNELS)] * biased
    wanted = scattered(x, w, strides, dilations) + (bias[0][:, None, None] if biased else 0)
    assume(all(n > p for n, p in zip(wanted.shape[2:], before, strict=True)))
    model, feeds = single(
        "ConvTranspose", [x, w, *bias], 11, tuple(range(1, 2 + biased)), strides=list(strides),
        dilations=list(dilations), pads=[*before, 0, 0],
    )  # fmt: skip
    (found,) = evaluate(simplify(imported(model)).graph, feeds).values()
    expected = wanted[:, :, before[0] :, before[1] :]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "stride", "count"), [(3, 2, 4), (5, 3, 4), (4, 2, 1), (1, 2, 1)]
)
def test_a_kernel_that_strides_do_not_divide_multiplies_no_zeros(
    kernel: int, stride: int, count: int
) -> None:
    x, w = normal(0, 1, CHANNELS, 4, 4), normal(1, CHANNELS, CHANNELS, kernel, kernel)
    model, _ = single("ConvTranspose", [x, w], 11, (1,), strides=[stride] * 2)
    graph = simplify(imported(model)).graph
    weights = [graph.shape(op.inputs[1]) for op in graph.ops if op.kind is OpKind.CONV]
    assert len(weights) == count
    if count > 1:
        assert sum(math.prod(shape) for shape in weights) == w.size


def test_few_channels_stay_one_convolution() -> None:
    x, w = normal(0, 1, 8, 4, 4), normal(1, 8, 8, 3, 3)
    model, _ = single("ConvTranspose", [x, w], 11, (1,), strides=[2, 2])
    assert convolutions(simplify(imported(model)).graph) == 1


@pytest.mark.parametrize("machine", ["edge", "cpu"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (5, 3)])
def test_places_run_on_machines(machine: str, kernel: int, stride: int) -> None:
    on = target(machine)
    x, w = normal(0, 1, CHANNELS, 5, 6), normal(1, CHANNELS, CHANNELS, kernel, kernel)
    model, feeds = single("ConvTranspose", [x, w, normal(2, CHANNELS)], 11, (1, 2), strides=[stride] * 2, pads=[1] * 4)  # fmt: skip
    graph = simplify(imported(model), Layout(on.spec.layout)).graph
    table = compile_table(graph, heuristic_choices(graph, on.spec), on.spec, ProgramCache())
    found = execute(link_table(table, on), on, feeds)[0]
    for name, wanted in evaluate(imported(model), feeds).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4)

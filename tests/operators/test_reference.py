"""Reference semantics agree with ONNX's evaluator for any shape and attribute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.operators.op import OpKind
from tests.frontend.onnx_case import assert_same, imported, single

QUICK = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**16)


def arrays(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@st.composite
def windows(draw: st.DrawFn) -> dict:
    """Kernel, strides, pads, dilations and a spatial extent they fit."""
    pair = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(2))  # noqa: E731
    kernel, strides, dilations = pair(1, 3), pair(1, 3), pair(1, 2)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [draw(st.integers(0, k // 2)) for k in (*kernel, *kernel)]
    size = tuple(span + draw(st.integers(0, 5)) for span in spans)
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}
    return {"size": size, "attrs": attrs}


@QUICK
@given(window=windows(), group=st.integers(1, 3), per=st.integers(1, 3), out=st.integers(1, 3),
       batch=st.integers(1, 2), bias=st.booleans(), seed=seeds)  # fmt: skip
def test_conv_agrees(window, group, per, out, batch, bias, seed) -> None:
    attrs = window["attrs"]
    x, w, b = arrays(
        seed,
        (batch, group * per, *window["size"]),
        (group * out, per, *attrs["kernel_shape"]),
        (group * out,),
    )
    inputs = [x, w, b] if bias else [x, w]
    assert_same(*single("Conv", inputs, 11, (1,), group=group, **attrs))


def pooled(x: np.ndarray, attrs: dict, average: bool, include: int) -> np.ndarray:
    """Pooling by definition, one window at a time; onnx 1.23's evaluator mixes up uneven pads."""
    kernel, strides, pads = attrs["kernel_shape"], attrs["strides"], attrs["pads"]
    dilations = attrs["dilations"]
    extents = []
    for i in range(2):
        span = dilations[i] * (kernel[i] - 1) + 1
        room = x.shape[2 + i] + pads[i] + pads[i + 2] - span
        positions = (-(-room // strides[i]) if attrs.get("ceil_mode") else room // strides[i]) + 1
        dropped = (positions - 1) * strides[i] >= x.shape[2 + i] + pads[i]
        extents.append(positions - 1 if attrs.get("ceil_mode") and dropped else positions)
    out = np.empty((*x.shape[:2], *extents), np.float32)
    for at in np.ndindex(*out.shape):
        rows, columns = (
            [at[2 + i] * strides[i] - pads[i] + k * dilations[i] for k in range(kernel[i])]
            for i in range(2)
        )
        inside = [
            x[at[0], at[1], r, c]
            for r in rows
            for c in columns
            if 0 <= r < x.shape[2] and 0 <= c < x.shape[3]
        ]
        count = kernel[0] * kernel[1] if include else len(inside)
        out[at] = sum(inside) / count if average else max(inside)
    return out


@QUICK
@given(window=windows(), ceil=st.integers(0, 1), average=st.booleans(), include=st.integers(0, 1), seed=seeds)  # fmt: skip
def test_pooling_follows_its_definition(window, ceil, average, include, seed) -> None:
    (x,) = arrays(seed, (1, 2, *window["size"]))
    attrs = window["attrs"] | {"ceil_mode": 0 if average and include else ceil}
    extra = {"count_include_pad": include} if average else {}
    name = "AveragePool" if average else "MaxPool"
    model, feeds = single(name, [x], 19, **attrs, **extra)
    (found,) = evaluate(imported(model), feeds).values()
    expected = pooled(x, attrs, average, include if average else 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@QUICK
@given(window=windows(), average=st.booleans(), seed=seeds)
def test_pooling_with_even_pads_agrees(window, average, seed) -> None:
    (x,) = arrays(seed, (1, 2, *window["size"]))
    pads = window["attrs"]["pads"][:1] * 4
    attrs = window["attrs"] | {"pads": pads, "kernel_shape": (3, 3), "dilations": (1, 1)}
    if min(x.shape[2:]) < 3:
        x = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)))
    assert_same(*single("AveragePool" if average else "MaxPool", [x], 19, **attrs))


@st.composite
def broadcastable(draw: st.DrawFn, most: int = 3) -> tuple[tuple[int, ...], tuple[int, ...]]:
    full = draw(st.lists(st.integers(1, 4), min_size=0, max_size=most))

    def reduced() -> tuple[int, ...]:
        shape = [1 if draw(st.booleans()) else extent for extent in full]
        return tuple(shape[draw(st.integers(0, len(shape))) :])

    return reduced(), reduced()


@QUICK
@given(batch=broadcastable(2), m=st.integers(1, 4), k=st.integers(1, 4), n=st.integers(1, 4), seed=seeds)  # fmt: skip
def test_matmul_agrees_over_broadcast_batches(batch, m, k, n, seed) -> None:
    a, b = arrays(seed, (*batch[0], m, k), (*batch[1], k, n))
    assert_same(*single("MatMul", [a, b], 13))


@QUICK
@given(shapes=broadcastable(), operator=st.sampled_from(["Add", "Sub", "Mul", "Div", "Max", "Min"]), seed=seeds)  # fmt: skip
def test_binary_operators_agree_over_broadcast_shapes(shapes, operator, seed) -> None:
    assert_same(*single(operator, arrays(seed, *shapes), 13))


@QUICK
@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data(), seed=seeds)
def test_reductions_agree_over_any_axes(shape, data, seed) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    keep = data.draw(st.integers(0, 1))
    operator = data.draw(st.sampled_from(["ReduceMean", "ReduceSum", "ReduceMax"]))
    (x,) = arrays(seed, tuple(shape))
    assert_same(*single(operator, [x], 11, axes=axes, keepdims=keep))


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_transposed_matmul_is_the_matmul_of_transposes(trans_a: int, trans_b: int) -> None:
    a, b = arrays(0, (2, 3, 4), (2, 4, 5))
    builder = GraphBuilder("t")
    x = builder.input("a", (2, 4, 3) if trans_a else (2, 3, 4))
    y = builder.input("b", (2, 5, 4) if trans_b else (2, 4, 5))
    z = builder.add(OpKind.MATMUL, x, y, trans_a=trans_a, trans_b=trans_b)
    fed = {"a": a.swapaxes(1, 2) if trans_a else a, "b": b.swapaxes(1, 2) if trans_b else b}
    np.testing.assert_allclose(evaluate(builder.build([z]), fed)[z], a @ b, rtol=1e-5)


def small_graph():
    builder = GraphBuilder("small")
    return builder.build([builder.add(OpKind.RELU, builder.input("x", (2, 3)), output="y")])


def test_an_input_that_is_also_an_output_is_returned() -> None:
    builder = GraphBuilder("g")
    x = builder.input("x", (2,))
    graph = builder.build([builder.add(OpKind.NEG, x, output="y"), x])
    out = evaluate(graph, {"x": np.ones(2, np.float32)})
    assert out["x"].tolist() == [1, 1]
    assert out["y"].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("fed", "words"),
    [
        ({}, "'x' is missing"),
        ({"x": np.zeros((3, 2))}, "shape (3, 2), not (2, 3)"),
        ({"x": np.zeros((2, 3)), "z": np.zeros(1)}, "no input 'z'"),
    ],
)
def test_wrong_inputs_are_refused_by_name(fed: dict, words: str) -> None:
    with pytest.raises(InputError, match="small: ") as caught:
        evaluate(small_graph(), fed)
    assert words in str(caught.value)

"""Shape inference equals what evaluation yields, and refuses what does not fit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import shape_inference

from autotune.datasets import light_path, random_graphs
from autotune.errors import ModelError
from autotune.frontend.importing import load_onnx
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.families import evaluate_op
from autotune.operators.op import OpKind


@pytest.mark.parametrize("name", ["light_squeezenet", "light_resnet50"])
def test_shapes_of_the_light_networks_equal_onnx_shape_inference(name: str) -> None:
    graph = load_onnx(light_path(name))
    inferred = shape_inference.infer_shapes(onnx.load(light_path(name)), data_prop=True)
    found = 0
    for value in inferred.graph.value_info:
        dims = value.type.tensor_type.shape.dim
        if value.name in graph.producer and all(d.dim_value for d in dims):
            assert graph.shape(value.name) == tuple(d.dim_value for d in dims), value.name
            found += 1
    assert found > 60


def small(graph: Graph) -> bool:
    return sum(t.elements for t in graph.types.values()) < 1 << 18


def test_inferred_shapes_are_the_evaluated_ones() -> None:
    rng = np.random.default_rng(3)
    graphs = [g for g in random_graphs(rng, 200) if small(g)]
    assert len(graphs) > 20
    for graph in graphs:
        values = dict(graph.constants)
        values |= {x: np.ones(graph.shape(x), np.float32) for x in graph.inputs}
        for op in graph.ops:
            values[op.output] = evaluate_op(op, [values[x] for x in op.inputs])
            assert values[op.output].shape == graph.shape(op.output)


BAD = [
    (OpKind.CONV, [(1, 4, 8, 8), (2, 3, 3, 3)], {}, "channels do not fit group=1"),
    (OpKind.CONV, [(1, 4, 8, 8), (3, 2, 3, 3)], {"group": 2}, "channels do not fit group=2"),
    (OpKind.CONV, [(1, 4, 8), (2, 4, 3)], {}, "rank 4"),
    (OpKind.CONV, [(1, 4, 2, 2), (2, 4, 3, 3)], {}, "larger than the padded input"),
    (OpKind.CONV, [(1, 4, 8, 8), (2, 4, 3, 3), (3,)], {}, "bias must have shape [2]"),
    (OpKind.CONV, [(1, 4, 8, 8), (2, 4, 3, 3)], {"strides": (0, 1)}, "strides must be 2 integers"),
    (OpKind.CONV, [(1, 4, 8, 8), (2, 4, 3, 3)], {"pads": (1, 1)}, "pads must be 4 integers"),
    (OpKind.MAX_POOL, [(1, 1, 4, 4)], {"kernel": (2, 2), "pads": (2, 0, 0, 0)}, "only padding"),
    (
        OpKind.MAX_POOL,
        [(1, 1, 1, 1)],
        {"kernel": (2, 2), "pads": (1,) * 4, "dilations": (2, 2)},
        "only padding",
    ),
    (OpKind.MATMUL, [(2, 3), (4, 5)], {}, "inner extents 3 and 4 differ"),
    (OpKind.MATMUL, [(3,), (3, 5)], {}, "rank ≥ 2"),
    (OpKind.MATMUL, [(2, 2, 3), (3, 3, 5)], {}, "do not broadcast"),
    (OpKind.ADD, [(2, 3), (2, 4)], {}, "do not broadcast"),
    (OpKind.SOFTMAX, [(2, 3)], {"axis": 2}, "axis 2 is outside 0..1"),
    (OpKind.REDUCE_SUM, [(2, 3)], {"axes": ()}, "axes must be sorted"),
    (OpKind.REDUCE_SUM, [(2, 3)], {"axes": (0, 4)}, "axis 4 is outside 0..1"),
    (OpKind.LAYER_NORM, [(2, 3), (2,)], {"axis": 1}, "must have shape [3]"),
    (OpKind.CONCAT, [(2, 3), (3, 3)], {"axis": 1}, "other than axis 1"),
    (OpKind.RESHAPE, [(2, 3)], {"shape": (4, 2)}, "cannot be seen as [4, 2]"),
    (OpKind.TRANSPOSE, [(2, 3)], {"perm": (0, 0)}, "no permutation"),
]


@pytest.mark.parametrize(("kind", "shapes", "attrs", "words"), BAD)
def test_shapes_that_do_not_fit_are_refused_with_the_reason(kind, shapes, attrs, words) -> None:
    builder = GraphBuilder("bad")
    inputs = [builder.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    with pytest.raises(ModelError) as caught:
        builder.add(kind, *inputs, name="culprit", **attrs)
    assert words in str(caught.value)
    assert str(caught.value).startswith("culprit: ")


def test_undefined_inputs_and_double_names_are_refused() -> None:
    builder = GraphBuilder("bad")
    x = builder.input("x", (2,))
    with pytest.raises(ModelError, match="'nothing' is not defined"):
        builder.add(OpKind.RELU, "nothing")
    with pytest.raises(ModelError, match="'x' is defined twice"):
        builder.input("x", (2,))
    builder.add(OpKind.RELU, x, name="one")
    with pytest.raises(ModelError, match="two operators are named 'one'"):
        builder.add(OpKind.RELU, x, name="one")


def test_a_refused_operator_leaves_the_builder_as_it_was() -> None:
    builder = GraphBuilder("b")
    x = builder.input("x", (2, 3))
    with pytest.raises(ModelError):
        builder.add(OpKind.RESHAPE, x, name="view", output="view", shape=(7,))
    y = builder.add(OpKind.RESHAPE, x, name="view", output="view", shape=(6,))
    assert builder.build([y]).shape("view") == (6,)

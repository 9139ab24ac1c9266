"""Exported graphs mean in ONNX what they mean here, and come back by import."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from autotune.api import load_network
from autotune.datasets import NETWORKS
from autotune.errors import ModelError
from autotune.frontend.export.model import export_model, row_numbers
from autotune.frontend.export.nodes import RULES
from autotune.frontend.importing import translate
from autotune.fusion.group import Group
from autotune.fusion.standalone import drawn_inputs, standalone
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.op import OPERATORS, Family, OpKind
from autotune.tuner.sampling import grow_group

Array = npt.NDArray[np.float32]

DRAWN, KEPT = 12, 3
"""Groups drawn from each network, and those that are evaluated."""


def evaluated(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    model = onnx.load_from_string(export_model(graph))
    onnx.checker.check_model(model, full_check=True)
    numbers = row_numbers(graph)
    fed = {x: v.astype(np.int64) if x in numbers else v for x, v in inputs.items()}
    with np.errstate(all="ignore"):
        made: list[Array] = ReferenceEvaluator(model).run(list(graph.outputs), fed)
    return made


def check(graph: Graph, inputs: Mapping[str, Array]) -> None:
    wanted = evaluate(graph, inputs)
    for x, found in zip(graph.outputs, evaluated(graph, inputs), strict=True):
        assert found.dtype == np.float32
        scale = np.nanmax(np.abs(wanted[x]), initial=1.0, where=np.isfinite(wanted[x]))
        np.testing.assert_allclose(found, wanted[x], rtol=1e-4, atol=1e-5 * float(scale))


def sampled(graph: Graph, count: int) -> list[Group]:
    """The ``count`` smallest of some groups, since ONNX's evaluator is slow."""
    rng = np.random.default_rng(len(graph.ops))
    sizes = rng.integers(2, 8, DRAWN)
    groups = [Group.from_graph(graph, grow_group(graph, int(size), rng)) for size in sizes]
    return sorted(groups, key=lambda group: sum(math.prod(t.shape) for _, t in group.types))[:count]


@pytest.mark.parametrize("name", NETWORKS)
def test_sampled_groups_of_a_network_mean_the_same(name: str) -> None:
    for group in sampled(load_network(name), KEPT):
        check(standalone(group), drawn_inputs(group))


IMAGE = (2, 4, 7, 6)


def image_graph(channels_last: int) -> Graph:
    """Every window operator, in one layout."""
    b = GraphBuilder("image")
    rng = np.random.default_rng(3)
    batch, channels, rows, columns = IMAGE
    last = (batch, rows, columns, channels)
    x = b.input("x", last if channels_last else IMAGE)
    weight = (3, 2, 2, 6) if channels_last else (6, 2, 3, 2)
    w = b.constant(rng.standard_normal(weight))
    shared = {"dilations": (1, 1), "channels_last": channels_last}
    made = b.add(
        OpKind.CONV,
        x,
        w,
        b.constant(rng.standard_normal(6)),
        strides=(2, 1),
        pads=(1, 0, 1, 1),
        group=2,
        **shared,
    )
    window = {"kernel": (2, 2), "strides": (1, 1), "pads": (1, 0, 0, 1), **shared}
    pooled = b.add(OpKind.MAX_POOL, made, **window)
    mean = b.add(OpKind.AVERAGE_POOL, pooled, **window, count_include_pad=0)
    return b.build([mean, b.add(OpKind.AVERAGE_POOL, made, **window, count_include_pad=1)])


@pytest.mark.parametrize("channels_last", (0, 1))
def test_window_operators_mean_the_same_in_both_layouts(channels_last: int) -> None:
    graph = image_graph(channels_last)
    x = np.random.default_rng(0).standard_normal(graph.shape("x"), np.float32)
    check(graph, {"x": x})


ATTRIBUTES: dict[OpKind, dict[str, object]] = {
    OpKind.CLIP: {"min": -0.5, "max": 0.75},
    OpKind.ELU: {"alpha": 0.7, "scale": 1.3},
    OpKind.SLIDING_SUM: {"axis": 1, "before": 2, "after": 1},
    OpKind.SOFTMAX: {"axis": 1},
    OpKind.LAYER_NORM: {"axis": 1},
    OpKind.RMS_NORM: {"axis": 1},
    OpKind.CONCAT: {"axis": 0},
    OpKind.RESHAPE: {"shape": (5, 12)},
    OpKind.TRANSPOSE: {"perm": (2, 0, 1)},
    OpKind.SLICE: {"starts": (2, 3, 0), "steps": (-1, -2, 1), "sizes": (3, 2, 5)},
    OpKind.PAD: {"before": (0, 1, 2), "after": (1, 0, 0), "value": 1.5},
    OpKind.EXPAND: {"shape": (3, 4, 5)},
    **{kind: {"axes": (0, 2)} for kind in OpKind if OPERATORS[kind].family is Family.REDUCE},
}
SHAPE = (3, 4, 5)
SHAPES: dict[OpKind, tuple[tuple[int, ...], ...]] = {
    OpKind.MATMUL: ((3, 4, 5), (3, 5, 2)),
    OpKind.LAYER_NORM: (SHAPE, (4, 5), (4, 5)),
    OpKind.RMS_NORM: (SHAPE, (4, 5)),
    OpKind.CONCAT: (SHAPE, (2, 4, 5), SHAPE),
    OpKind.EXPAND: ((3, 1, 5),),
}
POSITIVE = {OpKind.LOG, OpKind.SQRT, OpKind.POW, OpKind.ACOSH}
IN_UNIT = {OpKind.ASIN, OpKind.ACOS, OpKind.ATANH}
BY_OTHERS = {
    OpKind.CONV,
    OpKind.MAX_POOL,
    OpKind.AVERAGE_POOL,
    OpKind.GATHER,
    OpKind.WINOGRAD_CONV,
    OpKind.STRASSEN_MATMUL,
}
"""Kinds that other tests here check."""


@pytest.mark.parametrize("kind", sorted(set(OpKind) - BY_OTHERS))
def test_an_operator_means_the_same(kind: OpKind) -> None:
    b, rng = GraphBuilder("one"), np.random.default_rng(7)
    shapes = SHAPES.get(kind, (SHAPE, (4, 1))[: OPERATORS[kind].arity[0]])
    fed: dict[str, Array] = {}
    for number, shape in enumerate(shapes):
        values = rng.standard_normal(shape, np.float32)
        if kind in POSITIVE:
            values = np.abs(values) + (1.0 if kind is OpKind.ACOSH else 0.1)
        if kind in IN_UNIT:
            values = np.tanh(values)
        values.flat[0] = values.flat[-1] if kind is not OpKind.ACOSH else 2.0
        fed[b.input(f"x{number}", shape)] = values.astype(np.float32)
    attributes = ATTRIBUTES.get(kind, {})
    check(b.build([b.add(kind, *fed, **attributes)]), fed)


def test_a_kind_has_a_rule_or_the_name_of_one_node() -> None:
    for kind, row in OPERATORS.items():
        assert (kind in RULES) != bool(row.onnx), kind


def test_a_product_with_transposed_operands_means_the_same() -> None:
    rng = np.random.default_rng(1)
    for left, right in (((5, 3), (4, 5)), ((2, 5, 3), (2, 4, 5))):
        b = GraphBuilder("product")
        fed = {
            b.input("a", left): rng.standard_normal(left, np.float32),
            b.input("b", right): rng.standard_normal(right, np.float32),
        }
        made = b.add(OpKind.MATMUL, "a", "b", trans_a=1, trans_b=1)
        check(b.build([made]), fed)


def test_row_numbers_are_integers_unless_something_else_reads_them() -> None:
    b = GraphBuilder("rows")
    table, rows = b.input("table", (6, 3)), b.input("rows", (4,))
    made = b.add(OpKind.GATHER, table, rows)
    fed = {"table": np.arange(18, dtype=np.float32).reshape(6, 3), "rows": np.float32([5, 0, 2, 5])}
    graph = b.build([made])
    assert row_numbers(graph) == {"rows"}
    check(graph, fed)
    doubled = b.build([made, b.add(OpKind.ADD, rows, rows)])
    assert not row_numbers(doubled)
    check(doubled, fed)


def test_an_exported_network_comes_back_by_import() -> None:
    graph = load_network("mlp")
    back = translate(onnx.load_from_string(export_model(graph)), "mlp", {})
    assert [op.kind for op in back.ops] == [op.kind for op in graph.ops]
    x = {"x": np.ones(graph.shape("x"), np.float32)}
    for found, wanted in zip(evaluate(back, x).values(), evaluate(graph, x).values(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_convolution_by_winograd_is_refused_with_the_way_out() -> None:
    b = GraphBuilder("winograd")
    x = b.input("x", (1, 8, 8, 4))
    made = b.add(OpKind.WINOGRAD_CONV, x, b.constant(np.ones((16, 4, 4))), pads=(1, 1, 1, 1))
    with pytest.raises(ModelError, match="accuracy 'exact'"):
        export_model(b.build([made]))


def test_a_product_by_strassen_is_refused_with_the_way_out() -> None:
    b = GraphBuilder("strassen")
    made = b.add(
        OpKind.STRASSEN_MATMUL, b.input("x", (8, 4)), b.constant(np.ones((7, 2, 4))), block=4
    )
    with pytest.raises(ModelError, match="accuracy 'exact'"):
        export_model(b.build([made]))

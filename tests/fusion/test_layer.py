"""Groups from plain shapes: equal to those of a graph, composable, refused with a way out."""

from __future__ import annotations

import re

import pytest

from autotune.errors import InputError, ModelError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group, layer
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.families import FAMILIES
from autotune.operators.op import OPERATORS, Family, OpKind

IMAGE, WEIGHT = (1, 8, 12, 12), (8, 8, 3, 3)


def residual() -> Graph:
    """Two convolutions with an activation between, and the first one's result added."""
    builder = GraphBuilder("residual")
    builder.input("x", IMAGE)
    for name in ("w1", "w2"):
        builder.input(name, WEIGHT)
    builder.add(OpKind.CONV, "x", "w1", output="c1", pads=(1, 1, 1, 1))
    builder.add(OpKind.RELU, "c1", output="r")
    builder.add(OpKind.CONV, "r", "w2", output="c2", pads=(1, 1, 1, 1))
    builder.add(OpKind.ADD, "c2", "c1", output="y")
    return builder.build(["y"])


def test_layers_make_the_group_that_the_graph_has() -> None:
    graph = residual()
    first = layer("conv", IMAGE, WEIGHT, pads=1, constants=())
    after = first.then("relu").then("conv", w=WEIGHT, pads=(1, 1, 1, 1), constants=())
    whole = after.then("add", first)
    assert whole.key == graph.group(["c1", "r", "c2", "y"]).key
    assert whole.structure == graph.group(["y", "c1", "r", "c2"]).structure
    assert first.key == graph.group("c1").key


def test_a_consumer_is_fused_as_the_graph_groups_it() -> None:
    graph = residual()
    pair = graph.group("c1").fuse(graph.group("r"), keep="c1")
    assert pair == graph.group(["c1", "r"])
    assert graph.group(["c1", "r"]).fuse(graph.group(["c2", "y"])) == graph.group(
        ["c1", "r", "c2", "y"]
    )
    alone = layer("relu", layer("conv", IMAGE, WEIGHT))
    assert layer("conv", IMAGE, WEIGHT).fuse(alone) == layer("conv", IMAGE, WEIGHT).then("relu")


def test_structure_tells_what_the_key_tells() -> None:
    product = layer("matmul", (4, 8), (8, 16))
    assert product.structure == layer("matmul", (4, 8), (8, 16), name="other").structure
    for other in (
        layer("matmul", (4, 8), (8, 17)),
        layer("matmul", (4, 8), (16, 8), trans_b=True),
        product.then("relu"),
    ):
        assert product.structure != other.structure
        assert product.key != other.key
    square = layer("relu", (4, 4))
    assert square.then("mul", square).structure != square.then("mul", (4, 4)).structure


ATTRIBUTES: dict[OpKind, dict[str, object]] = {
    OpKind.MAX_POOL: {"kernel": 2},
    OpKind.AVERAGE_POOL: {"kernel": [2, 2]},
    OpKind.STRASSEN_MATMUL: {"block": 3},
    OpKind.SLIDING_SUM: {"axis": -1, "before": 1, "after": 1},
    OpKind.SOFTMAX: {"axis": -1},
    OpKind.LAYER_NORM: {"axis": -1},
    OpKind.RMS_NORM: {"axis": -1},
    OpKind.CONCAT: {"axis": 1},
    OpKind.RESHAPE: {"shape": (2, 4, 144)},
    OpKind.TRANSPOSE: {"perm": (0, 2, 3, 1)},
    OpKind.SLICE: {"starts": (0,) * 4, "steps": (1,) * 4, "sizes": (1, 4, 6, 6)},
    OpKind.PAD: {"before": (0,) * 4, "after": (0, 0, 1, 1), "value": 0.0},
    OpKind.EXPAND: {"shape": IMAGE},
}
SHAPES: dict[Family, tuple[tuple[int, ...], ...]] = {
    Family.CONV: (IMAGE, WEIGHT, (8,)),
    Family.WINOGRAD: ((1, 12, 12, 8), (36, 8, 8)),
    Family.MATMUL: ((12, 8), (8, 4)),
    Family.STRASSEN: ((12, 8), (7, 4, 6)),
    Family.LAYER_NORM: (IMAGE, (12,)),
    Family.GATHER: ((100, 8), (3,)),
}


@pytest.mark.parametrize("kind", OPERATORS)
def test_every_kind_is_reached_by_its_name_and_analysed(kind: OpKind) -> None:
    row = OPERATORS[kind]
    shapes = SHAPES.get(row.family, (IMAGE,) * row.arity[0])
    attributes = ATTRIBUTES.get(kind, {})
    if row.family is Family.REDUCE:
        attributes = {"axes": -1}
    missing = [x for x in row.attrs if x not in attributes]
    scalars = {x: 0.5 for x in missing if row.family is Family.UNARY}
    group = layer(kind.value, *shapes, **(attributes | scalars))
    assert group.ops[0].kind is kind
    assert Group.from_json(group.to_json()) == group
    assert group.is_view or nests_of(group)


def test_every_family_names_its_operands() -> None:
    for row in OPERATORS.values():
        named = FAMILIES[row.family].operands
        assert len(named.names) >= row.arity[1] or row.family is Family.CONCAT
        assert named.weights <= set(named.names)
        assert not set(named.names) & {*row.attrs, *row.flags, *row.optional}


def test_weights_are_constants_unless_told() -> None:
    group = layer("conv", IMAGE, WEIGHT, b=(8,))
    assert {x.partition(".")[2] for x in group.constants} == {"w", "b"}
    assert layer("matmul", (4, 4), (4, 4), constants=()).constants == frozenset()
    made = layer("relu", (4, 4))
    assert layer("matmul", (4, 4), made).constants == frozenset()


REFUSED = {
    "no operator is named 'covn'; did you mean 'conv'?": lambda: layer("covn", IMAGE),
    "operand w is missing": lambda: layer("conv", IMAGE),
    "not 'pad'; did you mean 'pads'?": lambda: layer("conv", IMAGE, WEIGHT, pad=1),
    "axis is missing": lambda: layer("softmax", (4, 4)),
    "got 2 operands": lambda: layer("relu", (4,), (4,)),
    "relu: x is a shape such as": lambda: layer("relu", 4),
    "x is [4, 0]: extents must be ≥ 1": lambda: layer("relu", (4, 0)),
    "relu has no operand 'w'": lambda: layer("relu", (4,), constants="w"),
    "pads is a number or a sequence": lambda: layer("conv", IMAGE, WEIGHT, pads="same"),
    "no tensor in common": lambda: layer("relu", (4,)).fuse(layer("tanh", (5,))),
    "two operands are equal": lambda: layer("add", layer("relu", (4,)), layer("relu", (4,))),
    "residual has no operator 'c3'; did you mean": lambda: residual().group(["c1", "c3"]),
    "a path leaves them and comes back": lambda: residual().group(["c1", "y"]),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_built_is_refused_with_a_way_out(message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        REFUSED[message]()


def test_shapes_that_do_not_fit_are_the_operators_own_errors() -> None:
    with pytest.raises(ModelError, match="channels do not fit"):
        layer("conv", (1, 3, 12, 12), WEIGHT)


def test_a_group_is_shown_by_its_operators() -> None:
    group = layer("conv", IMAGE, WEIGHT, pads=1).then("relu").then("relu")
    assert repr(group).startswith("<Group of conv, relu × 2: reads [1, 8, 12, 12], [8, 8, 3, 3]")
    assert "<td>relu</td>" in group._repr_html_()

"""Each pass removes what it says, says why, and leaves what the graph computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from graph_cases import assert_equivalent, kinds_after, normal
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_case import imported, model_of, single

from autotune.datasets import random_graphs
from autotune.datasets.transformers import transformer_block
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.onnx_import import translate
from autotune.graph.op import OpKind
from autotune.graph.passes import PASSES, simplify
from autotune.graph.passes.affine_folding import AffineFolding
from autotune.graph.passes.constant_folding import ConstantFolding
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.graph.passes.gelu_pattern import GeluPattern
from autotune.graph.passes.identities import Identities
from autotune.graph.passes.layer_norm_pattern import LayerNormPattern
from autotune.graph.passes.pad_folding import PadFolding


def test_constant_expressions_become_constants() -> None:
    b = GraphBuilder("g")
    product = b.add(OpKind.MUL, b.constant(normal(0, 3)), b.constant(normal(1, 3)))
    y = b.add(OpKind.ADD, b.input("x", (3,)), b.add(OpKind.NEG, product))
    assert kinds_after(ConstantFolding(), b.build([y]), 2) == [OpKind.ADD]


def test_constants_that_would_be_huge_are_not_folded() -> None:
    b = GraphBuilder("g")
    table = b.add(OpKind.ADD, b.constant(normal(0, 8, 1)), b.constant(normal(1, 1, 8)))
    graph = b.build([b.add(OpKind.ADD, b.input("x", (8,)), table)])
    assert kinds_after(ConstantFolding(limit_bytes=255), graph, 0) == [OpKind.ADD, OpKind.ADD]
    assert kinds_after(ConstantFolding(limit_bytes=256), graph, 1) == [OpKind.ADD]


def test_what_no_output_needs_is_removed() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (3,))
    b.add(OpKind.MUL, x, b.constant(normal(0, 3)))
    graph = b.build([b.add(OpKind.RELU, x)])
    assert kinds_after(DeadNodes(), graph, 2) == [OpKind.RELU]
    assert not DeadNodes().run(graph).graph.constants


def test_unread_inputs_stay_part_of_the_interface() -> None:
    b = GraphBuilder("g")
    b.input("unread", (2,))
    graph = b.build([b.add(OpKind.RELU, b.input("x", (3,)))])
    assert simplify(graph).graph.inputs == ("unread", "x")


IDENTITIES = [
    (OpKind.RESHAPE, None, {"shape": (2, 3)}),
    (OpKind.TRANSPOSE, None, {"perm": (0, 1)}),
    (OpKind.CONCAT, None, {"axis": 0}),
    (OpKind.ADD, 0.0, {}),
    (OpKind.SUB, 0.0, {}),
    (OpKind.MUL, 1.0, {}),
    (OpKind.DIV, 1.0, {}),
    (OpKind.POW, 1.0, {}),
]


@pytest.mark.parametrize(("kind", "number", "attrs"), IDENTITIES)
def test_operators_that_change_nothing_go_also_at_an_output(kind, number, attrs) -> None:
    b = GraphBuilder("g")
    first = b.add(OpKind.RELU, b.input("x", (2, 3)))
    operands = () if number is None else (b.constant(np.full((1, 3), number)),)
    middle = b.add(kind, first, *operands, **attrs)
    y = b.add(OpKind.NEG, middle)
    assert kinds_after(Identities(), b.build([y]), 1) == [OpKind.RELU, OpKind.NEG]
    assert kinds_after(Identities(), b.build([middle]), 1) == [OpKind.RELU, OpKind.NEG]
    both = [op.kind for op in simplify(b.build([first, middle])).graph.ops]
    assert both == [OpKind.RELU, kind], "two outputs need two tensors"


def test_zero_minus_x_and_broadcasting_ones_are_no_identities() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (3,))
    negative = b.add(OpKind.SUB, b.constant(np.zeros(3)), x)
    wider = b.add(OpKind.MUL, x, b.constant(np.ones((2, 3))))
    assert len(kinds_after(Identities(), b.build([negative, wider]), 0)) == 2


def test_chains_of_views_become_one_view() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (2, 3, 4))
    y = b.add(OpKind.RESHAPE, b.add(OpKind.RESHAPE, x, shape=(6, 4)), shape=(24,))
    z = b.add(OpKind.TRANSPOSE, b.add(OpKind.TRANSPOSE, x, perm=(1, 2, 0)), perm=(2, 1, 0))
    back = b.add(OpKind.TRANSPOSE, b.add(OpKind.TRANSPOSE, x, perm=(1, 2, 0)), perm=(2, 0, 1))
    graph = b.build([y, z, b.add(OpKind.RELU, back)])
    after = simplify(graph).graph
    assert_equivalent(graph, after)
    assert sorted(op.kind for op in after.ops) == [OpKind.RELU, OpKind.RESHAPE, OpKind.TRANSPOSE]


def conv_chain(links: list[tuple[OpKind, np.ndarray]], bias: bool = True) -> Graph:
    b = GraphBuilder("g")
    operands = [b.input("x", (2, 3, 5, 5)), b.constant(normal(0, 4, 3, 3, 3))]
    y = b.add(OpKind.CONV, *operands, *([b.constant(normal(1, 4))] if bias else []))
    for kind, value in links:
        y = b.add(kind, y, b.constant(value))
    return b.build([b.add(OpKind.RELU, y)])


CHANNEL = np.abs(normal(5, 4, 1, 1)) + np.float32(0.5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "links",
    [
        [(OpKind.MUL, CHANNEL)],
        [(OpKind.ADD, CHANNEL)],
        [(OpKind.SUB, CHANNEL), (OpKind.DIV, CHANNEL)],
        [(OpKind.MUL, CHANNEL), (OpKind.ADD, CHANNEL)],
        [(OpKind.MUL, np.float32(3)), (OpKind.ADD, CHANNEL[None]), (OpKind.MUL, CHANNEL)],
    ],
)
def test_affine_operators_fold_into_the_convolution(links, bias: bool) -> None:
    kinds = kinds_after(AffineFolding(), conv_chain(links, bias), len(links))
    assert kinds == [OpKind.CONV, OpKind.RELU]


@pytest.mark.parametrize("value", [normal(0, 3), normal(0, 3, 1), normal(0, 2, 1, 1, 1)])
def test_constants_that_are_not_per_channel_stay(value: np.ndarray) -> None:
    graph = conv_chain([(OpKind.MUL, value)])
    assert kinds_after(AffineFolding(), graph, 0) == [OpKind.CONV, OpKind.MUL, OpKind.RELU]


def test_a_convolution_that_is_read_twice_or_is_an_output_is_not_folded() -> None:
    b = GraphBuilder("g")
    y = b.add(OpKind.CONV, b.input("x", (1, 3, 5, 5)), b.constant(normal(0, 4, 3, 3, 3)))
    z = b.add(OpKind.MUL, y, b.constant(CHANNEL))
    assert len(kinds_after(AffineFolding(), b.build([y, z]), 0)) == 2
    total = b.add(OpKind.ADD, y, z)
    assert len(kinds_after(AffineFolding(), b.build([total]), 0)) == 3


def test_weights_that_two_convolutions_share_are_folded_apart() -> None:
    b = GraphBuilder("g")
    x, w = b.input("x", (1, 3, 5, 5)), b.constant(normal(0, 4, 3, 3, 3))
    scaled = b.add(OpKind.MUL, b.add(OpKind.CONV, x, w), b.constant(CHANNEL))
    graph = b.build([scaled, b.add(OpKind.CONV, x, w)])
    assert kinds_after(AffineFolding(), graph, 1) == [OpKind.CONV, OpKind.CONV]


@pytest.mark.parametrize("trans_b", [0, 1])
def test_column_scales_fold_into_matmul_weights_but_additions_stay(trans_b: int) -> None:
    b = GraphBuilder("g")
    w = b.constant(normal(0, 5, 4) if trans_b else normal(0, 4, 5))
    y = b.add(OpKind.MATMUL, b.input("x", (3, 4)), w, trans_b=trans_b)
    y = b.add(OpKind.DIV, y, b.constant(2.0))
    y = b.add(OpKind.ADD, b.add(OpKind.MUL, y, b.constant(normal(2, 5))), b.constant(normal(3, 5)))
    assert kinds_after(AffineFolding(), b.build([y]), 2) == [OpKind.MATMUL, OpKind.ADD]


def test_imported_batch_norm_folds_into_its_convolution() -> None:
    positive = np.abs(normal(3, 4)) + np.float32(0.1)
    arrays = {
        "w": normal(0, 4, 3, 3, 3),
        "s": positive,
        "b": normal(1, 4),
        "m": normal(2, 4),
        "v": positive,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    graph = imported(model_of(nodes, {"x": [1, 3, 6, 6]}, ["y"], arrays))
    assert kinds_after(AffineFolding(), graph, 2) == [OpKind.CONV, OpKind.RELU]


@pytest.mark.parametrize("divide", [False, True])
@pytest.mark.parametrize("order", ["x*gate*half", "half*x*gate", "gate*half*x"])
def test_written_out_gelu_is_recognised_in_any_order(order: str, divide: bool) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (4, 5))
    root = b.constant(math.sqrt(2) if divide else 1 / math.sqrt(2))
    scaled = b.add(OpKind.DIV if divide else OpKind.MUL, x, root)
    gate = b.add(OpKind.ADD, b.constant(1.0), b.add(OpKind.ERF, scaled))
    factor = {"x": x, "gate": gate, "half": b.constant(0.5)}
    first, second, third = (factor[name] for name in order.split("*"))
    y = b.add(OpKind.MUL, b.add(OpKind.MUL, first, second), third)
    graph = b.build([y])
    assert kinds_after(GeluPattern(), graph, 1)[-1] is OpKind.GELU
    assert [op.kind for op in simplify(graph).graph.ops] == [OpKind.GELU]


def written_out_tanh_gelu(cubed: float, power: float, scale: float, swapped: bool) -> Graph:
    b = GraphBuilder("g")
    x = b.input("x", (3, 5))

    def pair(kind: OpKind, one: str, other: str) -> str:
        return b.add(kind, *((other, one) if swapped else (one, other)))

    cube = b.add(OpKind.POW, x, b.constant(power))
    inner = pair(OpKind.ADD, x, pair(OpKind.MUL, cube, b.constant(cubed)))
    scaled = pair(OpKind.MUL, inner, b.constant(scale))
    gate = pair(OpKind.ADD, b.add(OpKind.TANH, scaled), b.constant(1.0))
    half = pair(OpKind.MUL, x, b.constant(0.5))
    return b.build([pair(OpKind.MUL, half, gate)])


@pytest.mark.parametrize("swapped", [False, True])
def test_written_out_tanh_gelu_is_recognised(swapped: bool) -> None:
    graph = written_out_tanh_gelu(0.044715, 3.0, math.sqrt(2 / math.pi), swapped)
    assert kinds_after(GeluPattern(), graph, 1)[-1] is OpKind.GELU_TANH
    assert [op.kind for op in simplify(graph).graph.ops] == [OpKind.GELU_TANH]


@pytest.mark.parametrize(
    ("cubed", "power", "scale"),
    [(0.04, 3.0, 0.7978846), (0.044715, 2.5, 0.7978846), (0.044715, 3.0, 0.8)],
)
def test_other_constants_are_not_taken_for_tanh_gelu(
    cubed: float, power: float, scale: float
) -> None:
    graph = written_out_tanh_gelu(cubed, power, scale, swapped=False)
    assert OpKind.GELU_TANH not in kinds_after(GeluPattern(), graph, 0)


@pytest.mark.parametrize(
    ("root", "one", "half"), [(1.4, 1, 0.5), (2**0.5, 2, 0.5), (2**0.5, 1, 0.4)]
)
def test_other_constants_are_not_taken_for_gelu(root: float, one: float, half: float) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (4, 5))
    gate = b.add(OpKind.ERF, b.add(OpKind.DIV, x, b.constant(root)))
    gate = b.add(OpKind.ADD, gate, b.constant(one))
    y = b.add(OpKind.MUL, b.add(OpKind.MUL, x, gate), b.constant(half))
    assert OpKind.GELU not in kinds_after(GeluPattern(), b.build([y]), 0)


def written_layer_norm(twice: bool = False, epsilon: float = 1e-3) -> Graph:
    b = GraphBuilder("g")
    x = b.input("x", (2, 3, 8))
    mean = b.add(OpKind.REDUCE_MEAN, x, axes=(-1,))
    centred = b.add(OpKind.SUB, x, mean)
    again = b.add(OpKind.SUB, x, mean) if twice else centred
    variance = b.add(OpKind.REDUCE_MEAN, b.add(OpKind.MUL, again, again), axes=(-1,))
    deviation = b.add(OpKind.SQRT, b.add(OpKind.ADD, variance, b.constant(epsilon)))
    y = b.add(OpKind.MUL, b.add(OpKind.DIV, centred, deviation), b.constant(normal(0, 8)))
    return b.build([b.add(OpKind.ADD, y, b.constant(normal(1, 8)))])


@pytest.mark.parametrize("twice", [False, True])
def test_written_out_layer_norm_is_recognised(twice: bool) -> None:
    graph = written_layer_norm(twice)
    assert kinds_after(LayerNormPattern(), graph, 1)[-1] is OpKind.LAYER_NORM
    (op,) = simplify(graph).graph.ops
    assert op.float("epsilon") == pytest.approx(1e-3)


def test_simplify_reaches_a_fixed_point_and_every_note_speaks() -> None:
    graph = translate(transformer_block(tokens=8, width=16, heads=2), "t", {})
    result = simplify(graph)
    assert_equivalent(graph, result.graph)
    assert OpKind.ERF not in {op.kind for op in result.graph.ops}
    assert {str(note).split(":")[0] for note in result.notes} <= {one.name for one in PASSES}
    assert simplify(result.graph).notes == ()


def test_names_of_passes_differ() -> None:
    assert len({one.name for one in PASSES}) == len(PASSES)


def test_a_gemm_with_known_factors_imports_without_extra_operators() -> None:
    model, _ = single(
        "Gemm", [normal(0, 3, 4), normal(1, 4, 5), normal(2, 5)], 13, (1, 2), alpha=0.5, beta=3.0
    )
    assert [op.kind for op in imported(model).ops] == [OpKind.MATMUL, OpKind.ADD]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_simplified_workloads_compute_the_same(seed: int) -> None:
    (graph,) = random_graphs(np.random.default_rng(seed), 1)
    result = simplify(graph)
    if sum(t.elements for t in graph.types.values()) < 1 << 17:
        assert_equivalent(graph, result.graph, rtol=1e-3, atol=1e-4)
    assert simplify(result.graph).notes == ()


@pytest.mark.parametrize(
    ("kind", "value", "attrs", "folds"),
    [
        (OpKind.CONV, 0.0, {}, True),
        (OpKind.CONV, 1.0, {}, False),
        (OpKind.MAX_POOL, -math.inf, {"kernel": (3, 3)}, True),
        (OpKind.MAX_POOL, 0.0, {"kernel": (3, 3)}, False),
        (OpKind.AVERAGE_POOL, 0.0, {"kernel": (3, 3), "count_include_pad": 1}, True),
        (OpKind.AVERAGE_POOL, 0.0, {"kernel": (3, 3), "count_include_pad": 0}, False),
    ],
)
def test_padding_becomes_that_of_the_window(kind, value, attrs, folds) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (1, 2, 5, 4))
    padded = b.add(OpKind.PAD, x, before=(0, 0, 1, 0), after=(0, 0, 2, 1), value=value)
    weight = (b.constant(normal(0, 2, 2, 3, 3)),) if kind is OpKind.CONV else ()
    y = b.add(kind, padded, *weight, pads=(0, 1, 0, 1), **attrs)
    graph = PadFolding().run(b.build([y])).graph
    assert_equivalent(b.build([y]), graph)
    assert (graph.ops[-1].inputs[0] == "x") == folds


def test_padded_channels_are_not_the_window_s() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (1, 2, 5, 4))
    padded = b.add(OpKind.PAD, x, before=(0, 1, 0, 0), after=(0, 1, 0, 0), value=0.0)
    y = b.add(OpKind.CONV, padded, b.constant(normal(0, 2, 4, 3, 3)))
    assert PadFolding().run(b.build([y])).notes == ()


def test_slices_padding_and_stretching_that_change_nothing_go() -> None:
    b = GraphBuilder("g")
    x = b.add(OpKind.RELU, b.input("x", (2, 3)))
    whole = b.add(OpKind.SLICE, x, starts=(0, 0), steps=(1, 1), sizes=(2, 3))
    same = b.add(OpKind.EXPAND, whole, shape=(2, 3))
    bare = b.add(OpKind.PAD, same, before=(0, 0), after=(0, 0), value=1.0)
    turned = b.add(OpKind.SLICE, bare, starts=(1, 0), steps=(-1, 1), sizes=(2, 3))
    assert kinds_after(Identities(), b.build([turned]), 3) == [OpKind.RELU, OpKind.SLICE]

"""Counted work equals published figures and closed forms."""

from __future__ import annotations

import pytest

from autotune.datasets import light_path
from autotune.frontend.importing import load_onnx
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.work import flops, multiply_adds
from autotune.operators.op import OpKind


def one(kind: OpKind, *shapes: tuple[int, ...], **attrs) -> Graph:
    b = GraphBuilder("g")
    return b.build([b.add(kind, *(b.input(f"x{i}", s) for i, s in enumerate(shapes)), **attrs)])


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "adds", "operations"),
    [
        (OpKind.CONV, [(2, 4, 8, 8), (6, 2, 3, 3)], {"group": 2}, 2 * 6 * 36 * 18, 2 * 2 * 6 * 36 * 18),
        (OpKind.CONV, [(1, 1, 3, 3), (1, 1, 3, 3), (1,)], {}, 9, 19),
        (OpKind.MATMUL, [(5, 3, 4), (4, 7)], {}, 5 * 3 * 4 * 7, 2 * 5 * 3 * 4 * 7),
        (OpKind.MATMUL, [(4, 3), (7, 4)], {"trans_a": 1, "trans_b": 1}, 3 * 4 * 7, 2 * 3 * 4 * 7),
        (OpKind.ADD, [(2, 1), (1, 3)], {}, 0, 6),
        (OpKind.RELU, [(2, 3)], {}, 0, 6),
        (OpKind.MAX_POOL, [(1, 2, 4, 4)], {"kernel": (2, 2), "strides": (2, 2)}, 0, 2 * 4 * 4),
        (OpKind.REDUCE_SUM, [(4, 5)], {"axes": (1,)}, 0, 20),
        (OpKind.TRANSPOSE, [(4, 5)], {"perm": (1, 0)}, 0, 0),
    ],
)  # fmt: skip
def test_work_of_one_operator(kind, shapes, attrs, adds, operations) -> None:
    graph = one(kind, *shapes, **attrs)
    assert multiply_adds(graph.ops[0], graph) == adds
    assert flops(graph.ops[0], graph) == operations


def test_resnet50_has_its_published_multiply_adds() -> None:
    graph = load_onnx(light_path("light_resnet50"))
    # torchvision's table of weights lists 4.09 G for this variant (stride in the 3×3).
    assert sum(multiply_adds(op, graph) for op in graph.ops) == 4_089_184_256

"""A network specialised to classes of its inputs computes the same inside of them."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.input_class import AllEqual, Between, Classes, Equal
from autotune.graph.passes import simplify, specialise
from autotune.graph.passes.input_binding import InputBinding
from autotune.isa.formats import ALL_FORMATS, CACHED_BF16_FORMATS, Format, Formats
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from tests.graph.graph_cases import assert_equivalent, kinds_after
from tests.runtime.guards.guard_case import clipped, feeds, masked

SOME = np.array([[[1, 1, 0, 1, 0, 0, 1, 1]], [[1] * 8]], np.float32)
CASES: list[tuple[Graph, Classes, set[K]]] = [
    (masked(), {"mask": AllEqual(1.0)}, {K.SUB, K.ADD, K.MUL}),
    (masked(), {"mask": AllEqual(0.0)}, {K.SUB, K.MUL}),
    (masked(), {"mask": Equal(SOME)}, {K.SUB, K.MUL}),
    (clipped(), {"x": Between(0.0, 1.0)}, {K.CLIP, K.RELU}),
]


@pytest.mark.parametrize(("graph", "classes", "gone"), CASES)
def test_what_has_no_effect_in_the_class_goes(graph: Graph, classes: Classes, gone: set[K]) -> None:
    general = simplify(graph).graph
    made = specialise(general, classes)
    kinds = {op.kind for op in made.graph.ops}
    assert gone.isdisjoint(kinds)
    assert made.notes
    for seed in range(3):
        fed = feeds(graph, seed)
        fed |= {x: one.draw(np.asarray(fed[x], np.float32)) for x, one in classes.items()}
        assert_equivalent(general, made.graph, fed=fed)


def test_inputs_stay_the_interface_when_nothing_reads_them() -> None:
    made = specialise(simplify(masked()).graph, {"mask": AllEqual(1.0)}).graph
    assert made.inputs == ("q", "k", "mask")
    assert not made.consumers["mask"]


def test_binding_an_input_replaces_its_reads_alone() -> None:
    graph = masked()
    value = np.ones(graph.shape("mask"), np.float32)
    assert K.SUB in kinds_after(InputBinding({"mask": value}), graph, 1, {"mask": value})
    assert not InputBinding({}).run(graph).notes


@pytest.mark.parametrize("formats", [ALL_FORMATS, CACHED_BF16_FORMATS], ids=lambda f: f.text)
def test_what_stays_is_stored_as_before(formats: Formats) -> None:
    """On a CPU a rounded tensor that a softmax reads too is float32; on accelerators it is bf16."""
    b = GraphBuilder("g")
    scale = b.input("scale", (4, 32))
    x = b.add(K.BF16, b.add(K.MUL, b.input("x", (4, 32)), scale))
    w = b.constant(np.ones((32, 32), np.float32), "w", DType.BFLOAT16)
    y = b.add(K.BF16, b.add(K.RELU, b.add(K.MATMUL, x, w)))
    ends = b.add(K.SOFTMAX, y, axis=1), b.add(K.MATMUL, y, w)
    general = simplify(b.build(list(ends)), formats=formats).graph
    made = specialise(general, {"scale": AllEqual(1.0)})
    assert made.notes
    for name, kind in made.graph.types.items():
        assert kind.storage is general.types[name].storage, name
    stored = {x for x, kind in general.types.items() if kind.storage is Format.BF16}
    assert (y in stored) == (formats is ALL_FORMATS)
    assert [op.multiplied for op in made.graph.ops if op.kind is K.MATMUL] == [
        op.multiplied for op in general.ops if op.kind is K.MATMUL
    ]

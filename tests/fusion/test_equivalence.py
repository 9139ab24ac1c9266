"""EquivalenceClasses: groups that differ only in where they cut their inputs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autotune.cost_model.features import features
from autotune.fusion.analysis import analyse
from autotune.fusion.equivalence import EquivalenceClasses, representative, twin
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.schedule.space import enumerate_nest
from autotune.targets.opening import target
from tests.fusion.narrow_product import product

BURST = 64


def cut(
    shape: tuple[int, ...], sizes: tuple[int, ...], *starts: tuple[int, ...], kind: str = "sum"
) -> Group:
    """Pieces of one input, added up or, of one piece, pooled."""
    b = GraphBuilder("cut")
    x = b.input("x", shape)
    steps = (1,) * len(shape)
    pieces = [b.add(OpKind.SLICE, x, starts=at, steps=steps, sizes=sizes) for at in starts]
    y = b.add(OpKind.RELU, pieces[0])
    for piece in pieces[1:]:
        y = b.add(OpKind.ADD, y, piece)
    if kind == "pooled":
        window = {"kernel": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
        y = b.add(OpKind.MAX_POOL, y, **window)
    graph = b.build([y])
    return Group.from_graph(graph, [op.name for op in graph.ops])


def starts_of(group: Group) -> list[tuple[int, ...]]:
    return [op.ints("starts") for op in group.ops if op.kind is OpKind.SLICE]


def test_equal_pieces_of_a_sequence_have_one_twin() -> None:
    cells = [cut((20, 1, 128), (1, 1, 128), (step, 0, 0)) for step in range(20)]
    assert len({cell.key for cell in cells}) == 20
    assert len({representative(cell, BURST).key for cell in cells}) == 1


def test_pieces_of_one_tensor_keep_their_distance() -> None:
    found = starts_of(representative(cut((20, 1, 128), (1, 1, 128), (7, 0, 0), (9, 0, 0)), BURST))
    assert found == [(0, 0, 0), (2, 0, 0)]


def test_places_within_a_burst_stay() -> None:
    assert starts_of(representative(cut((1, 100), (1, 10), (0, 37)), BURST)) == [(0, 37 - 32)]
    assert starts_of(representative(cut((9, 5), (1, 5), (7, 0)), BURST)) == [(7, 0)]


def test_a_group_with_windows_has_no_other_twin() -> None:
    group = cut((4, 8, 6, 6), (1, 8, 6, 6), (2, 0, 0, 0), kind="pooled")
    assert representative(group, BURST) is group


def test_a_stored_group_has_the_key_of_its_twin() -> None:
    twins = EquivalenceClasses(BURST)
    for step in (0, 3, 5):
        for kind in ("sum", "pooled"):
            group = cut((6, 8, 6, 6), (1, 8, 6, 6), (step, 0, 0, 0), kind=kind)
            keys = twins.keys(group.key, group.canonical.to_json())
            assert keys == (twins.representative(group).key, group.key)


def test_a_stored_group_that_cuts_nothing_is_not_read() -> None:
    assert EquivalenceClasses(BURST).keys("key", "no group at all") == ("key", "key")


def test_products_of_int8_differ_by_whether_code_needs_their_zero_points() -> None:
    zeros = (-128, -127, -3, 0, 5, 127, 128)
    alike = {zero: representative(product(zero), BURST).key for zero in zeros}
    assert len({product(zero).key for zero in zeros}) == len(zeros)
    assert len({alike[zero] for zero in (-127, -3, 5, 127)}) == 1
    assert len(set(alike.values())) == 4, "-128, 0 and 128 stay apart"
    assert representative(product(5, 7), BURST).key != alike[5]


def test_a_stored_product_has_the_keys_of_its_twin() -> None:
    twins = EquivalenceClasses(BURST)
    for group in (product(5), product(0), product(-9, 4)):
        key = twin(group).key
        assert twins.keys(group.key, group.canonical.to_json()) == (key, key)
        assert twins.twin(group).key == twin(twin(group)).key == key


@given(data=st.data())
def test_the_cost_model_sees_no_difference_between_twins(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    sizes = tuple(data.draw(st.integers(1, n)) for n in shape)
    place = st.tuples(*(st.integers(0, n - size) for n, size in zip(shape, sizes, strict=True)))
    group = cut(shape, sizes, *data.draw(st.lists(place, min_size=1, max_size=3)))
    spec = target("edge").spec
    other = representative(group, spec.dram.burst_bytes)
    assert representative(other, spec.dram.burst_bytes).key == other.key
    nests, others = analyse(group), analyse(other)
    assert not isinstance(nests, Rejection) and not isinstance(others, Rejection)
    for nest, alike in zip(nests, others, strict=True):
        rng = np.random.default_rng(0)
        table = enumerate_nest(nest, spec.capacity, spec.cores, 32, rng)
        np.testing.assert_array_equal(features(nest, table, spec), features(alike, table, spec))

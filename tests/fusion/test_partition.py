"""Partitions and the quotient graph behind them."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import PlanError
from autotune.fusion.analysis import analyse
from autotune.fusion.edges import choices, edges
from autotune.fusion.greedy import LOADED_AS, greedy, unfused
from autotune.fusion.group import Group, is_connected, is_convex
from autotune.fusion.nest import Rejection
from autotune.fusion.partition import Partition
from autotune.fusion.quotient import Quotient
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.operators.op import Family, OpKind
from tests.drawn_graphs import array, graphs


def diamond() -> Graph:
    """a → b → d and a → c → d."""
    b = GraphBuilder("diamond")
    a = b.add(OpKind.RELU, b.input("x", (4, 4)))
    left, right = b.add(OpKind.TANH, a), b.add(OpKind.NEG, a)
    return b.build([b.add(OpKind.ADD, left, right)])


def residual(blocks: int = 2) -> Graph:
    """Blocks of relu(conv(relu(conv(x))) + x)."""
    b = GraphBuilder("residual")
    x = b.input("x", (1, 4, 6, 6))
    for _ in range(blocks):
        y = b.add(OpKind.RELU, conv(b, x))
        x = b.add(OpKind.RELU, b.add(OpKind.ADD, conv(b, y), x))
    return b.build([x])


def conv(b: GraphBuilder, x: str) -> str:
    return b.add(
        OpKind.CONV,
        x,
        b.constant(array(4, 4, 3, 3)),
        strides=(1, 1),
        pads=(1, 1, 1, 1),
        dilations=(1, 1),
        group=1,
    )


def names_of(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def check(graph: Graph, partition: Partition) -> None:
    """What a partition promises, checked with networkx."""
    assert sorted(n for names in partition.groups for n in names) == sorted(names_of(graph))
    assert all(is_convex(graph, set(names)) for names in partition.groups)
    assert all(is_connected(graph, set(names)) for names in partition.groups)
    blocks = [set(names) for names in partition.groups]
    assert nx.is_directed_acyclic_graph(nx.quotient_graph(graph.digraph, blocks))
    for producer, consumer in edges(graph):
        assert partition.home[producer] <= partition.home[consumer]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_fused_edges_give_a_convex_acyclic_partition(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_ops=8))
    every = edges(graph)
    fused = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    partition = Partition.from_edges(graph, fused)
    check(graph, partition)
    assert partition == Partition.from_edges(graph, reversed(fused))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_may_merge_agrees_with_convexity(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_ops=8))
    quotient = Quotient(graph)
    for producer, consumer in edges(graph):
        first, second = quotient.home(producer), quotient.home(consumer)
        if first == second:
            continue
        joint = set(quotient.together(first, second))
        rest = [set(names) for names in quotient.groups() if not joint & set(names)]
        merged = nx.quotient_graph(graph.digraph, [joint, *rest])
        assert quotient.may_merge(first, second) == nx.is_directed_acyclic_graph(merged)
        if quotient.may_merge(first, second) and data.draw(st.booleans()):
            quotient.merge(first, second)


def test_all_edges_fused_make_one_group() -> None:
    graph = diamond()
    assert Partition.from_edges(graph, edges(graph)).groups == (tuple(names_of(graph)),)


def test_an_edge_that_closes_a_cycle_is_refused() -> None:
    graph = diamond()
    a, left, right, add = names_of(graph)
    partition = Partition.from_edges(graph, [(a, left), (right, add)])
    assert partition.groups == ((a, left), (right, add))
    partition = Partition.from_edges(residual(1), [edges(residual(1))[0]])
    assert len(partition.groups) == 4
    cyclic = Partition.from_edges(graph, [(a, left), (left, add)])
    assert len(cyclic.groups) == 3 and not cyclic.fuses((left, add))


def test_an_edge_that_does_not_fit_is_refused() -> None:
    graph = diamond()
    partition = Partition.from_edges(graph, edges(graph), fits=lambda names: len(names) <= 2)
    assert max(map(len, partition.groups)) == 2


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ([(0, 1), (1,), (2,), (3,)], "two groups"),
        ([(0, 1), (2,)], "no group holds"),
        ([(0, 3), (1,), (2,)], "circle"),
        ([(0,), (1, 2), (3,)], "hang together"),
        ([(0, 1, 2, 3), ()], "without operators"),
    ],
)
def test_groups_that_are_no_partition_are_refused(
    groups: list[tuple[int, ...]], reason: str
) -> None:
    graph = diamond()
    ops = names_of(graph)
    with pytest.raises(PlanError, match=reason):
        Partition.of(graph, [tuple(ops[i] for i in group) for group in groups])


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(PlanError, match="'nobody'"):
        Partition.of(diamond(), [("nobody",)])


def test_of_brings_groups_and_operators_into_running_order() -> None:
    graph = diamond()
    a, left, right, add = names_of(graph)
    partition = Partition.of(graph, [(add,), (left, a), (right,)])
    assert partition.groups == ((a, left), (right,), (add,))
    with pytest.raises(PlanError, match="running order"):
        Partition(graph, ((add,), (a, left), (right,)))


def test_repeated_blocks_share_their_choices() -> None:
    one, three = residual(1), residual(3)
    inside = {choice.signature for choice in choices(one)}
    assert inside < {choice.signature for choice in choices(three)}
    assert all(len(choice.edges) >= 3 for choice in choices(three) if choice.signature in inside)


def test_greedy_appends_element_wise_operators_to_one_anchor() -> None:
    graph = residual(2)
    partition = greedy(graph, lambda names: True)
    check(graph, partition)
    kinds = [[op.kind for op in partition.group(i).ops] for i in range(len(partition.groups))]
    block = [[OpKind.CONV, OpKind.RELU], [OpKind.CONV, OpKind.ADD, OpKind.RELU]]
    assert kinds == block * 2


def test_greedy_joins_what_only_one_group_reads_however_often() -> None:
    b = GraphBuilder("gated")
    x = b.input("x", (4, 8))
    y = b.add(OpKind.RELU, x)
    gate = b.add(OpKind.SIGMOID, y)
    graph = b.build([b.add(OpKind.MUL, y, gate)])
    assert len(greedy(graph, lambda names: True).groups) == 1


def test_greedy_joins_what_both_branches_of_a_choice_read() -> None:
    b = GraphBuilder("choice")
    x, y = b.input("x", (4, 8)), b.input("y", (4, 8))
    mask = b.add(OpKind.LESS, x, y)
    kept, other = b.add(OpKind.KEEP_IF, x, mask), b.add(OpKind.KEEP_UNLESS, y, mask)
    graph = b.build([b.add(OpKind.ADD, kept, other)])
    assert len(greedy(graph, lambda names: True).groups) == 1


def test_greedy_asks_no_question_twice() -> None:
    graph, asked = residual(3), list[tuple[str, ...]]()

    def fits(names: tuple[str, ...]) -> bool:
        asked.append(names)
        return len(names) < 3

    greedy(graph, fits)
    assert asked and len(asked) == len(set(asked))


def test_greedy_leaves_apart_what_two_groups_read() -> None:
    graph = diamond()
    kinds = {len(names) for names in greedy(graph, lambda names: len(names) < 3).groups}
    assert kinds == {1, 2}


@settings(max_examples=40, deadline=None)
@given(graphs(max_ops=8))
def test_greedy_groups_are_legal_and_have_one_anchor(drawn: Graph) -> None:
    graph = simplify(drawn).graph

    def fits(names: tuple[str, ...]) -> bool:
        return not isinstance(analyse(Group.from_graph(graph, names)), Rejection)

    partition = greedy(graph, fits)
    check(graph, partition)
    plain = (Family.UNARY, Family.BINARY, Family.RESHAPE, *LOADED_AS)
    for index, names in enumerate(partition.groups):
        anchors = [op for op in partition.group(index).ops if op.family not in plain]
        assert len(anchors) <= 1
        assert len(names) == 1 or fits(names)


def test_greedy_lets_loads_do_what_only_one_operator_reads() -> None:
    b = GraphBuilder("gated")
    x = b.input("x", (1, 8, 6, 6))
    padded = b.add(OpKind.PAD, x, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=1.0)
    y = b.add(OpKind.CONV, padded, b.constant(np.ones((8, 8, 3, 3), np.float32)))
    half = {"steps": (1,) * 4, "sizes": (1, 4, 6, 6)}
    value = b.add(OpKind.SLICE, y, starts=(0, 0, 0, 0), **half)
    gate = b.add(OpKind.SIGMOID, b.add(OpKind.SLICE, y, starts=(0, 4, 0, 0), **half))
    graph = b.build([b.add(OpKind.MUL, value, gate)])
    partition = greedy(graph, lambda names: True)
    kinds = [{op.kind for op in partition.group(i).ops} for i in range(len(partition.groups))]
    assert kinds == [
        {OpKind.PAD, OpKind.CONV},
        {OpKind.SLICE, OpKind.SIGMOID, OpKind.MUL},
    ]


def test_greedy_leaves_apart_what_does_not_fit() -> None:
    graph = residual(1)
    assert greedy(graph, lambda names: False) == unfused(graph)


def test_unfused_has_a_group_per_operator() -> None:
    graph = residual(2)
    assert [names for (names,) in unfused(graph).groups] == names_of(graph)


def test_large_chains_are_partitioned() -> None:
    b = GraphBuilder("chain")
    x = b.input("x", (2, 2))
    for _ in range(200):
        x = b.add(OpKind.RELU, x)
    graph = b.build([x])
    rng = np.random.default_rng(0)
    fused = [edge for edge in edges(graph) if rng.random() < 0.5]
    assert len(Partition.from_edges(graph, fused).groups) == 200 - len(fused)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_merges_that_are_allowed_keep_the_groups_in_a_running_order(
    data: st.DataObject,
) -> None:
    graph = data.draw(graphs(max_ops=10))
    quotient = Quotient(graph)
    groups = {quotient.home(op.name) for op in graph.ops}
    for _ in range(data.draw(st.integers(0, 8))):
        first, second = (data.draw(st.sampled_from(sorted(groups))) for _ in range(2))
        if first == second:
            continue
        joint = set(quotient.together(first, second))
        rest = [set(names) for names in quotient.groups() if not joint & set(names)]
        merged = nx.quotient_graph(graph.digraph, [joint, *rest])
        allowed = nx.is_directed_acyclic_graph(merged)
        assert quotient.may_merge(first, second) == allowed
        if allowed:
            groups.discard({first, second}.difference({quotient.merge(first, second)}).pop())
    done: set[str] = set()
    for names in quotient.groups():
        outside = {p for name in names for p in graph.predecessors(name)} - set(names)
        assert outside <= done
        done |= set(names)
    assert quotient.groups() == Quotient(graph, quotient.groups()).groups()

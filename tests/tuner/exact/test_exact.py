"""Exact partition against all partitions of small graphs, and what its certificate says."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autotune.fusion.greedy import unfused
from autotune.fusion.group import Group, is_connected, is_convex
from autotune.fusion.partition import Names, Partition
from autotune.graph.graph import Graph
from autotune.tuner.exact.blocks import cheapest
from autotune.tuner.exact.certificate import Certificate
from autotune.tuner.exact.prover import Prover
from autotune.tuner.exact.wiring import Wiring, places
from autotune.tuner.problem import FusionProblem
from tests.drawn_graphs import graphs
from tests.tuner.exact.brute_force import least, partitions
from tests.tuner.exact.drawn_networks import networks
from tests.tuner.search_case import chain, residual


def convex_groups(graph: Graph) -> list[int]:
    """Every convex connected set of a small graph's operators."""
    wiring = Wiring(graph)
    return [
        members
        for members in range(1, 1 << len(graph.ops))
        if wiring.closed(members) == members and len(wiring.parts(members)) == 1
    ]


@given(networks())
def test_sets_are_convex_and_connected_as_groups_are(graph: Graph) -> None:
    wiring = Wiring(graph)
    for members in range(1, 1 << len(graph.ops)):
        names = set(wiring.names(members))
        assert (wiring.closed(members) == members) == is_convex(graph, names)
        assert (len(wiring.parts(members)) == 1) == is_connected(graph, names)
        assert wiring.members(names) == members


@given(networks())
def test_every_cut_is_a_partition_of_its_set(graph: Graph) -> None:
    wiring = Wiring(graph)
    for members in convex_groups(graph):
        others = [1 << at for at in range(len(graph.ops)) if not members >> at & 1]
        for parts in wiring.cuts(members):
            Partition.of(graph, [wiring.names(one) for one in (*parts, *others)])


@given(graphs())
def test_alike_sets_have_equal_group_keys(graph: Graph) -> None:
    assume(all(graph.consumers[op.output] or op.output in graph.outputs for op in graph.ops))
    wiring = Wiring(graph)
    keys: dict[object, str] = {}
    for at in range(len(graph.ops)):
        for other in (at, *places(wiring.readers[at])):
            members = wiring.closed(1 << at | 1 << other)
            key = Group.from_graph(graph, wiring.names(members)).key
            assert keys.setdefault(wiring.alike(members), key) == key


def test_repeated_blocks_are_alike() -> None:
    graph = residual(3)
    wiring = Wiring(graph)
    blocks = [wiring.members(op.name for op in graph.ops[i : i + 5]) for i in (0, 5, 10)]
    assert wiring.alike(blocks[0]) == wiring.alike(blocks[1])


@given(networks(), st.integers(0, 2**32 - 1))
def test_the_cheapest_columns_cost_what_the_cheapest_partition_does(
    graph: Graph, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    wiring = Wiring(graph)
    columns = {m: float(rng.uniform(0, m.bit_count())) for m in convex_groups(graph)}
    found = cheapest(wiring, columns)
    assert found.groups is not None
    chosen = Partition.of(graph, [wiring.names(members) for members in found.groups])
    assert found.bound == pytest.approx(sum(columns[wiring.members(g)] for g in chosen.groups))
    assert found.bound == pytest.approx(
        least(graph, lambda names: columns.get(wiring.members(names)))
    )


class Tensors:
    """Prices a group by the tensors that it touches, and 5 for its launch. A quick look finds up to
    ``excess`` more, by a hash of the group."""

    def __init__(self, excess: float = 0.0, largest: int = 32) -> None:
        self.excess, self.largest = excess, largest
        self.deep: set[str] = set()
        self.priced: list[str] = []

    def legal(self, group: Group) -> bool:
        return len(group.ops) <= self.largest

    def prepare(self, groups: Iterable[Group]) -> None:
        self.priced += [group.key for group in groups]

    def deepen(self, groups: Iterable[Group]) -> None:
        self.deep |= {group.key for group in groups}

    def exact(self, group: Group) -> float:
        return 5.0 + len(group.inputs) + 1.5 * len(group.outputs)

    def cost(self, group: Group) -> float | None:
        if not self.legal(group):
            return None
        share = 0.0 if group.key in self.deep else int(group.key[:4], 16) / 0xFFFF
        return self.exact(group) * (1.0 + self.excess * share)


def best_by(graph: Graph, prices: Tensors) -> float:
    """The least cost of any partition by exact prices."""

    def price(names: Names) -> float | None:
        group = Group.from_graph(graph, names)
        return prices.exact(group) if prices.legal(group) else None

    return least(graph, price)


@given(networks(), st.sampled_from([1, 2, 3, 32]))
def test_the_proved_partition_is_the_cheapest(graph: Graph, largest: int) -> None:
    prices = Tensors(largest=largest)
    problem = FusionProblem(graph, prices)
    proof = Prover(problem).prove([unfused(graph)])
    assert proof.certificate.gap == 0.0
    assert problem.legal_cost(proof.partition) == pytest.approx(best_by(graph, prices))


@given(networks())
def test_quick_looks_that_are_a_twelfth_too_dear_do_not_mislead(graph: Graph) -> None:
    prices = Tensors(excess=1 / 12)
    problem = FusionProblem(graph, prices)
    proof = Prover(problem).prove([unfused(graph)])
    assert problem.legal_cost(proof.partition) == pytest.approx(best_by(graph, prices))
    chosen = {problem.group(names).key for names in proof.partition.groups}
    assert chosen <= prices.deep


@given(networks(5))
def test_no_start_is_cheaper_than_what_is_proved(graph: Graph) -> None:
    problem = FusionProblem(graph, Tensors())
    prover = Prover(problem)
    for start in partitions(graph):
        proof = prover.prove([start])
        assert problem.legal_cost(proof.partition) <= problem.legal_cost(start) + 1e-9


def test_groups_of_a_start_are_priced_though_their_parts_promise_nothing() -> None:
    graph = chain(6)
    start = Partition.of(graph, [[op.name for op in graph.ops]])

    class Surprising(Tensors):
        def exact(self, group: Group) -> float:
            return {1: 1.0, 6: 4.0}.get(len(group.ops), 9.0)

    prices = Surprising()
    problem = FusionProblem(graph, prices)
    proof = Prover(problem).prove([unfused(graph), start])
    assert proof.partition == start and proof.certificate.groups >= 7


def test_equal_groups_are_priced_once() -> None:
    prices = Tensors(largest=2)
    Prover(FusionProblem(residual(6), prices)).prove([unfused(residual(6))])
    few = Tensors(largest=2)
    Prover(FusionProblem(residual(3), few)).prove([unfused(residual(3))])
    assert len(set(prices.priced)) == len(set(few.priced))


def test_a_network_of_two_thousand_operators_is_proved() -> None:
    graph = chain(2000)
    problem = FusionProblem(graph, Tensors(largest=4))
    proof = Prover(problem).prove([unfused(graph)])
    assert proof.certificate.gap == 0.0 and len(proof.partition.groups) == 500


def test_a_certificate_says_what_is_proved() -> None:
    assert Certificate(12.0, 12.0, 3456, 99).statement == (
        "optimal for these costs over 3,456 groups"
    )
    assert Certificate(12.3, 12.0, 3456, 99).statement == (
        "at most 2.50% above the best of 3,456 groups for these costs"
    )

"""Looking beside a partition finds groups that growth by one operator does not reach."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from autotune.fusion.greedy import LARGEST, unfused
from autotune.fusion.group import Group, is_connected, is_convex
from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.tuner.exact.family import Family
from autotune.tuner.exact.neighbourhood import LOOKS, Neighbourhood
from autotune.tuner.exact.prover import Prover
from autotune.tuner.exact.wiring import Wiring
from autotune.tuner.problem import FusionProblem
from tests.tuner.exact.drawn_networks import networks
from tests.tuner.search_case import chain, residual


class Barrier:
    """An operator costs 10, and so does each of a group; but groups of the sizes in ``paying`` cost as said."""

    def __init__(self, paying: dict[int, float]) -> None:
        self.paying = paying
        self.priced: list[int] = []

    def legal(self, group: Group) -> bool:
        return True

    def prepare(self, groups: Iterable[Group]) -> None:
        self.priced += [len(group.ops) for group in groups]

    def deepen(self, groups: Iterable[Group]) -> None:
        """Quick looks are exact."""

    def cost(self, group: Group) -> float | None:
        size = len(group.ops)
        return self.paying.get(size, 10.0 * size * (1.0 if size == 1 else 1.5))


def proved(graph: Graph, costs: Barrier, start: Partition | None = None) -> float:
    problem = FusionProblem(graph, costs)
    proof = Prover(problem).prove([unfused(graph), *([] if start is None else [start])])
    return problem.legal_cost(proof.partition)


def cut(graph: Graph, *sizes: int) -> Partition:
    """The graph's operators in order, in groups of these sizes."""
    names, groups = [op.name for op in graph.ops], list[list[str]]()
    for size in sizes:
        groups.append(names[:size])
        names = names[size:]
    return Partition.of(graph, groups)


def test_two_groups_become_one_behind_a_barrier() -> None:
    """Groups of 5 to 7 operators are dear, one of 8 is cheap: growth from 4 ends at 5."""
    graph = chain(8)
    assert proved(graph, Barrier({4: 20.0, 8: 10.0}), cut(graph, 4, 4)) == 10.0


def test_three_groups_become_one_behind_a_barrier() -> None:
    graph = chain(12)
    assert proved(graph, Barrier({4: 20.0, 12: 10.0}), cut(graph, 4, 4, 4)) == 10.0


def test_two_groups_are_cut_elsewhere_behind_a_barrier() -> None:
    """Halves of 6 cost 15 each; 4 and 8 operators, which is as many, cost 40 and 5."""
    graph = chain(12)
    costs = Barrier({6: 15.0, 3: 12.0, 9: 5.0})
    assert proved(graph, costs, cut(graph, 6, 6)) == 17.0


def test_groups_of_the_last_look_are_looked_at_closely() -> None:
    """By a quick look the union hopes for 0.4 % less than its parts: too little for another look. It costs half."""

    class Deeper(Barrier):
        def deepen(self, groups: Iterable[Group]) -> None:
            if any(len(group.ops) == 8 for group in groups):
                self.paying[8] = 20.0

    graph = chain(8)
    assert proved(graph, Deeper({4: 20.0, 8: 43.3}), cut(graph, 4, 4)) == 20.0


def test_no_more_than_so_many_kinds_are_priced() -> None:
    graph = chain(40)
    costs = Barrier({10: 30.0})
    problem = FusionProblem(graph, costs)
    family = Family(problem, Wiring(graph))
    family.grow(1 << at for at in range(40))
    plan = cut(graph, 10, 10, 10, 10)
    groups = [family.wiring.members(names) for names in plan.groups]
    family.include(groups)
    before = family.kinds
    count = Neighbourhood(family.wiring, groups).look(family)
    assert 0 < count <= LOOKS and family.kinds == before + count


def test_equal_neighbours_are_looked_at_once() -> None:
    graph = residual(6)
    wiring = Wiring(graph)
    starts = range(0, len(graph.ops), 5)
    groups = [wiring.members(op.name for op in graph.ops[i : i + 5]) for i in starts]
    pairs = Neighbourhood(wiring, groups).pairs
    kinds = {wiring.alike(first | second) for first, second in pairs}
    assert len(pairs) == len(kinds) < len(groups) - 1


@given(networks(), st.data())
def test_what_lies_beside_a_partition_may_be_a_group(graph: Graph, data: st.DataObject) -> None:
    """Unions are convex and hang together; so do the parts of their cuts, whatever the partition."""
    wiring = Wiring(graph)
    groups = [1 << at for at in range(len(graph.ops))]
    for _ in range(data.draw(st.integers(0, 3))):
        pairs = Neighbourhood(wiring, groups).pairs
        if not pairs:
            break
        first, second = data.draw(st.sampled_from(pairs))
        groups = [one for one in groups if one not in (first, second)] + [first | second]
    beside = Neighbourhood(wiring, groups)
    unions = [first | second for first, second in beside.pairs]
    for members in (
        *unions,
        *beside.triples,
        *(p for u in unions for c in wiring.cuts(u) for p in c),
    ):
        names = set(wiring.names(members))
        assert is_convex(graph, names) and is_connected(graph, names)
        assert len(names) <= LARGEST


def test_a_kind_that_found_no_room_is_priced_when_it_is_considered_again() -> None:
    graph = chain(9)
    problem = FusionProblem(graph, Barrier({}))
    family = Family(problem, Wiring(graph))
    family.grow(1 << at for at in range(9))
    wide = [0b111111, 0b1111111, 0b11111111]
    assert [family.price(one) for one in wide] == [None] * 3
    assert family.consider(wide, 2) == 2 and family.price(wide[2]) is None
    assert family.consider(wide, 2) == 1 and family.consider(wide, 2) == 0
    assert all(family.price(one) is not None for one in wide)

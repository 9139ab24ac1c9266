"""Tests of ``autotune.tuner.partitioners.cutting``."""

from __future__ import annotations

from collections.abc import Iterable

from autotune import api
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.tuner.partitioners.cutting import cut_groups
from autotune.tuner.problem import FusionProblem


class Squares:
    """Costs that grow by ``power`` with the operators of a group."""

    def __init__(self, power: float) -> None:
        self.power = power

    def prepare(self, groups: Iterable[Group]) -> None:
        """Do nothing."""

    def deepen(self, groups: Iterable[Group]) -> None:
        """Do nothing."""

    def legal(self, group: Group) -> bool:
        """Return True."""
        return True

    def cost(self, group: Group) -> float:
        """Return the power of the number of operators."""
        return float(len(group.ops)) ** self.power


def test_groups_are_cut_before_products_where_that_is_cheaper() -> None:
    graph = api.load_network("mlp")
    whole = Partition.of(graph, [[op.name for op in graph.ops]])
    products = [op.name for op in graph.ops if op.kind.value == "matmul"]
    cut = cut_groups(FusionProblem(graph, Squares(2.0)), whole)
    assert len(cut.groups) == len(products) > 1
    assert [names[0] for names in cut.groups] == products
    assert cut_groups(FusionProblem(graph, Squares(0.5)), whole) == whole

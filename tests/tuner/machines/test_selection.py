"""Which machines are searched: those whose plans are farthest above what no plan undercuts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.targets.components import read_components
from autotune.targets.opening import load_spec
from autotune.targets.settings import Setting
from autotune.tuner.machines.counting import count
from autotune.tuner.machines.exploration import price
from autotune.tuner.machines.explored import Explored
from autotune.tuner.machines.figures import MachinePoint, NetworkFigures
from autotune.tuner.machines.menu import menu_of
from autotune.tuner.machines.proposals import all_designs
from autotune.tuner.machines.selection import farthest_above_bound
from autotune.tuner.machines.space import Space
from autotune.tuner.progress import silent
from tests.tuner.search_case import residual

GRID = (
    *("matrix.rows,matrix.cols=16", "dram.bytes_per_cycle=3.2,6.4,12.8", "vector.lanes=16"),
    *("scratchpad.size_bytes=256Ki", "cores=1", "matrix.dataflow=os"),
)
GRAPH = residual(1)


@pytest.fixture(scope="module")
def counted() -> list[Explored]:
    edge = load_spec("edge")
    space = Space.around(edge, map(Setting.parse, GRID), read_components())
    menu = menu_of(GRAPH, [edge], 0, silent)
    return [count(price(design, [menu]), [GRAPH], 1) for design in all_designs(space)]


def slowed(machine: Explored, factor: int) -> Explored:
    (figures,) = machine.point.outcomes
    assert isinstance(figures, NetworkFigures)
    slower = replace(figures, cycles=figures.cycles * factor)
    point = machine.point
    return replace(machine, point=MachinePoint(point.settings, point.spec, (slower,)))


@pytest.mark.parametrize("at", range(3))
def test_the_machine_farthest_above_its_bound_is_next(counted: list[Explored], at: int) -> None:
    machines = [slowed(one, 9) if n == at else one for n, one in enumerate(counted)]
    assert farthest_above_bound(machines, [GRAPH]) == [machines[at]]


def test_searched_machines_are_not_searched_again(counted: list[Explored]) -> None:
    machines = [replace(slowed(counted[0], 9), searched=True), *counted[1:]]
    (chosen,) = farthest_above_bound(machines, [GRAPH])
    assert chosen in counted[1:]
    assert farthest_above_bound([replace(one, searched=True) for one in counted], [GRAPH]) == []

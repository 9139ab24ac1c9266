"""The algorithm of a convolution is searched like any other choice of its schedule."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from autotune.cost_model.estimate import Best, Estimate, Forecast
from autotune.cost_model.model import CostModel
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.steps.tiling import Floats
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.report.from_search import describe
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from autotune.tuner.objective import Objective
from autotune.tuner.ranking import DEEP, QUICK, Effort, Ranking


class Untrained:
    """Predicts the analytic estimate: a cost model that has learned nothing."""

    verifier = None

    def __init__(self, spec: HardwareSpec) -> None:
        self.spec = spec
        self.chooser = self

    def forecast(self, nest: Nest, table: ScheduleTable, best: Best | None = None) -> Forecast:
        """Of cycles alone."""
        cycles = ScratchpadAnalysis(nest, table, self.spec, best).estimate
        return Forecast(cycles, cycles[:, None], cycles, cycles, cycles)

    def completed(self, forecast: Forecast) -> Estimate:
        """Cycles in place of everything."""
        return Estimate(*(forecast.cycles,) * 6)

    def caution(self, group: Group, schedule: Schedule) -> float:
        """None: an estimate knows nothing of novelty."""
        return 1.0

    def rough(self, nest: Nest, table: ScheduleTable) -> Floats:
        """The order in which schedules are looked at."""
        return ScratchpadAnalysis(nest, table, self.spec).order()


def convolution(images: int, channels: int, image: int, outputs: int, stride: int) -> Group:
    """Of 3×3 taps; of one where it strides."""
    taps, b = 1 if stride > 1 else 3, GraphBuilder("conv")
    x = b.input("x", (images, channels, image, image))
    w = b.constant(np.zeros((outputs, channels, taps, taps), np.float32))
    y = b.add(OpKind.CONV, x, w, strides=(stride,) * 2, pads=(taps // 2,) * 4)
    graph = b.build([y])
    return Group.from_graph(graph, [op.name for op in graph.ops])


def best(group: Group, spec: HardwareSpec, effort: Effort) -> Schedule:
    ranking = Ranking(cast(CostModel, Untrained(spec)), spec, Objective.LATENCY, 0)
    return ranking.rank(group, effort).schedules[0]


@pytest.mark.parametrize("effort", [QUICK, DEEP], ids=["quick", "deep"])
@pytest.mark.parametrize(
    ("target", "shape", "gathers"),
    [
        ("server", (8, 512, 7, 512, 1), True),
        ("edge", (1, 256, 56, 512, 2), True),
        ("edge", (8, 64, 7, 64, 1), False),
    ],
)
def test_a_search_takes_patches_where_they_win_and_names_them(
    target: str, shape: tuple[int, int, int, int, int], gathers: bool, effort: Effort
) -> None:
    spec, group = load_spec(target), convolution(*shape)
    found = best(group, spec, effort)
    assert found.nests[0].im2col == gathers
    assert ("im2col" in describe(found)) == gathers

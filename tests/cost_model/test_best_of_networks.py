"""The best schedule of a group is the same whether all schedules are laid out, or only those that may be the best."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.cost_model.estimate import Best
from autotune.cost_model.model import CostModel
from autotune.cost_model.predictor import Predictor
from autotune.cost_model.prepared import REFINED
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.scratchpad.recording import RecordedNest
from autotune.datasets import NETWORKS, load
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.operators.axes import Layout
from autotune.runtime.session.opening import open_network
from autotune.schedule.space import enumerate_on
from autotune.targets.opening import load_spec
from autotune.tuner.heuristic_plan import heuristic_choices

MOST = 12
"""Groups of a network that are asked about: those of most operators."""
ENUMERATED = 300


def largest_groups(name: str, machine: str, folder: Path) -> list[Group]:
    """Different groups of a network's plan by rule."""
    spec = load_spec(machine)
    graph = open_network(load(name, folder), layout=Layout(spec.layout))
    groups = [choice.group for choice in heuristic_choices(graph, spec)]
    different = {group.structure: group for group in groups if not group.is_view}
    return sorted(different.values(), key=lambda group: -len(group.ops))[:MOST]


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["edge", "server"])
@pytest.mark.parametrize("name", NETWORKS)
def test_leaving_schedules_out_changes_no_answer(
    name: str, machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = largest_groups(name, machine, tmp_path)
    few = [Predictor.load(machine, tmp_path / "store.db").predict(group) for group in groups]
    monkeypatch.setattr(CostModel, "matter", lambda model, best: None)
    assert few == [Predictor.load(machine, tmp_path / "store.db").predict(g) for g in groups]


@pytest.mark.parametrize("name", ["light_squeezenet", "lstm", "transformer_block"])
def test_recordings_of_networks_have_the_bits_of_the_analysis(name: str, tmp_path: Path) -> None:
    """Of all schedules, and of the best where only these are laid out; of others the cycles are too few, but more."""
    spec, rng = load_spec("edge"), np.random.default_rng(0)
    left_out = 0
    for group in largest_groups(name, "edge", tmp_path)[:4]:
        for nest in nests_of(group):
            table = enumerate_on(nest, spec, ENUMERATED, rng)
            recorded, every = RecordedNest.of(nest, spec), ScratchpadAnalysis(nest, table, spec)
            np.testing.assert_array_equal(recorded.run(table).features, every.features)
            order = np.argsort(every.estimate, kind="stable")
            for limit in (np.inf, float(every.estimate[order[len(order) // 20]])):
                few = recorded.run(table, Best(REFINED, limit))
                best = order[:REFINED][every.estimate[order[:REFINED]] <= limit]
                found = np.argsort(few.estimate, kind="stable")[: len(best)]
                np.testing.assert_array_equal(found, best)
                np.testing.assert_array_equal(few.features[best], every.features[best])
                assert np.all(few.estimate <= every.estimate)
                left_out += int(np.sum(few.estimate < every.estimate))
    assert left_out > 100

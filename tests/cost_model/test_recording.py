"""Recorded analyses against those of NumPy, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.scratchpad.features import FEATURES
from autotune.cost_model.scratchpad.recording import RecordedNest
from autotune.fusion.nest import Nest
from autotune.operators.axes import Layout
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from tests.cost_model.measured import SPEC, drawn

ODD = replace(
    load_spec("edge"),
    cores=3,
    vector=replace(load_spec("edge").vector, lanes=24),
    layout="channels_last",
)
"""Cores and lanes that are no powers of two."""
MACHINES = {
    "small": SPEC,
    "odd": ODD,
    **{name: load_spec(name) for name in ("edge", "mobile", "server", "tpuv1-like")},
}


def assert_equal(
    recorded: RecordedNest, nest: Nest, table: ScheduleTable, spec: HardwareSpec
) -> None:
    """Every number that the learned model reads has the bits of NumPy's."""
    expected, found = ScratchpadAnalysis(nest, table, spec), recorded.run(table)
    for column, feature in enumerate(FEATURES):
        np.testing.assert_array_equal(
            found.features[:, column], expected.features[:, column], feature.name
        )
    for name in ("estimate", "dynamic_fj", "leak_fj", "moved_bytes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(6))
def test_a_recording_has_the_bits_of_the_analysis(seed: int, name: str, layout: Layout) -> None:
    """On drawn groups and machines, for tables and for each schedule alone; tables end in the middle of a block."""
    spec, rng = MACHINES[name], np.random.default_rng([seed, len(name)])
    _, nests, _ = drawn(rng, layout)
    for nest in nests:
        table = enumerate_on(nest, spec, 300, rng)
        if not len(table):
            continue
        recorded = RecordedNest.of(nest, spec)
        assert_equal(recorded, nest, table, spec)
        for row in range(0, len(table), 37):
            assert_equal(recorded, nest, table.take([row]), spec)

"""Drawn specs are plausible, within their ranges, reproduced by a seed, and machines that run programs."""

from __future__ import annotations

from itertools import islice

import pytest

from autotune.measure.measurement import Measured
from autotune.measure.runner import measure
from autotune.targets.drawn import (
    ALLOWED,
    BF16_RATES,
    INT8_RATES,
    RANGES,
    drawn_spec,
    drawn_specs,
    is_plausible,
)
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.plausibility import CHECKS
from autotune.targets.spec import DATAFLOWS, LAYOUTS
from autotune.tuner.sampling import sample_candidates

SPECS = drawn_specs(200, seed=3)


def test_a_seed_reproduces_specs_and_more_of_them_keep_the_first() -> None:
    assert drawn_specs(5, seed=3) == SPECS[:5]
    assert drawn_spec(3, 7) == SPECS[7]
    assert drawn_spec(4, 7).profile_id != SPECS[7].profile_id
    assert len({spec.profile_id for spec in SPECS}) == len(SPECS)


def test_every_drawn_spec_is_plausible_and_every_choice_occurs() -> None:
    assert all(map(is_plausible, SPECS))
    assert {spec.matrix.dataflow for spec in SPECS} == set(DATAFLOWS)
    assert {spec.layout for spec in SPECS} == set(LAYOUTS)
    assert {spec.scratchpad.ports for spec in SPECS} == {1, 2, 3, 4}
    assert {spec.cores for spec in SPECS} == {1, 2, 4, 8}
    assert {spec.matrix.bf16_macs_per_cell for spec in SPECS} == set(BF16_RATES)
    assert {spec.matrix.int8_macs_per_cell for spec in SPECS} == set(INT8_RATES)


def test_shipped_specs_lie_within_the_ranges() -> None:
    for spec in map(load_spec, spec_names()):
        assert is_plausible(spec), [c.name for c in CHECKS if c.finding(spec)]
        cells = spec.matrix.rows * spec.matrix.cols
        numbers = {
            "clock": spec.clock_hz,
            "side": cells**0.5,
            "lanes": spec.vector.lanes / spec.matrix.cols,
            "scratchpad": spec.scratchpad.size_bytes / cells,
            "banks": spec.scratchpad.banks / (spec.matrix.rows + spec.matrix.cols),
            "ridge": spec.peak_macs_per_cycle / spec.dram.bytes_per_cycle,
            "burst": spec.dram.burst_bytes,
            "row": spec.dram.row_bytes,
            "queue": spec.control.queue_depth,
        }
        assert spec.matrix.bf16_macs_per_cell in BF16_RATES
        assert spec.matrix.int8_macs_per_cell in INT8_RATES
        for name, value in numbers.items():
            assert RANGES[name].low <= value <= RANGES[name].high, (spec.name, name, value)


def test_only_findings_that_shipped_specs_have_are_allowed() -> None:
    shipped = [load_spec(name) for name in spec_names()]
    found = {c.name for c in CHECKS for spec in shipped if c.finding(spec) is not None}
    assert set(ALLOWED) == found


@pytest.mark.parametrize("spec", SPECS[:4], ids=lambda spec: spec.name)
def test_a_drawn_machine_runs_the_candidates_drawn_for_it(spec) -> None:
    candidates = list(islice(sample_candidates((), spec, seed=0), 4))
    results = list(measure(EmulatorTarget(spec), candidates, workers=1))
    assert all(isinstance(result, Measured) for result in results)

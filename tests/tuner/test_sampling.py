"""Drawing: calibration candidates are legal, of all networks, and quick to execute."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.fusion.analysis import analyse, nests_of
from autotune.fusion.group import is_connected, is_convex
from autotune.graph.passes.channels_last import WINDOWS
from autotune.isa.formats import Format
from autotune.lowering.lower import lower
from autotune.operators.axes import CHANNELS_LAST, Layout
from autotune.schedule.candidate import Candidate
from autotune.schedule.fit import check
from autotune.schedule.table import ScheduleTable
from autotune.targets.opening import target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.sampling import INSTRUCTIONS, grow_group, sample_candidates
from tests.drawn_graphs import graphs
from tests.tuner.search_case import EDGE, chain, residual

CONTROL = 2
"""Words that only wait or signal, at most, per instruction that works."""


def estimated(candidate: Candidate, spec: HardwareSpec) -> float:
    """Instructions that the candidate's program executes, from its schedule alone."""
    return sum(
        float(ScratchpadAnalysis(nest, ScheduleTable.of(nest, [part]), spec).instructions[0])
        for nest, part in zip(nests_of(candidate.group), candidate.schedule.nests, strict=True)
    )


@pytest.mark.parametrize("name", ["edge", "server"])
def test_drawn_programs_execute_the_instructions_estimated_and_no_more_than_allowed(
    name: str,
) -> None:
    machine = target(name)
    for candidate in islice(sample_candidates((residual(),), machine.spec, 3), 200):
        estimate = estimated(candidate, machine.spec)
        program = lower(candidate.group, candidate.schedule, machine.spec)
        counters = machine.time(program).counters
        worked = counters["instructions"] - counters["control_instructions"]
        assert worked == round(estimate) <= INSTRUCTIONS
        assert counters["control_instructions"] <= CONTROL * worked


def test_drawn_candidates_are_legal_and_of_all_networks() -> None:
    drawn = list(islice(sample_candidates((residual(),), EDGE.spec, 1), 150))
    for candidate in drawn:
        nests = analyse(candidate.group)
        assert isinstance(nests, tuple)
        limits = EDGE.spec.capacity, EDGE.spec.cores
        assert check(nests, candidate.schedule, *limits) is None
    networks = {candidate.network for candidate in drawn}
    assert "residual" in networks and any(n.startswith("workload:") for n in networks)
    assert {len(c.group.ops) for c in drawn} >= {1, 2, 3}


def test_candidates_are_in_the_layout_of_the_machine() -> None:
    for layout in Layout:
        spec = replace(EDGE.spec, layout=layout.value)
        drawn = islice(sample_candidates((residual(),), spec, 4), 120)
        windows = [op for c in drawn for op in c.group.ops if op.family in WINDOWS]
        last = [op.axes == CHANNELS_LAST for op in windows]
        assert windows and set(last) == {layout is Layout.CHANNELS_LAST}


def narrow(candidates: list[Candidate]) -> list[Candidate]:
    return [c for c in candidates if any(op.multiplied is not Format.FP32 for op in c.group.ops)]


def test_some_candidates_are_of_the_narrow_formats_that_the_machine_multiplies() -> None:
    """Under the names of their networks: what is held out by network is held out in every format."""
    spec = EDGE.spec
    drawn = list(islice(sample_candidates((chain(3),), spec, 5), 400))
    found = narrow(drawn)
    assert 0.1 * len(drawn) < len(found) < 0.5 * len(drawn)
    assert {op.multiplied for c in found for op in c.group.ops} >= {Format.INT8, Format.BF16}
    assert {c.network for c in found} <= {c.network for c in drawn if c not in found} | {
        c.network for c in drawn if c.network.startswith("workload:")
    }
    arrays = replace(spec.matrix, int8_macs_per_cell=0, bf16_macs_per_cell=0)
    alone = islice(sample_candidates((chain(3),), replace(spec, matrix=arrays), 5), 200)
    assert not narrow(list(alone))


def test_a_seed_reproduces_the_draw() -> None:
    one, two, other = (
        [c.key for c in islice(sample_candidates((), EDGE.spec, seed), 40)] for seed in (1, 1, 2)
    )
    assert one == two != other


@given(st.data())
def test_grown_sets_are_connected_and_convex(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_ops=8))
    size = data.draw(st.integers(1, 8))
    names = grow_group(graph, size, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert 1 <= len(names) <= size
    assert is_convex(graph, set(names)) and is_connected(graph, set(names))

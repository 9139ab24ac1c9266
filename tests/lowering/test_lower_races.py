"""Lowered programs are free of races, and not by more semaphores than the check can tell apart."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.isa.program import Program
from autotune.isa.verifier.proof import verify
from autotune.lowering import synchronisation
from autotune.lowering.lower import lower
from autotune.lowering.synchronisation import SemaphoreError
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.emulator.races import find_races
from tests.drawn_graphs import graphs
from tests.lowering.lowering_case import SPEC, block_program, lowered
from tests.races import RaceDetector
from tests.targets.emulator.race_case import SIGNALS, WAITS, found, semaphores, without

BOTH = (WAITS, SIGNALS)


@settings(max_examples=5 * settings().max_examples)
@given(st.data())
def test_semaphores_order_every_conflict(data: st.DataObject) -> None:
    assert find_races(lowered(data.draw(graphs()), data)) == ()


@given(st.data())
def test_few_semaphores_order_every_conflict(data: st.DataObject) -> None:
    """Programs that need more than there are share them."""
    with patch.object(synchronisation, "SEMAPHORES", 16):
        try:
            program = lowered(data.draw(graphs()), data)
        except SemaphoreError:
            reject()
    assert find_races(program) == ()


def test_a_group_of_fifty_nests_has_enough_semaphores() -> None:
    """Each window is an output that the next one reads with a halo, hence made in a nest of its own."""
    b = GraphBuilder("many")
    y = b.input("x", (1, 1, 1, 120))
    outputs = []
    for _ in range(50):
        y = b.add(K.MAX_POOL, y, kernel=(1, 2), strides=(1, 1), pads=(0,) * 4)
        outputs.append(y)
    graph = b.build(outputs=outputs)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    tile = NestSchedule((1, 1, 1, 8), (3, 0, 1, 2), ())
    program = lower(group, Schedule((tile,) * 50), SPEC)
    verify(program)
    assert not found(program)


def outcome(program: Program) -> str:
    """What is wrong with a program: nothing only where the oracle proves so."""
    try:
        races = found(program)
    except ProgramError as error:
        return "deadlock" if "deadlock" in str(error) else "imbalance"
    assert races == RaceDetector(program).run()
    return "race" if races else "harmless"


def outcomes(program: Program) -> Counter[tuple[str, str]]:
    """Of the program without the waits of one semaphore, without its signals, without both."""
    return Counter(
        (name, outcome(without(program, semaphore, *sides, core=core)))
        for core in range(len(program.streams))
        for semaphore in semaphores(program, core)
        for name, sides in (("wait", BOTH[:1]), ("signal", BOTH[1:]), ("pair", BOTH))
    )


@settings(max_examples=settings().max_examples // 4)
@given(st.data())
def test_a_semaphore_that_is_gone_is_noticed_or_proven_harmless(data: st.DataObject) -> None:
    counts = outcomes(lowered(data.draw(graphs(max_ops=3)), data))
    assert not {"race", "harmless"} & {what for side, what in counts if side != "pair"}


@pytest.mark.slow
def test_the_semaphores_of_two_convolutions() -> None:
    """Half of them say again what others say: after a loop, say, every unit waits for every other."""
    assert outcomes(block_program()) == {
        ("wait", "imbalance"): 41,
        ("signal", "deadlock"): 27,
        ("signal", "imbalance"): 14,
        ("pair", "race"): 21,
        ("pair", "harmless"): 20,
    }

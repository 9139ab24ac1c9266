"""Lowered programs are free of races, and not by more semaphores than the check can tell apart."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering_case import block_program, lowered
from race_case import SIGNALS, WAITS, found, semaphores, without

from autotune.errors import ProgramError
from autotune.isa.program import Program
from autotune.targets.races import find_races
from drawn_graphs import graphs
from races import RaceDetector

BOTH = (WAITS, SIGNALS)


@settings(max_examples=5 * settings().max_examples)
@given(st.data())
def test_semaphores_order_every_conflict(data: st.DataObject) -> None:
    assert find_races(lowered(data.draw(graphs()), data)) == ()


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

"""Programs whose units are ordered by semaphores, and what is left of them without some."""

from __future__ import annotations

from dataclasses import replace

from autotune.isa.fields import SEMAPHORES
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program
from autotune.targets.emulator.races import find_races
from tests.races import Found, RaceDetector

LIMIT = 1000
WAITS, SIGNALS = (tuple(f"{side}{k}" for k in range(3)) for side in ("wait", "signal"))
WORDS = {Opcode.WAIT: WAITS, Opcode.SIGNAL: SIGNALS}


def found(program: Program, parameters: dict[int, int] | None = None) -> set[Found]:
    """What the race check finds, in the terms of its oracle."""
    return {
        (
            race.kind,
            race.memory,
            (race.first.core, race.first.index),
            (race.second.core, race.second.index),
        )
        for race in find_races(program, parameters, LIMIT)
    }


def assert_as_the_oracle(program: Program, parameters: dict[int, int] | None = None) -> set[Found]:
    """The check finds what its oracle finds."""
    got = found(program, parameters)
    assert got == RaceDetector(program, parameters).run()
    return got


def without(program: Program, semaphore: int, *sides: tuple[str, ...], core: int = 0) -> Program:
    """The program without some uses of a semaphore: WAITS, SIGNALS or both (and then no credits)."""
    names = {name for side in sides for name in side}
    stream = [_released(i, semaphore, names) for i in program.streams[core]]
    kept = tuple(i for i in stream if i is not None)
    credits = tuple(
        0 if number == semaphore and len(sides) == 2 else count
        for number, count in enumerate(program.credits[core])
    )
    streams, all_credits = [*program.streams], [*program.credits]
    streams[core], all_credits[core] = kept, credits
    return replace(program, streams=tuple(streams), credits=tuple(all_credits))


def _released(i: Instruction, semaphore: int, names: set[str]) -> Instruction | None:
    """None where nothing is left; loops keep their places, so that an index may change."""
    if i.opcode in WORDS:
        gone = i.get("semaphore") == semaphore and names >= set(WORDS[i.opcode])
        return None if gone else i
    used = {name: 0 for name in names if i.get(name) == semaphore}
    return i.replace(**used) if used else i


def semaphores(program: Program, core: int = 0) -> list[int]:
    """Semaphores that a core's stream uses."""
    used = {0}
    for i in program.streams[core]:
        used |= {i.get("semaphore")} if i.opcode in WORDS else set()
        used |= {i.get(name) for name in (*WAITS, *SIGNALS)}
    assert max(used) < SEMAPHORES
    return sorted(used - {0})

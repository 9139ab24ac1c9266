"""The race check finds exactly what its oracle finds, on drawn programs and where a lowered one loses
a semaphore; what it does not find is proven harmless by the oracle."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.targets.emulator.races import SCRATCHPAD
from tests.targets.emulator.drawn_programs import drawn_program
from tests.targets.emulator.race_case import assert_as_the_oracle, found


@settings(max_examples=5 * settings().max_examples)
@given(st.integers(0, 1 << 32), st.integers(0, 8))
def test_drawn_programs_race_as_the_oracle_says(seed: int, value: int) -> None:
    assert_as_the_oracle(drawn_program(np.random.default_rng(seed)), {1: value})


def test_the_drawn_programs_meet_every_kind_of_race() -> None:
    met: Counter[tuple[str, bool, bool]] = Counter()
    for seed in range(60):
        for kind, memory, first, second in found(
            drawn_program(np.random.default_rng(seed)), {1: 4}
        ):
            met[kind, memory == SCRATCHPAD, first[0] != second[0]] += 1
    assert {kind for kind, _, _ in met} == {"RAW", "WAR", "WAW"}
    within = {(kind, pad) for kind, pad, across in met if not across}
    assert within >= {("RAW", True), ("WAR", True), ("WAW", True), ("RAW", False), ("WAR", False)}
    assert {kind for kind, pad, across in met if across and not pad} == {"RAW", "WAR", "WAW"}
    assert not any(across and pad for _, pad, across in met)

"""Each warning is given where it should be, says the numbers, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from autotune.targets.opening import load_spec, spec_names
from autotune.targets.plausibility import CHECKS, warnings_of
from autotune.targets.spec import HardwareSpec

SOUND = load_spec("mobile")


def altered(section: str, **numbers: Any) -> HardwareSpec:
    return replace(SOUND, **{section: replace(getattr(SOUND, section), **numbers)})


ODD = {
    "narrow scratchpad": (
        altered("matrix", rows=33, cols=34),
        "reads 67 words a cycle, a scratchpad port gives 64.*scratchpad.banks to 128",
    ),
    "slow DMA": (altered("dram", bytes_per_cycle=200.0), "200 bytes a cycle.*take 128"),
    "beyond reuse": (altered("dram", bytes_per_cycle=15.0), "68.3 multiply-adds.*allow 64.0"),
    "few sums": (
        replace(
            altered("scratchpad", accumulator_bytes=4 * 32 * 10),
            matrix=replace(SOUND.matrix, dataflow="ws"),
        ),
        "10 rows of sums.*INT8 behind its rows are 160",
    ),
    "long array": (
        replace(
            altered("scratchpad", size_bytes=24 * 60**2),
            dram=replace(SOUND.dram, bytes_per_cycle=100.0),
        ),
        "takes 66 vectors per fold.* has 60",
    ),
    "odd latency": (
        altered("dram", setup_cycles=0, column_cycles=1, activate_cycles=1),
        r"takes 3\.0 ns; DRAM takes 10 to 2000",
    ),
    "short row": (altered("dram", row_bytes=16), "row of 16 bytes is shorter than a burst of 32"),
    "cheap DRAM": (altered("energy", dram_read_byte_fj=100), "costs 100 fJ.*2500: are they"),
}
"""A spec for each check that differs in what it checks alone, and what is said of it."""


def test_a_sound_machine_has_no_warnings() -> None:
    assert warnings_of(SOUND) == ()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_an_odd_number_gets_its_one_warning(check: Any) -> None:
    spec, said = ODD[check.name]
    (warning,) = warnings_of(spec)
    assert warning == check.finding(spec)
    assert re.search(said, warning)


@pytest.mark.parametrize("latency", [1, 100_000])
def test_latencies_far_from_any_dram_are_odd(latency: int) -> None:
    assert len(warnings_of(altered("dram", setup_cycles=0, column_cycles=latency,
                                   activate_cycles=0))) == 1  # fmt: skip


@pytest.mark.parametrize("name", spec_names())
def test_shipped_specs_are_odd_only_where_the_published_machine_is(name: str) -> None:
    """In fp32 the TPU and Eyeriss are far below their ridge points; `edge` gives its array half of
    the words that it reads."""
    expected = {"tpuv1-like": ["beyond reuse"], "eyeriss-like": ["beyond reuse"],
                "edge": ["narrow scratchpad"]}  # fmt: skip
    spec = load_spec(name)
    assert [c.name for c in CHECKS if c.finding(spec) is not None] == expected.get(name, [])

"""Settings of specs: every key can be set, and bad ones are refused with the keys that there are."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from autotune.errors import AutotuneError, SpecError
from autotune.targets.opening import load_spec
from autotune.targets.settings import KEYS, Setting, assignments, with_settings

EDGE = load_spec("edge")


def own_value(key: str) -> object:
    """The base machine's value of a key."""
    section, dot, name = key.partition(".")
    return getattr(getattr(EDGE, section), name) if dot else getattr(EDGE, section)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_takes_its_own_value_and_changes_nothing(key: str) -> None:
    value = own_value(key)
    setting = Setting.parse(f"{key}={str(value).lower()}")
    made = with_settings(EDGE, assignments([setting])[0])
    assert made.profile_id == EDGE.profile_id
    assert type(setting.values[0]) is KEYS[key]


def test_every_number_of_a_spec_has_a_key() -> None:
    document = asdict(EDGE)
    apart = {"name", "description", "sources", "memory", "identity", "physical"}
    numbers = {
        f"{key}.{name}" if isinstance(value, dict) else key
        for key, value in document.items()
        if key not in apart
        for name in (value if isinstance(value, dict) else [key])
    }
    assert numbers == set(KEYS)


def test_keys_together_share_their_values_and_combinations_follow_the_order() -> None:
    settings = [Setting.parse("matrix.rows,matrix.cols=8,32"), Setting.parse("cores=1,2")]
    made = [with_settings(EDGE, one) for one in assignments(settings)]
    assert [(s.matrix.rows, s.matrix.cols, s.cores) for s in made] == [
        (8, 8, 1), (8, 8, 2), (32, 32, 1), (32, 32, 2),
    ]  # fmt: skip
    assert len({spec.profile_id for spec in made}) == 4


def test_whole_numbers_take_binary_units() -> None:
    assert Setting.parse("scratchpad.size_bytes=64Ki,1Mi").values == (1 << 16, 1 << 20)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dram.bytes=1", "dram has: dram.bytes_per_cycle"),
        ("speed=1", "known: cores, clock_hz"),
        ("physical.noise=0.1", "known: cores"),
        ("matrix.rows=x", "'x' is not a whole number"),
        ("matrix.rows=1.5", "not a whole number"),
        ("matrix.rows=8,8", "repeat"),
        ("matrix.rows", "is not KEY=VALUE"),
        ("matrix.rows=", "is not KEY=VALUE"),
        ("=8", "is not KEY=VALUE"),
        ("matrix.rows,clock_hz=8", "different kinds"),
    ],
)
def test_a_bad_setting_is_refused_with_the_way_out(text: str, told: str) -> None:
    with pytest.raises(AutotuneError, match=told):
        Setting.parse(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("matrix.dataflow=xs", "edge with matrix.dataflow=xs: .*one of: os, ws, is"),
        ("dram.banks=3", "dram.banks: 3 is not a power of two"),
        ("clock_hz=nan", "clock_hz: nan is not in"),
        ("layout=rows", "channels_first"),
    ],
)
def test_a_value_that_makes_no_machine_names_the_machine_and_the_key(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        with_settings(EDGE, assignments([Setting.parse(text)])[0])


def test_a_key_that_is_set_twice_is_refused() -> None:
    with pytest.raises(AutotuneError, match="cores: set twice"):
        assignments([Setting.parse("cores=1"), Setting.parse("cores=2")])

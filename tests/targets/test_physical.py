"""The physical state machine agrees with the closed forms of its circuit, its ages and its noise."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import SpecError
from autotune.targets.physical import (
    LIMITS,
    SLOWEST,
    Drift,
    PhysicalSpec,
    PhysicalState,
    after,
    at_temperature,
    beginning,
    conditions,
    noise_factor,
)

OFF = PhysicalSpec()
HEATS = PhysicalSpec(
    ambient_celsius=20.0,
    thermal_resistance_kelvin_per_watt=5.0,
    thermal_capacity_joule_per_kelvin=2.0,
    throttle_celsius=80.0,
    release_celsius=70.0,
    throttle_clock=0.5,
)
TAU_SECONDS = 10.0  # R·C of HEATS


def stepped(spec: PhysicalSpec, seconds: float, watts: float, steps: int = 1) -> PhysicalState:
    state = beginning(spec)
    for _ in range(steps):
        state = after(spec, state, seconds / steps, watts * seconds / steps)
    return state


def test_every_key_has_limits_and_the_defaults_switch_everything_off() -> None:
    keys = {field.name for kind in (PhysicalSpec, Drift) for field in fields(kind)}
    assert keys == set(LIMITS)
    assert not OFF.active
    state = after(OFF, beginning(OFF), 1e9, 1e9)
    assert conditions(OFF, state) == (1.0, 1.0)
    assert noise_factor(OFF, state) == 1.0
    assert state.temperature_celsius == OFF.ambient_celsius


def test_the_steady_state_is_ambient_plus_power_times_resistance() -> None:
    state = stepped(HEATS, 100 * TAU_SECONDS, 6.0)
    assert state.temperature_celsius == pytest.approx(20.0 + 6.0 * 5.0, rel=1e-12)


def test_after_one_time_constant_all_but_1_in_e_of_the_way_is_gone() -> None:
    state = stepped(HEATS, TAU_SECONDS, 6.0)
    assert state.temperature_celsius == pytest.approx(20.0 + 30.0 * (1 - 1 / math.e), rel=1e-12)
    cooled = after(HEATS, state, TAU_SECONDS, 0.0)
    assert cooled.temperature_celsius == pytest.approx(
        20.0 + 30.0 * (1 - 1 / math.e) / math.e, rel=1e-12
    )


@given(
    st.floats(1e-6, 1e3), st.floats(0, 1e3), st.integers(2, 40), st.floats(0.01, 100),
    st.floats(0.01, 100),
)  # fmt: skip
def test_a_step_in_parts_ends_where_the_whole_one_does(
    seconds: float, watts: float, steps: int, resistance: float, capacity: float
) -> None:
    spec = PhysicalSpec(20.0, resistance, capacity)
    whole, parts = stepped(spec, seconds, watts), stepped(spec, seconds, watts, steps)
    assert parts.temperature_celsius == pytest.approx(whole.temperature_celsius, rel=1e-9)
    assert parts.run_seconds == pytest.approx(whole.run_seconds)
    assert (whole.measurements, parts.measurements) == (1, steps)


@pytest.mark.parametrize(
    ("celsius", "from_cool", "from_throttled"),
    [(69.0, False, False), (70.0, False, False), (70.1, False, True), (79.9, False, True),
     (80.0, True, True), (200.0, True, True)],
)  # fmt: skip
def test_throttling_enters_at_its_limit_and_leaves_at_release(
    celsius: float, from_cool: bool, from_throttled: bool
) -> None:
    for was, becomes in ((False, from_cool), (True, from_throttled)):
        state = at_temperature(HEATS, PhysicalState(75.0, was), celsius)
        assert state.throttled is becomes
        assert conditions(HEATS, state)[0] == (0.5 if becomes else 1.0)


def test_heating_throttles_when_the_circuit_says_and_cooling_releases_when_it_says() -> None:
    watts = 20.0  # settles at 120 °C: 80 °C at t = τ·ln(100/40)
    enters = TAU_SECONDS * math.log(100 / 40)
    assert not stepped(HEATS, enters * 0.999, watts).throttled
    hot = stepped(HEATS, enters * 1.001, watts)
    assert hot.throttled
    leaves = TAU_SECONDS * math.log((hot.temperature_celsius - 20.0) / 50.0)
    assert after(HEATS, hot, leaves * 0.999, 0.0).throttled
    assert not after(HEATS, hot, leaves * 1.001, 0.0).throttled


@pytest.mark.parametrize("hours", [0.0, 0.5, 1.0, 3.0, 100.0])
def test_ageing_loses_the_same_fraction_every_hour(hours: float) -> None:
    spec = PhysicalSpec(bandwidth_aging_per_hour=0.02, clock_aging_per_hour=0.01)
    clock, bandwidth = conditions(spec, after(spec, beginning(spec), 3600 * hours, 1.0))
    assert (clock, bandwidth) == pytest.approx((0.99**hours, 0.98**hours), rel=1e-12)


def test_the_oldest_machine_still_runs() -> None:
    spec = PhysicalSpec(bandwidth_aging_per_hour=0.999, clock_aging_per_hour=0.999)
    assert conditions(spec, PhysicalState(20.0, run_seconds=1e12)) == (SLOWEST, SLOWEST)


def draws(spec: PhysicalSpec, count: int) -> list[float]:
    return [noise_factor(spec, PhysicalState(20.0, measurements=i)) for i in range(count)]


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
def test_noise_has_mean_1_and_the_stated_spread_and_is_log_normal(noise: float) -> None:
    count = 4000
    factors = np.array(draws(PhysicalSpec(noise=noise, noise_seed=3), count))
    sigma = math.sqrt(math.log1p(noise**2))
    # bounds of five standard errors: of a mean, and of the deviation of a normal logarithm
    assert abs(factors.mean() - 1) < 5 * noise / math.sqrt(count)
    assert abs(np.log(factors).std() / sigma - 1) < 5 / math.sqrt(2 * count)
    assert abs(np.log(factors).mean() + sigma**2 / 2) < 5 * sigma / math.sqrt(count)


def test_a_seed_and_a_number_fix_a_measurements_noise() -> None:
    spec = PhysicalSpec(noise=0.1, noise_seed=7)
    assert draws(spec, 20) == draws(spec, 20)
    assert len(set(draws(spec, 20))) == 20
    assert not set(draws(spec, 20)) & set(draws(PhysicalSpec(noise=0.1, noise_seed=8), 20))


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"throttle_clock": 0.0}, r"physical\.throttle_clock: 0\.0 is not in 0\.001\.\.1$"),
        ({"throttle_clock": 1.1}, r"physical\.throttle_clock: 1\.1 is not in"),
        ({"noise": -0.1}, r"physical\.noise: -0\.1 is not in 0\.\.1$"),
        ({"noise": math.nan}, r"physical\.noise: nan is not in"),
        ({"noise_seed": -1}, r"physical\.noise_seed: -1 is not in"),
        ({"clock_aging_per_hour": 1.0}, r"physical\.clock_aging_per_hour: 1\.0 is not in"),
        ({"throttle_celsius": math.inf}, r"physical\.throttle_celsius: inf is not in"),
        ({"throttle_celsius": 80.0}, r"physical\.release_celsius: 90\.0 is above throttle_celsius 80"),
        ({"thermal_resistance_kelvin_per_watt": 1.0}, r"physical\.thermal_capacity.*: 0\.0 with"),
    ],
)  # fmt: skip
def test_an_impossible_number_is_named(numbers: dict[str, float], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        PhysicalSpec(**numbers)


@pytest.mark.parametrize("key", [field.name for field in fields(Drift)])
@pytest.mark.parametrize("value", [-500.0, 2000.0, math.nan])
def test_an_impossible_drift_is_named(key: str, value: float) -> None:
    with pytest.raises(SpecError, match=rf"drift\.{key}: .* is not in"):
        Drift(**{key: value})

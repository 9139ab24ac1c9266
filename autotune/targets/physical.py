"""The physical state of an emulated machine: heat, throttling, aging, measurement noise. A pure state
machine between two executions; the emulator holds the state, a spec's ``[physical]`` the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotune.errors import SpecError

LIMITS: dict[str, tuple[float, float]] = {
    "ambient_celsius": (-273.15, 1000),
    "thermal_resistance_kelvin_per_watt": (0, 1e6),
    "thermal_capacity_joule_per_kelvin": (0, 1e9),
    "throttle_celsius": (-273.15, 1000),
    "release_celsius": (-273.15, 1000),
    "throttle_clock": (0.001, 1),
    "bandwidth_aging_per_hour": (0, 0.999),
    "clock_aging_per_hour": (0, 0.999),
    "noise": (0, 1),
    "noise_seed": (0, 2**63 - 1),
    "dram_bandwidth": (0.001, 10),
    "clock": (0.001, 10),
    "temperature_celsius": (-273.15, 1000),
}
"""Key of ``[physical]`` or of a drift to the least and greatest value that is possible."""

SLOWEST = 0.001
"""No factor falls below this, however old the machine is: cycles must stay countable."""


def _check(numbers: Any, names: tuple[str, ...], where: str) -> None:
    for name in names:
        value, (low, high) = getattr(numbers, name), LIMITS[name]
        if value is not None and not low <= value <= high:
            raise SpecError(f"{where}.{name}: {value} is not in {low:.15g}..{high:.15g}")


@dataclass(frozen=True, slots=True)
class PhysicalSpec:
    """Heat, aging and measurement noise of a machine; all off by default.

    One thermal mass is coupled to the ambient by a thermal resistance (0: no heating). From
    ``throttle_celsius`` on, the clock is ``throttle_clock`` times the nominal one, until
    ``release_celsius``. Aging is the fraction of bandwidth and clock lost per hour of run time.
    ``noise`` is the relative standard deviation of a measured time, drawn log-normal with mean 1
    from ``noise_seed``.
    """

    ambient_celsius: float = 25.0
    thermal_resistance_kelvin_per_watt: float = 0.0
    thermal_capacity_joule_per_kelvin: float = 0.0
    throttle_celsius: float = 100.0
    release_celsius: float = 90.0
    throttle_clock: float = 1.0
    bandwidth_aging_per_hour: float = 0.0
    clock_aging_per_hour: float = 0.0
    noise: float = 0.0
    noise_seed: int = 0

    def __post_init__(self) -> None:
        _check(self, tuple(self.__slots__), "physical")
        if self.release_celsius > self.throttle_celsius:
            raise SpecError(
                f"physical.release_celsius: {self.release_celsius} is above throttle_celsius "
                f"{self.throttle_celsius}; the clock is released at or below it"
            )
        if self.heats and self.thermal_capacity_joule_per_kelvin == 0:
            raise SpecError(
                "physical.thermal_capacity_joule_per_kelvin: 0.0 with a thermal resistance; "
                "a mass that takes time to heat has a capacity above 0"
            )

    @property
    def heats(self) -> bool:
        """True if power changes the temperature."""
        return self.thermal_resistance_kelvin_per_watt > 0

    @property
    def active(self) -> bool:
        """True if executions leave a trace; otherwise a machine has no physical state."""
        ages = self.bandwidth_aging_per_hour > 0 or self.clock_aging_per_hour > 0
        return self.heats or ages or self.noise > 0


@dataclass(frozen=True, slots=True)
class Drift:
    """Deviation of a machine from its spec.

    Factors on DRAM bandwidth and clock stay. The temperature is one to begin from (None: the
    current one). A noise replaces the spec's (None: the spec's).
    """

    dram_bandwidth: float = 1.0
    clock: float = 1.0
    temperature_celsius: float | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        _check(self, tuple(self.__slots__), "drift")


@dataclass(frozen=True, slots=True)
class PhysicalState:
    """A machine between two executions: ``run_seconds`` and ``measurements`` count what it ran."""

    temperature_celsius: float
    throttled: bool = False
    run_seconds: float = 0.0
    measurements: int = 0


def beginning(spec: PhysicalSpec) -> PhysicalState:
    """Return the state of a new machine at ambient temperature."""
    return at_temperature(spec, PhysicalState(spec.ambient_celsius), spec.ambient_celsius)


def at_temperature(spec: PhysicalSpec, state: PhysicalState, celsius: float) -> PhysicalState:
    """Return the state at another temperature, with the throttling that follows.

    Throttling is on from ``throttle_celsius``, off from ``release_celsius`` down, and unchanged in
    between.
    """
    hot = celsius >= spec.throttle_celsius
    throttled = hot or (state.throttled and celsius > spec.release_celsius)
    return replace(state, temperature_celsius=celsius, throttled=throttled)


def after(spec: PhysicalSpec, state: PhysicalState, seconds: float, joules: float) -> PhysicalState:
    """Return the state after an execution of ``seconds`` that turned ``joules`` into heat, evenly.

    It is the exact step of the RC circuit: T' = T∞ + (T − T∞)·exp(−t/RC) with T∞ = ambient + P·R.
    So two steps of equal power end where one step of both does.
    """
    moved = replace(
        state, run_seconds=state.run_seconds + seconds, measurements=state.measurements + 1
    )
    if seconds <= 0 or not spec.heats:
        return moved
    resistance = spec.thermal_resistance_kelvin_per_watt
    settled = spec.ambient_celsius + joules / seconds * resistance
    decay = math.exp(-seconds / (resistance * spec.thermal_capacity_joule_per_kelvin))
    return at_temperature(spec, moved, settled + (state.temperature_celsius - settled) * decay)


def conditions(spec: PhysicalSpec, state: PhysicalState) -> tuple[float, float]:
    """Return the factors on clock and DRAM bandwidth in a state: aging, and throttling of the
    clock."""
    hours = state.run_seconds / 3600
    clock = (1 - spec.clock_aging_per_hour) ** hours
    if state.throttled:
        clock *= spec.throttle_clock
    bandwidth = (1 - spec.bandwidth_aging_per_hour) ** hours
    return max(clock, SLOWEST), max(bandwidth, SLOWEST)


def noise_factor(spec: PhysicalSpec, state: PhysicalState) -> float:
    """Return the factor on the next measured time.

    It is log-normal with mean 1 and relative standard deviation ``noise``, a function of seed and
    measurement number alone.
    """
    if spec.noise == 0:
        return 1.0
    variance = math.log1p(spec.noise**2)  # of the logarithm
    rng = np.random.default_rng((spec.noise_seed, state.measurements))
    return float(rng.lognormal(-variance / 2, math.sqrt(variance)))

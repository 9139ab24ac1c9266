"""The emulated accelerator: verifies, loads and runs tile programs; a ``Target``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

from autotune.errors import InputError, ProgramError, SpecError
from autotune.isa.program import Program, Role
from autotune.isa.verifier.proof import verify
from autotune.kernels.emulator.engine import Loaded
from autotune.kernels.emulator.outcome import By, Outcome
from autotune.targets.arrays import array_for
from autotune.targets.emulator.counters import Counters
from autotune.targets.emulator.coverage import stored_in_full
from autotune.targets.emulator.energy import energy_fj
from autotune.targets.emulator.multiplied import check_formats
from autotune.targets.emulator.profile import Profile, profile_of
from autotune.targets.emulator.reading import Reading
from autotune.targets.emulator.trace import EVENT_LIMIT, Trace
from autotune.targets.physical import (
    Drift,
    PhysicalSpec,
    PhysicalState,
    after,
    at_temperature,
    beginning,
    conditions,
    noise_factor,
)
from autotune.targets.protocol import Array, Execution, Parameters
from autotune.targets.spec import HardwareSpec

LOADED_LIMIT = 512
"""Decoded programs in the cache; the least recently used goes first."""


class EmulatorTarget:
    """Runs programs on a spec's machine, by the engine's timing model.

    It is deterministic: equal programs cost the same. Several threads may use it side by side.
    ``name`` defaults to the spec's. A machine with physics (``[physical]`` of the spec, or noise by
    ``drift``) has a history instead. It runs one program at a time, each from the state that the
    last one left. The same series of programs costs the same again.
    """

    def __init__(self, spec: HardwareSpec, name: str | None = None) -> None:
        self._spec = spec
        self._name = spec.name if name is None else name
        self._drift = Drift()
        self._state = beginning(spec.physical) if spec.physical.active else None
        self._forget_process()

    def _forget_process(self) -> None:
        """Start with empty state that is meaningful in this process alone: locks, programs by
        id."""
        self._loaded: OrderedDict[int, _CachedProgram] = OrderedDict()
        self._lock = Lock()
        self._turn = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return spec, name, drift and physical state; a pickled machine continues from them."""
        private = ("_loaded", "_lock", "_turn")
        with self._lock:
            return {name: value for name, value in vars(self).items() if name not in private}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget_process()

    @property
    def name(self) -> str:
        """Name as the command line spells it."""
        return self._name

    @property
    def spec(self) -> HardwareSpec:
        """The machine."""
        return self._spec

    @property
    def physical_state(self) -> PhysicalState | None:
        """Current temperature, throttling and age; None while the machine's physics is off."""
        with self._lock:
            return self._state

    def drift(self, drift: Drift) -> None:
        """Let the machine deviate from its spec by ``drift`` alone, from now on.

        Spec and profile id stay; ``Drift()`` undoes it. Running executions are not affected; a
        machine with a physical state waits for the current one. Raises ``SpecError`` for a
        temperature on a machine that does not heat.
        """
        if drift.temperature_celsius is not None and not self._spec.physical.heats:
            raise SpecError(
                f"drift.temperature_celsius: {drift.temperature_celsius:g} on {self._name}, which "
                "does not heat; give its spec [physical] thermal_resistance_kelvin_per_watt"
            )
        with self._turn, self._lock:
            # the temperature is where the state goes on from, not a thing that stays
            self._drift = replace(drift, temperature_celsius=None)
            self._state = _state_after_drift(self._physical(self._drift), self._state, drift)

    def derate(self, dram_bandwidth: float) -> None:
        """Multiply the spec's DRAM bytes per cycle by ``dram_bandwidth`` from now on; keep other
        drift.

        Raises ``SpecError`` as ``Drift`` does.
        """
        self.drift(replace(self._drift, dram_bandwidth=float(dram_bandwidth)))

    def prepare(self, program: Program) -> None:
        """Verify and decode a program ahead of its first run, which then waits for neither. Raises ``ProgramError``."""
        self._load(program)

    def time(self, program: Program, parameters: Parameters | None = None) -> Execution:
        """Return the cost of a program, without numerics; CASEs dispatch on ``parameters``.

        Raises ``ProgramError`` for an illegal program, and for a parameter without a value.
        """
        return self._execute(_Request(self._load(program).loaded, parameters=parameters)).execution

    def profile(
        self,
        program: Program,
        tensors: Mapping[str, Array] | None = None,
        parameters: Parameters | None = None,
    ) -> Profile:
        """Execute as ``run`` does (as ``time`` without tensors); return costs by mark and
        instruction."""
        cached = self._load(program)
        arrays = None if tensors is None else cached.arrays(tensors)
        request = _Request(cached.loaded, arrays, parameters, tuple(By))
        result = self._execute(request)
        return profile_of(
            program, request.loaded.marks, result.execution, result.outcome, self._spec
        )

    def trace(
        self,
        program: Program,
        tensors: Mapping[str, Array] | None = None,
        parameters: Parameters | None = None,
        limit: int = EVENT_LIMIT,
    ) -> tuple[Execution, Trace]:
        """Execute as ``run`` does (as ``time`` without tensors); record up to ``limit`` events.

        An event is an action of a unit or of the DRAM channel. Raises ``InputError`` for a limit
        below 1.
        """
        if limit < 1:
            raise InputError(f"a trace of {limit} events; let it hold 1 at least")
        cached = self._load(program)
        arrays = None if tensors is None else cached.arrays(tensors)
        result = self._execute(_Request(cached.loaded, arrays, parameters, trace_limit=limit))
        outcome, clock_hz = result.outcome, result.clock * self._spec.clock_hz
        assert outcome.events is not None, "a run with a limit is traced"
        trace = Trace(program, outcome.events, outcome.dropped, outcome.cycles, clock_hz)
        return result.execution, trace

    def run(
        self,
        program: Program,
        tensors: Mapping[str, Array],
        parameters: Parameters | None = None,
    ) -> tuple[Execution, dict[str, Array]]:
        """Execute with numbers; return the cost and the OUTPUT tensors by name.

        ``tensors`` holds an array for every INPUT and CONSTANT tensor by name, of the declared shape
        and its format's numpy type. Output elements that no STORE reaches are NaN, or 0 in
        integers. Raises ``ProgramError`` for an
        illegal program or a parameter without a value, ``InputError`` for arrays that do not fit.
        """
        cached = self._load(program)
        arrays = cached.arrays(tensors)
        execution = self._execute(_Request(cached.loaded, arrays, parameters)).execution
        outputs = {
            tensor.name: array
            for tensor, array in zip(program.tensors, arrays, strict=True)
            if tensor.role is Role.OUTPUT
        }
        return execution, outputs

    def _load(self, program: Program) -> _CachedProgram:
        """Return the program verified and decoded; cached by identity."""
        key = id(program)
        with self._lock:
            cached = self._loaded.get(key)
            if cached is not None:
                self._loaded.move_to_end(key)
                return cached
        cached = _CachedProgram(self._verify_and_load(program))
        with self._lock:
            self._loaded[key] = cached  # holds the program, so that its id stays its own
            while len(self._loaded) > LOADED_LIMIT:
                self._loaded.popitem(last=False)
        return cached

    def _verify_and_load(self, program: Program) -> Loaded:
        if len(program.streams) > self._spec.cores:
            raise ProgramError(
                f"{program.name}: made for {len(program.streams)} cores, {self._name} has "
                f"{self._spec.cores}; lower it for this target"
            )
        verify(program, self._spec.scratchpad_elements)
        check_formats(program, self._spec, self._name)
        return Loaded(program, self._spec)

    def _physical(self, drift: Drift) -> PhysicalSpec:
        """Return the spec's physics, with the noise of a drift."""
        spec = self._spec.physical
        return spec if drift.noise is None else replace(spec, noise=drift.noise)

    def _execute(self, request: _Request) -> _Result:
        with self._lock:
            drift, state = self._drift, self._state
        if state is None:
            return self._at(request, drift.clock, drift.dram_bandwidth, 1.0)
        with self._turn:
            return self._execute_next(request)

    def _execute_next(self, request: _Request) -> _Result:
        """Execute from the present physical state, and leave the next one."""
        with self._lock:
            drift, state = self._drift, self._state
        spec = self._physical(drift)
        if state is None:  # the drift that kept a state was taken back meanwhile
            return self._at(request, drift.clock, drift.dram_bandwidth, 1.0)
        clock, bandwidth = conditions(spec, state)
        clock, bandwidth = clock * drift.clock, bandwidth * drift.dram_bandwidth
        result = self._at(request, clock, bandwidth, noise_factor(spec, state))
        seconds = result.outcome.cycles / (clock * self._spec.clock_hz)
        with self._lock:
            self._state = after(spec, state, seconds, result.execution.energy_fj * 1e-15)
        return result

    def _at(self, request: _Request, clock: float, bandwidth: float, noise: float) -> _Result:
        """Execute once at factors of the nominal clock and DRAM bandwidth.

        DRAM does not slow with the core: per cycle of a slower core it moves more bytes."""
        outcome = request.loaded.execute(
            bandwidth / clock, request.arrays, request.parameters, request.by, request.trace_limit
        )
        reading = Reading.of_program(outcome, self._spec)
        exact = clock == 1 and noise == 1
        cycles = reading.cycles
        if not exact:
            cycles = max(min(cycles, 1), round(cycles / clock * noise))
        dram_bytes = reading.total("bursts", 2) * self._spec.dram.burst_bytes
        execution = Execution(cycles, energy_fj(reading), dram_bytes, Counters(reading))
        return _Result(execution, outcome, clock)


class _CachedProgram:
    """A loaded program, and the arrays that its runs with numbers begin with."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    @cached_property
    def _stored(self) -> frozenset[str]:
        return stored_in_full(self.loaded.program)

    def arrays(self, tensors: Mapping[str, Array]) -> list[Array]:
        """Return an array for each tensor of the program, in table order."""
        program = self.loaded.program
        return [
            array_for(program, tensor, tensors, tensor.name in self._stored)
            for tensor in program.tensors
        ]


@dataclass(frozen=True, slots=True)
class _Request:
    """A loaded program with the inputs of one execution, and the ways to sum it up."""

    loaded: Loaded
    arrays: list[Array] | None = None
    parameters: Parameters | None = None
    by: tuple[By, ...] = (By.PROGRAM,)
    trace_limit: int = 0


class _Result(NamedTuple):
    """One execution: its cost, the engine's outcome, and the factor of the nominal clock."""

    execution: Execution
    outcome: Outcome
    clock: float


def _state_after_drift(
    spec: PhysicalSpec, state: PhysicalState | None, drift: Drift
) -> PhysicalState | None:
    """Return the state after a drift: None without physics, a new one if there was none."""
    if not spec.active:
        return None
    current = beginning(spec) if state is None else state
    if drift.temperature_celsius is None:
        return current
    return at_temperature(spec, current, drift.temperature_celsius)

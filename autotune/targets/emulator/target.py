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
"""Programs kept decoded; the one that was used longest ago goes first."""


class EmulatorTarget:
    """Runs programs on the machine that a spec describes, by the engine's timing model.

    Deterministic: equal programs cost the same. Safe to use from several threads, which run side
    by side. ``name`` defaults to the spec's. A machine whose physics is on (``[physical]`` of the
    spec, or noise by ``drift``) has a history instead: it runs one program at a time, each from the
    state that the one before left, and the same series of programs costs the same again.
    """

    def __init__(self, spec: HardwareSpec, name: str | None = None) -> None:
        self._spec = spec
        self._name = spec.name if name is None else name
        self._drift = Drift()
        self._state = beginning(spec.physical) if spec.physical.active else None
        self._forget_process()

    def _forget_process(self) -> None:
        """Begin with what has a meaning in this process alone: locks, and programs by their id."""
        self._loaded: OrderedDict[int, _Kept] = OrderedDict()
        self._lock = Lock()
        self._turn = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Spec, name, drift and physical state: a pickled machine goes on where this one stands."""
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
        """Temperature, throttling and age now; None while the machine's physics is off."""
        with self._lock:
            return self._state

    def drift(self, drift: Drift) -> None:
        """From now on the machine departs from its spec by ``drift``, and by nothing else.

        Spec and profile id stay as they are; ``Drift()`` takes it back. Executions under way are
        not affected; on a machine with a physical state this waits for the one. Raises ``SpecError`` for a temperature on a machine that does not heat.
        """
        if drift.temperature_celsius is not None and not self._spec.physical.heats:
            raise SpecError(
                f"drift.temperature_celsius: {drift.temperature_celsius:g} on {self._name}, which "
                "does not heat; give its spec [physical] thermal_resistance_kelvin_per_watt"
            )
        with self._turn, self._lock:
            # the temperature is where the state goes on from, not a thing that stays
            self._drift = replace(drift, temperature_celsius=None)
            self._state = _drifted(self._physical(self._drift), self._state, drift)

    def derate(self, dram_bandwidth: float) -> None:
        """From now on DRAM moves ``dram_bandwidth`` times the bytes per cycle that the spec says;
        other drift stays. Raises ``SpecError`` as ``Drift`` does."""
        self.drift(replace(self._drift, dram_bandwidth=float(dram_bandwidth)))

    def time(self, program: Program, parameters: Parameters | None = None) -> Execution:
        """Cost of a program, without numerics; ``parameters`` are what its CASEs dispatch on.
        Raises ``ProgramError`` for an illegal program, or a parameter that has no value."""
        return self._execute(_Work(self._load(program).loaded, parameters=parameters)).execution

    def profile(
        self,
        program: Program,
        tensors: Mapping[str, Array] | None = None,
        parameters: Parameters | None = None,
    ) -> Profile:
        """Execute as ``run`` does (None: as ``time``), and say what marks and instructions cost."""
        kept = self._load(program)
        arrays = None if tensors is None else kept.arrays(tensors)
        work = _Work(kept.loaded, arrays, parameters, tuple(By))
        done = self._execute(work)
        return profile_of(program, work.loaded.marks, done.execution, done.outcome, self._spec)

    def trace(
        self,
        program: Program,
        tensors: Mapping[str, Array] | None = None,
        parameters: Parameters | None = None,
        limit: int = EVENT_LIMIT,
    ) -> tuple[Execution, Trace]:
        """Execute as ``run`` does (None: as ``time``), and record what each unit and the DRAM
        channel did, up to ``limit`` events. Raises ``InputError`` for a limit below 1."""
        if limit < 1:
            raise InputError(f"a trace of {limit} events; let it hold 1 at least")
        kept = self._load(program)
        arrays = None if tensors is None else kept.arrays(tensors)
        done = self._execute(_Work(kept.loaded, arrays, parameters, trace_limit=limit))
        outcome, clock_hz = done.outcome, done.clock * self._spec.clock_hz
        trace = Trace(program, outcome.events, outcome.dropped, outcome.cycles, clock_hz)
        return done.execution, trace

    def run(
        self,
        program: Program,
        tensors: Mapping[str, Array],
        parameters: Parameters | None = None,
    ) -> tuple[Execution, dict[str, Array]]:
        """Execute with numbers: an array for every INPUT and CONSTANT tensor by name, of the
        declared shape and of its format's numpy type; returns the cost and the OUTPUT tensors.

        What no STORE reaches of an output is NaN, or 0 in integers. Raises ``ProgramError`` for an
        illegal program or a parameter without a value, ``InputError`` for arrays that do not fit.
        """
        kept = self._load(program)
        arrays = kept.arrays(tensors)
        execution = self._execute(_Work(kept.loaded, arrays, parameters)).execution
        outputs = {
            tensor.name: array
            for tensor, array in zip(program.tensors, arrays, strict=True)
            if tensor.role is Role.OUTPUT
        }
        return execution, outputs

    def _load(self, program: Program) -> _Kept:
        """The program verified and decoded; kept by identity while it is recent."""
        key = id(program)
        with self._lock:
            kept = self._loaded.get(key)
            if kept is not None:
                self._loaded.move_to_end(key)
                return kept
        kept = _Kept(self._verified(program))
        with self._lock:
            self._loaded[key] = kept  # holds the program, so that its id stays its own
            while len(self._loaded) > LOADED_LIMIT:
                self._loaded.popitem(last=False)
        return kept

    def _verified(self, program: Program) -> Loaded:
        if len(program.streams) > self._spec.cores:
            raise ProgramError(
                f"{program.name}: made for {len(program.streams)} cores, {self._name} has "
                f"{self._spec.cores}; lower it for this target"
            )
        verify(program, self._spec.scratchpad_elements)
        return Loaded(program, self._spec)

    def _physical(self, drift: Drift) -> PhysicalSpec:
        """The spec's physics, with the noise of a drift."""
        spec = self._spec.physical
        return spec if drift.noise is None else replace(spec, noise=drift.noise)

    def _execute(self, work: _Work) -> _Done:
        with self._lock:
            drift, state = self._drift, self._state
        if state is None:
            return self._at(work, drift.clock, drift.dram_bandwidth, 1.0)
        with self._turn:
            return self._execute_next(work)

    def _execute_next(self, work: _Work) -> _Done:
        """Execute from the present physical state, and leave the next one."""
        with self._lock:
            drift, state = self._drift, self._state
        spec = self._physical(drift)
        if state is None:  # the drift that kept a state was taken back meanwhile
            return self._at(work, drift.clock, drift.dram_bandwidth, 1.0)
        clock, bandwidth = conditions(spec, state)
        clock, bandwidth = clock * drift.clock, bandwidth * drift.dram_bandwidth
        done = self._at(work, clock, bandwidth, noise_factor(spec, state))
        seconds = done.outcome.cycles / (clock * self._spec.clock_hz)
        with self._lock:
            self._state = after(spec, state, seconds, done.execution.energy_fj * 1e-15)
        return done

    def _at(self, work: _Work, clock: float, bandwidth: float, noise: float) -> _Done:
        """Execute once at factors of the nominal clock and DRAM bandwidth. DRAM does not slow with
        the core: per cycle of a slower core it moves more."""
        outcome = work.loaded.execute(
            bandwidth / clock, work.arrays, work.parameters, work.by, work.trace_limit
        )
        reading = Reading.of_program(outcome, self._spec)
        counted = reading.cycles
        exact = clock == 1 and noise == 1
        cycles = counted if exact else max(min(counted, 1), round(counted / clock * noise))
        dram_bytes = reading.total("bursts", 2) * self._spec.dram.burst_bytes
        execution = Execution(cycles, energy_fj(reading), dram_bytes, Counters(reading))
        return _Done(execution, outcome, clock)


class _Kept:
    """A loaded program, and what its runs with numbers begin with."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    @cached_property
    def _stored(self) -> frozenset[str]:
        return stored_in_full(self.loaded.program)

    def arrays(self, tensors: Mapping[str, Array]) -> list[Array]:
        """An array for each tensor of the program, in their order."""
        program = self.loaded.program
        return [
            array_for(program, tensor, tensors, tensor.name in self._stored)
            for tensor in program.tensors
        ]


@dataclass(frozen=True, slots=True)
class _Work:
    """A loaded program with what one execution of it takes, and how that is summed up."""

    loaded: Loaded
    arrays: list[Array] | None = None
    parameters: Parameters | None = None
    by: tuple[By, ...] = (By.PROGRAM,)
    trace_limit: int = 0


class _Done(NamedTuple):
    """One execution: its cost, what the engine counted, and the factor of the nominal clock."""

    execution: Execution
    outcome: Outcome
    clock: float


def _drifted(spec: PhysicalSpec, state: PhysicalState | None, drift: Drift) -> PhysicalState | None:
    """The state that a drift makes of one: none without physics, a new one where there was none."""
    if not spec.active:
        return None
    known = beginning(spec) if state is None else state
    if drift.temperature_celsius is None:
        return known
    return at_temperature(spec, known, drift.temperature_celsius)

"""Machines that are not what their spec says: an emulator of another spec, timed behind the stated one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from autotune.isa.program import Program
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.protocol import Execution, Parameters
from autotune.targets.spec import HardwareSpec

STATED = "edge"
"""Shipped spec that every machine here states."""
_UNITS = ("load", "store", "matrix", "vector")


@dataclass(frozen=True, slots=True)
class Hidden:
    """A machine by ``name``: what its spec does not say (``doc``), its ``true`` spec made of the stated one, and if its
    units take turns, so that it takes their busy cycles, added."""

    name: str
    doc: str
    true: Callable[[HardwareSpec], HardwareSpec] = lambda stated: stated
    is_serial: bool = False

    def open(self) -> HiddenTarget:
        """Return the machine as a target; its profile is no other machine's."""
        return HiddenTarget(replace(load_spec(STATED), name=self.name), self)


class HiddenTarget:
    """A target whose spec is the stated one; what it costs is another's."""

    def __init__(self, spec: HardwareSpec, hidden: Hidden) -> None:
        self._spec = spec
        self._hidden = hidden
        self._machine = EmulatorTarget(hidden.true(spec))

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._hidden.name,)

    @property
    def name(self) -> str:
        """Name as the table has it."""
        return self._spec.name

    @property
    def spec(self) -> HardwareSpec:
        """What is stated."""
        return self._spec

    def time(self, program: Program, parameters: Parameters | None = None) -> Execution:
        """Return what the true machine takes; of a serial one the busy cycles of its units, added."""
        found = self._machine.time(program, parameters)
        if not self._hidden.is_serial:
            return found
        cycles = sum(found.counters[f"{unit}_busy_cycles"] for unit in _UNITS)
        return Execution(max(1, cycles), found.energy_fj, found.dram_bytes, found.counters)

    def run(
        self,
        program: Program,
        tensors: Mapping[str, npt.NDArray[Any]],
        parameters: Parameters | None = None,
    ) -> tuple[Execution, dict[str, npt.NDArray[Any]]]:
        """Execute with numbers on the true machine."""
        return self._machine.run(program, tensors, parameters)


def _costly(stated: HardwareSpec) -> HardwareSpec:
    return replace(
        stated,
        matrix=replace(stated.matrix, setup_cycles=200),
        vector=replace(stated.vector, setup_cycles=200),
        dram=replace(stated.dram, setup_cycles=1000),
    )


def _small(stated: HardwareSpec) -> HardwareSpec:
    matrix = replace(stated.matrix, rows=8, cols=8, dataflow="is")
    return replace(stated, matrix=matrix, vector=replace(stated.vector, lanes=8))


def _other(stated: HardwareSpec) -> HardwareSpec:
    return replace(
        stated,
        matrix=replace(stated.matrix, dataflow="ws", setup_cycles=40),
        vector=replace(stated.vector, lanes=4, setup_cycles=30),
        dram=replace(
            stated.dram, bytes_per_cycle=4.0, burst_bytes=256, row_bytes=1024, setup_cycles=300
        ),
        control=replace(stated.control, dispatch_cycles=12),
    )


MACHINES: dict[str, Hidden] = {
    one.name: one
    for one in (
        Hidden("as stated", "nothing hidden: the control"),
        Hidden("serial", "units take turns: their busy cycles, added", is_serial=True),
        Hidden("set-up", "set-ups of 200, 200 and 1,000 cycles instead of 4, 8 and 42", _costly),
        Hidden("small", "an 8×8 input-stationary array, 8 lanes", _small),
        Hidden(
            "other", "weight-stationary, 4 lanes, a third of the bandwidth, long bursts", _other
        ),
        Hidden("other, serial", "the same, and units take turns", _other, is_serial=True),
    )
}
"""Machines by name, in the order of the page."""


def _opened(name: str) -> HiddenTarget:
    return MACHINES[name].open()

"""A machine that a function times by schedules: it gets a group as an ONNX model, and tiles and loops to run it by."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from autotune.errors import InputError, ProgramError
from autotune.targets.plugins.model_target import (
    SCHEDULE,
    ExportedGroup,
    TimeModel,
    arguments_of,
    packed_function,
    timed_at_once,
    timing_of,
    unpacked_function,
)
from autotune.targets.plugins.timing import CLOCK_HZ
from autotune.targets.plugins.tunables import tunables_of
from autotune.targets.protocol import Execution, Timing
from autotune.targets.spec import HardwareSpec, Memory
from autotune.targets.toml_spec import read_spec


@dataclass(frozen=True, slots=True)
class ScheduledTarget:
    """A machine behind a function that runs groups by schedules.

    ``spec`` bounds the schedules by its memory and cores. Its speeds are a first guess alone: calibration finds which
    model predicts the machine. Costs are cycles of the spec's clock. The hardware profile is that of ``name``,
    ``identity`` and the stated numbers together.
    """

    name: str
    time_model: TimeModel
    spec: HardwareSpec
    origin: str = ""
    exclusive: bool = True
    takes_models: bool = True

    @classmethod
    def of(
        cls, name: str, time_model: TimeModel, identity: str = "", origin: str = ""
    ) -> ScheduledTarget:
        """Make a machine of a function with a ``spec``: a ``HardwareSpec``, the name of a shipped one, or a file.

        Raises ``InputError`` for a function that takes no schedule, has parameters too, or a spec of a CPU, and
        ``SpecError`` for a spec that cannot be read.
        """
        if SCHEDULE not in arguments_of(time_model, name) or tunables_of(time_model, name):
            raise InputError(
                f"target {name}: a function with a spec takes a schedule, and no configuration"
            )
        stated = _stated(getattr(time_model, SPEC))
        if not isinstance(stated, HardwareSpec) or stated.memory is not Memory.SCRATCHPAD:
            raise InputError(
                f"target {name}: spec is a HardwareSpec with a scratchpad, the name of a shipped one or a .toml file, "
                f"not {stated!r:.60}"
            )
        own = f"timed by {name}, {identity}, stated {stated.profile_id}"
        return cls(name, time_model, replace(stated, name=name, identity=own), origin)

    def prepared(self, exported: Any) -> Timing:
        """Return the timing of an exported group, in cycles of the spec's clock."""
        assert isinstance(exported, ExportedGroup)
        return _InCycles(timing_of(self.time_model, self.name, exported), self.spec.clock_hz)

    def time(self, exported: Any, parameters: object = None) -> Execution:
        """Return the cost of an exported group, timed without pause."""
        return timed_at_once(self.prepared(exported))

    def run(self, program: Any, tensors: Any, parameters: object = None) -> NoReturn:
        """Raise ``ProgramError``: such a machine times models, and runs no tile program."""
        raise ProgramError(f"{self.name} times ONNX models by schedules; it runs no tile program")

    def __reduce__(self) -> tuple[Callable[..., ScheduledTarget], tuple[object, ...]]:
        """Reopen by name in another process; a registered function travels by value."""
        if self.origin:
            return _reopened, (self.origin,)
        packed = packed_function(self.time_model, self.name)
        return _rebuilt, (self.name, packed, pickle.dumps(self.spec))


SPEC = "spec"
"""Attribute of a timing function that makes it a ``ScheduledTarget``."""


_SHIPPED = Path(__file__).parents[1] / "specs"


def _stated(value: object) -> object:
    """Return the spec of a shipped name or a TOML file, and any other value as it is. Raises ``SpecError``."""
    if not isinstance(value, (str, Path)):
        return value
    shipped = _SHIPPED / f"{value}.toml"
    if shipped.parent == _SHIPPED and shipped.is_file():
        return read_spec(shipped)
    return read_spec(Path(value)) if Path(value).suffix == ".toml" else value


def _reopened(origin: str) -> ScheduledTarget:
    from autotune.targets.plugins.registry import open_plugin

    found = open_plugin(origin)
    assert isinstance(found, ScheduledTarget)
    return found


def _rebuilt(name: str, function: bytes, spec: bytes) -> ScheduledTarget:
    return ScheduledTarget(name, unpacked_function(function), pickle.loads(spec))


@dataclass(frozen=True, slots=True)
class _InCycles:
    """A timing whose nanoseconds become cycles of a clock."""

    timing: Timing
    clock_hz: float

    def visit(self) -> Execution | None:
        """Time it for a while."""
        cost = self.timing.visit()
        if cost is None:
            return None
        return replace(cost, cycles=max(1, round(cost.cycles * self.clock_hz / CLOCK_HZ)))

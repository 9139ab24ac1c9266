"""What a target is: something that runs tile programs and says what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from autotune.isa.program import Program
from autotune.targets.spec import HardwareSpec

Array = npt.NDArray[Any]
Parameters = Mapping[int, int]
"""Runtime parameters of a program by number; those that it does not dispatch on are ignored."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What one execution of a program cost. ``counters`` are keyed by the target's counter table.

    ``cycles`` is the elapsed time in cycles of the spec's nominal clock, as measured. The counters
    are the exact count of the core's own cycles, which last longer when it is throttled or aged:
    ``cycles`` equals ``counters["cycles"]`` on a machine at its nominal clock without noise.
    ``remark`` is an error that a repeated call overcame; '' without any.
    """

    cycles: int
    energy_fj: int
    dram_bytes: int
    counters: Mapping[str, int]
    remark: str = ""


class Target(Protocol):
    """Runs verified programs. Implementations are safe to use from several threads."""

    @property
    def name(self) -> str:
        """Name as the command line spells it."""
        ...

    @property
    def spec(self) -> HardwareSpec:
        """The machine."""
        ...

    def time(self, program: Program, parameters: Parameters | None = None) -> Execution:
        """Cost of a program, without numerics; ``parameters`` are what its CASEs dispatch on.
        Raises ``ProgramError`` for an illegal program, or a parameter that has no value."""
        ...

    def run(
        self,
        program: Program,
        tensors: Mapping[str, Array],
        parameters: Parameters | None = None,
    ) -> tuple[Execution, dict[str, Array]]:
        """Execute with numbers: arrays for every INPUT and CONSTANT tensor by name, of the declared
        shape and format (``autotune.targets.arrays``); returns the cost and the OUTPUT tensors."""
        ...


class Timing(Protocol):
    """A program that is all but timed. Visits take their time one after the other, best with other
    work in between: what slows a machine for a moment then does not slow all of them."""

    def visit(self) -> Execution | None:
        """Repeat the program for some milliseconds; its cost once that is known, None while another
        visit is wanted."""
        ...


@runtime_checkable
class ExclusiveTarget(Target, Protocol):
    """A target that runs on this very machine and needs it alone while it is timed.

    Measurements would slow each other, and a crash takes its process along: worker processes
    measure it, one at a time, never the tuner's own. The attribute marks it.
    """

    exclusive: bool

    def prepared(self, program: Program) -> Timing:
        """Everything of ``time`` that comes before the clock, which may go on beside other work.
        Raises ``ProgramError`` for an illegal program."""
        ...

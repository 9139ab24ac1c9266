"""Tasks of a build: one piece of work, what it needs, and what it finds necessary while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Load(StrEnum):
    """What a task mostly uses. Tasks of unlike loads pair well; of ``INTERPRETER`` one runs at a time."""

    INTERPRETER = "interpreter"
    COMPUTE = "compute"
    MEMORY = "memory"


class Stage(StrEnum):
    """Kinds of tasks, in the order of a plan's way to code."""

    LOWER = "lower"
    """A fusion group to its tile program."""
    BIND = "bind"
    """A program verified, and its micro-kernels chosen."""
    ASSEMBLE = "assemble"
    """All programs to the steps of a network."""
    GENERATE = "generate"
    """A micro-kernel to machine code, by LLVM."""
    PACK = "pack"
    """Constants rearranged into panels."""
    MEASURE = "measure"
    """A program executed for its cycles, on machines that count them."""
    LINK = "link"
    """Code, constants and tensors placed in memory."""

    @property
    def load(self) -> Load:
        """What tasks of this stage mostly use."""
        return _LOADS.get(self, Load.INTERPRETER)


_LOADS = {Stage.GENERATE: Load.COMPUTE, Stage.MEASURE: Load.COMPUTE, Stage.PACK: Load.MEMORY}
"""Measured: LLVM, the emulator and copying let other threads run (nine tenths of their time); all else is Python."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One piece of work. ``work`` does it and returns the tasks that it found necessary.

    ``units`` say how large it is, by the measure of its stage (``Estimates``). ``memory_bytes`` is what
    it takes while it runs, ``kept_bytes`` what stays. ``payoff_seconds`` is what a run of the network gains
    by the fusion that it belongs to. ``after`` names tasks that end first. ``split`` replaces a task that
    exceeds the memory even alone; it gets the reason, and returns None where there is no way.
    """

    name: str
    stage: Stage
    work: Callable[[], Iterable[Task]]
    units: float = 1.0
    memory_bytes: int = 0
    kept_bytes: int = 0
    payoff_seconds: float = 0.0
    after: tuple[str, ...] = ()
    split: Callable[[str], Iterable[Task] | None] | None = None

    def __post_init__(self) -> None:
        assert self.units >= 0, self.units
        assert 0 <= self.kept_bytes <= self.memory_bytes, (self.kept_bytes, self.memory_bytes)

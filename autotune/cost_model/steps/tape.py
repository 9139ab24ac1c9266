"""A recording of columns, ready to run: steps in compiled code, NumPy's own functions between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from autotune.cost_model.steps.tiling import Floats
from autotune.kernels.tape.recorder import Recorder, Traced, run
from autotune.schedule.table import Ints, ScheduleTable

BLOCK = 128
"""Rows that run together: their registers stay in the second-level cache."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function between two phases: of registers ``begin`` to ``middle``, its results up to ``end``. With a
    ``width`` it is one of NumPy's for that many operands, else it takes bits [m, n]."""

    function: Callable[..., Any]
    begin: int
    middle: int
    end: int
    width: int

    def __call__(self, words: Ints, numbers: Floats, asked: Any) -> None:
        """Run it on registers, given as bits and as floats [slots, n]; what takes bits takes what is ``asked`` too."""
        if self.width:
            taken = numbers[self.begin : self.middle].reshape(self.width, -1, numbers.shape[1])
            self.function(*taken, out=numbers[self.middle : self.end])
        else:
            numbers[self.middle : self.end] = self.function(words[self.begin : self.middle], asked)


@dataclass(frozen=True, slots=True, eq=False)
class Tape:
    """Immutable; usable from several threads."""

    template: Ints
    """Registers before the first step: constants."""
    code: Any
    lists: Any
    phases: tuple[tuple[int, int, tuple[Call, ...]], ...]
    """First and last step of each phase, and what is called after it."""
    inputs: int
    first: int
    """Register of the first output."""
    last: int
    """That behind the last one."""

    @classmethod
    def of(cls, table: ScheduleTable, outputs: Sequence[npt.ArrayLike]) -> Tape:
        """Return the tape of recorded ``outputs`` [1] of a recorded ``table``."""
        recorder: Recorder = cast("Traced", table.buffers).recorder
        ids = [recorder.float_node(x) for x in outputs]
        template, code, lists, ends, calls, first = recorder.compiled(ids)
        phases = tuple(
            (begin, end, tuple(Call(*call[1:]) for call in calls if call[0] == phase))
            for phase, (begin, end) in enumerate(zip([0, *ends], ends, strict=False))
        )
        last = 1 + max(
            (at for at, (b, e, called) in enumerate(phases) if e > b or called), default=0
        )
        return cls(template, code, lists, phases[:last], recorder.inputs, first, first + len(ids))

    def run(self, table: ScheduleTable, asked: Any = None) -> Floats:
        """Return the outputs [m, n] of schedules. Functions that take bits are given what is ``asked`` of all."""
        columns = table.columns.T
        n = columns.shape[1]
        if n <= BLOCK:
            return self._run(self._registers(n), columns, asked)
        found = np.empty((self.last - self.first, n))
        words = self._registers(BLOCK)
        for begin in range(0, n, BLOCK):
            part = columns[:, begin : begin + BLOCK]
            if part.shape[1] < BLOCK:
                words = self._registers(part.shape[1])
            found[:, begin : begin + BLOCK] = self._run(words, part, asked)
        return found

    def _registers(self, n: int) -> Ints:
        return np.repeat(self.template, n).reshape(-1, n)

    def _run(self, words: Ints, columns: Ints, asked: Any) -> Floats:
        words[: self.inputs] = columns
        numbers: Floats = words.view(np.float64)
        for begin, end, calls in self.phases:
            run(words, self.code, self.lists, begin, end)
            for call in calls:
                call(words, numbers, asked)
        return numbers[self.first : self.last]

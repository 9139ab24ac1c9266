"""Clocks in step tables: what the calls of a program took by kind, where it is profiled.

Behind every call of a stream stands a step that reads the clock and adds to the stream's own ledger,
so that threads write none together. A reading takes some 30 ns: shares are to be trusted of steps
that take longer, and the time of a whole program is that of a run without clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.kernels.native.executor import CLOCK_KERNEL
from autotune.targets.native.binding.call import Call
from autotune.targets.native.linking.step_kinds import KINDS, StepKind, kind_of

START = 0
"""Row of the ledger that holds when the clock was last read; those of ``KINDS`` follow."""


def _ledger() -> npt.NDArray[np.int64]:
    return np.zeros(1 + len(KINDS), np.int64)


@dataclass(frozen=True, slots=True)
class StepClock:
    """The ledger of one stream. It must live as long as the stream."""

    ledger: npt.NDArray[np.int64] = field(default_factory=_ledger)

    kernel = CLOCK_KERNEL

    @property
    def address(self) -> int:
        """Where the ledger lies."""
        return self.ledger.ctypes.data

    @staticmethod
    def row(call: Call) -> int:
        """The ledger's row for a call."""
        return 1 + KINDS.index(kind_of(call))


def spent(clocks: Iterable[StepClock]) -> Mapping[StepKind, int]:
    """Nanoseconds by kind of call that several streams took since their ledgers were cleared."""
    total = sum((clock.ledger[1:] for clock in clocks), _ledger()[1:])
    return {kind: ns for kind, ns in zip(KINDS, total.tolist(), strict=True) if ns}

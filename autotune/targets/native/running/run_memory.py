"""Memory of an executable's intermediates: a block for each of the runs that go on at once."""

from __future__ import annotations

import os
from functools import partial
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from autotune.kernels.native.executor import RunMemory
from autotune.targets.native.compiling.memory import populated_floats

Floats = npt.NDArray[np.float32]


class OneBlock:
    """The same block for all runs, of which one goes on at a time."""

    made = 1

    def __init__(self, block: Floats) -> None:
        self._block = block

    def take(self) -> Floats:
        """Return it."""
        return self._block

    def give(self, block: Floats) -> None:
        """Do nothing: it stays."""


def memory_of(elements: int, runs: int) -> RunMemory | OneBlock:
    """Return the memory of as many ``runs`` at once, each of so many float32."""
    if runs == 1:
        return OneBlock(populated_floats(elements))
    memory = RunMemory(partial(populated_floats, elements), runs)
    _ALL.add(memory)
    return memory


_ALL: WeakSet[RunMemory] = WeakSet()


def _begin_anew() -> None:
    for memory in list(_ALL):
        memory.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)

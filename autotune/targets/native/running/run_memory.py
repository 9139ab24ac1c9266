"""Memory of an executable's intermediates: a block for each of the runs that go on at once."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue

import numpy as np
import numpy.typing as npt

from autotune.targets.native.compiling.memory import populated_floats

Floats = npt.NDArray[np.float32]
OVERDUE_SECONDS = 0.0005
"""Until a caller's turn is due; that of ``thread_pool.h``: before, who comes first has it."""


class RunMemory:
    """Blocks of float32 for runs, made when callers first meet. Safe to use from several threads.

    ``first`` is a block; further ones have its size, ``most`` in all. Who finds none waits until another run ends.
    """

    def __init__(self, first: Floats, most: int) -> None:
        self._elements, self._most, self._made = len(first), most, 1
        self._free: SimpleQueue[Floats] = SimpleQueue()
        self._changing, self._queue = threading.Lock(), threading.Lock()
        self._waits_since = 0.0
        """When the first in the queue began to wait; 0.0 while nobody does."""
        self._free.put(first)
        self.give = self._free.put
        """Takes a block back."""

    def take(self) -> Floats:
        """Return a block that no other run has."""
        since = self._waits_since
        if not since or time.monotonic() - since < OVERDUE_SECONDS:
            try:
                return self._free.get_nowait()
            except Empty:
                pass
        with self._changing:
            is_room = self._made < self._most
            self._made += is_room
        if is_room:
            try:
                return populated_floats(self._elements)
            except MemoryError:
                with self._changing:
                    self._made -= 1
        with self._queue:
            self._waits_since = time.monotonic()
            try:
                return self._free.get()
            finally:
                self._waits_since = 0.0


class OneBlock:
    """The same block for all runs, of which one goes on at a time."""

    def __init__(self, block: Floats) -> None:
        self._block = block

    def take(self) -> Floats:
        """Return it."""
        return self._block

    def give(self, block: Floats) -> None:
        """Do nothing: it stays."""

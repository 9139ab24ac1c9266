"""Operands of a program that is timed: where they lie, and how visits move them to other memory.

A CPU's L2 is indexed by physical addresses, which the system hands out page by page: operands that
just fill it collide in one process and not in the next, by up to 40 % of a program's time. Programs
whose operands a core may keep are therefore timed at many places, which are all alike in the virtual
offsets of their operands: a load that follows a store to the same offset in another page waits for it
("4K aliasing", Intel's optimization manual, 11.8).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from autotune.isa.program import Program, Role
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.compiling.memory import ALIGNMENT_BYTES, Floats, populated_floats
from autotune.targets.native.running.tensors import draw, tensor_bytes
from autotune.targets.protocol import Array

ROOM_BYTES = 48 << 20
"""Memory whose places programs are moved to; one room for the process, as one program is timed at
a time."""

MOVED_BYTES = 8 << 20
"""Larger operands stay: no core's cache holds much of them, wherever they lie."""

PAGE_BYTES = 4096

STAGGER_LINES = 5
"""Cache lines by which each tensor begins later in its page than the one before."""


class Operands:
    """A program's tensors, filled with seeded numbers (``tensors.draw``), and their ``pointers`` [tensors],
    which ``move`` changes."""

    def __init__(self, program: Program) -> None:
        sizes = [tensor_bytes(tensor) for tensor in program.tensors]
        self._starts, self._bytes = _starts(sizes)
        block = _bytes_of(populated_floats(-(-self._bytes // 4)))
        self.arrays: dict[str, Array] = {}
        for tensor, start, size in zip(program.tensors, self._starts, sizes, strict=True):
            raw = block[start : start + size]
            array = raw.view(ARRAY_TYPES[tensor.format]).reshape(tensor.shape)
            draw(array)
            self.arrays[tensor.name] = array
        self._sources = [
            (start, block[start : start + size])
            for tensor, start, size in zip(program.tensors, self._starts, sizes, strict=True)
            if tensor.role is not Role.OUTPUT
        ]
        first = block.ctypes.data
        self.pointers = np.array([first + start for start in self._starts], np.int64)
        self._places = _places(self._bytes)

    @property
    def movable(self) -> bool:
        """True for operands that a core's cache may keep."""
        return self._bytes <= MOVED_BYTES

    def move(self) -> None:
        """Put the operands into the room's next place, if they are movable."""
        if not self.movable:
            return
        room = _room()
        place = next(self._places)
        for start, source in self._sources:
            room[place + start : place + start + source.size] = source
        self.pointers[:] = room.ctypes.data + place + np.asarray(self._starts, np.int64)


def _starts(sizes: list[int]) -> tuple[list[int], int]:
    """The first byte of every tensor, each in a page of its own at another offset, and their end."""
    starts, end = [], 0
    for number, size in enumerate(sizes):
        stagger = STAGGER_LINES * ALIGNMENT_BYTES * number % PAGE_BYTES
        start = -(-end // PAGE_BYTES) * PAGE_BYTES + stagger
        starts.append(start)
        end = start + max(1, size)
    return starts, end


def _places(size_bytes: int) -> Iterator[int]:
    """Endless first bytes in the room, on pages, the same for every program of a size."""
    rng = np.random.default_rng(0)
    while True:
        yield int(rng.integers((ROOM_BYTES - size_bytes) // PAGE_BYTES + 1)) * PAGE_BYTES


@functools.cache
def _room() -> npt.NDArray[np.uint8]:
    """The process's room, in large pages where the system has them, as networks' tensors lie."""
    return _bytes_of(populated_floats(ROOM_BYTES // 4))


def _bytes_of(floats: Floats) -> npt.NDArray[np.uint8]:
    return floats.view(np.uint8)

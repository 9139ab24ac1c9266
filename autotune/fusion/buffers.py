"""The buffers of a nest under construction: one per tile that is loaded, made or worked in."""

from __future__ import annotations

from autotune.fusion.nest import Buffer, BufferRole
from autotune.fusion.patches import Patches
from autotune.isa.formats import Format
from autotune.operators.axis_map import Footprint


class BufferTable:
    """Buffers by number; equal loads share one.

    ``located`` maps each tensor made so far to its buffer, and tells if the tensor lies there
    densely.
    """

    def __init__(self) -> None:
        self.rows: list[Buffer] = []
        self.located: dict[str, tuple[int, bool]] = {}
        self.shared: set[int] = set()
        """Buffers that a view shares with another reader of its operand."""
        self._loads: dict[Buffer, int] = {}

    def add(self, buffer: Buffer) -> int:
        """Add a buffer and return its number."""
        self.rows.append(buffer)
        return len(self.rows) - 1

    def load(
        self,
        tensor: str,
        footprint: Footprint,
        chunk: tuple[int, int] | None = None,
        pad: float = 0.0,
        sample: tuple[tuple[int, int], ...] = (),
        patches: Patches | None = None,
        form: Format = Format.FP32,
    ) -> int:
        """Return the number of the buffer that holds a part of a group's input; add it if it is
        new."""
        buffer = Buffer(BufferRole.LOAD, tensor, footprint, chunk, pad, sample, patches, form)
        if buffer not in self._loads:
            self._loads[buffer] = self.add(buffer)
        return self._loads[buffer]

    def loads(self, tensor: str, footprint: Footprint) -> bool:
        """Return True if an earlier stage loads this part, whole and unpadded."""
        return Buffer(BufferRole.LOAD, tensor, footprint) in self._loads

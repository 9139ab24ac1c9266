"""The buffers of a nest while its stages are laid out: one per tile loaded, made or worked in."""

from __future__ import annotations

from autotune.fusion.nest import Buffer, BufferRole
from autotune.fusion.patches import Patches
from autotune.operators.axis_map import Footprint


class BufferTable:
    """Collects buffers by number. ``located`` tells of a tensor made so far the buffer it lies in
    and whether densely; equal loads share a buffer."""

    def __init__(self) -> None:
        self.rows: list[Buffer] = []
        self.located: dict[str, tuple[int, bool]] = {}
        self.shared: set[int] = set()
        """BufferTable that a view shares with something else that reads its operand."""
        self._loads: dict[Buffer, int] = {}

    def add(self, buffer: Buffer) -> int:
        """The number of a new buffer."""
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
    ) -> int:
        """The number of the buffer that holds a part of a tensor of the group's inputs."""
        buffer = Buffer(BufferRole.LOAD, tensor, footprint, chunk, pad, sample, patches)
        if buffer not in self._loads:
            self._loads[buffer] = self.add(buffer)
        return self._loads[buffer]

    def loads(self, tensor: str, footprint: Footprint) -> bool:
        """Whether that part, whole and unpadded, is loaded for an earlier stage."""
        return Buffer(BufferRole.LOAD, tensor, footprint) in self._loads

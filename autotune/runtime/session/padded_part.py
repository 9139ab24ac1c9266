"""A part that runs every extent of an open dimension up to its own, on padded inputs."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from autotune.graph.padding.padded_graph import PaddedGraph
from autotune.graph.padding.spans import Anchor, Span
from autotune.runtime.execution.values import AnyArray
from autotune.runtime.session.tiered_part import TieredPart


class PaddedPart:
    """Programs of a ``PaddedGraph``. Safe to use from several threads.

    Each thread keeps its padded inputs: a run copies what is true, and clears what was true before.
    """

    def __init__(self, padded: PaddedGraph, part: TieredPart) -> None:
        self.padded, self.part = padded, part
        self._local = threading.local()

    def fits(self, extent: int) -> bool:
        """True if it is right for an extent, and its programs are there or may come."""
        is_held = self.padded.least <= extent <= self.padded.extent
        return is_held and not self.part.has_failed

    @property
    def is_compiled(self) -> bool:
        """True if its programs are there; until then numpy runs it."""
        return self.part.compiled is not None

    def run(self, inputs: Mapping[str, AnyArray], extent: int) -> dict[str, AnyArray]:
        """Outputs by name, for inputs whose open dimension has ``extent``."""
        padded = self.padded
        fed = {x: self._padded(x, inputs[x], spans, extent) for x, spans in padded.inputs.items()}
        fed |= {m.name: m.values(padded.extent, extent, padded.anchor) for m in padded.masks}
        made = self.part.run(fed)
        return {x: self._true(made[x], spans, extent) for x, spans in padded.outputs.items()}

    def close(self) -> None:
        """Close its programs."""
        self.part.close()

    def _padded(
        self, name: str, value: AnyArray, spans: Mapping[int, Span], extent: int
    ) -> AnyArray:
        if not spans or extent == self.padded.extent:
            return value
        kept: dict[str, tuple[AnyArray, int]] = self._local.__dict__.setdefault("kept", {})
        whole, before = kept.get(name, (None, 0))
        if whole is None:
            whole = np.zeros(self.padded.graph.shape(name), value.dtype)
        if before > extent:
            whole[self._places(whole, spans, before)] = 0
        whole[self._places(whole, spans, extent)] = value
        kept[name] = whole, extent
        return whole

    def _true(self, value: AnyArray, spans: Mapping[int, Span], extent: int) -> AnyArray:
        if not spans or extent == self.padded.extent:
            return value
        return value[self._places(value, spans, extent)]

    def _places(self, whole: AnyArray, spans: Mapping[int, Span], extent: int) -> tuple[slice, ...]:
        anchor: Anchor = self.padded.anchor
        return tuple(
            anchor.place(n, spans[axis].extent(extent)) if axis in spans else slice(None)
            for axis, n in enumerate(whole.shape)
        )

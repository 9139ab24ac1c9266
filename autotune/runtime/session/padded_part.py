"""A part that runs every extent of an open dimension up to its own, on padded inputs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from weakref import WeakValueDictionary

import numpy as np

from autotune.graph.padding.padded_graph import PaddedGraph
from autotune.graph.padding.spans import Span
from autotune.runtime.execution.ownership import owned
from autotune.runtime.execution.values import AnyArray
from autotune.runtime.session.graph_session import GraphSession
from autotune.runtime.session.tiered_part import TieredPart

Places = tuple[slice, ...]
_Growth = tuple[tuple[int, ...], tuple[tuple[int, Span], ...]]
"""Shape of a padded tensor, and its axes that grow."""


class PaddedPart:
    """Programs of a ``PaddedGraph``. Safe to use from several threads.

    What a run returned and the next one is fed, as a decoder's cache is, is taken where it is: it lies in padding of
    zeros. Of other inputs each thread keeps its padded ones: a run copies what is true, and clears what was true before.
    """

    def __init__(self, padded: PaddedGraph, part: TieredPart) -> None:
        self.padded, self.part = padded, part
        self._local = threading.local()
        self._clean: WeakValueDictionary[int, AnyArray] = WeakValueDictionary()
        """Outputs that callers hold, in padding of zeros, by ``id``. A part of one lies in what it was cut from."""
        self._inputs = [(x, _growth(padded, x, spans)) for x, spans in padded.inputs.items()]
        self._outputs = [(x, _growth(padded, x, spans)) for x, spans in padded.outputs.items()]
        self._growths = {one for _, one in (*self._inputs, *self._outputs) if one is not None}

    def fits(self, extent: int) -> bool:
        """True if it is right for an extent, and its programs are there or may come."""
        is_held = self.padded.least <= extent <= self.padded.extent
        return is_held and not self.part.has_failed

    @property
    def is_compiled(self) -> bool:
        """True if its programs are there; until then numpy runs it."""
        return self.part.compiled is not None

    def has(self, session: GraphSession) -> bool:
        """Return True if its programs are those of a session."""
        part = self.part.compiled
        return part is not None and part.session is session

    def run(self, inputs: Mapping[str, AnyArray], extent: int) -> dict[str, AnyArray]:
        """Outputs by name, for inputs whose open dimension has ``extent``."""
        padded = self.padded
        places = {one: self._places(one, extent) for one in self._growths}
        fed = {
            x: inputs[x] if one is None else self._padded(x, inputs[x], extent, places[one], one[0])
            for x, one in self._inputs
        }
        fed |= {m.name: m.values(padded.extent, extent, padded.anchor) for m in padded.masks}
        is_compiled = self.is_compiled
        made = self.part.run(fed)
        if not is_compiled:  # numpy gives views of what this thread feeds again
            made = owned(made, fed)
        return {
            x: made[x] if one is None else self._true(x, made[x], places[one])
            for x, one in self._outputs
        }

    def close(self) -> None:
        """Close its programs."""
        self.part.close()

    def _padded(
        self, name: str, value: AnyArray, extent: int, places: Places, shape: tuple[int, ...]
    ) -> AnyArray:
        if value.shape == shape:
            return value
        base = value.base if self._clean.get(id(value)) is value else None
        if isinstance(base, np.ndarray) and base.shape == shape:
            is_kept = _is_same_view(value, base[places])
            if is_kept:
                return base
        kept: dict[str, tuple[AnyArray, int, Places]] = self._local.__dict__.setdefault("kept", {})
        whole, before, cleared = kept.get(name, (None, 0, places))
        if whole is None:
            whole = np.zeros(shape, value.dtype)
        if before > extent:
            whole[cleared] = 0
        whole[places] = value
        kept[name] = whole, extent, places
        return whole

    def _true(self, name: str, value: AnyArray, places: Places) -> AnyArray:
        view = value[places]
        if name in self.padded.clean:
            self._clean[id(view)] = view
        return view

    def _places(self, growth: _Growth, extent: int) -> Places:
        """Where the true elements of a tensor lie."""
        shape, spans = growth
        found = [slice(None)] * len(shape)
        for axis, span in spans:
            found[axis] = self.padded.anchor.place(shape[axis], span.extent(extent))
        return tuple(found)


def _growth(padded: PaddedGraph, name: str, spans: Mapping[int, Span]) -> _Growth | None:
    return (padded.graph.shape(name), tuple(spans.items())) if spans else None


def _is_same_view(one: AnyArray, other: AnyArray) -> bool:
    """Return True if two arrays are the same elements of the same memory."""
    begins = (array.__array_interface__["data"][0] for array in (one, other))
    return (one.shape, one.strides, one.dtype) == (other.shape, other.strides, other.dtype) and (
        next(begins) == next(begins)
    )

"""Cache of padded networks: a bucket that was proved once is proved no more while its file is unchanged.

An entry holds the operators, and constants as places in the weights of the file. Only what import made
of them, such as folded scales, has its numbers in the entry.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np

from autotune.disk.cache import DiskCache
from autotune.disk.file_stamp import FileStamp
from autotune.disk.home import cache_folder
from autotune.disk.source_version import hash_sources
from autotune.errors import AutotuneError
from autotune.frontend.model_file import is_whole
from autotune.graph.padding.padded_graph import Mask, PaddedGraph, Spans
from autotune.graph.padding.rules import Neutral
from autotune.graph.padding.spans import Anchor, Span
from autotune.graph.serialization import graph_of, plain_graph
from autotune.operators.tensor import Array
from autotune.runtime.caches.network_cache import file_sources_version

SCHEMA = 2
DECIDING = ("runtime/session/buckets.py", "runtime/session/open_dims.py", "runtime/caches")
"""Sources that decide a padded network, besides those that read a file."""
MOST_BYTES = 16 << 20
"""Numbers that an entry holds at most; a network with more constants of its own is proved each time."""
_HEAD_BYTES = 8


class PaddedCache:
    """Padded networks of one file, as a session read it. Safe to use from several threads and processes.

    Never raises for what the disk does: a network that cannot be kept only costs time.
    """

    def __init__(
        self,
        stamp: FileStamp,
        dims: Mapping[str, int],
        weights: Sequence[memoryview],
        folder: Path | None = None,
    ) -> None:
        """``weights`` are the file's, ``dims`` the dimensions that were bound. None in ``folder`` means the user's
        cache."""
        self._stamp, self._dims = stamp, sorted(dims.items())
        self._weights = tuple(weights)
        self._disk = DiskCache(cache_folder() / "padded" if folder is None else folder)

    def load(self, line: str, bucket: int) -> PaddedGraph | None:
        """Return the padded network of a bucket; None where the disk has none of this file."""
        content = self._disk.load(self._key(line, bucket))
        if content is None or not self._stamp.is_fresh:
            return None
        size = int.from_bytes(content[:_HEAD_BYTES], "little")
        numbers = content[_HEAD_BYTES + size :]
        plain = json.loads(content[_HEAD_BYTES : _HEAD_BYTES + size])
        if plain["stamp"] != asdict(self._stamp):
            return None
        try:
            constants = {x: self._array(numbers, *row) for x, *row in plain["constants"]}
            return _padded_of(plain, constants)
        except (AutotuneError, IndexError, TypeError, ValueError):  # not the weights that it is of
            return None

    def store(self, line: str, bucket: int, padded: PaddedGraph) -> None:
        """Keep the padded network of a bucket, unless it holds many numbers, or the file not all of its own."""
        rows, numbers = self._placed(padded.graph.constants)
        if len(numbers) > MOST_BYTES or not _is_kept(padded) or not self._is_whole():
            return
        plain = {"stamp": asdict(self._stamp), "constants": rows, **_plain(padded)}
        head = json.dumps(plain).encode()
        size = len(head).to_bytes(_HEAD_BYTES, "little")
        self._disk.store(self._key(line, bucket), size + head + numbers)

    def _key(self, line: str, bucket: int) -> str:
        sources = f"{file_sources_version()} {hash_sources(DECIDING)}"
        return f"padded {SCHEMA}\n{self._stamp.path}\n{self._dims}\n{line}\n{bucket}\n{sources}"

    def _is_whole(self) -> bool:
        try:
            return is_whole(Path(self._stamp.path)) and self._stamp.is_fresh
        except (OSError, AutotuneError):  # it went, or something else came to its place, meanwhile
            return False

    def _placed(self, constants: Mapping[str, Array]) -> tuple[list[list[Any]], bytes]:
        """Return name, number of the weight, first byte, shape and strides of each constant; and the numbers of those
        that lie in no weight (None), one behind the other."""
        places = sorted(
            (_address(np.frombuffer(held, np.uint8)), held.nbytes, number)
            for number, held in enumerate(self._weights)
        )
        starts = [place[0] for place in places]
        rows: list[list[Any]] = []
        numbers = bytearray()
        for name, value in constants.items():
            begin, number = _place(value, places, starts)
            held = value if number is not None else value.copy()  # dense
            if number is None:
                begin = len(numbers)
                numbers += held.tobytes()
            rows.append([name, number, begin, held.shape, held.strides])
        return rows, bytes(numbers)

    def _array(
        self, numbers: bytes, number: int | None, begin: int, shape: list[int], strides: list[int]
    ) -> Array:
        """Return a constant. Raises ``IndexError``, ``TypeError`` and ``ValueError`` for one that lies nowhere."""
        held = numbers if number is None else self._weights[number]
        return np.ndarray(tuple(shape), np.float32, held, begin, tuple(strides))


def _is_kept(padded: PaddedGraph) -> bool:
    """Return True for a network whose constants an entry can name."""
    return all(value.dtype == np.float32 for value in padded.graph.constants.values())


def _address(value: Array) -> int:
    return int(value.ctypes.data)


def _place(
    value: Array, places: Sequence[tuple[int, int, int]], starts: Sequence[int]
) -> tuple[int, int | None]:
    """Return the first byte of an array within a weight, and the weight's number; None where it is in none."""
    low, high = np.lib.array_utils.byte_bounds(value)
    index = bisect_right(starts, low) - 1
    if index < 0 or value.size == 0:
        return 0, None
    begin, size, number = places[index]
    is_inside = high <= begin + size
    return _address(value) - begin, number if is_inside else None


def _plain(padded: PaddedGraph) -> dict[str, Any]:
    """Return all of a padded network but its constants as JSON values."""
    return {
        "graph": plain_graph(padded.graph),
        "extent": padded.extent,
        "least": padded.least,
        "anchor": padded.anchor.value,
        "masks": [[m.name, astuple(m.span), m.trailing, m.neutral.value] for m in padded.masks],
        "inputs": _plain_spans(padded.inputs),
        "outputs": _plain_spans(padded.outputs),
        "clean": sorted(padded.clean),
    }


def _padded_of(plain: Mapping[str, Any], constants: Mapping[str, Array]) -> PaddedGraph:
    """Read a padded network from ``_plain``. Raises ``ModelError`` for no legal network."""
    return PaddedGraph(
        graph_of(plain["graph"], constants),
        plain["extent"],
        plain["least"],
        Anchor(plain["anchor"]),
        tuple(
            Mask(name, Span(*span), trailing, Neutral(neutral))
            for name, span, trailing, neutral in plain["masks"]
        ),
        _spans_of(plain["inputs"]),
        _spans_of(plain["outputs"]),
        frozenset(plain["clean"]),
    )


def _plain_spans(spans: Spans) -> list[Any]:
    return [[x, [[axis, astuple(one)] for axis, one in held.items()]] for x, held in spans.items()]


def _spans_of(plain: list[Any]) -> Spans:
    return {x: {axis: Span(*one) for axis, one in held} for x, held in plain}

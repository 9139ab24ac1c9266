"""Trace files, written part by part: a long run never stands in memory as text."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autotune.disk.atomic_file import FileKind, replacing
from autotune.report.trace_events import TracedPart, metadata
from autotune.targets.emulator.trace import EVENT_LIMIT, Trace
from autotune.targets.spec import HardwareSpec

KIND = FileKind("trace", (b'{"displaytimeunit":', b"\x1f\x8b"))
_COMPRESSION = 3
"""Of zlib: the text repeats itself, higher levels cost time and save little."""


class TraceFile:
    """A trace-event file being written; programs are added in the order in which they ran.

    ``recorded`` counts the events in it, ``dropped`` those that went beyond ``limit``.
    """

    def __init__(
        self, stream: BinaryIO | gzip.GzipFile, title: str, spec: HardwareSpec, limit: int
    ) -> None:
        self._stream = stream
        self._spec = spec
        self._limit = limit
        self._nanoseconds = 0
        self.recorded = self.dropped = 0
        stream.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        stream.write(",\n".join(metadata(title, spec.cores)).encode())

    @property
    def room(self) -> int:
        """Events left for the next program, at least 1."""
        return max(1, self._limit - self.recorded)

    def add(self, trace: Trace, label: str) -> None:
        """Add the trace of the next program; ``label`` names its operators."""
        kept = trace.first(self._limit - self.recorded)
        self.recorded += len(kept.events)
        self.dropped += kept.dropped
        part = TracedPart(kept, label, self._spec.cores, self._nanoseconds)
        for line in part.lines():
            self._stream.write(b",\n" + line.encode())
        self._nanoseconds = part.end_nanoseconds

    def finish(self) -> None:
        """Close the document."""
        notes = {
            "target": self._spec.name,
            "hardware profile": self._spec.profile_id,
            "nominal clock Hz": self._spec.clock_hz,
            "dropped events": self.dropped,
        }
        self._stream.write(b'\n],"otherData":' + json.dumps(notes).encode() + b"}\n")


@contextmanager
def writing(
    path: Path, title: str, spec: HardwareSpec, limit: int = EVENT_LIMIT
) -> Iterator[TraceFile]:
    """A trace file of a machine like ``spec``, gzipped where ``path`` ends in ``.gz``; it appears when
    the block ends, whole or not at all. ``title`` names the run.

    Raises ``InputError`` for a path that cannot be a file's, ``OSError`` naming it when writing fails.
    """
    with replacing(path, KIND) as plain:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", _COMPRESSION, plain, mtime=0) as packed:
                yield from _written(packed, title, spec, limit)
        else:
            yield from _written(plain, title, spec, limit)


def _written(
    stream: BinaryIO | gzip.GzipFile, title: str, spec: HardwareSpec, limit: int
) -> Iterator[TraceFile]:
    file = TraceFile(stream, title, spec, limit)
    yield file
    file.finish()

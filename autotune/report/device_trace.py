"""Trace file of a run on several devices: a process for each device and one for the links, on one clock.

The format is that of ``trace_events``. Times are those of the run's timeline: emulated devices and links by their own
clocks, this CPU as measured.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.disk.atomic_file import replacing
from autotune.report.trace_file import KIND
from autotune.targets.device_set import DeviceSet
from autotune.tuner.placement.timeline import Timeline, Transfer

_LINKS = "links"


@dataclass(frozen=True, slots=True)
class DeviceTrace:
    """A timeline to be written; ``labels`` are the operators of its tasks by their number."""

    title: str
    devices: DeviceSet
    labels: Sequence[str]
    timeline: Timeline

    def write(self, path: Path) -> None:
        """Write the file whole or not at all, gzipped where ``path`` ends in ``.gz``.

        Raises ``InputError`` for a path that cannot be a file's, ``OSError`` naming it when writing fails.
        """
        text = json.dumps(self.document()).encode()
        with replacing(path, KIND) as stream:
            stream.write(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)

    def document(self) -> dict[str, Any]:
        """Return the trace as JSON has it."""
        return {
            "displayTimeUnit": "ns",
            "traceEvents": [*self._tracks(), *self._groups(), *self._transfers()],
            "otherData": {
                "network": self.title,
                "devices": self.devices.name,
                "links": self.devices.links.description,
                "makespan seconds": self.timeline.makespan_seconds,
            },
        }

    @property
    def _ways(self) -> tuple[tuple[int, int], ...]:
        """Directions of links that carry something, in order."""
        return tuple(sorted({(one.source, one.destination) for one in self.timeline.transfers}))

    def _name(self, device: int) -> str:
        names = [*(one.name for one in self.devices.devices), "cpu"]
        return names[device]

    def _tracks(self) -> Iterator[dict[str, Any]]:
        for number, device in enumerate(self.devices.devices):
            yield from _process(number + 1, device.name, ("groups",))
        ways = [f"{self._name(a)} to {self._name(b)}" for a, b in self._ways]
        yield from _process(self._links_process, _LINKS, ways)

    @property
    def _links_process(self) -> int:
        return len(self.devices.devices) + 1

    def _groups(self) -> Iterator[dict[str, Any]]:
        for slot in self.timeline.slots:
            if slot.device >= len(self.devices.devices) or not self.labels[slot.task]:
                continue
            span = _span(slot.begin_seconds, slot.end_seconds)
            device = self._name(slot.device)
            process = slot.device + 1
            yield _slice(self.labels[slot.task], "group", process, 0, span, {"device": device})

    def _transfers(self) -> Iterator[dict[str, Any]]:
        for one in self.timeline.transfers:
            thread = self._ways.index((one.source, one.destination))
            span = _span(one.begin_seconds, one.end_seconds)
            args = {"bytes": one.size_bytes, "for": self._readers(one)}
            yield _slice(one.tensor, "transfer", self._links_process, thread, span, args)

    def _readers(self, one: Transfer) -> str:
        return f"{self._name(one.source)} to {self._name(one.destination)}"


def _process(pid: int, name: str, threads: Sequence[str]) -> Iterator[dict[str, Any]]:
    yield _meta("process_name", pid, 0, {"name": name})
    yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
    for place, thread in enumerate(threads):
        yield _meta("thread_name", pid, _thread(pid, place), {"name": thread})


def _meta(what: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, **({"tid": tid} if tid else {}), "args": args}


def _slice(
    name: str, category: str, pid: int, thread: int, span: dict[str, float], args: dict[str, Any]
) -> dict[str, Any]:
    track = {"ph": "X", "pid": pid, "tid": _thread(pid, thread)}
    return {"name": name, "cat": category, **track, **span, "args": args}


def _thread(pid: int, place: int) -> int:
    """Unlike every process and every other thread: viewers look threads up by this number alone."""
    return 1_000 * pid + place


def _span(begin_seconds: float, end_seconds: float) -> dict[str, float]:
    """Return begin and length in microseconds, both ends at whole nanoseconds so that neighbours touch."""
    begin, end = round(1e9 * begin_seconds), round(1e9 * end_seconds)
    return {"ts": begin / 1e3, "dur": (end - begin) / 1e3}

"""Trace file of a run on several devices: groups and transfers of all, and the units of emulated ones, on one clock.

The format is that of ``trace_events``. Times are those of the run's timeline: emulated devices and links by their own
clocks, this CPU as measured. Groups of an emulated device are executed once more, without numbers, for what its units did.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.disk.atomic_file import replacing
from autotune.isa.program import Program
from autotune.report.trace_events import TracedPart, metadata, processes
from autotune.report.trace_file import KIND
from autotune.targets.device_set import DeviceSet
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.emulator.trace import EVENT_LIMIT
from autotune.tuner.placement.timeline import Slot, Timeline


@dataclass
class DeviceTrace:
    """A timeline to be written. ``groups`` are label and program of its tasks by their number; None for inputs, outputs
    and views. ``limit`` bounds the events of units; ``recorded`` and ``dropped`` count them once it is written."""

    title: str
    devices: DeviceSet
    groups: Sequence[tuple[str, Program] | None]
    timeline: Timeline
    limit: int = EVENT_LIMIT
    recorded: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)

    def write(self, path: Path) -> None:
        """Write the file whole or not at all, gzipped where ``path`` ends in ``.gz``.

        Raises ``InputError`` for a path that cannot be a file's, ``OSError`` naming it when writing fails.
        """
        lines = ",\n".join((*self._tracks(), *self._slots(), *self._transfers()))
        notes = {
            "network": self.title,
            "devices": self.devices.name,
            "links": self.devices.links.description,
            "makespan seconds": self.timeline.makespan_seconds,
            "dropped events": self.dropped,
        }
        text = f'{{"displayTimeUnit":"ns","traceEvents":[\n{lines}\n],"otherData":{json.dumps(notes)}}}\n'
        data = text.encode()
        with replacing(path, KIND) as stream:
            stream.write(gzip.compress(data, 3, mtime=0) if path.suffix == ".gz" else data)

    @property
    def _bases(self) -> list[int]:
        """Numbers before the first process of each device; the last one is that of the links."""
        bases = [0]
        for device in self.devices.devices:
            own = processes(device.spec.cores) if isinstance(device, EmulatorTarget) else 1
            bases.append(bases[-1] + own)
        return bases

    @property
    def _ways(self) -> tuple[tuple[int, int], ...]:
        """Directions of links that carry something, in order."""
        return tuple(sorted({(one.source, one.destination) for one in self.timeline.transfers}))

    def _name(self, device: int) -> str:
        return [*self.devices.names, "cpu"][device]

    def _tracks(self) -> Iterator[str]:
        for base, (name, device) in zip(self._bases, self.devices.by_name.items(), strict=False):
            if isinstance(device, EmulatorTarget):
                yield from metadata(name, device.spec.cores, base, name)
            else:
                yield from _process(base + 1, name, ("groups",))
        ways = [f"{self._name(a)} to {self._name(b)}" for a, b in self._ways]
        yield from _process(self._bases[-1] + 1, "links", ways)

    def _slots(self) -> Iterator[str]:
        for slot in sorted(self.timeline.slots, key=lambda one: (one.begin_seconds, one.task)):
            group = self.groups[slot.task]
            if group is not None:
                yield from self._slot(slot, *group)

    def _slot(self, slot: Slot, label: str, program: Program) -> Iterator[str]:
        device, base = self.devices.devices[slot.device], self._bases[slot.device]
        if not isinstance(device, EmulatorTarget):
            span = _span(slot.begin_seconds, slot.end_seconds)
            yield _slice(label, "group", base + 1, 0, span, {"device": self._name(slot.device)})
            return
        room = self.limit - self.recorded
        trace = device.trace(program, limit=max(1, room))[1].first(max(0, room))
        self.recorded += len(trace.events)
        self.dropped += trace.dropped
        begin = round(1e9 * slot.begin_seconds)
        yield from TracedPart(trace, label, device.spec.cores, begin, base).lines()

    def _transfers(self) -> Iterator[str]:
        for one in self.timeline.transfers:
            thread = self._ways.index((one.source, one.destination))
            span = _span(one.begin_seconds, one.end_seconds)
            way = f"{self._name(one.source)} to {self._name(one.destination)}"
            args = {"bytes": one.size_bytes, "way": way}
            yield _slice(one.tensor, "transfer", self._bases[-1] + 1, thread, span, args)


def _process(pid: int, name: str, threads: Sequence[str]) -> Iterator[str]:
    yield _meta("process_name", pid, 0, {"name": name})
    yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
    for place, thread in enumerate(threads):
        yield _meta("thread_name", pid, _thread(pid, place), {"name": thread})


def _meta(what: str, pid: int, tid: int, args: dict[str, Any]) -> str:
    return json.dumps(
        {"name": what, "ph": "M", "pid": pid, **({"tid": tid} if tid else {}), "args": args}
    )


def _slice(
    name: str, category: str, pid: int, thread: int, span: dict[str, float], args: dict[str, Any]
) -> str:
    track = {"ph": "X", "pid": pid, "tid": _thread(pid, thread)}
    return json.dumps({"name": name, "cat": category, **track, **span, "args": args})


def _thread(pid: int, place: int) -> int:
    """Unlike every process and every other thread: viewers look threads up by this number alone."""
    return 1_000 * pid + place


def _span(begin_seconds: float, end_seconds: float) -> dict[str, float]:
    """Return begin and length in microseconds, both ends at whole nanoseconds so that neighbours touch."""
    begin, end = round(1e9 * begin_seconds), round(1e9 * end_seconds)
    return {"ts": begin / 1e3, "dur": (end - begin) / 1e3}

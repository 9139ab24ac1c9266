"""Traces in the trace-event format of chrome://tracing and Perfetto: one line of JSON per event.

The format is Google's "Trace Event Format" (document 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU):
metadata (phase M) names processes and threads, complete events (X) are slices, C are counters. A
machine is a process per core with a thread per unit, and one process for DRAM. Perfetto keeps whole
nanoseconds and drops slices of a thread that overlap after rounding, hence times are rounded to
nanoseconds here, ends and not lengths, so that neighbours keep touching; args have the cycles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.isa.assembly import instruction_text
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.targets.emulator.reading import CAUSES, UNITS
from autotune.targets.emulator.trace import CHANNEL, Trace

_PLAN = 1
"""Process of the groups; the cores' follow, then that of DRAM."""
_CAUSE_NAMES = tuple(CAUSES)


def metadata(title: str, cores: int, base: int = 0, machine: str = "") -> Iterator[str]:
    """Names and order of the tracks. Of several machines each has its ``base``, ``processes`` apart, and its name."""
    of = f"{machine} " if machine else ""
    yield from _process(base + _PLAN, title, ("groups",))
    for core in range(cores):
        yield from _process(base + _core(core), f"{of}core {core}", UNITS)
    yield from _process(base + _core(cores), f"{of}DRAM", ("channel",))


def processes(cores: int) -> int:
    """Return the number of processes of a machine with so many cores."""
    return cores + 2


def _process(pid: int, name: str, threads: Sequence[str]) -> Iterator[str]:
    yield _named("process_name", pid, 0, "name", name)
    yield _named("process_sort_index", pid, 0, "sort_index", pid)
    for i, thread in enumerate(threads):
        yield _named("thread_name", pid, _thread(pid, i), "name", thread)
        yield _named("thread_sort_index", pid, _thread(pid, i), "sort_index", i)


def _named(what: str, pid: int, tid: int, key: str, value: str | int) -> str:
    thread = {"tid": tid} if tid else {}
    return json.dumps({"name": what, "ph": "M", "pid": pid, **thread, "args": {key: value}})


def _core(core: int) -> int:
    return _PLAN + 1 + core


def _thread(pid: int, place: int) -> int:
    """Unlike every process and every other thread: viewers look threads up by this number alone."""
    return 1_000 * pid + place


def _microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03}"


def _span(begin: int, end: int) -> str:
    return f'"ts":{_microseconds(begin)},"dur":{_microseconds(end - begin)}'


@dataclass(frozen=True, slots=True)
class TracedPart:
    """A traced program as a part of a run that began ``begin_nanoseconds`` before it, on a machine of
    ``cores``; ``label`` says what it computes."""

    trace: Trace
    label: str
    cores: int
    begin_nanoseconds: int
    base: int = 0
    """Number before the machine's first process; 0 in a trace of one machine."""

    @property
    def end_nanoseconds(self) -> int:
        """Where the next part begins."""
        return self.begin_nanoseconds + round(self.trace.cycles * 1e9 / self.trace.clock_hz)

    def lines(self) -> Iterator[str]:
        """The slice of the group, then those of units and channel, each track in order of time."""
        yield self._group_line()
        texts = _Texts(self)
        busy = _Busy(self.base + _core(self.cores))
        events = self.trace.events
        times = (
            (self.trace.nanoseconds(events[name]) + self.begin_nanoseconds).tolist()
            for name in ("since", "start", "end")
        )
        for event, since, start, end in zip(events.tolist(), *times, strict=True):
            core, unit, word = event[3:6]
            if unit == CHANNEL:
                yield from busy.transfer(start, end, texts.writes(core, word))
                yield texts.transfer(event, _span(start, end))
                continue
            if event[0] < event[1]:
                yield texts.stall(event, _span(since, start))
            yield texts.instruction(event, _span(start, end))
        yield from busy.finish()

    def _group_line(self) -> str:
        program = self.trace.program
        args = {
            "program": program.name,
            "cycles": self.trace.cycles,
            "instructions": sum(map(len, program.streams)),
            "dropped events": self.trace.dropped,
        }
        span = _span(self.begin_nanoseconds, self.end_nanoseconds)
        return (
            f'{{"name":{json.dumps(self.label)},"cat":"group","ph":"X","pid":{self.base + _PLAN},'
            f'"tid":{_thread(self.base + _PLAN, 0)},{span},"args":{json.dumps(args)}}}'
        )


class _Texts:
    """Slices as text, most of which is the same whenever an instruction executes: made once."""

    def __init__(self, part: TracedPart) -> None:
        self._program: Program = part.trace.program
        self._label = json.dumps(part.label)
        self._base = part.base
        channel = part.base + _core(part.cores)
        self._channel = f'"ph":"X","pid":{channel},"tid":{_thread(channel, 0)}'
        self._heads: dict[tuple[int, int], tuple[str, str, str]] = {}
        self._transfers: dict[tuple[int, int], str] = {}

    def writes(self, core: int, word: int) -> bool:
        """Whether a transfer goes to DRAM."""
        return self._program.streams[core][word].opcode is Opcode.STORE

    def instruction(self, event: tuple[int, ...], span: str) -> str:
        since, start, end, core, unit, word, cause = event
        head, args, _ = self._head(core, unit, word)
        stalled = ""
        if since < start:
            stalled = f',"stall":"{_CAUSE_NAMES[cause]}","stall cycles":{start - since}'
        return f'{head},{span},{args}{stalled},"start cycle":{start},"cycles":{end - start}}}}}'

    def stall(self, event: tuple[int, ...], span: str) -> str:
        since, start, _, core, unit, word, cause = event
        track = self._head(core, unit, word)[2]
        name = _CAUSE_NAMES[cause]
        return (
            f'{{"name":"{name}","cat":"stall",{track},{span},"args":{{"cause":"{CAUSES[name]}",'
            f'"before instruction":{word},"start cycle":{since},"cycles":{start - since}}}}}'
        )

    def transfer(self, event: tuple[int, ...], span: str) -> str:
        _, start, end, core, _, word, _ = event
        head = self._transfers.get((core, word))
        if head is None:
            way = "write" if self.writes(core, word) else "read"
            instruction = self._program.streams[core][word]
            name = json.dumps(f"{way} {self._program.tensors[instruction.get('tensor')].name}")
            head = self._transfers[core, word] = (
                f'{{"name":{name},"cat":"dram",{self._channel},"args":{{"core":{core},'
                f'"instruction":{word},"text":{json.dumps(instruction_text(instruction))},'
                f'"group":{self._label}'
            )
        return f'{head},"start cycle":{start},"cycles":{end - start}}},{span}}}'

    def _head(self, core: int, unit: int, word: int) -> tuple[str, str, str]:
        """Begin of the slice, begin of its args, and its track."""
        found = self._heads.get((core, word))
        if found is None:
            instruction = self._program.streams[core][word]
            process = self._base + _core(core)
            track = f'"ph":"X","pid":{process},"tid":{_thread(process, unit)}'
            head = f'{{"name":"{instruction.opcode.name}","cat":"{UNITS[unit]}",{track}'
            args = (
                f'"args":{{"instruction":{word},"text":{json.dumps(instruction_text(instruction))},'
                f'"group":{self._label}'
            )
            found = self._heads[core, word] = (head, args, track)
        return found


class _Busy:
    """Counter of what the DRAM channel does: a line whenever that changes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._state = (0, 0)
        self._until = 0

    def transfer(self, begin: int, end: int, writes: bool) -> Iterator[str]:
        """The next transfer on the channel."""
        if begin > self._until:
            yield from self._change(self._until, (0, 0))
        yield from self._change(begin, (int(not writes), int(writes)))
        self._until = end

    def finish(self) -> Iterator[str]:
        """Nothing follows."""
        yield from self._change(self._until, (0, 0))

    def _change(self, at: int, state: tuple[int, int]) -> Iterator[str]:
        if state == self._state:
            return
        self._state = state
        yield (
            f'{{"name":"DRAM busy","ph":"C","pid":{self._pid},"ts":{_microseconds(at)},'
            f'"args":{{"read":{state[0]},"write":{state[1]}}}}}'
        )

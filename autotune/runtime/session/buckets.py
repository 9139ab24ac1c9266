"""Buckets: programs for ranges of an open dimension, which run new shapes on padded inputs.

Once a dimension is seen to vary, the network is imported at some extents of it in the background. If
they prove that padding does not reach the results, programs for the next larger bucket serve all
extents below it; before a dimension that grows step by step leaves its bucket, the next is compiled.
A decoder is opened with its first bucket: its declared inputs tell which dimension grows.
What was proved once is kept on disk.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from autotune.errors import one_line
from autotune.frontend.importing import sample_extents
from autotune.frontend.open_extent import SAMPLES, check_extrapolates
from autotune.frontend.source_model import SourceModel
from autotune.graph.graph import Graph
from autotune.graph.padding.padded_graph import PaddedGraph, padded_graph
from autotune.graph.padding.spans import Anchor, Samples, Unfit
from autotune.runtime.caches.padded_cache import PaddedCache
from autotune.runtime.execution.collector_pause import pause_collector
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.session.compile_queue import CompileQueue
from autotune.runtime.session.graph_session import GraphSession
from autotune.runtime.session.open_dims import OpenDims
from autotune.runtime.session.padded_part import PaddedPart
from autotune.runtime.session.part import Runs, SessionPart
from autotune.runtime.session.tiered_part import TieredPart

BUCKETS_KEPT = 8
"""Buckets of one model; the one that was not used for longest goes first."""
_SEEN = 256
"""Lines whose newest extents are remembered."""
_GROWING_BUCKET = 255
"""Least bucket of a dimension that grows by one from run to run, as a decoder's past does: a bucket
costs seconds to compile, a place in it next to nothing. With 127 places, generations of 200 tokens had two compiled."""
_PROOF_SECONDS = 0.5
"""Time that steps of a decoder wait for a bucket's proof at most. Importing its own shape takes a quarter of a proof,
slows the proof, and serves no other step."""


@dataclass(frozen=True, slots=True)
class Line:
    """All shapes that differ in one open dimension: its name, and the other extents."""

    symbol: str
    others: tuple[tuple[str, int], ...]

    def at(self, extent: int) -> dict[str, int]:
        """All extents at one of the dimension."""
        return {**dict(self.others), self.symbol: extent}

    @property
    def text(self) -> str:
        """The line as a key."""
        return f"{self.symbol} {self.others}"


class Buckets:
    """Padded programs of a model by line and extent. Safe to use from several threads."""

    def __init__(
        self,
        model: SourceModel,
        name: str,
        dims: OpenDims,
        make_part: Callable[[Graph], TieredPart],
        queues: tuple[CompileQueue, CompileQueue],
        runs: Runs,
        kept: PaddedCache | None = None,
    ) -> None:
        """``queues`` prove buckets, and compile them; ``kept`` are those that were proved before."""
        self._model, self._name, self._dims, self._kept = model, name, dims, kept
        self._make_part, self._runs = make_part, runs
        self._proofs, self._queue = queues
        self._lock = threading.Condition()
        """Notified when a bucket is there, or is refused."""
        self._parts: OrderedDict[tuple[Line, int], PaddedPart | None] = OrderedDict()
        """None for a bucket that is being made."""
        self._newest: OrderedDict[Line, int] = OrderedDict()
        self._patience: dict[Line, float] = {}
        """When steps wait for a proof no more."""
        self._limits: dict[str, int] = {}
        """Least bucket of a dimension that was refused."""
        self._closed = False

    def prepare_steps(self) -> None:
        """Make the first bucket of a decoder's cache, for steps of one token of one sequence, and its programs: by this
        thread, with all cores. While runs wait with numpy, that takes several times as long."""
        symbol = self._dims.cache
        if symbol is None:
            return
        line = Line(symbol, tuple((x, 1) for x in self._dims.symbols if x != symbol))
        with self._lock:
            self._parts[line, _GROWING_BUCKET] = None
        self.make(line, _GROWING_BUCKET, lambda part: part.make())

    def find(self, extents: Mapping[str, int]) -> tuple[PaddedPart, int] | None:
        """Return the smallest bucket that holds a run's extents, a compiled one where there is one, and
        the extent of its dimension."""
        with self._lock:
            for line in self._lines(extents):
                extent = extents[line.symbol]
                fitting = [
                    (not part.is_compiled, bucket, part)
                    for (one, bucket), part in self._parts.items()
                    if one == line and part is not None and part.fits(extent)
                ]
                if fitting:
                    _, bucket, part = min(fitting, key=lambda row: row[:2])
                    self._parts.move_to_end((line, bucket))
                    return part, extent
        return None

    @property
    def compiled(self) -> tuple[SessionPart, ...]:
        """The programs of all buckets that have some."""
        with self._lock:
            held = [part.part.compiled for part in self._parts.values() if part is not None]
        return tuple(part for part in held if part is not None)

    def wait_proof(self, extents: Mapping[str, int]) -> None:
        """Return when no bucket for the extents of a decoder's step is being proved, or half a second after the first
        step that waited for it."""
        line = next((x for x in self._lines(extents) if x.symbol == self._dims.cache), None)
        if line is None:
            return
        extent = extents[line.symbol]
        with self._lock:
            if self._is_proving(line, extent):
                now = time.monotonic()
                until = self._patience.setdefault(line, now + _PROOF_SECONDS)
                self._lock.wait_for(
                    lambda: not self._is_proving(line, extent), max(0.0, until - now)
                )

    def _is_proving(self, line: Line, extent: int) -> bool:
        """Return True if a bucket that holds an extent is being proved."""
        rows = self._parts.items()
        return any(one == line and x is None and extent <= bucket for (one, bucket), x in rows)

    def note(self, extents: Mapping[str, int]) -> bool:
        """Note a run's extents; have a bucket made if a dimension varies and none holds it, or soon
        will not. Return True if a bucket serves such extents, is being made, or may be: any shape but
        the first may be one of many, and any of a decoder."""
        wanted: list[tuple[Line, int]] = []
        with self._lock:
            if self._closed:
                return False
            is_alone = not self._newest and not self._parts
            for line in self._lines(extents):
                wanted += self._wanted(line, extents[line.symbol])
            made = [key for key in wanted if key not in self._parts]
            self._parts |= dict.fromkeys(made)
        for line, bucket in made:
            self._start(line, bucket)
        return bool(wanted) or (not is_alone and bool(self._lines(extents)))

    def _start(self, line: Line, bucket: int) -> None:
        if not self._proofs.put(_Making(self, line, bucket)):
            self._settle(line, bucket, None)

    def give_up(self, session: GraphSession) -> bool:
        """Close the bucket whose programs a session has; return False if there is none. It is made again when it is wanted."""
        with self._lock:
            key = next(
                (k for k, x in self._parts.items() if x is not None and x.has(session)), None
            )
            part = None if key is None else self._parts.pop(key)
        if part is not None:
            part.close()
        return part is not None

    def close(self) -> None:
        """Close all programs; none is made afterwards. Raises what closing one of them raised, after all are closed."""
        with self._lock:
            self._closed = True
            parts = [part for part in self._parts.values() if part is not None]
            self._parts.clear()
        with ExitStack() as closing:
            for part in parts:
                closing.callback(part.close)

    def _lines(self, extents: Mapping[str, int]) -> list[Line]:
        return [
            Line(symbol, tuple((x, n) for x, n in extents.items() if x != symbol))
            for symbol in self._dims.symbols
            if self._limits.get(symbol) != 0
        ]

    def _wanted(self, line: Line, extent: int) -> list[tuple[Line, int]]:
        """The buckets that a line should have, given its newest extent and the one before."""
        before = self._newest.get(line)
        self._newest[line] = extent
        self._newest.move_to_end(line)
        if len(self._newest) > _SEEN:
            self._newest.popitem(last=False)
        held = [bucket for one, bucket in self._parts if one == line]
        if before is None or (before == extent and not held):
            return []
        grows = extent == before + 1
        fitting = [bucket for bucket in held if bucket >= extent]
        bucket = min(fitting) if fitting else bucket_of(extent, grows)
        is_ready = (part := self._parts.get((line, bucket))) is not None and part.is_compiled
        is_half_full = grows and is_ready and extent > bucket // 2
        found = [bucket, 2 * bucket + 1] if is_half_full and len(fitting) < 2 else [bucket]
        limit = self._limits.get(line.symbol, bucket + found[-1])
        return [(line, one) for one in found if one < limit]

    def make(
        self, line: Line, bucket: int, compile_part: Callable[[TieredPart], object] | None = None
    ) -> None:
        """Prove a bucket, or read it from disk, and compile it; refuse the dimension if it cannot be proved. It is
        compiled in the background unless told otherwise."""
        part, proved = None, None
        try:
            begin = time.perf_counter()
            padded = None if self._kept is None else self._kept.load(line.text, bucket)
            if padded is None:
                padded = proved = self._proved(line, bucket)
            part = PaddedPart(padded, self._make_part(padded.graph))
            seconds = time.perf_counter() - begin
            way = "read" if proved is None else "proved"
            text = (
                f"{self._name}: {line.symbol} up to {bucket}: runs padded inputs, {way} in "
                f"{seconds:.2f} s with {len(padded.masks)} masks"
            )
            self._tell(EventKind.PADDED, text)
        # a file is imported at extents that nobody asked for: whatever ONNX or numpy raises, it is no proof
        except Exception as error:  # noqa: BLE001
            self._limit(line.symbol, bucket)
            text = f"{self._name}: {line.symbol} up to {bucket}: runs no padded inputs: {one_line(str(error)) or error}"
            self._tell(EventKind.UNPADDED, text)
        finally:
            self._settle(line, bucket, part)
        if part is None:
            return
        (compile_part or partial(self._enqueue, line, proved is not None))(part.part)
        if proved is not None and self._kept is not None:
            self._kept.store(line.text, bucket, proved)

    def _enqueue(self, line: Line, is_proved: bool, part: TieredPart) -> None:
        """Have the programs of a bucket compiled."""
        part.uses += not self._is_served(line)  # then runs wait with numpy, or soon will
        if is_proved:
            self._runs.give_way()
        self._queue.put(part)

    def _proved(self, line: Line, bucket: int) -> PaddedGraph:
        """Prove a bucket. Raises ``Unfit`` and ``ModelError``."""
        with pause_collector() as breathe:  # it would look through the imports twice, 30 ms each

            def give_way() -> None:
                breathe()
                self._runs.give_way()

            return prove(self._model, self._name, self._dims, line, bucket, give_way)

    def _is_served(self, line: Line) -> bool:
        """Return True if some bucket of a line is compiled."""
        with self._lock:
            held = [part for (one, _), part in self._parts.items() if one == line]
        return any(part is not None and part.is_compiled for part in held)

    def _limit(self, symbol: str, bucket: int) -> None:
        """Try no bucket as large again: an import may fail beyond some extent. After two refusals try
        none, if no bucket of the dimension is there."""
        with self._lock:
            again = symbol in self._limits
            held = any(line.symbol == symbol and part for (line, _), part in self._parts.items())
            smaller = min(bucket, self._limits.get(symbol, bucket))
            self._limits[symbol] = 0 if again and not held else smaller

    def _settle(self, line: Line, bucket: int, part: PaddedPart | None) -> None:
        """Put a bucket in place, or forget it."""
        gone: list[PaddedPart] = []
        with self._lock:
            self._parts.pop((line, bucket), None)
            if part is not None and self._closed:
                gone.append(part)
            elif part is not None:
                self._parts[line, bucket] = part
            ready = [key for key, held in self._parts.items() if held is not None]
            for key in ready[: max(0, len(ready) - BUCKETS_KEPT)]:
                held = self._parts.pop(key)
                assert held is not None, "only those that are ready"
                gone.append(held)
            self._lock.notify_all()
        for one in gone:
            one.close()

    def _tell(self, kind: EventKind, text: str) -> None:
        self._runs.tell([Event(kind, 0, time.time(), text, {})])


@dataclass(frozen=True, slots=True)
class _Making:
    """A bucket to make: it serves many shapes, so it comes before any one of them."""

    buckets: Buckets
    line: Line
    bucket: int
    uses: int = 1 << 30  # many shapes wait for it

    def make(self) -> None:
        """Make it."""
        self.buckets.make(self.line, self.bucket)


def bucket_of(extent: int, grows: bool) -> int:
    """Return the bucket of an extent: the next power of two; one less where the extent grows, as what
    a decoder appends makes it a power of two."""
    if grows:
        return max(_GROWING_BUCKET, (1 << extent.bit_length()) - 1)
    return max(2, 1 << (extent - 1).bit_length())


def prove(
    model: SourceModel,
    name: str,
    dims: OpenDims,
    line: Line,
    bucket: int,
    give_way: Callable[[], None] = lambda: None,
) -> PaddedGraph:
    """Return a network that is right for every extent of a dimension up to ``bucket``.

    ``give_way`` is called now and then, before steps of a tenth of a second or so. Raises ``Unfit`` where that cannot be
    proved, and ``ModelError`` as import does.
    """
    steps = (0, -1, -2, -(bucket // 2), 1, 2, 3)  # larger ones for small buckets alone
    extents = [bucket + step for step in steps if bucket + step > 1]
    inputs = {n: dims.placeholders(line.at(n)) for n in list(dict.fromkeys(extents))[:SAMPLES]}
    graphs, known = sample_extents(model, name, inputs, give_way)
    samples = Samples(graphs)
    reasons = []
    for anchor in Anchor:
        give_way()
        try:
            check_extrapolates(known, anchor)
            return padded_graph(samples, anchor)
        except Unfit as error:
            reasons.append(str(error))
    raise Unfit("; ".join(dict.fromkeys(reasons)))

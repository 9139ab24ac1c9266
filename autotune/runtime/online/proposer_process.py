"""A proposer in a process of its own: started when it is needed, ended when it is not."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from autotune.errors import AutotuneError
from autotune.graph.graph import Graph
from autotune.measure.process import start_interpreter
from autotune.operators.interval import Interval
from autotune.runtime.online.draft_transfer import DraftReceiver
from autotune.runtime.online.idle_share import IdleShare, cpu_seconds
from autotune.runtime.online.proposer import Occasion, Version
from autotune.runtime.online.proposer_worker import (
    Answered,
    Asked,
    Broken,
    Opening,
    send_array,
)
from autotune.runtime.online.thread_priority import begin_idle, set_idle
from autotune.targets.native.cpu.topology import core_count
from autotune.targets.spec import HardwareSpec

_MODULE = "autotune.runtime.online.proposer_worker"
_LOOK_SECONDS = 0.2
"""Time between two looks at whether a session that waits for its turn is still open."""
WATCH_SECONDS = 2.0
"""Time between two looks at what the worker has computed."""
LIMIT_SECONDS = 1200.0
"""How long a proposal may take; then its worker is ended."""


@dataclass(frozen=True, slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    line: Connection
    receiver: DraftReceiver

    def end(self) -> None:
        """Kill it and reap it."""
        self.process.kill()
        self.line.close()
        self.process.wait()


class ProposerProcess:
    """Proposes by a worker process with the lowest priority. For one thread; ``give_up`` may come from another one.

    Of all sessions in this process one has a worker at a time: who needs one ends that of the session before.
    """

    def __init__(
        self,
        graph: Graph,
        spec: HardwareSpec,
        ranges: Mapping[str, Interval],
        seed: int = 0,
        model: bytes | None = None,
    ) -> None:
        """``model`` is a cost model of this machine (``CostModel.to_bytes``), which ranks proposals."""
        self._graph, self._spec, self._ranges, self._seed = graph, spec, ranges, seed
        self._model = model
        self._worker: _Worker | None = None
        self._changing = threading.Lock()
        self._is_wanted = True
        self._is_late = False

    def propose(self, occasion: Occasion) -> tuple[Version, ...]:
        """Have versions proposed; waits for it. Raises ``AutotuneError`` if the worker has died, hangs, or met a
        defect."""
        with _SLOT.taken(self), ExitStack() as broken:
            broken.callback(self.close)  # half an answer may be left on the line
            try:
                with self._limited():
                    answer = self._proposed(occasion)
            except (OSError, EOFError, ValueError) as error:
                reason = f"no answer after {LIMIT_SECONDS:g} s" if self._is_late else repr(error)
                raise AutotuneError(f"the proposing process ended: {reason}") from error
            broken.pop_all()  # it is whole
        if isinstance(answer, Broken):
            raise AutotuneError(answer.reason)
        return answer

    def _proposed(self, occasion: Occasion) -> tuple[Version, ...] | Broken:
        worker = self._running()
        answer = self._answer(worker.line, occasion)
        if isinstance(answer, Broken):
            return answer
        receive = worker.receiver.receive
        return tuple(Version(one.edits, receive(one.draft), one.refused) for one in answer)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Kill the worker if this takes too long: whoever sends to it or waits for it then gets an ``OSError``.

        Where no core is ever idle it runs at the lowest priority meanwhile (``IdleShare``).
        """
        self._is_late, over = False, threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()

    def _watch(self, over: threading.Event) -> None:
        end = time.monotonic() + LIMIT_SECONDS
        watched: _Worker | None = None
        share: IdleShare | None = None
        while not over.wait(max(0.0, min(WATCH_SECONDS, end - time.monotonic()))):
            worker, now = self._worker, time.monotonic()
            computed = None if worker is None else cpu_seconds(worker.process.pid)
            if worker is None or computed is None:
                share = None
            elif share is None or worker is not watched:
                watched, share = worker, IdleShare(now, computed, core_count())
            else:
                was_hurried = share.may_hurry
                if share.look(now, computed) is not was_hurried:
                    set_idle(worker.process.pid, was_hurried)
            if now >= end:
                self._kill()
                break
        if share is not None and watched is not None and share.may_hurry:
            set_idle(watched.process.pid, True)

    def _kill(self) -> None:
        worker = self._worker
        if worker is not None:
            self._is_late = True
            worker.process.kill()

    def _answer(self, line: Connection, occasion: Occasion) -> tuple[Answered, ...] | Broken:
        names = tuple(self._graph.inputs)
        line.send(Asked(replace(occasion, inputs=()), names, len(occasion.inputs)))
        for inputs in occasion.inputs:
            for name in names:
                send_array(line, inputs[name])
        answer: tuple[Answered, ...] | Broken = line.recv()
        return answer

    @property
    def is_wanted(self) -> bool:
        """False once it was given up."""
        return self._is_wanted

    def close(self) -> None:
        """End the worker. A later proposal starts another one."""
        with self._changing:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def give_up(self) -> None:
        """End the worker for good; a proposal under way raises ``AutotuneError``."""
        self._is_wanted = False
        self.close()

    def _running(self) -> _Worker:
        if self._worker is not None:
            return self._worker
        process, line = start_interpreter(_MODULE)
        begin_idle(process.pid)
        worker = _Worker(process, line, DraftReceiver())
        with self._changing:
            self._worker = worker
        if not self._is_wanted:
            self.close()
        self._open(line)
        return worker

    def _open(self, line: Connection) -> None:
        graph = self._graph
        line.send(
            Opening(
                graph.name,
                graph.ops,
                dict(graph.types),
                graph.inputs,
                graph.outputs,
                tuple(graph.constants),
                self._spec,
                dict(self._ranges),
                self._seed,
                self._model,
            )
        )
        for value in graph.constants.values():
            send_array(line, value)


class _Slot:
    """The one worker of this process's sessions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: ProposerProcess | None = None

    @contextmanager
    def taken(self, proposer: ProposerProcess) -> Iterator[None]:
        """Have the slot for one proposal. Raises ``AutotuneError`` if the proposer was given up meanwhile."""
        while not self._lock.acquire(timeout=_LOOK_SECONDS):
            if not proposer.is_wanted:
                raise AutotuneError("the session was closed")
        try:
            if not proposer.is_wanted:
                raise AutotuneError("the session was closed")
            if self._owner is not None and self._owner is not proposer:
                self._owner.close()
            self._owner = proposer
            yield
        finally:
            self._lock.release()


_SLOT = _Slot()

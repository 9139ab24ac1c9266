"""A background thread that works off a bounded queue in batches, and begins anew when its work fails or hangs."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from autotune.errors import AutotuneError, InputError
from autotune.runtime.online.thread_priority import ThreadPriority

T = TypeVar("T")
Work = Callable[[list[T]], None]


@dataclass(frozen=True, slots=True)
class Restart:
    """How work goes on after a failure: after ``first_seconds``, twice as long with each further failure in
    a row, ``most_seconds`` at most. Work that takes ``hang_seconds`` is given up."""

    first_seconds: float = 1.0
    most_seconds: float = 300.0
    hang_seconds: float = 1800.0
    close_seconds: float = 30.0
    """How long closing waits for the step of work that is under way."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise InputError(f"{name} = {getattr(self, name)} must be above 0 seconds")

    def pause_seconds(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return float(min(self.most_seconds, self.first_seconds * 2.0 ** min(failures - 1, 60)))


class Life:
    """One life of the work, from its beginning to a failure; ``is_over`` says that another took its place."""

    def __init__(self) -> None:
        self.is_over = False


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a life of the work, and the seconds until the next begins."""

    reason: str
    pause_seconds: float
    error: BaseException | None = None


class BackgroundWorker(Generic[T]):
    """Calls the work of a life with all items put since the last call, in order.

    ``begin`` makes the work of a life, in the background. A failure of either, of whatever kind, ends that
    life alone: ``failed`` is told, the next life begins after a pause, and ``recovered`` is told once it has
    done something. ``keeps`` puts the items of a failed call back. Work that hangs is left behind in its
    thread, which ends with the process. ``limit`` bounds the queue; the oldest item goes first.
    ``in_background`` gives the thread a low priority while nobody waits in ``wait`` or ``close``.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[[Life], Work[T]],
        limit: int,
        failed: Callable[[Failure], None],
        *,
        recovered: Callable[[], None] = lambda: None,
        keeps: bool = False,
        in_background: bool = False,
        restart: Restart | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._begin = name, begin
        self._failed, self._recovered = failed, recovered
        self._keeps = keeps
        self._priority = ThreadPriority() if in_background else None
        self._restart = Restart() if restart is None else restart
        self._clock = clock
        self._changed = threading.Condition()
        self._pending: deque[T] = deque(maxlen=limit)
        self._dropped = 0
        self._closed = False
        self._failures = 0
        self._failure: Failure | None = None
        self._failed_closing = False
        self._call_began: float | None = None
        self._life: Life | None = None
        self._waiters = 0

    def put(self, item: T) -> None:
        """Hand over an item; return at once. Does nothing when the worker is closed."""
        self.put_all((item,))

    def put_all(self, items: Sequence[T]) -> None:
        """Hand over items in their order, at once for all: their thread wakes once for them."""
        with self._changed:
            if self._closed or not items:
                return
            pending = self._pending
            was_empty = not pending
            self._dropped += max(0, len(pending) + len(items) - (pending.maxlen or 0))
            pending.extend(items)
            self._give_up_hung()
            if self._life is None:
                self._start()
            if was_empty:
                self._changed.notify_all()

    def newest(self, count: int) -> list[T]:
        """Return the last ``count`` waiting items, oldest first."""
        with self._changed:
            return list(self._pending)[-count:]

    def take_dropped(self) -> int:
        """Return the number of items that the full queue has lost since the last call."""
        with self._changed:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def wait(self, timeout_seconds: float | None) -> None:
        """Return when all is worked off. Raises ``AutotuneError`` when that takes longer, and when the work
        has failed and was not done since."""
        with self._changed:
            self._waiters += 1
            self._hurry()
            done = self._changed.wait_for(
                lambda: self._failure is not None or self._is_idle(), timeout_seconds
            )
            self._waiters -= 1
            self._hurry()
        self._check(done, timeout_seconds)

    def close(self) -> None:
        """Work off what was put, without a pause after a failure, then stop.

        Raises ``AutotuneError`` when the last work has failed, or takes longer than ``close_seconds``.
        """
        limit = self._restart.close_seconds
        with self._changed:
            self._closed = True
            self._hurry()
            done = self._changed.wait_for(lambda: self._life is None or self._is_idle(), limit)
        self._check(done, limit)

    def _check(self, done: bool, timeout_seconds: float | None) -> None:
        failure = self._failure
        if failure is not None:
            text = f"online {self._name} stopped: {failure.reason}; it goes on by itself"
            raise AutotuneError(text) from failure.error
        if not done:
            text = f"online {self._name} is still busy after {timeout_seconds:g} s; wait longer"
            raise AutotuneError(text)

    def _is_idle(self) -> bool:
        return not self._pending and self._call_began is None

    def _start(self) -> None:
        life = self._life = Life()
        name = f"autotune-{self._name}"
        threading.Thread(target=self._live, args=(life,), name=name, daemon=True).start()

    def _give_up_hung(self) -> None:
        """Let another life begin in the place of one whose call hangs."""
        limit, began = self._restart.hang_seconds, self._call_began
        if began is not None and self._life is not None and self._clock() - began >= limit:
            self._life.is_over = True
            self._life = None
            self._note(f"no end after {limit:g} s", None)

    def _live(self, life: Life) -> None:
        """Live one life after another; the thread's body."""
        self._begin_thread(life)
        while self._pause(life):
            try:
                work = self._begin(life)
                while (batch := self._next(life)) is not None:
                    self._do(work, batch, life)
            except BaseException as error:  # noqa: BLE001  # the one boundary: learning must not end runs
                self._fail(error, life)
                continue
            break
        with self._changed:
            if life is self._life:
                self._life = None
                if self._priority is not None:
                    self._priority.end()
                self._changed.notify_all()

    def _begin_thread(self, life: Life) -> None:
        with self._changed:
            if self._priority is not None and life is self._life:
                self._priority.begin(self._is_awaited())

    def _hurry(self) -> None:
        """Wake the thread, and let it have the priority that fits who waits."""
        if self._priority is not None:
            self._priority.set_urgent(self._is_awaited())
        self._changed.notify_all()

    def _is_awaited(self) -> bool:
        return self._waiters > 0 or self._closed

    def _pause(self, life: Life) -> bool:
        """Wait for a while after a failure; return False if there is nothing to begin anew for."""
        with self._changed:
            if self._failure is None:
                return True
            seconds = self._failure.pause_seconds
            self._changed.wait_for(lambda: self._closed or life.is_over, seconds)
            return not self._failed_closing and not life.is_over

    def _next(self, life: Life) -> list[T] | None:
        """Wait for items and take them all; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed or life.is_over)
            if life.is_over or not self._pending:
                return None
            batch = list(self._pending)
            self._pending.clear()
            self._call_began = self._clock()
            return batch

    def _do(self, work: Work[T], batch: list[T], life: Life) -> None:
        try:
            work(batch)
        except BaseException:
            if self._keeps:
                self._put_back(batch)
            raise
        with self._changed:
            if life.is_over:
                return
            if self._failure is not None:
                self._recovered()
            self._call_began, self._failure, self._failures = None, None, 0
            self._changed.notify_all()

    def _put_back(self, batch: list[T]) -> None:
        """Put items in front of those that came meanwhile, as many as there is room for."""
        with self._changed:
            lost = max(0, len(batch) + len(self._pending) - (self._pending.maxlen or 0))
            self._dropped += lost
            self._pending.extendleft(reversed(batch[lost:]))

    def _fail(self, error: BaseException, life: Life) -> None:
        with self._changed:
            if not life.is_over:
                self._note(str(error) or type(error).__name__, error)

    def _note(self, reason: str, error: BaseException | None) -> None:
        self._failures += 1
        self._call_began = None
        self._failed_closing = self._closed
        self._failure = Failure(reason, self._restart.pause_seconds(self._failures), error)
        self._failed(self._failure)
        self._changed.notify_all()

"""Places in the product where a soak may make learning and the disk fail: put in once, switched by faults."""

from __future__ import annotations

import errno
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from sqlalchemy import event
from sqlalchemy.pool import Pool

from autotune.disk import atomic_file
from autotune.runtime.online import background_worker, live_tuning, proposer_process
from autotune.runtime.online.background_worker import BackgroundWorker, Restart
from autotune.runtime.online.planning import ModelLearning
from autotune.runtime.online.proposer_process import ProposerProcess

RESTART = Restart(first_seconds=0.2, most_seconds=2.0, close_seconds=10.0)
"""Back-off of a soak, so that many failures fit in it."""
LIMIT_SECONDS = 40.0
"""How long a learning process may take in a soak."""
NO_PAGE_LIMIT = 4_294_967_294


@dataclass(slots=True)
class StandIns:
    """What fails now. ``raising`` makes an error for learning to raise, ``hanging`` holds learning up."""

    raising: Callable[[], BaseException] | None = None
    hanging: threading.Event | None = None
    disk_is_full: bool = False
    store_is_read_only: bool = False
    clock_seconds: float = 0.0
    waited_seconds: float = 0.0
    """Seconds that those who watch for hung learning believe to have waited besides."""
    learned: int = 0
    """Calls of learning that were let pass."""
    hit: int = 0
    """Calls that failed or hung."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def learn(self) -> None:
        """Pass, raise or hang as learning does now."""
        raising, hanging = self.raising, self.hanging
        with self._lock:
            failing = raising is not None or hanging is not None
            self.hit += failing
            self.learned += not failing
        if raising is not None:
            raise raising()
        if hanging is not None:
            hanging.wait()

    def write(self) -> None:
        """Pass, or raise as a full disk does."""
        if self.disk_is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def configure(self, driver: sqlite3.Connection, *_: object) -> None:
        """Make a database connection refuse what the disk would."""
        driver.execute(f"PRAGMA query_only = {int(self.store_is_read_only)}")
        pages = NO_PAGE_LIMIT
        if self.disk_is_full:
            (pages,) = driver.execute("PRAGMA page_count").fetchone()
        driver.execute(f"PRAGMA max_page_count = {max(pages, 1)}")


@contextmanager
def stand_ins() -> Iterator[StandIns]:
    """Put them in; take them out at the end."""
    made = StandIns()
    wall = time.time
    defaults: Any = BackgroundWorker.__init__.__kwdefaults__
    with ExitStack() as stack:
        stack.enter_context(patch.object(background_worker, "Restart", lambda: RESTART))
        stack.enter_context(
            patch.dict(defaults, clock=lambda: time.monotonic() + made.waited_seconds)
        )
        for module, name, seconds in (
            (live_tuning, "PAUSE_SECONDS", RESTART.first_seconds),
            (live_tuning, "MOST_PAUSE_SECONDS", RESTART.most_seconds),
            (proposer_process, "LIMIT_SECONDS", LIMIT_SECONDS),
        ):
            stack.enter_context(patch.object(module, name, seconds))
        stack.enter_context(patch.object(time, "time", lambda: wall() + made.clock_seconds))
        for kind, name in (
            (ModelLearning, "fit"),
            (ModelLearning, "plan"),
            (ProposerProcess, "propose"),
        ):
            stack.enter_context(patch.object(kind, name, _after(made.learn, getattr(kind, name))))
        part_file = _after(made.write, atomic_file._part_file)
        stack.enter_context(patch.object(atomic_file, "_part_file", part_file))
        event.listen(Pool, "checkout", made.configure)
        stack.callback(event.remove, Pool, "checkout", made.configure)
        yield made


def _after(first: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Call ``first`` before each call of a function."""

    def called(*args: Any, **named: Any) -> Any:
        first()
        return function(*args, **named)

    return called

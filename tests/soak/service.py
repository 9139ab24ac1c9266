"""One network that is served while a soak runs: its session, which may be closed and opened again at any time."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from autotune.errors import AutotuneError
from autotune.runtime.session.graph_session import GraphSession
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.tuner.plan import Plan
from tests.soak.plans import drawn_table, unfused_plan
from tests.soak.workloads import Workload

BUSY_SECONDS = 0.5
"""How long a write of a soak's own stores waits for a lock."""


class Service:
    """Serves one workload. Requests come from any threads; ``reopen`` and ``swap`` from one other."""

    def __init__(self, workload: Workload, folder: Path, store: Path, seed: int) -> None:
        self.workload = workload
        self.path = workload.saved(folder)
        self.cases = workload.cases(self.path, seed)
        self.machine = EmulatorTarget(load_spec("edge"), "edge") if self.is_emulated else None
        self._store_file = store
        self._store: Store | None = None
        self._plan: Plan | None = None
        self._gone: list[weakref.ref[Any]] = []
        self.opened = 0
        self.refused_closings = 0
        self.session = self._open()

    @property
    def is_emulated(self) -> bool:
        """True if it runs on the emulated machine."""
        return self.workload.machine == "edge"

    @property
    def can_swap(self) -> bool:
        """True if plans may be published by force: no learner minds."""
        return not self.workload.online and not self.workload.is_dynamic

    def _open(self) -> Session:
        """Open the network; learners get the store's path and a store of ours in turns."""
        one, self.opened = self.workload, self.opened + 1
        target = self.machine or one.machine
        if one.unfused and self._plan is None:
            with Session(self.path, target, accuracy=one.accuracy) as session:
                self._plan = unfused_plan(session)
        accuracy = None if self._plan is not None else one.accuracy
        store: Store | Path = self._store_file
        if one.online and self.opened % 2:
            store = self._store = Store.open(self._store_file, busy_seconds=BUSY_SECONDS)
        return Session(self.path, target, store, one.online, plan=self._plan, accuracy=accuracy)

    def reopen(self) -> None:
        """Open another session, serve by it from now on, and close the one before, whose requests may run."""
        before, store, self._store = self.session, self._store, None
        self.session = self._open()
        self._close(before, store)

    def swap(self, rng: np.random.Generator) -> int:
        """Publish a drawn plan; return the number of its groups."""
        network = self.session._network
        assert isinstance(network, GraphSession), "it is one graph"
        table = drawn_table(self.session, rng)
        network._current.swap(table)
        return len(table.group_steps)

    def close(self) -> None:
        """Close the session that serves, and let go of it."""
        before, self._store = self._store, None
        self._close(self.session, before)
        del self.session

    def _close(self, session: Session, store: Store | None) -> None:
        self._gone = [ref for ref in self._gone if ref() is not None]
        self._gone.append(weakref.ref(session._network))
        try:
            session.close()
        except AutotuneError:  # the learning has failed, as it was made to
            self.refused_closings += 1
        finally:
            if store is not None:
                store.close()

    def left_over(self) -> int:
        """Return the number of closed sessions that are still in memory."""
        gc.collect()
        return sum(1 for ref in self._gone if ref() is not None)

"""The network without ranges of inputs, beside a session that was opened for some: what runs on inputs
outside of them. Opened by the first such run, which therefore takes longer."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import AutotuneError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.runtime.opening import Dims, Source, is_plan
from autotune.search.plan import Plan
from autotune.targets.protocol import Target

if TYPE_CHECKING:
    from autotune.runtime.session import Session
    from autotune.store.store import Store


class General:
    """A session that is opened when it is first needed. Safe to use from several threads."""

    def __init__(
        self,
        source: Path | str | Plan | Graph,
        found: Source,
        target: Target,
        store: Store | Path | None,
        dims: Dims,
        accuracy: Accuracy,
    ) -> None:
        """As the session beside it was opened; ``found`` is what its ``source`` meant."""
        self._network, self._dims = _network_of(source, found.plan, dims)
        self._target, self._store = target, store
        self._accuracy = accuracy if found.plan is None else found.plan.accuracy
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._closed = False

    @property
    def session(self) -> Session:
        """That of the network without ranges; opened now if it is not yet. Raises ``AutotuneError`` once
        closed."""
        with self._lock:
            if self._closed:
                raise AutotuneError(
                    "the session of the network without ranges is closed; open another"
                )
            if self._session is None:
                self._session = self._opened()
            return self._session

    def _opened(self) -> Session:
        from autotune.runtime.session import Session  # it has this one, in turn

        return Session(
            self._network, self._target, self._store, dims=self._dims, accuracy=self._accuracy
        )

    def close(self) -> None:
        """Close the session, if there is one; none is opened from now on."""
        with self._lock:
            self._closed = True
            if self._session is not None:
                self._session.close()


def _network_of(
    source: Path | str | Plan | Graph, plan: Plan | None, dims: Dims
) -> tuple[Path | str | Graph, Dims]:
    """The network, and its bound dimensions, behind what a session was opened with; ``plan`` is the one
    that it runs by."""
    if isinstance(source, Graph):
        return source, dims
    if not isinstance(source, Plan) and not is_plan(Path(source)):
        return source, dims
    assert plan is not None and plan.network_file is not None, "it was opened by this file"
    return plan.network_file.check(), dims or dict(plan.dims)

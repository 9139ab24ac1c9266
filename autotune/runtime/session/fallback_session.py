"""A second session of a network, for inputs that the first is not right for: those outside of its ranges,
and integers that its programs may not hold. The first such run opens it, and therefore takes longer."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import AutotuneError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.runtime.session.opening import Dims, Source, is_plan
from autotune.targets.protocol import Target
from autotune.tuner.plan import Plan

if TYPE_CHECKING:
    from autotune.runtime.session.session import Session
    from autotune.store.store import Store


class FallbackSession:
    """A session that is opened when it is first needed. Safe to use from several threads."""

    def __init__(
        self,
        source: Path | str | Plan | Graph,
        found: Source,
        target: Target,
        store: Store | Path | None,
        dims: Dims,
        accuracy: Accuracy,
        has_host: bool = False,
    ) -> None:
        """As the session beside it was opened; ``found`` is what its ``source`` meant. ``has_host``
        makes it a ``DynamicSession``, which computes integers on the host where it has to."""
        self._has_host = has_host
        self._network, self._dims = _network_of(source, found.plan, dims)
        self._target, self._store = target, store
        self._accuracy = accuracy if found.plan is None else found.plan.accuracy
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._closed = False

    @property
    def session(self) -> Session:
        """The second session, opened at the first call. Raises ``AutotuneError`` once closed."""
        with self._lock:
            if self._closed:
                raise AutotuneError("the session is closed; open another")
            if self._session is None:
                self._session = self._opened()
            return self._session

    def _opened(self) -> Session:
        from autotune.runtime.session.dynamic import DynamicSession
        from autotune.runtime.session.session import Session  # it has this one, in turn

        if not self._has_host:
            return Session(
                self._network, self._target, self._store, dims=self._dims, accuracy=self._accuracy
            )
        assert not isinstance(self._network, Graph), "a graph has no ONNX nodes"
        return DynamicSession(
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

"""A second session of a network, for inputs that the first is not right for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from autotune.errors import AutotuneError
from autotune.runtime.session.network_session import NetworkSession


class FallbackSession:
    """A session that the first run in need of it opens. Safe to use from several threads.

    It serves inputs outside of their ranges, and integers that programs may not hold.
    """

    def __init__(self, open_session: Callable[[], NetworkSession]) -> None:
        self._open_session = open_session
        self._lock = threading.Lock()
        self._session: NetworkSession | None = None
        self._closed = False

    @property
    def session(self) -> NetworkSession:
        """The second session, opened at the first use. Raises ``AutotuneError`` once closed."""
        with self._lock:
            if self._closed:
                raise AutotuneError("the session is closed; open another")
            if self._session is None:
                self._session = self._open_session()
            return self._session

    def close(self) -> None:
        """Close the session if it is open; none is opened afterwards."""
        with self._lock:
            self._closed = True
            if self._session is not None:
                self._session.close()

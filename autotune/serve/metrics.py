"""Metrics of the service in Prometheus's format, by the library that defines it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from starlette.types import Scope

BUCKETS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)  # fmt: skip
OTHER = "other"
"""Label of every path that the service does not have: clients choose no labels."""


class Metrics:
    """Requests by path and status, and the time of their answers; a registry per service."""

    def __init__(self, paths: frozenset[str]) -> None:
        self._paths = paths
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "autotune_http_requests", "Requests.", ("path", "status"), registry=self._registry
        )
        self._counters: dict[tuple[str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}
        self._seconds = Histogram(
            "autotune_http_request_duration_seconds",
            "Time to the last byte of the answer.",
            ("path",),
            buckets=BUCKETS,
            registry=self._registry,
        )

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Enter an answered request."""
        path = scope["path"] if scope["path"] in self._paths else OTHER
        if (path, status) not in self._counters:  # finding a label takes longer than counting
            self._counters[path, status] = self._requests.labels(path, str(status))
            self._timers[path] = self._seconds.labels(path)
        self._counters[path, status].inc()
        self._timers[path].observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)

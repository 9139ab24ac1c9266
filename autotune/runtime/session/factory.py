"""Opens the session that a request asks for: over one graph, or specialised run by run."""

from __future__ import annotations

from dataclasses import replace

from autotune.graph.graph import Graph
from autotune.runtime.caches.network_cache import is_cached
from autotune.runtime.session.fallback_session import FallbackSession
from autotune.runtime.session.graph_session import GraphSession
from autotune.runtime.session.network_session import NetworkSession
from autotune.runtime.session.out_of_range import OutOfRangePolicy
from autotune.runtime.session.request import OpenRequest
from autotune.targets.device_set import DeviceSet


def open_session(request: OpenRequest) -> NetworkSession:
    """Open a network. Shapes or operators that depend on the inputs make a ``DynamicSession``.

    Raises ``AutotuneError`` as the session's constructor does.
    """
    return _open_graph_session(request) if _is_static(request) else _open_dynamic(request)


def _is_static(request: OpenRequest) -> bool:
    """Return True if the network is one graph before it runs."""
    if isinstance(request.source, Graph):
        return True
    if is_cached(request.source, request.dims):  # only networks of one graph are
        return True
    from autotune.frontend.importing import is_straight, needs_numpy  # it imports ONNX

    if not is_straight(request.source, request.dims):
        return False
    return request.plan is not None or not needs_numpy(request.source)


def _open_graph_session(request: OpenRequest) -> NetworkSession:
    general = on_host = None
    plain = request.without_plan()
    if isinstance(plain.target, DeviceSet):  # a plan alone says which device runs what
        plain = replace(plain, target=plain.target.devices[0])
    if request.outside is OutOfRangePolicy.GENERAL:
        general = FallbackSession(lambda: open_session(plain))
    if not isinstance(request.source, Graph):  # a graph has no ONNX nodes for the host
        on_host = FallbackSession(lambda: _open_dynamic(plain))
    return GraphSession(request, general, on_host)


def _open_dynamic(request: OpenRequest) -> NetworkSession:
    from autotune.runtime.session.dynamic import DynamicSession

    return DynamicSession(request)

"""Networks as calls of the library name them: files or shipped names, opened as graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from autotune.arguments import dims_of
from autotune.errors import InputError
from autotune.frontend.importing import has_control_flow
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.ranges import Ranges
from autotune.isa.formats import ALL_FORMATS, FLOAT32_ONLY, Formats
from autotune.operators.axes import Layout
from autotune.runtime.session.defaults import ranges_of, resolve_model
from autotune.runtime.session.exploration import explored
from autotune.runtime.session.opening import open_network
from autotune.targets.spec import HardwareSpec
from autotune.tuner.progress import Progress


def load_network(
    model: Path | str,
    dims: Mapping[str, int] | None = None,
    layout: str = Layout.CHANNELS_FIRST,
    accuracy: Accuracy | str = Accuracy.EXACT,
    ranges: Ranges | None = None,
    formats: Formats = FLOAT32_ONLY,
) -> Graph:
    """The simplified graph of an ONNX file or of a shipped network's name, in ``layout`` and
    ``formats``: those of a spec where the network is for one machine.

    ``dims`` binds symbolic dimensions by name; ``accuracy`` ``close`` and ``fast`` allow algorithms
    that round more; ``ranges`` of inputs what is right between them only; ``formats`` are
    what the machine stores and multiplies. Raises ``ModelError`` naming file and
    place.
    """
    return open_network(
        resolve_model(model),
        dims_of(dims),
        Layout.parse(layout),
        Accuracy.parse(accuracy),
        ranges_of(ranges),
        formats,
    )


def load_all(models: tuple[Path | str, ...], layout: str, progress: Progress | None) -> list[Graph]:
    graphs = []
    for number, model in enumerate(models):
        if progress is not None:
            progress("networks", number, len(models))
        graphs.append(load_network(model, layout=layout))
    return graphs


def distinct_graphs(
    path: Path,
    dims: Mapping[str, int],
    spec: HardwareSpec,
    accuracy: Accuracy,
    ranges: Ranges,
    seed: int,
) -> tuple[Graph, ...]:
    """Return the distinct graphs of a network as sessions run them."""
    layout, formats = Layout(spec.layout), spec.formats
    if not has_control_flow(path):
        return (open_network(path, dims, layout, accuracy, ranges, formats),)
    if ranges:
        raise InputError(f"{path}: ranges are for networks without control flow; leave them out")
    pieces = explored(path, dims, seed).graphs
    simplified = [simplify(graph, layout, accuracy, formats=formats).graph for graph in pieces]
    return tuple({graph.fingerprint: graph for graph in simplified}.values())


def networks_by_layout(
    models: tuple[Path | str, ...], dims: Mapping[str, int]
) -> Callable[[str], Sequence[Graph]]:
    """Return the networks as machines of a layout open them, each read once.

    Raises ``InputError`` for networks with control flow: their cost is not that of one graph.
    """
    paths = [resolve_model(model) for model in models]
    for path in paths:
        if has_control_flow(path):
            raise InputError(
                f"{path}: has control flow; studies of machines take straight networks"
            )

    @cache
    def opened_in(layout: str) -> Sequence[Graph]:
        chosen = Layout(layout)
        return [
            open_network(path, dims, chosen, Accuracy.EXACT, formats=ALL_FORMATS) for path in paths
        ]

    return opened_in


def listed(models: Iterable[Path | str]) -> tuple[Path | str, ...]:
    if not isinstance(models, Iterable):
        raise InputError(f"models are paths or names, not {type(models).__name__}")
    return tuple(models)

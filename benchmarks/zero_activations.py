"""Zero blocks of activations: how often networks with ReLU have some, and what leaving them out could bring.

    python -m benchmarks.zero_activations

A part of ``make bench-guards``. A program is loops with affine addresses: it can leave out blocks whose places are known
before it runs. So a variant may count on blocks that are zero in nearly every run, and its guard has to see them between
two layers: the first stores its result, which otherwise need not reach DRAM.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.datasets.networks import load
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.runtime.execution.random_inputs import draw_graph_inputs
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.session import Session
from benchmarks.table import Table

Floats = npt.NDArray[np.float32]
BLOCK = 16
"""Channels of a block: the finest grain at which programs leave out parts of a product."""
INPUTS = 24
"""Inputs of a network: as many as a class of inputs is believed from."""
WIDTHS = (768, 3072, 768)
SHARES = (0.25, 0.5, 0.75)
PAIRS = 15
SHIPPED = ("mlp", "aspp_head", "retina_fpn", "light_squeezenet")


@dataclass(frozen=True, slots=True)
class Zeros:
    """Shares of zeros behind a network's activations: of elements; of tiles of 16 places by 16 channels; of blocks of 16
    channels that are zero at all places of an input; of those that are so for all inputs."""

    elements: float
    tiles: float
    blocks: float
    lasting: float

    @classmethod
    def of(cls, tensors: list[Floats]) -> Zeros:
        """Return the shares of one tensor, [places, channels] for each input."""
        stacked = np.stack([_blocked(x) for x in tensors])  # inputs, places, blocks
        places = stacked.shape[1] // BLOCK * BLOCK
        tiles = stacked[:, :places].reshape(len(tensors), -1, BLOCK, stacked.shape[2]).all(axis=2)
        whole = stacked.all(axis=1)
        elements = statistics.fmean(float((x == 0).mean()) for x in tensors)
        tiled = float(tiles.mean()) if tiles.size else float(stacked.mean())
        return cls(elements, tiled, float(whole.mean()), float(whole.all(axis=0).mean()))


def _blocked(value: Floats) -> npt.NDArray[np.bool_]:
    """Return which blocks of channels are zero at each place."""
    channels = value.shape[1] // BLOCK * BLOCK
    found: npt.NDArray[np.bool_] = (
        (value[:, :channels] == 0).reshape(len(value), -1, BLOCK).all(axis=2)
    )
    return found


def activations(graph: Graph) -> tuple[str, ...]:
    """Return the results of ReLUs with a block of channels at least."""
    found = (op.output for op in graph.ops if op.kind is OpKind.RELU)
    return tuple(x for x in found if graph.shape(x)[1 if len(graph.shape(x)) == 4 else -1] >= BLOCK)


def seen(graph: Graph, inputs: list[dict[str, Any]]) -> list[Zeros]:
    """Return the zeros behind each ReLU of a graph on some inputs."""
    names = activations(graph)
    outputs = tuple(dict.fromkeys((*graph.outputs, *names)))
    shown = Graph(graph.name, graph.ops, graph.types, graph.inputs, outputs, graph.constants)
    kept: dict[str, list[Floats]] = {name: [] for name in names}
    for fed in inputs:
        made = evaluate(shown, fed)
        for name in names:
            value = np.asarray(made[name], np.float32)
            if value.ndim == 4:  # channels first
                value = np.moveaxis(value, 1, -1)
            kept[name].append(value.reshape(-1, value.shape[-1]))
    return [Zeros.of(rows) for rows in kept.values()]


def trained() -> tuple[Graph, list[dict[str, Any]]]:
    """Return a classifier of handwritten digits, trained here, and digits that it has not seen, one a run."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    data, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(data))
    data, labels = data[order] / 16.0, labels[order]
    model = MLPClassifier((256, 256), max_iter=200, random_state=0).fit(
        data[:-INPUTS], labels[:-INPUTS]
    )
    b = GraphBuilder("digits")
    x = b.input("x", (1, data.shape[1]))
    last = len(model.coefs_) - 1
    for i, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        x = b.add(OpKind.MATMUL, x, b.constant(weight.astype(np.float32)))
        x = b.add(OpKind.ADD, x, b.constant(bias.astype(np.float32)[None]))
        x = x if i == last else b.add(OpKind.RELU, x)
    fed = [{"x": row[None].astype(np.float32)} for row in data[-INPUTS:]]
    return b.build([x]), fed


def observed(folder: Path) -> Iterator[tuple[str, ...]]:
    """Give a row of each network: mean and largest share over its ReLUs."""
    graphs: list[tuple[Graph, list[dict[str, Any]]]] = [trained()]
    for name in SHIPPED:
        graph = open_network(load(name, folder))
        rng = np.random.default_rng(0)
        graphs.append((graph, [draw_graph_inputs(graph, rng) for _ in range(INPUTS)]))
    for graph, inputs in graphs:
        rows = seen(graph, inputs)
        cells = [
            [getattr(row, what) for row in rows]
            for what in ("elements", "tiles", "blocks", "lasting")
        ]
        shown = (f"{statistics.fmean(cell):.1%} ({max(cell):.1%})" for cell in cells)
        yield (graph.name, str(len(rows)), *shown)


def layers(rows: int, dead: float) -> Graph:
    """Return two products with a ReLU between them; a share of the second one's blocks of 64 rows is zero, as if what
    meets them were."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("layers")
    x = b.input("x", (rows, WIDTHS[0]))
    first, second = (
        rng.standard_normal(shape).astype(np.float32) / 32 for shape in pairwise(WIDTHS)
    )
    blocks = WIDTHS[1] // 64
    gone = rng.permutation(blocks)[: round(dead * blocks)]
    second.reshape(blocks, 64, -1)[gone] = 0
    x = b.add(OpKind.RELU, b.add(OpKind.MATMUL, x, b.constant(first)), name="hidden")
    return b.build([b.add(OpKind.MATMUL, x, b.constant(second))])


def counted(rows: int, dead: float) -> tuple[str, ...]:
    """Return the row of an emulated machine: cycles of the general plan, of the variant, and of reading what a guard
    compares."""
    cycles = []
    for share in (0.0, dead):
        with Session(layers(rows, share), "edge", accuracy="fast") as session:
            steps = session.table.group_steps
            cycles.append(sum(session.target.time(step.program).cycles for step in steps))
            spec = session.target.spec
    guard = 4 * rows * dead * WIDTHS[1] / spec.dram.bytes_per_cycle
    return _row("edge", rows, dead, cycles[0], cycles[1], guard, "cycles")


def timed(rows: int, dead: float) -> tuple[str, ...]:
    """Return the row of this CPU, one thread: microseconds in turns, and of a guard that passes."""
    fed = {"x": np.random.default_rng(2).standard_normal((rows, WIDTHS[0])).astype(np.float32)}
    hidden = np.zeros((rows, round(dead * WIDTHS[1])), np.float32)
    taken: tuple[list[float], list[float], list[float]] = ([], [], [])
    with (
        Session(layers(rows, 0.0), "cpu:1", accuracy="fast") as general,
        Session(layers(rows, dead), "cpu:1", accuracy="fast") as variant,
    ):
        turns: tuple[Callable[[], object], ...] = (
            partial(general.run, fed),
            partial(variant.run, fed),
            hidden.any,
        )
        for number in range(2 + PAIRS):
            for one, times in zip(turns, taken, strict=True):
                began = time.perf_counter()
                one()
                if number >= 2:
                    times.append(1e6 * (time.perf_counter() - began))
    of_general, of_variant, of_guard = map(statistics.median, taken)
    return _row("cpu, 1 thread", rows, dead, of_general, of_variant, of_guard, "µs")


def _row(
    machine: str, rows: int, dead: float, general: float, variant: float, guard: float, unit: str
) -> tuple[str, ...]:
    saved = 1 - (variant + guard) / general
    wanted = guard / max(1e-9, general - variant)
    often = f"{wanted:.1%}" if wanted < 1 else "never"
    costs = (f"{x:,.0f} {unit}" for x in (general, variant, guard))
    return (machine, str(rows), f"{dead:.0%}", *costs, f"{saved:+.1%}", often)


def zero_tables(folder: Path) -> list[Table]:
    """Return the tables of the page."""
    names = ("network", "ReLUs", "elements", "tiles 16×16", "blocks of 16", "of all inputs")
    costs = ("machine", "rows", "zero blocks", "general", "variant", "guard", "saved", "pays from")
    cases = [(rows, share) for rows in (1, 128) for share in SHARES]
    return [
        Table("### How often there are some", names, tuple(observed(folder))),
        Table(
            "### What they would bring, 768 → 3072 → 768",
            costs,
            tuple(made(*case) for made in (counted, timed) for case in cases),
        ),
    ]


LEGEND = (
    "A variant without products with zeros needs to know their places before it runs. Shares of zeros behind ReLUs, the mean "
    f"and in brackets the largest of a network's; {INPUTS} inputs each, drawn ones but for *digits*, a classifier trained here "
    "on handwritten digits. *blocks of 16* channels are zero at all places of an input; *of all inputs*: the same ones in each, which "
    "is what a class can hold. Below, blocks of 64 channels of the hidden layer are taken as zero. The guard reads them. "
    "*pays from*: share of the runs that must be of the class, for the guard's sake alone."
)


def section(folder: Path) -> str:
    """Return the part of the page."""
    parts = ["## Zero blocks of activations", LEGEND]
    return "\n\n".join([*parts, *(table.markdown() for table in zero_tables(folder))]) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(section(Path(name)))

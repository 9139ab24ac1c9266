"""``make bench-explore``: exploration beside sweeping by hand, on a grid small enough to search every machine.

By hand, every machine gets a full search, as ``autotune search`` does it. Exploration prices all machines by
the model and confirms few. Both are counted by the emulator; times are those of one process without workers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.store.store import Store
from autotune.targets.components import read_components
from autotune.targets.opening import load_spec
from autotune.targets.settings import Setting
from autotune.tuner.machines.exploration import Exploration, ExploreOptions
from autotune.tuner.machines.explored import Costs, ExploreResult
from autotune.tuner.machines.figures import NetworkFigures, geometric_mean
from autotune.tuner.machines.front import distance, distances, hypervolume, non_dominated
from autotune.tuner.machines.proposals import all_designs
from autotune.tuner.machines.search_point import PointOptions, searched
from autotune.tuner.machines.space import Budget, Design, Space
from autotune.tuner.options import DEFAULT_MEASURE
from autotune.tuner.progress import silent

BASE = "edge"
GRID = (
    "matrix.rows,matrix.cols=8,16,32",
    "scratchpad.size_bytes=64Ki,128Ki,256Ki",
    "dram.bytes_per_cycle=6.4,12.8,25.6",
)
HELD = ("vector.lanes=16", "cores=1", "matrix.dataflow=os")
CONFIRMED = 6
"""Machines that exploration searches."""
CORNER = 1.1
"""The corner of the hypervolume over the dearest machine of the grid."""


def bottleneck() -> Graph:
    """Return an inverted bottleneck of a small image, with pooling and a classifier."""
    b, rng = GraphBuilder("bottleneck"), np.random.default_rng(7)
    x = b.input("x", (1, 24, 28, 28))

    def conv(x: str, channels: int, kernel: int, group: int = 1) -> str:
        shape = (channels, b.shape(x)[1] // group, kernel, kernel)
        weight = b.constant(rng.standard_normal(shape).astype(np.float32))
        pads, ones = (kernel // 2,) * 4, (1, 1)
        return b.add(OpKind.CONV, x, weight, strides=ones, pads=pads, dilations=ones, group=group)

    wide = b.add(OpKind.RELU, conv(x, 96, 1))
    deep = b.add(OpKind.RELU, conv(wide, 96, 3, group=96))
    y = b.add(OpKind.ADD, conv(deep, 24, 1), x)
    flat = b.add(OpKind.RESHAPE, b.add(OpKind.REDUCE_MEAN, y, axes=(2, 3)), shape=(1, 24))
    return b.build([b.add(OpKind.SOFTMAX, flat, axis=1)])


def attention() -> Graph:
    """Return a head of attention over 80 tokens, then two dense layers."""
    b, rng = GraphBuilder("attention"), np.random.default_rng(8)
    x = b.input("x", (80, 112))

    def dense(x: str, width: int) -> str:
        shape = (b.shape(x)[1], width)
        return b.add(OpKind.MATMUL, x, b.constant(rng.standard_normal(shape).astype(np.float32)))

    keys = b.add(OpKind.TRANSPOSE, dense(x, 112), perm=(1, 0))
    scores = b.add(OpKind.SOFTMAX, b.add(OpKind.MATMUL, dense(x, 112), keys), axis=1)
    y = b.add(OpKind.ADD, dense(b.add(OpKind.MATMUL, scores, dense(x, 112)), 112), x)
    return b.build([b.add(OpKind.ADD, dense(b.add(OpKind.RELU, dense(y, 336)), 112), y)])


def pyramid() -> Graph:
    """Return three strided convolutions with an addition each, then a classifier."""
    b, rng = GraphBuilder("pyramid"), np.random.default_rng(9)
    x = b.input("x", (1, 16, 32, 32))

    def conv(x: str, channels: int, kernel: int, stride: int) -> str:
        shape = (channels, b.shape(x)[1], kernel, kernel)
        weight = b.constant(rng.standard_normal(shape).astype(np.float32))
        pads, strides = (kernel // 2,) * 4, (stride, stride)
        return b.add(OpKind.CONV, x, weight, strides=strides, pads=pads, dilations=(1, 1), group=1)

    for channels in (32, 48, 64):
        short = conv(x, channels, 1, 2)
        x = b.add(OpKind.RELU, b.add(OpKind.ADD, conv(x, channels, 3, 2), short))
    flat = b.add(OpKind.RESHAPE, b.add(OpKind.REDUCE_MEAN, x, axes=(2, 3)), shape=(1, 64))
    weight = b.constant(rng.standard_normal((64, 40)).astype(np.float32))
    return b.build([b.add(OpKind.SOFTMAX, b.add(OpKind.MATMUL, flat, weight), axis=1)])


def mixer() -> Graph:
    """Return a block that mixes 64 tokens, then 96 channels."""
    b, rng = GraphBuilder("mixer"), np.random.default_rng(10)
    x = b.input("x", (64, 96))

    def dense(x: str, width: int) -> str:
        shape = (b.shape(x)[1], width)
        return b.add(OpKind.MATMUL, x, b.constant(rng.standard_normal(shape).astype(np.float32)))

    tokens = b.add(OpKind.TRANSPOSE, x, perm=(1, 0))
    mixed = dense(b.add(OpKind.RELU, dense(tokens, 128)), 64)
    y = b.add(OpKind.ADD, b.add(OpKind.TRANSPOSE, mixed, perm=(1, 0)), x)
    return b.build([b.add(OpKind.ADD, dense(b.add(OpKind.RELU, dense(y, 384)), 96), y)])


NETWORKS = (bottleneck, attention)
"""Networks that the shipped model never saw; choices of exploration were made on them."""
HELD_OUT = (pyramid, mixer)
"""Networks that no choice was made on."""


@dataclass(frozen=True, slots=True)
class Row:
    """One set of networks: sizes, times in seconds of one process, and how far fronts are apart."""

    networks: str
    machines: int
    hand_front: int
    front: int
    distance: float
    mean_distance: float
    choice_distance: float
    hypervolume: float
    model_seconds: float
    explore_seconds: float
    hand_seconds: float
    prediction_error: float


def main() -> None:
    """Run the benchmark; write a page and JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sets = [[network() for network in networks] for networks in (NETWORKS, HELD_OUT)]
    with tempfile.TemporaryDirectory() as folder:
        rows = [_row(chosen, Path(folder)) for chosen in sets]
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))
    page = _page(rows)
    print(page)
    if options.markdown:
        options.markdown.write_text(page)


def _space() -> Space:
    settings = [Setting.parse(text) for text in (*GRID, *HELD)]
    return Space.around(load_spec(BASE), settings, read_components(), Budget())


def _row(graphs: Sequence[Graph], folder: Path) -> Row:
    space, names = _space(), [graph.name for graph in graphs]
    designs = list(all_designs(space))
    with Store.memory() as store:
        by_hand, hand_seconds = _by_hand(designs, graphs, store, folder / "hand")
    with Store.memory() as store:
        point = PointOptions(workers=1, folder=folder / "-".join(names))
        options = ExploreOptions(
            evaluations=len(designs), confirmed=CONFIRMED, doublings=False, point=point
        )
        result = Exploration(space, graphs, options, store, clock=time.process_time).run()
    return _compared(names, by_hand, hand_seconds, result)


def _by_hand(
    designs: Sequence[Design], graphs: Sequence[Graph], store: Store, folder: Path
) -> tuple[dict[str, Costs], float]:
    """Return the costs of every machine by a full search, and the seconds that all searches took."""
    options = PointOptions(DEFAULT_MEASURE, workers=1, folder=folder)
    costs: dict[str, Costs] = {}
    seconds = 0.0
    for design in designs:
        figures = []
        for graph in graphs:
            begin, key = time.process_time(), (design.spec.profile_id, graph.fingerprint)
            found = searched(graph, design.spec, options, store, silent)
            seconds += _SPENT.setdefault(key, time.process_time() - begin)
            assert isinstance(found, NetworkFigures), found
            figures.append(found)
        costs[design.spec.profile_id] = (
            geometric_mean(one.seconds for one in figures),
            geometric_mean(one.joules for one in figures),
            design.area_mm2,
        )
    return costs, seconds


_SPENT: dict[tuple[str, str], float] = {}
"""Seconds of each search by machine and network: sets of networks share them."""


def _compared(
    names: Sequence[str], by_hand: dict[str, Costs], hand_seconds: float, result: ExploreResult
) -> Row:
    hand = list(by_hand.values())
    hand_front = [hand[i] for i in non_dominated(hand)]
    ours = [one.costs for one in result.front if one.costs is not None]
    # machines alone: the same searches, so that only the choice of machines differs
    chosen = [by_hand[one.design.spec.profile_id] for one in result.front]
    corner = [CORNER * max(one[i] for one in hand) for i in range(3)]
    return Row(
        networks=" + ".join(names),
        machines=len(hand),
        hand_front=len(hand_front),
        front=len(result.front),
        distance=distance(ours, hand_front),
        mean_distance=float(np.mean(distances(ours, hand_front))),
        choice_distance=distance(chosen, hand_front),
        hypervolume=hypervolume(ours, corner) / hypervolume(hand_front, corner),
        model_seconds=result.priced_seconds,
        explore_seconds=result.seconds,
        hand_seconds=hand_seconds,
        prediction_error=result.prediction_error,
    )


def _page(rows: Sequence[Row]) -> str:
    lines = [
        "# Exploration beside sweeping by hand",
        "",
        f"Written by `make bench-explore`: {len(list(all_designs(_space())))} machines around `{BASE}` "
        f"({'; '.join(GRID)}).",
        f"By hand, every machine is searched fully ({DEFAULT_MEASURE} measurements). Exploration prices all",
        "machines by the shipped model, lets the emulator run the model's plans near the front, and searches",
        f"{CONFIRMED} machines. A distance is by how much a machine of the hand-made front is dearer in latency,",
        "energy or area in ours; *choice* compares the chosen machines by the same full searches. Times are of",
        "one process, without workers. How machines are chosen was decided on the networks of the first line; those of the",
        "second had no part in it.",
        "",
        "| networks | hand-made front | our front | distance, mean | worst | choice, worst | hypervolume | "
        "model s | explore s | by hand s | times faster |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append(
            f"| {row.networks} | {row.hand_front} of {row.machines} | {row.front} | "
            f"{row.mean_distance:.2%} | {row.distance:.2%} | {row.choice_distance:.2%} | {row.hypervolume:.4f} | "
            f"{row.model_seconds:.0f} | {row.explore_seconds:.0f} | {row.hand_seconds:.0f} | "
            f"{row.hand_seconds / row.explore_seconds:.1f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()

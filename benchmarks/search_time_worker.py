"""One search for `search_time.py` in a process of its own; prints one JSON object.

Arguments: a network's name or a number of operators, a target, workers (0: one per core), a folder.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

BEGUN = time.monotonic()

from autotune.api import load_network  # noqa: E402 - its import is timed
from autotune.cost_model.model import CostModel  # noqa: E402
from autotune.graph.builder import GraphBuilder  # noqa: E402
from autotune.operators.op import OpKind  # noqa: E402
from autotune.runtime.session.defaults import choose_target  # noqa: E402
from autotune.runtime.session.opening import open_model  # noqa: E402
from autotune.store.store import Store  # noqa: E402
from autotune.tuner.fusion import search  # noqa: E402
from autotune.tuner.options import SearchOptions  # noqa: E402
from autotune.tuner.ranking import Effort, Ranked, Ranking  # noqa: E402
from benchmarks.child import spent  # noqa: E402

if TYPE_CHECKING:
    from autotune.cost_model.estimate import Best, Floats, Forecast
    from autotune.fusion.group import Group
    from autotune.fusion.nest import Nest
    from autotune.graph.graph import Graph
    from autotune.schedule.table import ScheduleTable

KINDS = 8
"""Kinds of blocks in a drawn graph: how many channels they widen to."""


def blocks(operators: int) -> Graph:
    """Return blocks of relu(x + conv1x1(relu(conv3x3(x)))): five operators each, in ``KINDS`` kinds."""
    import numpy as np

    rng = np.random.default_rng(0)
    build = GraphBuilder(f"blocks_{operators}")
    x = build.input("x", (1, 16, 14, 14))

    def conv(tensor: str, channels: int, kernel: int) -> str:
        shape = (channels, build.shape(tensor)[1], kernel, kernel)
        weights = build.constant(rng.standard_normal(shape, dtype=np.float32))
        even: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "group": 1}
        return build.add(OpKind.CONV, tensor, weights, pads=(kernel // 2,) * 4, **even)

    for number in range(operators // 5):
        wide = build.add(OpKind.RELU, conv(x, 16 + 8 * (number % KINDS), 3))
        x = build.add(OpKind.RELU, build.add(OpKind.ADD, conv(wide, 16, 1), x))
    return build.build([x])


class Counting:
    """Counts of a search in this process: groups ranked, candidates scored."""

    def __init__(self) -> None:
        self.groups = self.candidates = 0
        rank, rough, forecast = Ranking.rank, CostModel.rough, CostModel.forecast

        def counted_rank(
            ranking: Ranking, group: Group, effort: Effort, before: Ranked | None = None
        ) -> Ranked:
            self.groups += 1
            return rank(ranking, group, effort, before)

        def counted_rough(model: CostModel, nest: Nest, table: ScheduleTable) -> Floats:
            self.candidates += len(table)
            return rough(model, nest, table)

        def counted_forecast(
            model: CostModel, nest: Nest, table: ScheduleTable, best: Best | None = None
        ) -> Forecast:
            self.candidates += len(table)
            return forecast(model, nest, table, best)

        patch.object(Ranking, "rank", counted_rank).start()
        patch.object(CostModel, "rough", counted_rough).start()
        patch.object(CostModel, "forecast", counted_forecast).start()


def main(name: str, target: str, workers: str, folder: str) -> dict[str, float]:
    """Search one network; return the figures."""
    machine, counts = choose_target(target), Counting()
    graph = blocks(int(name)) if name.isdigit() else load_network(name, layout=machine.spec.layout)
    options = SearchOptions(workers=int(workers) or None)
    with Store.open(Path(folder) / "store.db") as store:
        model = open_model(store, machine).model
        begun = time.process_time()
        found = search(graph, machine, model, options, store=store)
        search_cpu_seconds = time.process_time() - begun
    heuristic = found.heuristic
    assert heuristic is not None
    return {
        "operators": len(graph.ops),
        "wall_seconds": time.monotonic() - BEGUN,
        "search_cpu_seconds": search_cpu_seconds,
        "groups": counts.groups,
        "candidates": counts.candidates,
        "measured": len(found.records),
        "gap": 0.0 if found.certificate is None else found.certificate.gap,
        "found": found.found.measured_cycles or found.found.predicted_cycles,
        "heuristic": heuristic.measured_cycles or heuristic.predicted_cycles,
        **spent(),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))

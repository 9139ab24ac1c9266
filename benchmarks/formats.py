"""The page of `make bench-formats`: what choosing among int8 and bf16 for each product brings within a limit of the loss.

Each choice is judged by whole networks: cycles of the plan that a search finds for the written file, as the emulator
counts them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from autotune.graph.accuracy import Accuracy
from autotune.operators.axes import Layout
from autotune.quantisation import quantiser
from autotune.quantisation.loss import Loss
from autotune.quantisation.precision import PrecisionResult, search_precision
from autotune.quantisation.quantize import quantize
from autotune.runtime.session.defaults import resolve_model
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.opening import load_spec
from autotune.tuner.machines.figures import NetworkFigures
from autotune.tuner.machines.search_point import PointOptions, searched
from autotune.tuner.progress import silent
from benchmarks.quantizers import drawn_runs
from benchmarks.table import Table

NETWORKS = ("mlp", "bert_small", "mobilenet_v2")
TARGETS = ("edge", "mobile")
LIMIT = 0.015
RUNS = 16
MEASURE = 160
PRICES = 7
"""Place of ``price`` among the arguments of ``search_precision``."""
BY_PARTS = "int8,bf16 by gains alone"
CHOICES = ("int8", "bf16", BY_PARTS, "int8,bf16")
PAGE = """# Formats chosen for each product

Written by `make bench-formats`: `autotune quantize --max-loss {limit:.1%} --target MACHINE` with one format or both. {runs} seeded
inputs, a quarter of them held out; *loss* is the relative loss on these. *Predicted* is the time of the greedily fused network
by the shipped model, which decides. *Cycles* are those of the plan that a search finds for the written file ({measure} measurements), as the
emulator counts them; *of float32* compares them with the float32 network's by the same search.
*{by_parts}* ranks products by what each gains by itself, and looks at no whole network. *int8,bf16* looks at whole networks;
where a single format's searched plan takes fewer cycles, the prediction by greedy groups was wrong.

{table}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A network on a machine in one choice of formats."""

    network: str
    machine: str
    choice: str
    counts: str
    loss: float | None
    predicted: float | None
    cycles: float
    plain: float

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the columns."""
        return (
            self.network,
            self.machine,
            self.choice,
            self.counts,
            "–" if self.loss is None else f"{self.loss:.2%}",
            "–" if self.predicted is None else f"{self.predicted * 1e3:,.3f}",
            f"{self.cycles:,.0f}",
            f"{self.cycles / self.plain:.3f}",
        )


def main() -> None:
    """Run the benchmark; write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            for row in _rows(name, Path(folder)):
                print(*row.cells, sep=" | ", file=sys.stderr, flush=True)
                rows.append(row)
    columns = (
        *("network", "machine", "formats", "products", "loss", "predicted ms", "cycles"),
        "of float32",
    )
    table = Table("", columns, tuple(row.cells for row in rows))
    text = PAGE.format(
        limit=LIMIT, runs=RUNS, measure=MEASURE, by_parts=BY_PARTS, table=table.markdown().strip()
    )
    print(text)
    if options.markdown:
        options.markdown.write_text(text)


def _rows(name: str, folder: Path) -> Iterator[Row]:
    data = folder / f"{name}.npz"
    with Session(name, "cpu") as session:
        shapes = {x.name: tuple(int(n or 1) for n in x.shape or ()) for x in session.inputs}
    runs = drawn_runs(shapes, RUNS, 0)
    np.savez(data, **{x: np.stack([run[x] for run in runs]) for x in shapes})  # type: ignore[arg-type]
    for machine in TARGETS:
        plain = _cycles(resolve_model(name), machine, folder)
        yield Row(name, machine, "float32", "", None, None, plain, plain)
        for choice in CHOICES:
            yield _row(name, machine, choice, data, folder, plain)


def _row(name: str, machine: str, choice: str, data: Path, folder: Path, plain: float) -> Row:
    out = folder / "made.onnx"
    options: dict[str, Any] = {"format": choice.split()[0], "max_loss": LIMIT, "target": machine}
    with _by_parts(choice == BY_PARTS):
        made = quantize(name, data, out, **options)
    counts = Counter(str(one.type) for one in made.products)
    (kept,) = [one for one in made.front if one.is_kept]
    cycles = _cycles(out, machine, folder)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    loss = made.losses[Loss.RELATIVE]
    return Row(name, machine, choice, told, loss, kept.seconds, cycles, plain)


@contextmanager
def _by_parts(is_by_parts: bool) -> Iterator[None]:
    """Let no whole network be priced."""

    def search(*arguments: Any) -> PrecisionResult:
        without = list(arguments)
        without[PRICES] = None
        return search_precision(*without)

    chosen = search if is_by_parts else search_precision
    with patch.object(quantiser, "search_precision", chosen):
        yield


def _cycles(file: Path, machine: str, folder: Path) -> float:
    spec = load_spec(machine)
    graph = open_network(file, {}, Layout(spec.layout), Accuracy.EXACT, formats=spec.formats)
    with Store.memory() as store:
        options = PointOptions(MEASURE, folder=folder / "points")
        found = searched(graph, spec, options, store, silent)
    assert isinstance(found, NetworkFigures), found
    return found.cycles


if __name__ == "__main__":
    main()

"""The figures of `make bench-narrow`: 8-bit networks on this CPU, beside ONNX Runtime, OpenVINO and our float32.

``autotune.quantize`` writes one standard QDQ file for each network, from drawn inputs; all engines get that
file, ours the float32 file too. A process each, in turns, as in ``benchmarks.cpu``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from autotune.quantisation.quantize import quantize
from autotune.targets.native.cpu.host import host_isa
from benchmarks.cpu import PEERS_PYTHON, Effort, distance, machine_name, say, take_turns
from benchmarks.cpu_engine import Case, Engine, EngineFailure
from benchmarks.cpu_figures import OURS, PEERS
from benchmarks.cpu_networks import make_case
from benchmarks.table import Table

NETWORKS = (
    *("light_squeezenet", "light_resnet50", "mobilenet_v2", "bert_small", "vit_tiny"),
    *("mixer_s16", "unet", "gpt2_step"),
)
WEIGHTS_ONLY = ("gpt2_step",)
"""A step of a decoder waits for its weights: they alone are narrow."""
FLOAT = "float32"
"""Our engine on the network before it was quantised."""
CALIBRATION = 4
"""Drawn inputs that ranges are taken from."""
SEED = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A network on so many threads: milliseconds of each engine, the greatest distance of our outputs from the
    first peer's as a share of their range, and why engines did not run it."""

    network: str
    threads: int
    ms: dict[str, float]
    distance: float
    failed: dict[str, str]

    def ratio(self, *others: str) -> float | None:
        """How many times as fast as the fastest of others ours is; None where one is missing."""
        known = [self.ms[name] for name in others if name in self.ms]
        return min(known) / self.ms[OURS] if known and OURS in self.ms else None


def measure(networks: Sequence[str], threads: Sequence[int], effort: Effort) -> Iterator[Row]:
    """Give a row for each network and number of threads."""
    for name in networks:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            case = make_case(name, folder)
            narrow = folder / f"{name}.int8.onnx"
            _quantized(name, case.network, case.inputs, narrow, folder)
            for count in threads:
                given = Case(narrow, case.inputs, count)
                row = _row(name, given, Case(case.network, case.inputs, count), effort, folder)
                say(f"{name}, threads {count}: {row.ms}")
                yield row


def _quantized(name: str, network: Path, inputs: Path, out: Path, folder: Path) -> None:
    if name in WEIGHTS_ONLY:
        quantize(network, None, out, weights_only=True)
        return
    data, rng = folder / "data", np.random.default_rng(SEED)
    data.mkdir()
    shapes = dict(np.load(inputs))
    for number in range(CALIBRATION):
        drawn = {
            port: rng.standard_normal(value.shape, dtype=np.float32)
            if value.dtype == np.float32
            else rng.permutation(value.reshape(-1)).reshape(value.shape)
            for port, value in shapes.items()
        }
        np.savez(data / f"{number}.npz", **drawn)  # type: ignore[arg-type]
    quantize(network, data, out, activations="uint8")


def _row(name: str, narrow: Case, wide: Case, effort: Effort, folder: Path) -> Row:
    failed: dict[str, str] = {}
    engines: list[Engine] = []
    with ExitStack() as stack:
        for engine in (*PEERS, OURS, FLOAT):
            python = PEERS_PYTHON if engine in PEERS else Path(sys.executable)
            case, kind = (wide, OURS) if engine == FLOAT else (narrow, engine)
            try:
                opened = stack.enter_context(Engine(kind, python, case, folder))
            except EngineFailure as failure:
                failed[engine] = str(failure)
                continue
            opened.name = engine
            engines.append(opened)
        outputs = {e.name: e.save_outputs(folder / f"{e.name}.out.npz") for e in engines}
        rounds = take_turns(engines, effort, failed)
    ms = {engine: median(found) * 1e3 for engine, found in rounds.items()}
    peer = next((outputs[name] for name in PEERS if name in outputs), None)
    far = distance(outputs[OURS], peer) if peer is not None and OURS in outputs else math.nan
    return Row(name, narrow.threads, ms, far, failed)


COLUMNS = (
    *("network", "ORT ms", "OV ms", "ours ms", "ours float32 ms"),
    *("ours / better", "ours / ORT", "ours / float32", "differ"),
)


def table(rows: Sequence[Row], threads: int) -> Table:
    """Return the rows of a number of threads, and their geometric means and worst."""
    own = [row for row in rows if row.threads == threads]
    cells = [_cells(row) for row in own]
    for word, pick in (("geometric mean", _mean), ("least", min)):
        ratios = [[r for r in (row.ratio(*names) for row in own) if r] for names in COMPARED]
        figures = [f"{pick(found):.2f}" if found else "–" for found in ratios]
        cells.append((word, "", "", "", "", *figures, ""))
    return Table(f"{threads} thread{'s' if threads > 1 else ''}:", COLUMNS, tuple(cells))


COMPARED: tuple[tuple[str, ...], ...] = (PEERS, PEERS[:1], (FLOAT,))
"""What ours is compared with, column by column."""


def _mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _cells(row: Row) -> tuple[str, ...]:
    times = (f"{row.ms[name]:.3f}" if name in row.ms else "–" for name in (*PEERS, OURS, FLOAT))
    ratios = (row.ratio(*names) for names in COMPARED)
    shown = ("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
    name = f"{row.network} (weights only)" if row.network in WEIGHTS_ONLY else row.network
    return (name, *times, *shown, f"{row.distance:.2g}")


def markdown(rows: Sequence[Row], tables: Sequence[Table]) -> str:
    """Return the page."""
    lines = [
        "# 8-bit networks on this CPU",
        "",
        f"Written by `make bench-narrow`. {machine_name()} Products of bytes by: {host_isa().name}.",
        "",
        "Every engine runs the same QDQ file of `autotune quantize --activations uint8`, *float32* is our engine on the",
        "network before. Milliseconds are medians of turns; *A / B* says how many times as fast A is; *differ* is",
        "the greatest distance of our outputs from ONNX Runtime's, of their range: ties of rounding differ.",
        "",
        *(f"{one.markdown()}\n" for one in tables),
        *(f"- {row.network}: {why}" for row in rows for why in _reasons(row.failed)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _reasons(failed: Mapping[str, str]) -> Iterator[str]:
    for engine, reason in failed.items():
        yield f"{engine}: {reason.splitlines()[-1]}"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one engine's turn, at least")
    given = parser.parse_args()
    effort = Effort(given.rounds, given.seconds)
    rows = list(measure(given.networks, given.threads, effort))
    tables = [table(rows, count) for count in given.threads]
    for one in tables:
        print(one.text())
    if given.markdown is not None:
        given.markdown.write_text(markdown(rows, tables))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()

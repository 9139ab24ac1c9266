"""The figures of `make bench-narrow`: networks of 8 bits and of bf16 on this CPU, beside ONNX Runtime, OpenVINO and our
float32.

``autotune.quantize`` writes one standard QDQ file for each network, from drawn inputs; all engines get that
file, ours the float32 file and one of bf16 too. A process each, in turns, as in ``benchmarks.cpu``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from autotune.quantisation.quantize import quantize
from autotune.targets.native.cpu.host import VARIABLE, host_isa
from benchmarks.cpu import PEERS_PYTHON, Effort, distance, machine_name, say, take_turns
from benchmarks.cpu_engine import Case, Engine, EngineFailure
from benchmarks.cpu_figures import OURS, PEERS
from benchmarks.cpu_networks import make_case
from benchmarks.table import Table

NETWORKS = (
    *("light_squeezenet", "light_resnet50", "mobilenet_v2", "bert_small", "vit_tiny"),
    *("mixer_s16", "unet", "mlp", "gpt2_step"),
)
WEIGHTS_ONLY = ("gpt2_step",)
"""A step of a decoder waits for its weights: they alone are narrow."""
FLOAT = "float32"
"""Our engine on the network before it was quantised."""
HALF, WIDENED = "bf16", "bf16 widened"
"""Our engine on the network in bf16; the same where the CPU may not multiply it."""
LOST = "-avx512bf16"
"""The feature that the latter does without."""
CALIBRATION = 4
"""Drawn inputs that ranges are taken from."""
SEED = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A network on so many threads: milliseconds of each engine, and why engines did not run it.

    ``distance`` is the greatest distance of our outputs from the first peer's, as a share of their range;
    ``half_distance`` is that of bf16 from float32.
    """

    network: str
    threads: int
    ms: dict[str, float]
    distance: float
    half_distance: float
    failed: dict[str, str]

    def ratio(self, one: str, *others: str) -> float | None:
        """How many times as fast as the fastest of others one is; None where one is missing."""
        known = [self.ms[name] for name in others if name in self.ms]
        return min(known) / self.ms[one] if known and one in self.ms else None


def measure(networks: Sequence[str], threads: Sequence[int], effort: Effort) -> Iterator[Row]:
    """Give a row for each network and number of threads."""
    for name in networks:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            case = make_case(name, folder)
            narrow = folder / f"{name}.int8.onnx"
            half = folder / f"{name}.bf16.onnx"
            _quantized(name, case.network, case.inputs, narrow, folder)
            quantize(case.network, None, half, format="bf16")
            for count in threads:
                given = {
                    OURS: Case(narrow, case.inputs, count),
                    FLOAT: Case(case.network, case.inputs, count),
                    HALF: Case(half, case.inputs, count),
                    WIDENED: Case(half, case.inputs, count, without=LOST),
                }
                if host_isa().halves is None:
                    del given[WIDENED]
                row = _row(name, given, effort, folder)
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


def _row(name: str, cases: Mapping[str, Case], effort: Effort, folder: Path) -> Row:
    failed: dict[str, str] = {}
    engines: list[Engine] = []
    with ExitStack() as stack:
        for engine in (*PEERS, *cases):
            python, kind = Path(sys.executable), OURS
            if engine in PEERS:
                python, kind = PEERS_PYTHON, engine
            try:
                case = cases.get(engine, cases[OURS])
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
    far, half = _far(outputs.get(OURS), peer), _far(outputs.get(HALF), outputs.get(FLOAT))
    return Row(name, cases[OURS].threads, ms, far, half, failed)


def _far(outputs: Path | None, others: Path | None) -> float:
    return math.nan if outputs is None or others is None else distance(outputs, others)


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a table: engines whose milliseconds it shows, an engine and what that is compared with, by
    heading, and what tells how far numbers differ."""

    engines: Mapping[str, str]
    compared: Mapping[str, tuple[str, ...]]
    differ: Callable[[Row], float]

    @property
    def names(self) -> tuple[str, ...]:
        """All headings."""
        times = (f"{heading} ms" for heading in self.engines)
        return ("network", *times, *self.compared, "differ")

    def ratios(self, row: Row) -> list[float | None]:
        """How many times as fast one engine is as the other ones, column by column."""
        return [row.ratio(*names) for names in self.compared.values()]


IN_BYTES = Columns(
    dict(zip(("ORT", "OV", "ours", "ours float32"), (*PEERS, OURS, FLOAT), strict=True)),
    {
        "ours / better": (OURS, *PEERS),
        "ours / ORT": (OURS, PEERS[0]),
        "ours / float32": (OURS, FLOAT),
    },
    lambda row: row.distance,
)
IN_HALVES = Columns(
    dict(zip(("bf16", "widened", "float32", "int8"), (HALF, WIDENED, FLOAT, OURS), strict=True)),
    {
        "bf16 / widened": (HALF, WIDENED),
        "bf16 / float32": (HALF, FLOAT),
        "int8 / bf16": (OURS, HALF),
    },
    lambda row: row.half_distance,
)


def table(rows: Sequence[Row], threads: int, columns: Columns) -> Table:
    """Return the rows of a number of threads, and their geometric means and worst."""
    own = [row for row in rows if row.threads == threads]
    cells = [_cells(row, columns) for row in own]
    for word, pick in (("geometric mean", _mean), ("least", min)):
        ratios = [[r for r in found if r] for found in zip(*map(columns.ratios, own), strict=True)]
        figures = [f"{pick(found):.2f}" if found else "–" for found in ratios]
        cells.append((word, *("",) * len(columns.engines), *figures, ""))
    return Table(f"{threads} thread{'s' if threads > 1 else ''}:", columns.names, tuple(cells))


def _mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _cells(row: Row, columns: Columns) -> tuple[str, ...]:
    engines = columns.engines.values()
    times = (f"{row.ms[name]:.3f}" if name in row.ms else "–" for name in engines)
    shown = ("–" if ratio is None else f"{ratio:.2f}" for ratio in columns.ratios(row))
    is_partly = OURS in columns.engines.values() and row.network in WEIGHTS_ONLY
    name = f"{row.network} (weights only)" if is_partly else row.network
    return (name, *times, *shown, f"{columns.differ(row):.2g}")


def markdown(
    rows: Sequence[Row], in_bytes: Sequence[Table], in_halves: Sequence[Table], note: str
) -> str:
    """Return the page; ``note`` says what else the machine did."""
    lines = [
        "# Narrow networks on this CPU",
        "",
        f"Written by `make bench-narrow`. {machine_name()} Code is for: {host_isa().name}. {note}".rstrip(),
        "",
        "## Bytes",
        "",
        "Every engine runs the same QDQ file of `autotune quantize --activations uint8`, *float32* is our engine on the",
        "network before. Milliseconds are medians of turns; *A / B* says how many times as fast A is; *differ* is",
        "the greatest distance of our outputs from ONNX Runtime's, of their range: ties of rounding differ.",
        "",
        *(f"{one.markdown()}\n" for one in in_bytes),
        "## bf16",
        "",
        "Our engine, in the same turns. *bf16* runs the file of `autotune quantize --format bf16`, *widened* the same where the",
        f"CPU may not multiply bf16 (`{VARIABLE}={LOST}`): float32 products of widened weights. *int8* is the file above.",
        "*differ* is the distance of outputs in bf16 from those in float32.",
        "",
        *(f"{one.markdown()}\n" for one in in_halves),
        *(f"- {row.network}: {why}" for row in rows for why in _reasons(row.failed)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _reasons(failed: Mapping[str, str]) -> Iterator[str]:
    for engine, reason in failed.items():
        yield f"{engine}: {reason.splitlines()[-1]}"


def kept_rows(file: Path | None) -> list[Row]:
    """Return the rows that a file of an earlier call holds; it may not exist."""
    if file is None or not file.exists():
        return []
    return [Row(**row) for row in json.loads(file.read_text())]


def with_row(rows: Sequence[Row], row: Row) -> list[Row]:
    """Return rows with one in place of that of its network and threads, in the order of ``NETWORKS``."""
    others = [x for x in rows if (x.network, x.threads) != (row.network, row.threads)]
    return sorted([*others, row], key=lambda x: (NETWORKS.index(x.network), x.threads))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path, help="keeps rows; those of other networks stay")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one engine's turn, at least")
    parser.add_argument(
        "--note", default="", help="a sentence for the page: what else the machine did"
    )
    given = parser.parse_args()
    effort = Effort(given.rounds, given.seconds)
    rows = kept_rows(given.json)
    for row in measure(given.networks, given.threads, effort):
        rows = with_row(rows, row)
        if given.json is not None:
            given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    in_bytes, in_halves = (
        [table(rows, count, columns) for count in given.threads]
        for columns in (IN_BYTES, IN_HALVES)
    )
    for one in (*in_bytes, *in_halves):
        print(one.text())
    if given.markdown is not None:
        given.markdown.write_text(markdown(rows, in_bytes, in_halves, given.note))


if __name__ == "__main__":
    main()

"""What comes before the first result: CPU milliseconds of every stage from a file to kernels that
run, on real networks and on chains of 100, 1 000 and 10 000 nodes, and of starting at all.

Run it by `make bench-compile`. Every figure is the least of several processes, or of several
repeats within one: the machine is shared, and other work only adds. Only the first session of a network
is one process, which also compiles to bytecode what was not imported before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx

from autotune.datasets.onnx_light import light_seeded
from autotune.datasets.transformers import bert_small
from autotune.disk.file_stamp import SETTLED_SECONDS
from benchmarks.child import run_child
from benchmarks.machine import busy
from benchmarks.table import Table

WORKER = "benchmarks.compile_path_worker"
NODES = (100, 1_000, 10_000)
SPEC = "edge"
REPEATS = 3
"""Processes of each kind: all of it takes three minutes where nothing else runs."""
Figures = Mapping[str, float]


def written(folder: Path) -> dict[str, Path]:
    """The real networks, with seeded weights, as files."""
    models = {
        "light_resnet50": light_seeded("light_resnet50"),
        "bert_12_layers": bert_small(tokens=128, width=768, heads=12, layers=12),
    }
    paths = {name: folder / f"{name}.onnx" for name in models}
    for name, model in models.items():
        onnx.save(model, paths[name])
    return paths


def least(repeats: int, *arguments: str) -> dict[str, float]:
    """The least of every figure over some processes."""
    runs = [run_child(Path(sys.executable), WORKER, arguments) for _ in range(repeats)]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def start_table() -> Table:
    """Interpreters that do nothing but import."""
    rows = []
    for name, code in (
        ("python", "pass"),
        ("import numpy", "import numpy"),
        ("import onnx", "import onnx"),
        ("import autotune", "import autotune"),
        ("autotune.Session", "import autotune; autotune.Session"),
        ("autotune --help", "from autotune.cli.main import main; main(['--help'])"),
    ):
        rows.append((name, _ms(least(REPEATS, "start", code)["seconds"])))
    return Table("Starting (CPU ms of a process)", ("what", "ms"), tuple(rows))


def load_table(path: Path) -> Table:
    """A session on this machine from the file, one thread: the first ever, in one process that also
    compiles to bytecode what nothing imported before, and those that find what it kept."""
    time.sleep(SETTLED_SECONDS)  # a file that was written just now is not kept
    first = least(1, "session", str(path))
    later = least(REPEATS, "session", str(path))
    rows = tuple((name, _ms(first[name]), _ms(later[name])) for name in first)
    title = f"{path.stem}: Session on cpu, the first one and later ones (CPU ms)"
    return Table(title, ("stage", "first", "later"), rows)


def stage_table(paths: Mapping[str, Path]) -> Table:
    """From files and chains to programs of an emulated machine."""
    cases: dict[str, Figures] = {
        name: least(REPEATS, "stages", str(path), SPEC) for name, path in paths.items()
    }
    cases |= {f"chain of {n}": least(REPEATS, "chain", str(n), SPEC) for n in NODES}
    stages = tuple(next(iter(cases.values())))
    rows = [
        (name, *(_ms(found[stage]) for stage in stages), _ms(sum(found.values())))
        for name, found in cases.items()
    ]
    title = f"From a network to programs of {SPEC} (CPU ms)"
    return Table(title, ("network", *stages, "sum"), tuple(rows))


def small_table() -> Table:
    """What is done a million times."""
    found = least(REPEATS, "candidates", SPEC) | least(REPEATS, "runs")
    rows = tuple((name, f"{1e6 * seconds:.1f}") for name, seconds in found.items())
    return Table("Repeated work (CPU µs)", ("what", "µs"), rows)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"


PARTS: Mapping[str, Callable[[Mapping[str, Path]], Table]] = {
    "start": lambda _: start_table(),
    "load": lambda paths: load_table(paths["light_resnet50"]),
    "stages": stage_table,
    "small": lambda _: small_table(),
}
"""What can be measured alone."""


def markdown(tables: Sequence[Table]) -> str:
    """docs/figures-compile.md."""
    head = (
        "# Figures before the first result\n\n"
        "Written by `make bench-compile`: CPU time from an ONNX file to kernels that run, and of starting "
        "at all. Every figure is the least of several processes, or of several repeats within one: the "
        "machine is shared, and other work only adds. The column *first* alone is of one process, and "
        "includes compiling to bytecode those of our sources that no process before had imported. "
        f"{busy()}\n\n"
    )
    return head + "\n\n".join(table.markdown() for table in tables) + "\n"


def main() -> None:
    """Print all tables; ``--json FILE`` and ``--markdown FILE`` keep them too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-compile.md here")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=tuple(PARTS))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AUTOTUNE_HOME"] = folder
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as where it is installed
        paths = written(Path(folder)) if {"load", "stages"} & {*chosen.parts} else {}
        tables = []
        for part in chosen.parts:
            tables.append(PARTS[part](paths))
            print(tables[-1].text(), end="\n\n", flush=True)
    if chosen.markdown is not None:
        chosen.markdown.write_text(markdown(tables))
    if chosen.json is not None:
        plain = {
            t.title: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for t in tables
        }
        chosen.json.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()

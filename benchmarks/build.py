"""What building plans as a graph of tasks brings: seconds on one core and on two, memory, going on after a kill.

Run it by `make bench-build`. Ways are measured in turns, each in a process of its own with empty caches; the ratio
is of the same round. `--json FILE` keeps what was measured, and goes on from it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from autotune.datasets.onnx_light import light_seeded
from autotune.datasets.transformers import bert_small
from benchmarks.child import ROOT, command, run_child
from benchmarks.machine import measured_on
from benchmarks.table import Table

WORKER = "benchmarks.build_worker"
ROUNDS = 5
AIM = 0.6
CALM, TRIES = 0.05, 8
"""Share of the cores that other processes may take during a build, and builds that are tried for a calm one."""
BUDGET = "4GiB"
PARTS = ("builds", "opens", "resume", "memory")
"""What can be measured alone."""
Figures = dict[str, Any]


@contextmanager
def empty_home() -> Iterator[dict[str, str]]:
    """Give the environment of a process that has nothing on disk."""
    with tempfile.TemporaryDirectory() as folder:
        yield os.environ | {"AUTOTUNE_HOME": folder}


def run_cold(*arguments: str) -> Figures:
    """Run a job with empty caches."""
    with empty_home() as environment:
        os.environ["AUTOTUNE_HOME"] = environment["AUTOTUNE_HOME"]
        return run_child(Path(sys.executable), WORKER, arguments)


def run_two(path: Path) -> float:
    """Return seconds of a build on one core while another process does the same, the mean of both."""
    with empty_home() as one, empty_home() as two:
        line = command(Path(sys.executable), WORKER, ("build", str(path), "1"))
        children = [
            subprocess.Popen(line, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
            for env in (one, two)
        ]
        answers = [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]
    return statistics.mean(float(answer["seconds"]) for answer in answers)


def networks(folder: Path) -> dict[str, Path]:
    """The two large networks, with seeded weights, as files."""
    models: dict[str, Callable[[], onnx.ModelProto]] = {
        "ResNet-50": lambda: light_seeded("light_resnet50"),
        "BERT-base": lambda: bert_small(tokens=128, width=768, heads=12, layers=12),
    }
    paths = {name: folder / f"{name}.onnx" for name in models}
    for name, make in models.items():
        onnx.save(make(), paths[name])
    return paths


def run_calm(*arguments: str) -> Figures:
    """Build until other processes leave the cores alone, ``TRIES`` times at most; return the calmest build."""
    tried: list[Figures] = []
    while len(tried) < TRIES and (not tried or tried[-1]["others_share"] > CALM):
        tried.append(run_cold(*arguments))
    return min(tried, key=lambda one: float(one["others_share"])) | {"tries": len(tried)}


def time_builds(path: Path, rounds: int) -> Figures:
    """Measure builds of one network, each way once a round."""
    rows = []
    for _ in range(rounds):
        one, two = run_calm("build", str(path), "1"), run_calm("build", str(path), "2")
        rows.append({"one": one, "two": two, "pair": run_two(path)})
    return {"rounds": rows}


def time_opens(path: Path, rounds: int) -> Figures:
    """Measure the way from a file to a session, each way once a round."""
    rows = []
    for _ in range(rounds):
        one, two = (run_cold("open", str(path), cores)["seconds"] for cores in "12")
        rows.append({"one": one, "two": two})
    return {"rounds": rows}


def resume(path: Path) -> Figures:
    """Kill a build halfway through its kernels, and go on."""
    whole = run_cold("build", str(path), "2")
    half = max(1, whole["kernels"] // 2)
    with empty_home() as environment:
        os.environ["AUTOTUNE_HOME"] = environment["AUTOTUNE_HOME"]
        line = command(Path(sys.executable), WORKER, ("build", str(path), "2", str(half)))
        killed = subprocess.run(line, cwd=ROOT, capture_output=True, check=False)
        assert killed.returncode < 0, killed.stderr[-2000:]
        again = run_child(Path(sys.executable), WORKER, ("build", str(path), "2"))
    return {"whole": whole, "again": again, "killed_after": half}


def peaks() -> Figures:
    """Open and run every shipped network within the budget, each in a process."""
    from autotune.datasets import NETWORKS

    return {name: run_cold("memory", name, BUDGET) for name in NETWORKS}


def build_table(found: Mapping[str, Figures]) -> Table:
    """Seconds of builds, and the ratio of each round."""
    rows = []
    for name, figures in found.items():
        rounds = figures["rounds"]
        ratios = [row["two"]["seconds"] / row["one"]["seconds"] for row in rounds]
        share = _interpreter_share(rounds)
        pair = [row["pair"] / row["one"]["seconds"] for row in rounds]
        others = [row[way]["others_share"] for row in rounds for way in ("one", "two")]
        rows.append(
            (
                name,
                _seconds([row["one"]["seconds"] for row in rounds]),
                _seconds([row["two"]["seconds"] for row in rounds]),
                f"{statistics.mean(ratios):.0%} ({min(ratios):.0%} to {max(ratios):.0%})",
                f"{share:.0%}",
                f"{max(share, 0.5):.0%}",
                f"{min(pair):.2f}×",
                f"{max(others):.0%}",
                "yes" if statistics.mean(ratios) <= AIM else "no",
            )
        )
    title = f"Building a plan with empty caches, wall seconds: mean (least), {len(rounds)} rounds"
    columns = ("network", "1 core", "2 cores", "ratio by round", "interpreter", "Amdahl's limit", "two at once", "others", f"≤ {AIM:.0%}")  # fmt: skip
    return Table(title, columns, tuple(rows))


def _interpreter_share(rounds: Sequence[Figures]) -> float:
    """Return the share of a build on one core in which Python is held."""
    parts = [row["one"]["loads_seconds"] for row in rounds]
    return statistics.mean(float(part["interpreter"] / sum(part.values())) for part in parts)


def open_table(found: Mapping[str, Figures]) -> Table:
    """Seconds from a file to a session, of which the build is a part."""
    rows = []
    for name, figures in found.items():
        rounds = figures["rounds"]
        ratios = [row["two"] / row["one"] for row in rounds]
        rows.append(
            (
                name,
                _seconds([row["one"] for row in rounds]),
                _seconds([row["two"] for row in rounds]),
                f"{statistics.mean(ratios):.0%} ({min(ratios):.0%} to {max(ratios):.0%})",
            )
        )
    title = "From file to session in a fresh process with empty caches, wall seconds: mean (least)"
    return Table(title, ("network", "1 core", "2 cores", "ratio by round"), tuple(rows))


def resume_table(found: Mapping[str, Figures]) -> Table:
    """What a build does that another had begun."""
    rows = [
        (
            name,
            f"{one['killed_after']} of {one['whole']['kernels']}",
            str(one["again"]["kernels"]),
            str(one["again"]["loads"]),
            f"{one['whole']['seconds']:.2f}",
            f"{one['again']['seconds']:.2f}",
        )
        for name, one in found.items()
    ]
    columns = ("network", "killed after kernels", "kernels left", "programs from disk", "s whole", "s resumed")  # fmt: skip
    return Table("Killed by SIGKILL, and built again", columns, tuple(rows))


def peak_table(found: Mapping[str, Figures]) -> Table:
    """Peak memory of every network, the largest first."""
    rows = sorted(found.items(), key=lambda item: -item[1]["peak_rss_bytes"])
    cells = tuple(
        (name, _mib(row["peak_rss_bytes"]), _mib(row["reserved_bytes"]), str(row["builds"]))
        for name, row in rows
    )
    title = f"Peak memory of a process that opens and runs a network within {BUDGET} (MiB)"
    return Table(title, ("network", "peak", "predicted for its builds", "builds"), cells)


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 20):,.0f}"


def _seconds(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.2f} ({min(values):.2f})"


def markdown(found: Mapping[str, Any]) -> str:
    """docs/figures-build.md, of the parts that were measured."""
    head = (
        "# Figures of building\n\n"
        "Written by `make bench-build`. A plan is built as a graph of tasks ([decision 61](decisions/0061-building-as-tasks.md)). "
        "Building begins with groups and schedules that are known, and ends with a network ready to run: lower, verify, "
        "bind, generate code, pack, link. Imports and LLVM's start are over. One core runs the same tasks one after the "
        "other. *Interpreter* is the share of that in which Python is held; two cores cannot be faster than it, nor than "
        "half: *Amdahl's limit*. *Two at once* is what one core's build takes while a second process does the "
        "same, in multiples of alone, the least of the rounds: 1.00× on a machine whose cores share nothing. *Others* is the share of "
        f"both cores that other processes took, in the worst build that counts; a build beyond {CALM:.0%} is tried again, up to "
        f"{TRIES} times, and the calmest counts.\n\nMeasured on {measured_on()}.\n\n"
    )
    return head + "\n\n".join(table.markdown() for table in _tables(found)) + "\n"


def main() -> None:
    """Print all tables; ``--json FILE`` keeps figures and goes on from them, ``--markdown FILE`` writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", type=Path, help="keep figures here, and measure only what it lacks"
    )
    parser.add_argument("--markdown", type=Path, help="write docs/figures-build.md here")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--parts", nargs="+", choices=PARTS)
    chosen = parser.parse_args()
    kept = chosen.json is not None and chosen.json.exists()
    found: dict[str, Any] = json.loads(chosen.json.read_text()) if kept else {}
    parts = chosen.parts or PARTS
    with tempfile.TemporaryDirectory() as folder:
        paths = (
            networks(Path(folder)) if {"builds", "opens", "resume"} & {*parts} - {*found} else {}
        )
        for part in parts:
            if part not in found:
                found[part] = _measured(part, paths, chosen.rounds)
            if chosen.json is not None:
                chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    for table in _tables(found):
        print(table.text(), end="\n\n")
    if chosen.markdown is not None:
        chosen.markdown.write_text(markdown(found))


def _measured(part: str, paths: Mapping[str, Path], rounds: int) -> Figures:
    match part:
        case "builds":
            return {name: time_builds(path, rounds) for name, path in paths.items()}
        case "opens":
            return {name: time_opens(path, rounds) for name, path in paths.items()}
        case "resume":
            return {name: resume(path) for name, path in paths.items()}
        case _:
            return {"peaks": peaks()}


def _tables(found: Mapping[str, Any]) -> Iterator[Table]:
    if "builds" in found:
        yield build_table(found["builds"])
    if "opens" in found:
        yield open_table(found["opens"])
    if "resume" in found:
        yield resume_table(found["resume"])
    if "memory" in found:
        yield peak_table(found["memory"]["peaks"])


if __name__ == "__main__":
    main()

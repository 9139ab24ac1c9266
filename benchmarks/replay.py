"""Black-box search of tuning spaces beside other optimisers, from the same seeds in one run.

    python -m benchmarks.replay [FILE…] [--seeds 25] [--markdown docs/figures-replay.md] [--json runs.json]

A score is the mean over n = 10 to 200 evaluations of (R(n) − S(n)) / (R(n) − optimum): R is the exact expectation
of the best of n random draws, S the mean best so far over the seeds. 0 is random, 1 finds the optimum at once.
Spaces are recorded files, and analytic models of kernels that no choice of ours was made on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import autotune.tuner.blackbox as blackbox
from autotune.targets.recorded_space import RecordedSpace
from benchmarks.kernel_models import DEVICES, KERNELS, SMALL, model
from benchmarks.replay_peers import KERNEL_TUNER, Floats, kernel_tuner, ours, tpe, xgboost_loop
from benchmarks.table import Table

EVALUATIONS, FIRST_SCORED, EARLY = 200, 10, 25
OURS, PRIMED, RANDOM = "autotune", "autotune with priors", "random"
PEERS = {"Optuna TPE": tpe, "XGBoost loop": xgboost_loop}
TOGETHER = 5
"""Seeds that a process runs Kernel Tuner from."""
STRATEGIES = ("adaptive_tabu_greywolf", "hybrid_vndx", "genetic_algorithm")
NOTE = """# Figures of search in recorded tuning spaces

Written by

    {command}

A score is the mean over n = 10 to 200 evaluations of (R(n) − S(n)) / (R(n) − optimum). R is the exact expectation of the
best of n random draws, S the mean best so far over the seeds. Random draws score 0, the optimum at once scores 1.
Seeds: 0 to {last} for autotune, 0 to {peer_last} for the others. An invalid configuration is an evaluation.

Rows with a file's device are recordings. The others are analytic models of kernels (`benchmarks/kernel_models.py`):
no choice was made on these. The recordings were looked at once a choice was made. *With priors*: all other recordings or
models of the same kernel. TPE has Optuna's defaults and an integer for every parameter's level; what is illegal or was
tried costs it nothing, and is told the slowest time or the time it had. The XGBoost loop begins with ten random
configurations and then takes the one predicted fastest.
Kernel Tuner 1.5.0 has its defaults and a new search space in every run. Of random draws the exact expectation stands.
"""


@dataclass(frozen=True, slots=True)
class Job:
    """Searches of a space, which is a file's path or a kernel's model on a device, from one seed or several."""

    space: str
    priors: tuple[str, ...]
    peer: str
    seeds: tuple[int, ...]
    kernel_tuner: str

    @property
    def keys(self) -> tuple[str, ...]:
        """What names the result of each seed in a file of runs; results of older code are not ours."""
        state = _state() if self.peer in (OURS, PRIMED) else ""
        return tuple(" | ".join((self.space, self.peer, str(x), state)) for x in self.seeds)

    def without(self, done: Container[str]) -> Job:
        """Return the same of the seeds whose results are not there."""
        pairs = zip(self.seeds, self.keys, strict=True)
        return replace(self, seeds=tuple(seed for seed, key in pairs if key not in done))


@cache
def _state() -> str:
    """Return a fingerprint of the optimiser's sources."""
    sources = sorted(Path(blackbox.__path__[0]).glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


@cache
def opened(name: str) -> RecordedSpace:
    """Return the space of a path or of ``kernel@device``."""
    kernel, at, device = name.partition("@")
    devices = {d.name: d for d in DEVICES}
    if at and kernel in KERNELS and device in devices:
        return model(kernel, devices[device])
    return RecordedSpace.read(Path(name))


def run(job: Job) -> list[list[float | None]]:
    """Return the values of each seed in the order tried, None for failures."""
    space = opened(job.space)
    count = min(EVALUATIONS, len(space))
    with threadpool_limits(1):
        if job.peer.startswith(KERNEL_TUNER):
            strategy = job.peer.removeprefix(KERNEL_TUNER)
            found = kernel_tuner(space, job.seeds, count, strategy, job.kernel_tuner)
        elif job.peer in PEERS:
            found = [PEERS[job.peer](space, seed, count) for seed in job.seeds]
        else:
            priors = tuple(map(opened, job.priors))
            found = [ours(space, seed, count, priors) for seed in job.seeds]
    return [[None if np.isnan(time) else float(time) for time in times] for times in found]


def all_runs(jobs: Sequence[Job], kept: Path | None, workers: int) -> dict[str, list[float | None]]:
    """Run jobs, and keep each result in the file ``kept``; those in it are not repeated."""
    done = {} if kept is None or not kept.exists() else json.loads(kept.read_text())
    missing = [left for job in jobs if (left := job.without(done)).seeds]
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        futures = {pool.submit(run, job): job for job in missing}
        for number, future in enumerate(as_completed(futures), 1):
            job = futures[future]
            done.update(zip(job.keys, future.result(), strict=True))
            if kept is not None:
                _keep(kept, done)
            sys.stderr.write(
                f"{number}/{len(missing)} {job.space}: {job.peer}, seeds {job.seeds}\n"
            )
    return done


def _keep(file: Path, done: dict[str, list[float | None]]) -> None:
    """Write results in one step: whoever is ended meanwhile goes on from what there was."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(done))
    new.replace(file)


def best_so_far(space: RecordedSpace, runs: Sequence[Sequence[float | None]]) -> Floats:
    """Return the best of each run's beginnings [seeds, n]; nothing but failures counts as the slowest time."""
    times = np.array(runs, np.float64)
    return np.minimum.accumulate(np.nan_to_num(times, nan=np.nanmax(space.times)), axis=1)


def score(space: RecordedSpace, runs: Sequence[Sequence[float | None]]) -> float:
    """Return the score of runs over seeds; NaN without any."""
    if not runs:
        return np.nan
    optimum = np.nanmin(space.times)
    best = best_so_far(space, runs).mean(axis=0)
    chance = space.best_of_random(len(best))
    gain = (chance - best) / np.maximum(chance - optimum, 1e-12 * optimum)
    return float(gain[FIRST_SCORED - 1 :].mean())


def early(space: RecordedSpace, runs: Sequence[Sequence[float | None]]) -> float:
    """Return the mean over seeds of the best of ``EARLY`` evaluations over the optimum; NaN without any."""
    if not runs:
        return np.nan
    return float(best_so_far(space, runs)[:, EARLY - 1].mean() / np.nanmin(space.times))


def _no_gain(space: RecordedSpace) -> float:
    """Return the score of random draws, which is 0."""
    return 0.0


def _early_by_chance(space: RecordedSpace) -> float:
    """Return what ``early`` expects of random draws."""
    return float(space.best_of_random(EARLY)[-1] / np.nanmin(space.times))


def jobs_of(
    spaces: Sequence[str], seeds: int, peer_seeds: int, python: str | None
) -> Iterator[Job]:
    """Yield every run of the page, seed by seed, so that those that are done can be compared at any time; Kernel Tuner
    takes ``TOGETHER`` at once, as it is long to import."""
    for seed in range(seeds):
        for space in spaces:
            if python and seed < peer_seeds and seed % TOGETHER == 0:
                some = tuple(range(seed, min(seed + TOGETHER, peer_seeds)))
                yield from (Job(space, (), KERNEL_TUNER + x, some, python) for x in STRATEGIES)
            yield Job(space, (), OURS, (seed,), "")
            if priors := tuple(_others(space, spaces)):
                yield Job(space, priors, PRIMED, (seed,), "")
            for peer in PEERS if seed < peer_seeds else ():
                yield Job(space, (), peer, (seed,), "")


def _others(space: str, spaces: Sequence[str]) -> list[str]:
    """Return the other recordings or models of the same kernel."""
    if "@" in space:
        kernel = space.partition("@")[0]
        return [f"{kernel}@{d.name}" for d in DEVICES if f"{kernel}@{d.name}" != space]
    alike = [name for name in spaces if name != space and "@" not in name]
    return [name for name in alike if opened(name).parameters == opened(space).parameters]


def tables(jobs: Sequence[Job], done: dict[str, list[float | None]]) -> tuple[Table, Table]:
    """Return the scores, and the best of the first evaluations over the optimum, with means and worst."""
    others = dict.fromkeys(job.peer for job in jobs if job.peer not in (OURS, PRIMED))
    peers = [OURS, PRIMED, *others, RANDOM]
    spaces = tuple(dict.fromkeys(job.space for job in jobs))
    runs: dict[tuple[str, str], list[list[float | None]]] = {}
    for job in jobs:
        runs.setdefault((job.space, job.peer), []).extend(done[key] for key in job.keys)
    shown = []
    for measure, worst, chance in ((score, np.min, _no_gain), (early, np.max, _early_by_chance)):
        values = np.array(
            [
                [
                    chance(opened(s)) if p == RANDOM else measure(opened(s), runs.get((s, p), ()))
                    for p in peers
                ]
                for s in spaces
            ]
        )
        said = [column[~np.isnan(column)] for column in values.T]
        rows = [
            *values,
            *(np.array([f(c) if len(c) else np.nan for c in said]) for f in (np.mean, worst)),
        ]
        names = [f"{opened(s).name}, {len(opened(s)):,}" for s in spaces] + ["mean", "worst"]
        cells = [
            (name, *("–" if np.isnan(v) else f"{v:.2f}" for v in row))
            for name, row in zip(names, rows, strict=True)
        ]
        title = "Scores" if measure is score else f"Best of {EARLY} evaluations over the optimum"
        shown.append(Table(title, ("space, configurations", *peers), tuple(cells)))
    return shown[0], shown[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write the page."""
    options = _parser().parse_args(arguments)
    models = [f"{kernel}@{SMALL.name}" for kernel in options.models]
    spaces = [*map(str, options.files), *models]
    jobs = list(jobs_of(spaces, options.seeds, options.peer_seeds, options.kernel_tuner))
    shown = tables(jobs, all_runs(jobs, options.json, options.jobs))
    print("\n\n".join(table.text() for table in shown))
    if options.markdown is not None:
        head = NOTE.format(
            command=_command(options),
            last=options.seeds - 1,
            peer_last=options.peer_seeds - 1,
        )
        page = chain([head.rstrip()], (table.markdown() for table in shown))
        options.markdown.write_text("\n\n".join(page) + "\n")


def _command(options: argparse.Namespace) -> str:
    """Return the command that writes the page."""
    words = [f'FILES="{" ".join(file.name for file in options.files)}"'] if options.files else []
    if options.models != list(KERNELS):
        words.append(f'MODELS="{" ".join(options.models)}"')
    words += [f"SEEDS={options.seeds}", f"PEER_SEEDS={options.peer_seeds}"]
    return " ".join(("make bench-replay", *words))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--peer-seeds", type=int, default=10)
    parser.add_argument("--models", nargs="*", choices=list(KERNELS), default=list(KERNELS))
    parser.add_argument("--kernel-tuner", help="an interpreter that has Kernel Tuner")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path, help="keep runs here, and do not repeat these")
    parser.add_argument("--markdown", type=Path)
    return parser


if __name__ == "__main__":
    main()

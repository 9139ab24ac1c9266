"""The figures of `make bench-model`: how well programs of unseen networks are predicted, on every target.

Draws and measures what the folder does not hold, trains every predictor with each network held out, and
writes the page. It can be interrupted and called again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from autotune.disk.atomic_file import replace_file
from autotune.measure.cluster.cluster import opened_cluster
from autotune.schedule.candidate import Candidate
from autotune.targets.opening import is_host, spec_names
from benchmarks.machine import busy
from benchmarks.model_experiments import ablate, learning_curves
from benchmarks.model_kept import kept_targets
from benchmarks.model_measure import (
    WORKERS,
    TargetSets,
    default_groups,
    default_networks,
    drawn_sets,
    in_turn,
    measure_missing,
    measured_sets,
    open_store,
    place,
    say,
)
from benchmarks.model_page import TargetFigures, page, picture_files
from benchmarks.model_pictures import curves_picture, scatter_picture
from benchmarks.model_scores import Judged, score
from benchmarks.model_sets import NetworkSets
from benchmarks.model_study import FLOOR, OURS, Study, held_out, scores_by_network
from benchmarks.model_training import drawn_training, training_records

FOLDS = 8
POINTS = 1200
"""Programs in a scatter plot."""
AGAIN = "again.db"


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured, and how it is split."""

    folder: Path
    networks: tuple[str, ...]
    groups: int | None
    folds: int
    budget: int | None
    seconds: float | None
    experiments: bool
    workers: str | None = None


def collect(name: str, options: Options) -> None:
    """Measure what the folder does not hold of a target: programs to train on, then sets."""
    drawn = _drawn(name, options)
    training = _training(name, options)
    with opened_cluster(options.workers) as cluster, open_store(name, options.folder) as store:
        candidates = (*training, *in_turn(drawn))
        left = measure_missing(name, candidates, store, options.seconds, cluster)
    say(f"{name}: {left} programs left")
    if is_host(name):
        replace_file(_conditions_file(name, options), busy())


def collect_again(name: str, options: Options) -> None:
    """Measure all whole sets of a timed target once more, for the noise floor."""
    with open_store(name, options.folder) as store:
        sets = measured_sets(name, _drawn(name, options), store).sets
    repeated = {one.group.key for one in sets}
    chosen = (
        candidate
        for network in _drawn(name, options)
        for one in network.sets
        if one.group.key in repeated
        for candidate in one.candidates()
    )
    with open_store(name, options.folder, AGAIN) as store:
        measure_missing(name, chosen, store, options.seconds)


def evaluate(name: str, options: Options) -> TargetFigures:
    """Return the figures of a target from what its folder holds."""
    drawn = _drawn(name, options)
    with open_store(name, options.folder) as store:
        measured = measured_sets(name, drawn, store)
    training = _training(name, options)
    records = tuple(training_records(training, measured.records))
    say(f"{name}: {len(measured.sets)} sets, {len(records)} programs to train on")
    study = Study.of(measured.spec, measured.sets, measured.plans, records, options.folds)
    predicted, kinds = held_out(study, say)
    judged = {predictor: study.judged(cycles) for predictor, cycles in predicted.items()}
    scores = {predictor: score(found) for predictor, found in judged.items()}
    floor = _floor(name, options, drawn, measured)
    if floor:
        scores[FLOOR] = score(floor)
    return TargetFigures(
        name,
        len(records),
        sum(map(len, measured.sets)),
        min(map(len, measured.sets)),
        options.folds,
        scores,
        {predictor: scores_by_network(judged[predictor]) for predictor in ("formula", OURS)},
        {predictor: study.plan_ratios(cycles) for predictor, cycles in predicted.items()},
        kinds,
        tuple(ablate(study)) if options.experiments else (),
        tuple(learning_curves(study)) if options.experiments else (),
        _points(judged[OURS]),
        _conditions(name, options),
    )


def _conditions_file(name: str, options: Options) -> Path:
    return place(options.folder, name) / "conditions.txt"


def _conditions(name: str, options: Options) -> str:
    """Return how busy the machine was while a timed target was measured."""
    file = _conditions_file(name, options)
    return file.read_text() if file.is_file() else ""


def _drawn(name: str, options: Options) -> tuple[NetworkSets, ...]:
    groups = options.groups or default_groups(name)
    networks = options.networks or default_networks(name)
    return drawn_sets(name, options.folder, networks, groups)


def _training(name: str, options: Options) -> tuple[Candidate, ...]:
    networks = options.networks or default_networks(name)
    return drawn_training(name, options.folder, networks, options.budget)


def _floor(
    name: str, options: Options, drawn: Sequence[NetworkSets], measured: TargetSets
) -> list[Judged]:
    """Return the sets that were measured again, beside their second measurements."""
    if not is_host(name):
        return []
    with open_store(name, options.folder, AGAIN) as store:
        again = {one.group.key: one for one in measured_sets(name, drawn, store).sets}
    return [
        Judged(one, again[one.group.key].cycles)
        for one in measured.sets
        if one.group.key in again and again[one.group.key].schedules == one.schedules
    ]


def _points(judged: Sequence[Judged]) -> tuple[tuple[float, float], ...]:
    actual = np.concatenate([one.measured.cycles for one in judged])
    predicted = np.concatenate([one.cycles for one in judged])
    chosen = np.random.default_rng(0).permutation(len(actual))[:POINTS]
    return tuple(zip(actual[chosen].tolist(), predicted[chosen].tolist(), strict=True))


def _figures_file(name: str, options: Options) -> Path:
    return place(options.folder, name) / "figures.json"


def _known_figures(options: Options) -> list[TargetFigures]:
    """Return the figures of every target that was evaluated in the folder so far."""
    names = (*spec_names(), "cpu:1", "cpu:2")
    files = (_figures_file(name, options) for name in names)
    plain = (json.loads(file.read_text()) for file in files if file.is_file())
    return [TargetFigures.from_plain(one) for one in plain]


def _write(figures: Sequence[TargetFigures], markdown: Path) -> None:
    pictures = markdown.parent / "images"
    pictures.mkdir(exist_ok=True)
    for one in figures:
        scatter, curves = picture_files(one)
        actual, predicted = zip(*one.points, strict=True)
        title = f"{one.target}: held-out networks"
        (pictures / scatter).write_text(scatter_picture(title, actual, predicted))
        if one.curves:
            (pictures / curves).write_text(curves_picture(one.target, one.curves))
    before = markdown.read_text("utf-8") if markdown.is_file() else ""
    markdown.write_text(page(figures, "images", kept_targets(before)), "utf-8")


def main() -> None:
    """Collect, evaluate, and write the page: targets that the folder has figures of, and what it held of others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="*", default=[*spec_names(), "cpu:1", "cpu:2"])
    parser.add_argument("--folder", type=Path, default=Path(".bench/model"), help="measurements")
    parser.add_argument("--networks", nargs="*", default=(), help="shipped networks")
    parser.add_argument("--groups", type=int, help="sets of each network")
    parser.add_argument(
        "--folds", type=int, default=FOLDS, help="parts that networks are dealt into"
    )
    parser.add_argument("--budget", type=int, help="programs to train on; default: a calibration's")
    parser.add_argument("--seconds", type=float, help="measure for so long per target at most")
    parser.add_argument("--workers", help=WORKERS)
    parser.add_argument("--collect", action="store_true", help="measure, and evaluate nothing")
    parser.add_argument("--evaluate", action="store_true", help="measure nothing")
    parser.add_argument(
        "--again", action="store_true", help="measure sets of timed targets once more"
    )
    parser.add_argument("--quick", action="store_true", help="no ablation and no learning curves")
    parser.add_argument("--markdown", type=Path, help="write docs/figures-model.md here")
    arguments = parser.parse_args()
    options = Options(
        arguments.folder,
        tuple(arguments.networks),
        arguments.groups,
        arguments.folds,
        arguments.budget,
        arguments.seconds,
        not arguments.quick,
        arguments.workers,
    )
    if arguments.again:
        for name in filter(is_host, arguments.targets):
            collect_again(name, options)
        return
    if not arguments.evaluate:
        for name in arguments.targets:
            collect(name, options)
        if any(map(is_host, arguments.targets)) and not arguments.collect:
            subprocess.run(
                [sys.executable, "-m", "benchmarks.model", *sys.argv[1:], "--again"], check=True
            )
    if arguments.collect:
        return
    for name in arguments.targets:
        figures = evaluate(name, options)
        replace_file(_figures_file(name, options), json.dumps(asdict(figures)))
        print(_line(figures))
    if arguments.markdown is not None:
        _write(_known_figures(options), arguments.markdown)


def _line(figures: TargetFigures) -> str:
    found = figures.scores[OURS]
    return (
        f"{figures.target}: MAPE {found.mape:.2%} (formula {figures.scores['formula'].mape:.2%}), within "
        f"±10 % {found.within_10:.1%}, Spearman {found.spearman:.3f}, top-1 regret {found.top1_regret:.2%} "
        f"(formula {figures.scores['formula'].top1_regret:.2%})"
    )


if __name__ == "__main__":
    main()

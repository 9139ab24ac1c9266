"""docs/figures-model.md from the figures of every target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.targets.opening import spec_names
from benchmarks.model_experiments import AblationRow, CurvePoint
from benchmarks.model_kept import SUMMARY, KeptTarget
from benchmarks.model_scores import Scores
from benchmarks.model_study import FLOOR, OURS
from benchmarks.table import Table


@dataclass(frozen=True, slots=True)
class TargetFigures:
    """Everything that was found on one target.

    ``scores`` are by predictor, ``plans`` predicted over measured cycles by predictor and network,
    ``networks`` scores by predictor and network. ``kinds`` are the kinds of our models, one per fold, and
    ``points`` measured and predicted cycles of some programs.
    """

    target: str
    trained: int
    programs: int
    fewest: int
    folds: int
    scores: Mapping[str, Scores]
    networks: Mapping[str, Mapping[str, Scores]]
    plans: Mapping[str, Mapping[str, float]]
    kinds: tuple[str, ...]
    ablation: tuple[AblationRow, ...]
    curves: tuple[CurvePoint, ...]
    points: tuple[tuple[float, float], ...]
    conditions: str = ""
    """Where and how programs were timed, as a sentence; empty on machines that count cycles."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TargetFigures:
        """Read the JSON object of ``dataclasses.asdict``."""
        return cls(
            plain["target"],
            plain["trained"],
            plain["programs"],
            plain["fewest"],
            plain["folds"],
            _scores(plain["scores"]),
            {name: _scores(found) for name, found in plain["networks"].items()},
            plain["plans"],
            tuple(plain["kinds"]),
            tuple(AblationRow(**row) for row in plain["ablation"]),
            tuple(CurvePoint(**row) for row in plain["curves"]),
            tuple((actual, predicted) for actual, predicted in plain["points"]),
            plain.get("conditions", ""),
        )


TARGETS = (*spec_names(), "cpu:1", "cpu:2", "ort")
"""Targets that have a place on the page, in order; ``model_ort`` adds the last."""

COLUMNS = (
    "target",
    "MAPE, formula",
    "MAPE, ours",
    "noise floor",
    "within ±10 %",
    "Spearman in a set",
    "regret, formula",
    "regret, ours",
    "worst regret",
    "coverage of 90 %",
    "error of whole plans",
)


def _scores(plain: Mapping[str, Any]) -> dict[str, Scores]:
    return {name: Scores(**found) for name, found in plain.items()}


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _rank(value: float) -> str:
    return f"{value:.3f}"


METRICS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "mape": ("mean error (MAPE)", _percent),
    "median_error": ("median error", _percent),
    "within_5": ("within ±5 %", _percent),
    "within_10": ("within ±10 %", _percent),
    "spearman": ("Spearman in a set, mean", _rank),
    "worst_spearman": ("… worst set", _rank),
    "kendall": ("Kendall in a set, mean", _rank),
    "worst_kendall": ("… worst set", _rank),
    "ordered": ("pairs 5 % apart in the right order", _percent),
    "top1_regret": ("top-1 regret, mean", _percent),
    "worst_top1_regret": ("… worst set", _percent),
    "top5_regret": ("top-5 regret, mean", _percent),
    "worst_top5_regret": ("… worst set", _percent),
    "coverage": ("90 % intervals that hold", _percent),
}
"""Field of ``Scores`` to its name in the tables, and how it is shown."""

INTRODUCTION = """# Figures of the cost model

Written by `make bench-model`. Every figure is about networks that the model was **not** trained on.

How: each shipped network is held out with those of its fold. Models are trained on as many programs as a
calibration measures, or as a section says (groups of the other networks and generated graphs, six schedules each;
no group that occurs in a held-out network). They are asked about **sets**: one group each, from the network's heuristic
plan, of two of its groups merged, or one operator of a larger group, with up to 256 legal schedules. Half of
a set are the best by the cheap analytic order that pre-filters a search's candidates, a quarter are neighbours
of the eight best by the analytic estimate, a quarter is drawn uniformly. Groups of several networks count
once. Programs of more than 40 000 instructions are left out of sets and of training, as in calibration; the
whole plans have no such limit. Errors, ranks and regrets are means over sets; regret is the cost of the
schedule predicted best over the cost of the set's best, minus 1.

Columns: the *roofline* (busiest unit); the *formula* (analytic estimate, at fitted prices where there are
any); ridge regression, a random forest and XGBoost on *raw* features (graph, schedule and spec, no cost of
any unit); *ours*, what `autotune calibrate` trains; and the *noise floor*, the same programs measured again
by another process: no predictor of a single measurement can be expected to be better. On `cpu` ours has two stages
([why](decisions/0042-draft-and-verify.md)): the *draft* counts what a nest does, and orders thousands of schedules; *ours* prices
bound programs, where cross-validation finds that they err less. It leaves the formula's first choice only for a schedule that
it says is clearly cheaper, and never where cross-validation finds that it chooses worse. A search asks it about the formula's best 24, this
page about whole sets.

A run renews the targets that it is asked for, and keeps what stands here of the others. `ort` is ONNX Runtime, which
takes groups without schedules: its sets are single groups, so that nothing is ranked or chosen in them
([why](decisions/0138-groups-of-a-file-are-its-own-nodes.md); `autotune calibrate --target ort`, then
`python -m benchmarks.model_ort --markdown docs/figures-model.md`).
"""


def page(
    figures: Sequence[TargetFigures], pictures: str, kept: Mapping[str, KeptTarget] | None = None
) -> str:
    """Return the page; ``pictures`` is where its pictures are, relative to it. ``kept`` targets stand there as they
    did, where ``figures`` has none of them."""
    found = {one.target: KeptTarget(_cells(one), _section(one, pictures)) for one in figures}
    shown = {**(kept or {}), **found}
    order = sorted(shown, key=lambda name: TARGETS.index(name) if name in TARGETS else len(TARGETS))
    summary = Table(
        "Held-out networks, means over sets; the floor of emulated machines is 0.",
        COLUMNS,
        tuple((name, *shown[name].cells) for name in order),
    )
    parts = [INTRODUCTION, f"## {SUMMARY}\n", summary.markdown(), ""]
    parts += [_absent(shown)] if _absent(shown) else []
    for name in order:
        parts += ["", f"## {name}", "", shown[name].section]
    return "\n".join(parts) + "\n"


def _section(one: TargetFigures, pictures: str) -> str:
    """Return a target's tables and pictures."""
    parts = [_origin(one), "", _predictors(one).markdown(), ""]
    parts += [
        f"![Predicted against measured cycles on {one.target}]({pictures}/{_file(one, 'scatter')})"
    ]
    if one.curves:
        parts += [f"![Learning curves on {one.target}]({pictures}/{_file(one, 'curves')})"]
    parts += ["", _networks(one).markdown()]
    if one.ablation:
        parts += ["", ablation_table(one.target, one.ablation).markdown()]
    if one.curves:
        parts += ["", curves_table(one.target, one.curves).markdown()]
    return "\n".join(parts)


def _absent(shown: Mapping[str, KeptTarget]) -> str:
    """Say of which targets the page has no figures."""
    absent = [name for name in TARGETS if name not in (*shown, "ort")]
    if not absent:
        return ""
    return f'Not measured yet: {", ".join(absent)}; `make bench-model TARGETS="{absent[-1]}"` adds one.'


def picture_files(one: TargetFigures) -> tuple[str, str]:
    """Return the file names of a target's scatter plot and learning curves."""
    return _file(one, "scatter"), _file(one, "curves")


def _file(one: TargetFigures, kind: str) -> str:
    return f"model-{one.target.replace(':', '-')}-{kind}.svg"


def _origin(one: TargetFigures) -> str:
    kinds = ", ".join(f"{kind} in {one.kinds.count(kind)}" for kind in dict.fromkeys(one.kinds))
    text = (
        f"{one.programs:,} programs in {one.scores[OURS].sets} sets (of {one.fewest} schedules or more), "
        f"{one.trained:,} to train on, {one.folds} folds. Our model: {kinds} of {one.folds}."
    )
    return f"{text} {one.conditions}".rstrip()


def _cells(one: TargetFigures) -> tuple[str, ...]:
    """Return a target's cells in the summary, below ``COLUMNS`` without the first."""
    ours, formula, floor = one.scores[OURS], one.scores["formula"], one.scores.get(FLOOR)
    return (
        _percent(formula.mape),
        _percent(ours.mape),
        _percent(floor.mape if floor else None if one.conditions else 0.0),
        _percent(ours.within_10),
        _rank(ours.spearman),
        _percent(formula.top1_regret),
        _percent(ours.top1_regret),
        _percent(ours.worst_top1_regret),
        _percent(ours.coverage),
        _percent(_plan_error(one.plans[OURS])),
    )


def _predictors(one: TargetFigures) -> Table:
    rows = [
        (title, *(show(getattr(found, field)) for found in one.scores.values()))
        for field, (title, show) in METRICS.items()
    ]
    plans = [one.plans.get(name, {}) for name in one.scores]
    rows.append(("whole plans, mean error", *(_percent(_plan_error(p)) for p in plans)))
    rows.append(("… worst network", *(_percent(_worst_plan(p)) for p in plans)))
    return Table(f"{one.target}, held-out networks:", ("", *one.scores), tuple(rows))


def _plan_error(ratios: Mapping[str, float]) -> float | None:
    return float(np.mean([abs(r - 1.0) for r in ratios.values()])) if ratios else None


def _worst_plan(ratios: Mapping[str, float]) -> float | None:
    return max((abs(r - 1.0) for r in ratios.values()), default=None)


def _networks(one: TargetFigures) -> Table:
    ours, formula = one.networks[OURS], one.networks["formula"]
    rows = []
    for name in sorted({*ours, *one.plans[OURS]}):
        plan = one.plans[OURS].get(name)
        shown = "–" if plan is None else f"{plan:.3f}"
        if name not in ours:
            rows.append((name, *["–"] * 5, shown))
            continue
        mine, base = ours[name], formula[name]
        rows.append(
            (
                name,
                _percent(base.mape),
                _percent(mine.mape),
                _rank(mine.spearman),
                _percent(base.top1_regret),
                _percent(mine.top1_regret),
                shown,
            )
        )
    columns = (
        "held-out network",
        "MAPE, formula",
        "MAPE, ours",
        "Spearman, ours",
        "regret, formula",
        "regret, ours",
        "plan, predicted / measured",
    )
    return Table(f"{one.target}, by network:", columns, tuple(rows))


def ablation_table(target: str, ablation: Sequence[AblationRow]) -> Table:
    """Return the held-out figures of a target without one family of features after the other."""
    rows = tuple(
        (
            row.features,
            f"all but {row.family}" if row.family else "all",
            str(row.columns) if row.family else "",
            _percent(row.mape),
            _percent(row.top1_regret),
        )
        for row in ablation
    )
    title = f"{target}, XGBoost trained without one family of features:"
    return Table(title, ("features", "kept", "left out", "MAPE", "top-1 regret"), rows)


def curves_table(target: str, curves: Sequence[CurvePoint]) -> Table:
    """Return the held-out figures of a target by measurements and by how these were chosen."""
    by_size: dict[tuple[str, int], dict[str, CurvePoint]] = {}
    for point in curves:
        by_size.setdefault((point.features, point.measurements), {})[point.choice] = point
    rows = tuple(
        (
            features,
            f"{size:,}",
            *(_percent(found[c].mape) if c in found else "–" for c in ("random", "active")),
            *(_percent(found[c].top1_regret) if c in found else "–" for c in ("random", "active")),
        )
        for (features, size), found in by_size.items()
    )
    columns = (
        "features",
        "measurements",
        "MAPE, random",
        "MAPE, active",
        "regret, random",
        "regret, active",
    )
    return Table(f"{target}, error against measurements:", columns, rows)

"""``autotune predict``: cycles of a network's operators and greedily fused groups, unmeasured."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.commands.predict_machines import (
    EvaluationsOption,
    ReplayOption,
    print_replay,
    print_seconds,
)
from autotune.cli.console import print_json, print_table, say
from autotune.cli.options import (
    SHIPPED,
    DimOption,
    JsonOption,
    SeedOption,
    StoreOption,
    TargetOption,
    ThreadsOption,
    complete_network,
    dimensions,
    machine_name,
)
from autotune.errors import InputError, ScheduleError
from autotune.report.view import group_label

if TYPE_CHECKING:
    from autotune.cost_model.predictor import Predictor
    from autotune.fusion.group import Group
    from autotune.graph.graph import Graph
    from autotune.runtime.network_times import NetworkTime
    from autotune.schedule.schedule import Schedule
    from autotune.tuner.ranking import Ranking

NetworkArgument = Annotated[
    str | None,
    typer.Argument(
        help=f"ONNX file, or the name of a shipped network. {SHIPPED}",
        autocompletion=complete_network,
    ),
]
ExportOption = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="FILE",
        help="Write the model instead of predicting: FILE.predictor for Predictor.load, its trees to "
        "FILE.c and FILE.h, or to FILE.onnx.",
    ),
]
VersionOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="ID",
        help="An older model: its id of 'autotune store models', or 'shipped'. Default: the newest.",
    ),
]
HEURISTIC = "heuristic"
"""Partition that a session without a plan runs; only where networks are run as a whole, on CPUs."""
Rows = dict[str, list[dict[str, Any]]]
"""Rows of groups by the name of their partition."""


def predict(
    model: NetworkArgument = None,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    dim: DimOption = None,
    export: ExportOption = None,
    version: VersionOption = None,
    replay: ReplayOption = None,
    evaluations: EvaluationsOption = 200,
    seed: SeedOption = 0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Predict what every operator of a network would cost, and its greedily fused groups.

    With --replay, learn a recorded tuning space instead: the best configuration found, and the error.
    """
    from autotune import api
    from autotune.cost_model.predictor import Predictor
    from autotune.runtime.session.defaults import choose_accuracy
    from autotune.targets.opening import plugin_target

    if (model is None) + (export is None) + (replay is None) != 2:
        raise InputError("predict takes a network, --export FILE or --replay FILE, one of them")
    if version is not None and replay is not None:
        raise InputError("--model names a cost model of a machine; leave it out with --replay")
    if replay is not None:
        print_replay(replay, evaluations, seed, json)
        return
    if model is not None and target is not None and plugin_target(target) is not None:
        print_seconds(model, target, dimensions(dim), store, version, json)
        return
    predictor = Predictor.load(machine_name(target, threads), store, version)
    if export is not None:
        _export(predictor, export)
        return
    assert model is not None
    spec = predictor.spec
    accuracy = choose_accuracy(None, spec)
    graph = api.load_network(model, dimensions(dim), spec.layout, accuracy, formats=spec.formats)
    rows = _predict_partitions(predictor, graph)
    say(predictor.origin + _second_stage_note(predictor))
    if json:
        partitions = {n: {"cycles": _total(rows[n]), "groups": rows[n]} for n in rows}
        answer = {"model": predictor.model.kind, "predicted_by": predictor.origin}
        print_json(answer | _seconds(predictor, graph, rows) | partitions)
    else:
        _print_rows(f"{graph.name} on {spec.name}", rows)
        if HEURISTIC in rows:
            say(_run_line(predictor, graph, rows))


def _export(predictor: Predictor, file: Path) -> None:
    from autotune.cost_model.export import export_model

    files: tuple[Path, ...] = (file,)
    if file.suffix == ".predictor":
        predictor.save(file)
    else:
        files = export_model(predictor.model, file)
    say(f"{predictor.origin}; wrote {', '.join(map(str, files))}")


def _seconds(predictor: Predictor, graph: Graph, rows: Rows) -> dict[str, float]:
    """Return the seconds of a run with their interval: on a CPU those of the whole network, elsewhere of its greedily fused groups as
    if all erred the same way."""
    if HEURISTIC in rows:
        found = _run_time(predictor, graph, rows)
        names = ("predicted_seconds", "low_seconds", "high_seconds")
        return dict(zip(names, (found.seconds, found.low_seconds, found.high_seconds), strict=True))
    columns = {"predicted_seconds": "cycles", "low_seconds": "low", "high_seconds": "high"}
    clock_hz = predictor.spec.clock_hz
    return {
        name: sum(row[column] for row in rows["greedy"]) / clock_hz
        for name, column in columns.items()
    }


def _run_time(predictor: Predictor, graph: Graph, rows: Rows) -> NetworkTime:
    """Return what a run of the network takes by its heuristic plan."""
    from autotune.cost_model.composition import NetworkLoad
    from autotune.fusion.group import Group
    from autotune.runtime.network_times import time_of

    own = [row for row in rows[HEURISTIC] if row["cycles"]]
    groups = [Group.from_graph(graph, row["operators"]) for row in own]
    alone = [row["cycles"] / predictor.spec.clock_hz for row in own]
    return time_of(predictor.model, NetworkLoad.of(groups, alone, graph.constants))


def _run_line(predictor: Predictor, graph: Graph, rows: Rows) -> str:
    """Say what a run of the whole network takes, and how far such predictions err."""
    found, metrics = _run_time(predictor, graph, rows), predictor.model.metrics
    low, high = 1e3 * found.low_seconds, 1e3 * found.high_seconds
    line = f"a run of {graph.name} takes {1e3 * found.seconds:,.3f} ms by its heuristic plan, {low:,.3f} to {high:,.3f}"
    error = metrics.get("whole_networks_mape")
    if error is None:
        return f"{line}, at typical costs of whole networks: 'autotune calibrate' runs some"
    return (
        f"{line}: mean error {error:.1%} on {metrics['whole_networks']:.0f} networks, each unseen"
    )


def _predict_partitions(predictor: Predictor, graph: Graph) -> Rows:
    """Predict every operator by itself, and the groups of greedy fusion."""
    from autotune.fusion.greedy import greedy, unfused
    from autotune.fusion.group import Group
    from autotune.targets.spec import Memory

    def fits(names: tuple[str, ...]) -> bool:
        return _fits(predictor, Group.from_graph(graph, names))

    partitions = {"unfused": unfused(graph), "greedy": greedy(graph, fits)}
    ranking = _second_stage(predictor)
    rows = {
        name: [
            _predict_group(predictor, Group.from_graph(graph, names), ranking)
            for names in partition.groups
        ]
        for name, partition in partitions.items()
    }
    if predictor.spec.memory is Memory.CACHED:
        rows[HEURISTIC] = _predict_heuristic(predictor, graph)
    return rows


def _predict_heuristic(predictor: Predictor, graph: Graph) -> list[dict[str, Any]]:
    """Predict the groups that a session without a plan runs, by their own schedules."""
    from autotune.runtime.network_times import price_of, scheduled_groups

    price = price_of(predictor.model)
    rows = []
    for one in scheduled_groups(graph, predictor.spec):
        assert one.schedule is not None, "views are left out"
        cycles = price(one.group, one.schedule)
        rows.append(_row(predictor, one.group, one.schedule, cycles))
    return rows


def _second_stage(predictor: Predictor) -> Ranking | None:
    """Return the ranking that asks the model's second stage about bound programs; None where it has none."""
    if predictor.model.verifier is None:
        return None
    from autotune.tuner.objective import Objective
    from autotune.tuner.ranking import Ranking

    return Ranking(predictor.model, predictor.spec, Objective.LATENCY, 0)


def _second_stage_note(predictor: Predictor) -> str:
    """Say how far the second stage errs, if it prices the groups."""
    error = predictor.model.metrics.get("verified_mape")
    if predictor.model.verifier is None or error is None:
        return ""
    return f"; costs are those of bound programs, mean error {error:.1%}"


def _fits(predictor: Predictor, group: Group) -> bool:
    """Return True if the predictor finds a legal schedule."""
    try:
        predictor.predict(group)
    except ScheduleError:
        return False
    return True


def _predict_group(predictor: Predictor, group: Group, ranking: Ranking | None) -> dict[str, Any]:
    if group.is_view:
        nothing = {"cycles": 0.0, "low": 0.0, "high": 0.0, "novelty": None}
        return _named(group) | nothing | {"limited_by": "", "reasons": []}
    verified = None if ranking is None else _verified(ranking, group)
    schedule, cycles = (None, None) if verified is None else verified
    return _row(predictor, group, schedule, cycles)


def _named(group: Group) -> dict[str, Any]:
    return {
        "operators": [op.name for op in group.ops],
        "kinds": [op.kind.value for op in group.ops],
    }


def _row(
    predictor: Predictor,
    group: Group,
    schedule: Schedule | None,
    cycles: tuple[float, float, float] | None,
) -> dict[str, Any]:
    row, found = _named(group), predictor.explain(group, schedule)
    cost, why = found.cost, {"limited_by": found.bottleneck, "reasons": list(found.reasons)}
    cycles = cycles or (cost.cycles, cost.low_cycles, cost.high_cycles)
    row |= dict(zip(("cycles", "low", "high"), cycles, strict=True))
    return row | {"novelty": None if isnan(cost.novelty) else cost.novelty} | why


def _verified(ranking: Ranking, group: Group) -> tuple[Schedule, tuple[float, float, float]] | None:
    """Return the schedule that is chosen, with its own cycles, low and high by the second stage; None if it binds
    none."""
    from autotune.tuner.ranking import QUICK

    ranked = ranking.rank(group, QUICK)
    if not len(ranked):
        return None
    best = ranked.schedules[0]
    cycles, low, high = ranking.predict(group, [best]).values[:3, 0].tolist()
    return best, (cycles, low, high)


def _total(rows: list[dict[str, Any]]) -> float:
    return float(sum(row["cycles"] for row in rows))


def _print_rows(title: str, rows_by_partition: Rows) -> None:
    for name, rows in rows_by_partition.items():
        print_table(
            f"{title}, {name}: {_total(rows):,.0f} cycles predicted",
            ("group", "cycles", "low", "high", "novelty", "limited by"),
            [
                (
                    group_label(row["kinds"], row["operators"]),
                    *(f"{row[column]:,.0f}" for column in ("cycles", "low", "high")),
                    "–" if row["novelty"] is None else f"{row['novelty']:.0%}",
                    row["limited_by"],
                )
                for row in rows
            ],
        )
    say(_caution(rows_by_partition["greedy"]))


def _caution(rows: list[dict[str, Any]]) -> str:
    """Return what to know about the groups of greedy fusion: the share of what they hold, and novel ones."""
    from autotune.cost_model.cost import NOVEL

    novel = sum(row["novelty"] is not None and row["novelty"] >= NOVEL for row in rows)
    text = "intervals hold 90 % of measurements; novelty is the share of training programs known better"
    if not novel:
        return text
    return f"{text}. {novel} of {len(rows)} greedy groups are novel: 'autotune calibrate' measures"

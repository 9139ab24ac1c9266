"""``autotune explain`` and ``autotune predict``: what a plan does and why, what a network costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.cli.console import emit, say, show
from autotune.cli.group_labels import group_label
from autotune.cli.options import (
    AccuracyOption,
    DimOption,
    JsonOption,
    ModelArgument,
    RangeOption,
    RunnableArgument,
    TargetOption,
    ThreadsOption,
    dimensions,
    input_ranges,
    machine_name,
)
from autotune.errors import AutotuneError, InputError

if TYPE_CHECKING:
    from autotune.fusion.group import Group
    from autotune.graph.accuracy import Accuracy
    from autotune.graph.ranges import Ranges
    from autotune.operators.axes import Layout
    from autotune.tuner.plan import Plan


def explain(
    model: RunnableArgument,
    target: TargetOption = None,
    dim: DimOption = None,
    range_: RangeOption = None,
    accuracy: AccuracyOption = None,
    json: JsonOption = False,
) -> None:
    """Show a plan's groups with prediction and measurement; of a network, what the passes
    removed and why."""
    from autotune.operators.axes import Layout
    from autotune.runtime.session.defaults import choose_accuracy, resolve_model
    from autotune.targets.opening import load_spec

    path, ranges = resolve_model(model), input_ranges(range_)
    is_plan = path.suffix == ".plan"
    if ranges and is_plan:
        raise InputError(f"{path}: a plan keeps the ranges that it was made for; leave --range out")
    tree = not is_plan and is_tree(path)
    if ranges and tree:
        raise InputError(f"{path}: --range is for networks without control flow; leave it out")
    for option, given in (("--accuracy", accuracy), ("--target", target)):
        if given is not None and (is_plan or tree):
            kept = f"a plan keeps its {option[2:]}" if is_plan else f"{option} is for one graph"
            raise InputError(f"{path}: {kept}; leave {option} out")
    if is_plan:
        _explain_plan(path, json)
    elif tree:
        from autotune.cli.parts import explain_tree

        explain_tree(path, dimensions(dim), json)
    else:
        spec = load_spec(machine_name(target, None))
        chosen = choose_accuracy(accuracy, spec)
        _explain_network(path, dimensions(dim), ranges, Layout(spec.layout), chosen, json)


def is_tree(path: Path) -> bool:
    """Whether an ONNX file has control flow."""
    from autotune.frontend.importing import has_control_flow

    return has_control_flow(path)


def _explain_plan(path: Path, json: bool) -> None:
    from autotune.tuner.plan_tree import load_plans

    plans = load_plans(path)
    kinds = [_kinds_of(plan, path) for plan in plans]
    if json:
        documents = [_plan_document(*pair) for pair in zip(plans, kinds, strict=True)]
        emit(documents[0] if len(documents) == 1 else {"plans": documents})
        return
    for plan, known in zip(plans, kinds, strict=True):
        _tell_plan(plan, known)


def _kinds_of(plan: Plan, path: Path) -> dict[str, str]:
    """Return the kinds of the plan's operators by name; nothing if its network cannot be opened."""
    from autotune.runtime.session.defaults import choose_target
    from autotune.runtime.session.opening import open_graph
    from autotune.runtime.session.request import open_request

    try:
        graph = open_graph(open_request(plan, choose_target(None, path))).graph
    except AutotuneError:  # the file has gone or changed, or the plan is for a part of it
        return {}
    return {op.name: op.kind.value for op in graph.ops}


def _plan_document(plan: Plan, kinds: dict[str, str]) -> dict[str, Any]:
    from autotune.report.from_search import describe

    return {
        "network": plan.network,
        "target": plan.target,
        "profile_id": plan.profile_id,
        "groups": [
            {
                "operators": g.operators,
                "kinds": [kinds[x] for x in g.operators] if kinds else None,
                "predicted": g.predicted_cycles,
                "measured": g.measured_cycles,
                "energy": g.energy_fj,
                "dram_bytes": g.dram_bytes,
                "schedule": None if g.schedule is None else describe(g.schedule),
            }
            for g in plan.groups
        ],
    }


def _tell_plan(plan: Plan, kinds: dict[str, str]) -> None:
    from autotune.report.from_search import describe

    rows = [
        (
            group_label([kinds[x] for x in g.operators] if kinds else (), g.operators),
            f"{g.predicted_cycles:,.0f}",
            "" if g.measured_cycles is None else f"{g.measured_cycles:,}",
            "view: no program" if g.schedule is None else describe(g.schedule),
        )
        for g in plan.groups
    ]
    show(f"{plan.network} on {plan.target}", ("group", "predicted", "measured", "schedule"), rows)


def _explain_network(
    path: Path,
    dims: dict[str, int],
    ranges: Ranges,
    layout: Layout,
    accuracy: Accuracy,
    json: bool,
) -> None:
    from autotune.frontend.importing import load_onnx
    from autotune.graph.passes import simplify
    from autotune.graph.ranges import intervals_by_input

    before = load_onnx(path, dims)
    within = intervals_by_input(before, ranges)
    result = simplify(before, layout, accuracy, within)
    notes = [{"pass": n.pass_name, "removed": n.removed, "reason": n.reason} for n in result.notes]
    if json:
        emit(
            {
                "operators_before": len(before.ops),
                "operators_after": len(result.graph.ops),
                "notes": notes,
            }
        )
        return
    rows = [(n["pass"], n["removed"], n["reason"]) for n in notes]
    show(
        f"{before.name}: {len(before.ops)} operators, {len(result.graph.ops)} after passes",
        ("pass", "removed", "why"),
        rows,
    )


def predict(
    model: ModelArgument,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    dim: DimOption = None,
    json: JsonOption = False,
) -> None:
    """Predict what every operator of a network would cost, and its greedily fused groups."""
    from autotune import api
    from autotune.cost_model.predictor import Predictor
    from autotune.fusion.greedy import greedy, unfused
    from autotune.fusion.group import Group
    from autotune.runtime.session.defaults import choose_accuracy

    predictor = Predictor.load(machine_name(target, threads))
    spec = predictor.spec
    accuracy = choose_accuracy(None, spec)
    graph = api.load_network(model, dimensions(dim), spec.layout, accuracy)
    found: dict[str, list[dict[str, Any]]] = {}
    partitions = {
        "unfused": unfused(graph),
        "greedy": greedy(graph, lambda names: _fits(predictor, Group.from_graph(graph, names))),
    }
    for name, partition in partitions.items():
        groups = [Group.from_graph(graph, names) for names in partition.groups]
        found[name] = [_predicted(predictor, group) for group in groups]
    if json:
        emit(
            {
                name: {"cycles": sum(g["cycles"] for g in rows), "groups": rows}
                for name, rows in found.items()
            }
        )
        return
    for name, rows in found.items():
        total = sum(row["cycles"] for row in rows)
        show(
            f"{graph.name} on {spec.name}, {name}: {total:,.0f} cycles predicted",
            ("group", "cycles", "low", "high"),
            [
                (
                    group_label(row["kinds"], row["operators"]),
                    f"{row['cycles']:,.0f}",
                    f"{row['low']:,.0f}",
                    f"{row['high']:,.0f}",
                )
                for row in rows
            ],
        )
    say("intervals hold 90 % of measurements")


def _fits(predictor: Any, group: Group) -> bool:
    from autotune.errors import ScheduleError

    try:
        predictor.predict(group)
    except ScheduleError:
        return False
    return True


def _predicted(predictor: Any, group: Group) -> dict[str, Any]:
    named = {
        "operators": [op.name for op in group.ops],
        "kinds": [op.kind.value for op in group.ops],
    }
    if group.is_view:
        return {**named, "cycles": 0.0, "low": 0.0, "high": 0.0}
    cost = predictor.predict(group)
    return {
        **named,
        "cycles": cost.cycles,
        "low": cost.low_cycles,
        "high": cost.high_cycles,
    }

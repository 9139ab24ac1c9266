"""``autotune search``: find fusion groups and schedules of a network, measured on the target."""

from __future__ import annotations

import json as json_text
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.atomic_file import check_place
from autotune.cli.console import emit, progress, say, show
from autotune.cli.inspection import is_tree
from autotune.cli.options import (
    MOST_COUNTED,
    AccuracyOption,
    DimOption,
    JsonOption,
    ModelArgument,
    OutOption,
    RangeOption,
    SeedOption,
    TargetOption,
    ThreadsOption,
    dimensions,
    input_ranges,
    machine_name,
)
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.runtime.host_profile import HostProfile
    from autotune.search.plan import Plan
    from autotune.search.result import PlanResult, SearchResult
    from autotune.targets.protocol import Target

PLANS = {"unfused": "unfused", "greedy": "greedy", "by rule": "ruled", "found": "found"}
"""Plans by what they are called, and the field of a result that holds each; what has none is left out."""


class ObjectiveName(StrEnum):
    """What a search minimises."""

    LATENCY = "latency"
    ENERGY = "energy"


def search(
    model: ModelArgument,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1, max=MOST_COUNTED, help="Partitions that Optuna tries.")
    ] = 200,
    measure: Annotated[
        int, typer.Option("--measure", min=1, max=MOST_COUNTED, help="Measurements for candidates.")
    ] = 64,
    objective: Annotated[ObjectiveName, typer.Option("--objective")] = ObjectiveName.LATENCY,
    out: OutOption = None,
    report: Annotated[Path | None, typer.Option("--report", help="HTML report to write.")] = None,
    dim: DimOption = None,
    accuracy: AccuracyOption = None,
    range_: RangeOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Find what to fuse and how to tile it, measure the best, and write plan and report."""
    from autotune import api
    from autotune.cli.drift_memory import open_machine
    from autotune.report.document import KIND as PAGE
    from autotune.report.from_search import write_report
    from autotune.runtime.defaults import resolve_model
    from autotune.search.plan import KIND as PLAN

    named = Path(f"{Path(model).stem}.plan")
    plan_file = named if out is None else out
    beside = named if plan_file.exists() and not plan_file.is_file() else plan_file
    report_file = beside.with_suffix(".html") if report is None else report
    check_place(plan_file, PLAN)
    check_place(report_file, PAGE)
    machine = open_machine(machine_name(target, threads))
    tree, ranges = is_tree(resolve_model(model)), input_ranges(range_)
    if tree and ranges:
        raise InputError(f"{model}: --range is for networks without control flow; leave it out")
    with progress() as heard:
        found = (api.search_tree if tree else partial(api.search, ranges=ranges))(
            model,
            machine,
            trials,
            measure,
            objective.value,
            seed,
            dimensions(dim),
            plan_file,
            progress=heard,
            accuracy=accuracy,
        )
    results = found if isinstance(found, tuple) else (found,)
    reports = _report_files(report_file, len(results))
    for result, file in zip(results, reports, strict=True):
        seen = None if tree else profiled(model, machine, result.plan, dim)
        write_report(result, machine.spec, file, seen)
    if json:
        documents = [figures(result) for result in results]
        emit({"parts": documents} if tree else documents[0])
    else:
        for result in results:
            table(result)
    say(f"plan: {plan_file}")
    for file in reports:
        say(f"report: {file}")


def _report_files(first: Path, count: int) -> list[Path]:
    """A report for every graph; numbered where there are several."""
    if count == 1:
        return [first]
    return [first.with_name(f"{first.stem}.{i}{first.suffix}") for i in range(1, count + 1)]


def profiled(model: str, machine: Target, plan: Plan, dim: list[str] | None) -> HostProfile | None:
    """What the groups of the found plan take, where it runs on this machine."""
    from autotune.cli.dynamic_run import random_inputs
    from autotune.runtime.defaults import resolve_model
    from autotune.runtime.host_profile import host_profile
    from autotune.runtime.session import Session
    from autotune.targets.library import is_host

    if not is_host(machine.name):
        return None
    network = resolve_model(model)
    with Session(network, machine, dims=dimensions(dim), plan=plan) as session:
        return host_profile(session, random_inputs(session, seed=0))


def plans_of(result: SearchResult) -> dict[str, PlanResult]:
    """The plans of a search by name."""
    found = ((name, getattr(result, field)) for name, field in PLANS.items())
    return {name: plan for name, plan in found if plan is not None}


def figures(result: SearchResult) -> dict[str, Any]:
    """The JSON form of a search's outcome."""
    plans = plans_of(result)
    return {
        "measured": {name: plan.measured_cycles for name, plan in plans.items()},
        "predicted": {name: plan.predicted_cycles for name, plan in plans.items()},
        "energy": {name: plan.energy_fj for name, plan in plans.items()},
        "dram_bytes": {name: plan.dram_bytes for name, plan in plans.items()},
        "measurements": result.measurements,
        "trials": len(result.trials),
        "gap": result.gap,
        "groups": [
            {
                "operators": [op.name for op in item.group.ops],
                "kinds": [op.kind.value for op in item.group.ops],
                "schedule": None
                if item.schedule is None
                else json_text.loads(item.schedule.to_json()),
                "predicted": item.predicted_cycles,
                "measured": item.measured_cycles,
            }
            for item in result.groups
        ],
    }


def table(result: SearchResult) -> None:
    """The plans side by side; a dash for what the machine does not tell."""
    base = result.unfused.measured_cycles
    rows = []
    for name, plan in plans_of(result).items():
        measured, energy = plan.measured_cycles, plan.energy_fj
        ratio = measured / base if measured is not None and base else float("nan")
        rows.append(
            (
                name,
                str(len(plan.groups)),
                f"{plan.predicted_cycles:,.0f}",
                f"{measured:,}",
                f"{ratio:.3f}",
                f"{energy / 1e9:,.1f}" if energy is not None else "–",
                f"{plan.dram_bytes:,}" if plan.dram_bytes is not None else "–",
            )
        )
    show(
        f"{result.plan.network} on {result.plan.target}, {result.measurements} measurements",
        (
            "plan",
            "groups",
            "predicted cycles",
            "measured cycles",
            "of unfused",
            "energy µJ",
            "DRAM bytes",
        ),
        rows,
    )

"""``autotune search``: find fusion groups and schedules of a network, measured on the target."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import emit, say, show
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
from autotune.cli.progress import progress
from autotune.disk.atomic_file import check_place
from autotune.errors import InputError
from autotune.tuner.progress import SEARCH_STAGES

if TYPE_CHECKING:
    from autotune.graph.ranges import Ranges
    from autotune.runtime.session.host_profile import HostProfile
    from autotune.targets.protocol import Target
    from autotune.targets.spec import HardwareSpec
    from autotune.tuner.plan import Plan
    from autotune.tuner.result import PlanResult, SearchResult

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
    with progress(f"search {model}", SEARCH_STAGES) as heard:  # imports alone take seconds
        from autotune.cli.drift_memory import open_machine
        from autotune.report.from_search import write_report
        from autotune.runtime.session.defaults import resolve_model

        plan_file, report_file = _places(model, out, report)
        machine = open_machine(machine_name(target, threads))
        tree, ranges = is_tree(resolve_model(model)), input_ranges(range_)
        if tree and ranges:
            raise InputError(f"{model}: --range is for networks without control flow; leave it out")
        heard.title = f"search {model} on {machine.name}"
        heard.tell = partial(cost_text, machine.spec, objective)
        found = _search_of(tree, ranges)(
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
        for number, (result, file) in enumerate(zip(results, reports, strict=True)):
            heard("report", number, len(results))
            seen = None if tree else profiled(model, machine, result.plan, dim)
            write_report(result, machine.spec, file, seen)
    if json:
        documents = [figures(result) for result in results]
        emit({"parts": documents} if tree else documents[0])
    else:
        for result in results:
            table(result, machine.spec)
    say(f"plan: {plan_file}")
    for file in reports:
        say(f"report: {file}")


def _places(model: str, out: Path | None, report: Path | None) -> tuple[Path, Path]:
    """Return the plan file and the report file. Raises ``InputError`` for files of other kinds."""
    from autotune.report.document import KIND as PAGE
    from autotune.tuner.plan import KIND as PLAN

    named = Path(f"{Path(model).stem}.plan")
    plan_file = named if out is None else out
    beside = named if plan_file.exists() and not plan_file.is_file() else plan_file
    report_file = beside.with_suffix(".html") if report is None else report
    check_place(plan_file, PLAN)
    check_place(report_file, PAGE)
    return plan_file, report_file


def _search_of(
    tree: bool, ranges: Ranges
) -> Callable[..., SearchResult | tuple[SearchResult, ...]]:
    """Return the library's search of a network with control flow, or of one graph."""
    from autotune import api

    return api.search_tree if tree else partial(api.search, ranges=ranges)


def cost_text(spec: HardwareSpec, objective: ObjectiveName, cost: float) -> str:
    """Return a cost with its unit: energy from femtojoules, time of this machine, or cycles."""
    if objective is ObjectiveName.ENERGY:
        return f"{cost / 1e9:,.1f} µJ"
    if spec.timed:
        return f"{1e3 * cost / spec.clock_hz:,.3f} ms"
    return f"{cost:,.0f} cycles"


def _report_files(first: Path, count: int) -> list[Path]:
    """A report for every graph; numbered where there are several."""
    if count == 1:
        return [first]
    return [first.with_name(f"{first.stem}.{i}{first.suffix}") for i in range(1, count + 1)]


def profiled(model: str, machine: Target, plan: Plan, dim: list[str] | None) -> HostProfile | None:
    """What the groups of the found plan take, where it runs on this machine."""
    from autotune.cli.run_check import random_inputs
    from autotune.runtime.session.defaults import resolve_model
    from autotune.runtime.session.host_profile import host_profile
    from autotune.runtime.session.session import Session
    from autotune.targets.protocol import ExclusiveTarget

    if not isinstance(machine, ExclusiveTarget):
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


def table(result: SearchResult, spec: HardwareSpec) -> None:
    """Print the plans side by side: cycles, or milliseconds of this machine. Energy and traffic
    are left out where the machine does not tell them."""
    base = result.unfused.measured_cycles
    unit, scale, digits = ("ms", 1e3 / spec.clock_hz, 3) if spec.timed else ("cycles", 1, 0)
    columns = ["plan", "groups", f"predicted {unit}", f"measured {unit}", "of unfused"]
    rows = []
    for name, plan in plans_of(result).items():
        measured = plan.measured_cycles
        row = [
            name,
            str(len(plan.groups)),
            f"{scale * plan.predicted_cycles:,.{digits}f}",
            "–" if measured is None else f"{scale * measured:,.{digits}f}",
            "–" if measured is None or not base else f"{measured / base:.3f}",
        ]
        if spec.energy.known:
            energy, moved = plan.energy_fj, plan.dram_bytes
            row += ["–" if energy is None else f"{energy / 1e9:,.1f}"]
            row += ["–" if moved is None else f"{moved:,}"]
        rows.append(row)
    show(
        f"{result.plan.network} on {result.plan.target}, {result.measurements} measurements",
        [*columns, "energy µJ", "DRAM bytes"] if spec.energy.known else columns,
        rows,
    )

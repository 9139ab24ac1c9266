"""The result of ``autotune search`` as text, tables and JSON."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_table, say
from autotune.cli.failures import failure_document
from autotune.tuner.objective import Objective

if TYPE_CHECKING:
    from autotune.targets.spec import HardwareSpec
    from autotune.tuner.contest import Contest
    from autotune.tuner.exact.certificate import Certificate
    from autotune.tuner.precision import PrecisionFront
    from autotune.tuner.result import GraphSearch, GroupResult, PlanResult, SearchResult


def cost_text(spec: HardwareSpec, objective: Objective, cost: float) -> str:
    """Return a cost with its unit: energy from femtojoules, time of this machine, or cycles."""
    if objective == Objective.ENERGY:
        return f"{cost / 1e9:,.1f} µJ"
    if objective.weighs_energy:
        return f"{cost:,.0f} {objective.unit}"
    if spec.timed:
        return f"{1e3 * cost / spec.clock_hz:,.3f} ms"
    return f"{cost:,.0f} cycles"


def search_document(result: GraphSearch) -> dict[str, Any]:
    """Return the search over one graph as JSON has it."""
    from autotune.tuner.failures import count_failures

    plans = result.plans
    return {
        "measured": {name: plan.measured_cycles for name, plan in plans.items()},
        "predicted": {name: plan.predicted_cycles for name, plan in plans.items()},
        "energy": {name: plan.energy_fj for name, plan in plans.items()},
        "dram_bytes": {name: plan.dram_bytes for name, plan in plans.items()},
        "peak_bytes": {name: plan.peak_bytes for name, plan in plans.items()},
        "measurements": len(result.records),
        "failures": failure_document(count_failures(result.records)),
        "trials": len(result.trials),
        "gap": result.gap,
        "certificate": _certificate_document(result.certificate),
        "forms": None if result.forms is None else asdict(result.forms),
        "bound": _bound_document(result),
        "contest": None if result.contest is None else asdict(result.contest),
        "groups": [_group_document(group) for group in result.found.groups],
    }


def _certificate_document(certificate: Certificate | None) -> dict[str, Any] | None:
    if certificate is None:
        return None
    return {**asdict(certificate), "statement": certificate.statement}


def _bound_document(result: GraphSearch) -> dict[str, Any] | None:
    """Return the cycles that no plan undercuts, what they come from, and how far the found plan is above."""
    bound, measured = result.bound, result.found.measured_cycles
    if bound is None:
        return None
    above = None if measured is None else bound.above(measured)
    by_resource = dict(bound.by_resource)
    return {
        "cycles": bound.cycles,
        "limit": bound.limit,
        "by_resource": by_resource,
        "exact": bound.is_exact,
        "dram_bytes": bound.dram_bytes,
        "above": above,
    }


def _group_document(group: GroupResult) -> dict[str, Any]:
    schedule = None if group.schedule is None else json_text.loads(group.schedule.to_json())
    return {
        "operators": [op.name for op in group.group.ops],
        "kinds": [op.kind.value for op in group.group.ops],
        "schedule": schedule,
        "predicted": group.predicted_cycles,
        "measured": group.measured_cycles,
    }


def print_plans(result: SearchResult, spec: HardwareSpec) -> None:
    """Print the plans side by side, in cycles or in milliseconds of this machine.

    Energy and traffic are left out where the machine does not tell them.
    """
    unit = "ms" if spec.timed else "cycles"
    columns = ["plan", "groups", f"predicted {unit}", f"measured {unit}", "of unfused"]
    if spec.energy.known:
        columns += ["energy µJ", "DRAM bytes"]
    is_memory = result.plan.objective.is_memory
    if is_memory:
        columns.append("peak KiB")
    title = f"{result.plan.network} on {result.plan.target}, {result.measurements} measurements"
    base = result.unfused.measured_cycles
    rows = [
        _plan_row(name, plan, base, spec)
        + ([f"{result.peak_bytes(name) / 1024:,.0f}"] if is_memory else [])
        for name, plan in result.plans.items()
    ]
    print_table(title, columns, rows)
    for one in result.graphs:
        if one.forms is not None:
            say(one.forms.statement)
        if one.contest is not None:
            say(contest_text(one.contest))
    for statement in result.statements:
        say(f"partition: {statement}")
    if result.above_bound is not None:
        say(bound_text(result, spec))


def print_precision(front: PrecisionFront, spec: HardwareSpec, objective: Objective) -> None:
    """Print what every network that was searched takes and loses; the kept one is marked."""
    plain, unbeaten = front.points[0].cost, front.unbeaten
    rows = [
        (
            "kept" if one.is_kept else "",
            one.name,
            ", ".join(f"{count} {format}" for format, count in one.counts.items()),
            f"{one.loss:.3%}",
            "" if one.is_within else "beyond",
            "yes" if one in unbeaten else "",
            cost_text(spec, objective, one.cost),
            f"{one.cost / plain:.3f}",
        )
        for one in front.points
    ]
    columns = ("", "network", "products", "loss", "limit", "unbeaten", "plan", "of float32")
    title = f"precision: {front.measure} loss ≤ {front.limit:.3%} on {front.held_out_runs} runs held out"
    print_table(title, columns, rows, texts=3)
    trials = [
        (
            ", ".join(f"{count} {format}" for format, count in one.counts.items()),
            f"{one.loss:.3%}",
            cost_text(spec, objective, one.cost),
            one.origin,
        )
        for one in front.pareto
    ]
    title = f"front of {front.trials} choices by predicted cost and loss on {front.calibration_runs} runs to calibrate"
    print_table(title, ("products", "loss", "predicted", "proposed by"), trials, texts=1)
    for line in (front.note, front.contest):
        if line:
            say(line)


def bound_text(result: SearchResult, spec: HardwareSpec) -> str:
    """Return how far the found plan can be above the best one, and what keeps that from being faster."""
    assert result.bound_cycles is not None
    limits = dict.fromkeys(one.bound.limit for one in result.graphs if one.bound is not None)
    least = cost_text(spec, Objective.LATENCY, result.bound_cycles)
    above = f"the found plan is at most {result.above_bound:.1%} above any plan"
    if result.is_bound_exact:
        return f"no plan takes fewer than {least} ({', '.join(limits)}): {above}"
    return (
        f"roofline by measured peaks: no plan takes less than {least} ({', '.join(limits)}) unless it beats these peaks: "
        f"{above}"
    )


def contest_text(contest: Contest) -> str:
    """Return what whole runs of the search's plan and of the heuristic plan showed."""
    rounds = f"faster in {contest.wins} of {contest.rounds} rounds"
    speed = (
        f"the search's plan runs at {contest.gain:.3f} times the heuristic plan's speed ({rounds})"
    )
    kept = "it is kept" if contest.is_won else "the heuristic plan is kept"
    return f"whole network, in turns: {speed}; {kept}"


def _plan_row(name: str, plan: PlanResult, base: int | None, spec: HardwareSpec) -> list[str]:
    """Return the cells of one plan; ``base`` are the cycles of the unfused one."""
    scale, digits = (1e3 / spec.clock_hz, 3) if spec.timed else (1, 0)
    measured = plan.measured_cycles
    row = [
        name,
        str(len(plan.groups)),
        f"{scale * plan.predicted_cycles:,.{digits}f}",
        "–" if measured is None else f"{scale * measured:,.{digits}f}",
        "–" if measured is None or not base else f"{measured / base:.3f}",
    ]
    if spec.energy.known:
        row.append("–" if plan.energy_fj is None else f"{plan.energy_fj / 1e9:,.1f}")
        row.append("–" if plan.dram_bytes is None else f"{plan.dram_bytes:,}")
    return row

"""``autotune run``: execute a plan's programs on the target, check and profile them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import emit, facts, say, show
from autotune.cli.group_costs import GroupCost
from autotune.cli.options import (
    AccuracyOption,
    DimOption,
    JsonOption,
    OutsideOption,
    RangeOption,
    RunnableArgument,
    SeedOption,
    TargetOption,
    ThreadsOption,
    dimensions,
    input_ranges,
    machine_name,
)
from autotune.cli.parts import parts_document, tell_parts
from autotune.cli.progress import working
from autotune.cli.tracing import TraceLimitOption, TraceOption, record
from autotune.disk.atomic_file import check_place
from autotune.runtime.session.out_of_range import OutOfRangePolicy

if TYPE_CHECKING:
    from autotune.cli.latency import Latency
    from autotune.runtime.execution.event import Event
    from autotune.runtime.session.host_profile import HostProfile
    from autotune.runtime.session.network_session import NetworkSession

    Costs = tuple[GroupCost, ...] | Mapping[str, HostProfile]


_PLANS = {
    "plan": "as given",
    "heuristic": "by heuristic; 'autotune search' looks for a faster one",
    "learning": "found by online learning",
}
"""Where a session's plan comes from, in words, by ``PlannedBy``."""


def run(
    plan: RunnableArgument,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", help="NPZ file; default: seeded random.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with the numpy reference; look for races."),
    ] = False,
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            min=1,
            help="Runs. Default: one; on cpu as many as take about a second, after a warm-up.",
        ),
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Learn from the runs and follow drift.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="NPZ file for the outputs.")] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show what each fusion group cost, and why.")
    ] = False,
    trace: TraceOption = None,
    trace_limit: TraceLimitOption = None,
    dim: DimOption = None,
    accuracy: AccuracyOption = None,
    range_: RangeOption = None,
    outside: OutsideOption = OutOfRangePolicy.REFUSE,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> int:
    """Run a network by its plan. With --check, exit 1 when a number is off or a program has a race."""
    with working(f"open {plan}", json):
        from autotune.cli.drift_memory import open_machine
        from autotune.cli.run_arrays import KIND as NPZ
        from autotune.cli.run_arrays import read_inputs, save
        from autotune.cli.run_check import check_outputs, random_inputs
        from autotune.report.trace_file import KIND as TRACE
        from autotune.runtime.session.defaults import resolve_model
        from autotune.runtime.session.session import Session

        if trace is not None:
            check_place(trace, TRACE)
        if out is not None:
            check_place(out, NPZ)
        path = resolve_model(plan)
        machine = open_machine(machine_name(target, threads, path))
        opened = Session(
            path,
            machine,
            online=online,
            dims=dimensions(dim),
            accuracy=accuracy,
            ranges=input_ranges(range_),
            outside=outside,
        )
    with opened as session:
        with working(f"run {plan} on {machine.name}", json):
            feeds = random_inputs(session, seed) if inputs is None else read_inputs(inputs)
            outputs, latency = repeated(session, feeds, repeat)
            if online:
                session.wait_idle()
        ran = session.serving(feeds)
        if ran is not session:
            reason = (
                "inputs leave their ranges; the network without ranges ran"
                if session.ranges
                else "integers may leave ±2^24; numpy computed them on the host"
            )
            say(f"{path}: {reason}")
        differences = check_outputs(ran, feeds, outputs) if check else {}
        races = races_of(ran) if check else ()
        if out is not None:
            save(out, outputs)
        if trace is not None:
            record(ran, trace, trace_limit)
        costs = costs_of(ran, feeds) if profile else None
        report(ran, latency, session.events, differences, races, costs, json)
    return int(bool(races) or any(not ok for _, ok in differences.values()))


def repeated(
    session: NetworkSession, feeds: dict[str, Any], repeat: int | None
) -> tuple[dict[str, Any], Latency | None]:
    """Run the network ``repeat`` times; return the outputs of the first run, and on this machine the
    latency of the runs."""
    from autotune.cli.latency import measure_latency
    from autotune.targets.protocol import ExclusiveTarget

    if isinstance(session.target, ExclusiveTarget):
        return measure_latency(session.run, feeds, repeat)
    outputs = session.run(feeds)
    for _ in range((repeat or 1) - 1):
        session.run(feeds)
    return outputs, None


def costs_of(session: NetworkSession, feeds: dict[str, Any]) -> Costs:
    """What each group cost: by the emulator's counters, or by this machine's clock."""
    from autotune.cli.group_costs import group_costs
    from autotune.runtime.session.host_profile import host_profiles
    from autotune.targets.protocol import ExclusiveTarget

    here = isinstance(session.target, ExclusiveTarget)
    return host_profiles(session, feeds) if here else group_costs(session)


def _documents(costs: Costs) -> dict[str, Any]:
    from autotune.cli import group_costs, host_costs

    if isinstance(costs, tuple):
        return {"groups": group_costs.documents(costs)}
    return host_costs.parts_document(costs)


def _tell(costs: Costs) -> None:
    from autotune.cli import group_costs, host_costs

    if isinstance(costs, tuple):
        group_costs.tell(costs)
    else:
        for name, profile in costs.items():
            host_costs.tell(profile, name if len(costs) > 1 else None)


def emulated_facts(session: NetworkSession) -> dict[str, str]:
    """Cost of the last run on an emulated machine, as lines for people."""
    last, spec = session.last_run, session.target.spec
    return {
        "cycles": f"{last.cycles:,}",
        "predicted": "no prediction: the plan was not searched"
        if last.predicted_cycles is None
        else f"{last.predicted_cycles:,.0f} cycles",
        "seconds on the target": f"{last.cycles / spec.clock_hz:.6f}",
        "energy µJ": f"{last.energy_fj / 1e9:,.1f}",
        "DRAM bytes": f"{last.dram_bytes:,}",
    }


def races_of(session: NetworkSession) -> tuple[str, ...]:
    """Races of the programs that the session runs now, each program once, as lines."""
    from autotune.targets.emulator.races import find_races

    parts = session.parts.values()
    programs = {id(x.program): x.program for part in parts for x in part.table.group_steps}
    return tuple(f"{p.name}: {race}" for p in programs.values() for race in find_races(p))


def report(
    session: NetworkSession,
    latency: Latency | None,
    events: tuple[Event, ...],
    differences: dict[str, tuple[float, bool]],
    races: tuple[str, ...],
    costs: Costs | None,
    json: bool,
) -> None:
    """Print what the runs cost, by group where that was asked for, whether the numbers are right,
    races, and what online learning did."""
    from autotune.runtime.execution.memory_plan import memory_plan

    last = session.last_run
    plans = [memory_plan(part.table) for part in session.parts.values()]
    memory = max(plans, key=lambda plan: plan.arena_bytes, default=None)
    counted = session.target.spec.energy.known  # a clock tells neither energy nor traffic
    if json:
        emit(
            {
                "target": session.target.name,
                "planned_by": session.planned_by.value,
                "cycles": last.cycles,
                "predicted_cycles": last.predicted_cycles,
                **({} if latency is None else {"latency": latency.document()}),
                "energy_fj": last.energy_fj if counted else None,
                "dram_bytes": last.dram_bytes if counted else None,
                "memory": None if memory is None else asdict(memory),
                **parts_document(session),
                "check": {
                    name: {"max_difference": d, "ok": ok} for name, (d, ok) in differences.items()
                },
                "races": list(races),
                "events": [
                    {"kind": e.kind.value, "run": e.run, "text": e.text, "figures": dict(e.figures)}
                    for e in events
                ],
                **({} if costs is None else _documents(costs)),
            }
        )
        return
    costs_of_run = latency.facts() if latency is not None else emulated_facts(session)
    facts(
        {
            "target": session.target.name,
            "plan": _PLANS[session.planned_by.value],
            **costs_of_run,
            "arena bytes": "none"
            if memory is None
            else f"{memory.arena_bytes:,}  "
            f"({memory.excess:.1%} over the bound; side by side {memory.intermediate_bytes:,})",
        }
    )
    tell_parts(session)
    if costs is not None:
        _tell(costs)
    if differences:
        from autotune.cli.run_arrays import ATOL, RTOL

        rows = [(n, f"{d:.3g}", "ok" if ok else "DIFFERS") for n, (d, ok) in differences.items()]
        show(
            f"against the reference (rtol {RTOL:g}, atol {ATOL:g})",
            ("output", "largest difference", ""),
            rows,
        )
        facts({"races": len(races) or "none"})
    for race in races:
        say(race)
    for event in events:
        say(f"run {event.run}: {event.kind.value}: {event.text}")

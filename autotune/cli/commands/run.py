"""``autotune run``: execute a plan's programs on the target, check and profile them.

The way of the data: options → request → open session → runs → outcome → output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.cli.options import (
    AccuracyOption,
    AssumeOption,
    CoresOption,
    DimOption,
    JsonOption,
    MemoryOption,
    OutsideOption,
    RangeOption,
    RunnableArgument,
    SeedOption,
    StoreOption,
    TargetOption,
    ThreadsOption,
    dimensions,
    input_classes,
    input_ranges,
    machine_name,
)
from autotune.cli.progress import working
from autotune.cli.tracing import TraceLimitOption, TraceOption, record_trace
from autotune.disk.atomic_file import check_place
from autotune.runtime.session.out_of_range import OutOfRangePolicy

if TYPE_CHECKING:
    from autotune.cli.emulator_profile import GroupCost
    from autotune.cli.latency import Latency
    from autotune.cli.placed_profile import PlacedGroup
    from autotune.cli.run_check import Difference
    from autotune.graph.accuracy import Accuracy
    from autotune.runtime.execution.event import Event
    from autotune.runtime.execution.memory_plan import MemoryPlan
    from autotune.runtime.session.host_profile import HostProfile
    from autotune.runtime.session.network_session import NetworkSession
    from autotune.runtime.session.session import Session

    Costs = tuple[GroupCost, ...] | list[PlacedGroup] | Mapping[str, HostProfile]

PLANNED_BY = {
    "plan": "as given",
    "heuristic": "by heuristic; 'autotune search' looks for a faster one",
    "learning": "found by online learning",
}
"""Origin of a session's plan in words, by ``PlannedBy``."""

InputsOption = Annotated[
    Path | None, typer.Option("--inputs", help="NPZ file; default: seeded random.")
]
CheckOption = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Compare with the numpy reference, by a share of each output's range; look for races.",
    ),
]
RepeatOption = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        min=1,
        help="Runs. Default: one; on cpu as many as take about a second, after a warm-up.",
    ),
]
OnlineOption = Annotated[
    bool, typer.Option("--online", help="Learn from the runs and follow drift.")
]
OutputsOption = Annotated[Path | None, typer.Option("--out", help="NPZ file for the outputs.")]
ProfileOption = Annotated[
    bool, typer.Option("--profile", help="Show what each fusion group cost, and why.")
]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The options of one ``autotune run``, parsed."""

    plan: str
    target: str | None
    threads: int | None
    cores: int | None
    memory: str | None
    inputs: Path | None
    is_checked: bool
    repeat: int | None
    is_online: bool
    out: Path | None
    is_profiled: bool
    trace: Path | None
    trace_limit: int | None
    dims: dict[str, int]
    accuracy: Accuracy | None
    ranges: dict[str, tuple[float, float]]
    outside: OutOfRangePolicy
    assume: dict[str, str | float | tuple[float, float]]
    seed: int
    store: str | None
    json: bool


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Results of the runs of a network; ``session`` is the one that served them.

    ``latency`` is measured on this machine only, ``costs`` exist with ``--profile``, ``differences`` and
    ``races`` with ``--check``.
    """

    session: NetworkSession
    latency: Latency | None
    events: tuple[Event, ...]
    differences: Mapping[str, Difference]
    races: tuple[str, ...]
    costs: Costs | None

    @property
    def is_right(self) -> bool:
        """True if no output is off and no program has a race."""
        return not self.races and all(x.is_tolerable for x in self.differences.values())


def run(
    plan: RunnableArgument,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    cores: CoresOption = None,
    memory: MemoryOption = None,
    inputs: InputsOption = None,
    check: CheckOption = False,
    repeat: RepeatOption = None,
    online: OnlineOption = False,
    out: OutputsOption = None,
    profile: ProfileOption = False,
    trace: TraceOption = None,
    trace_limit: TraceLimitOption = None,
    dim: DimOption = None,
    accuracy: AccuracyOption = None,
    range_: RangeOption = None,
    outside: OutsideOption = OutOfRangePolicy.REFUSE,
    assume: AssumeOption = None,
    seed: SeedOption = 0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Run a network by its plan. With --check, exit 1 when a number is off or a program has a race."""
    request = RunRequest(
        plan=plan,
        target=target,
        threads=threads,
        cores=cores,
        memory=memory,
        inputs=inputs,
        is_checked=check,
        repeat=repeat,
        is_online=online,
        out=out,
        is_profiled=profile,
        trace=trace,
        trace_limit=trace_limit,
        dims=dimensions(dim),
        accuracy=accuracy,
        ranges=input_ranges(range_),
        outside=outside,
        assume=input_classes(assume),
        seed=seed,
        store=store,
        json=json,
    )
    with _open(request) as session:
        outcome = _execute(session, request)
        if json:
            print_json(_document(outcome))
        else:
            _print_outcome(outcome)
    return int(not outcome.is_right)


def _open(request: RunRequest) -> Session:
    """Open the network on its machine, once all files can be written."""
    with working(f"open {request.plan}", request.json):
        from autotune.cli.npz import KIND as NPZ
        from autotune.report.trace_file import KIND as TRACE
        from autotune.runtime.session.defaults import choose_target, resolve_model
        from autotune.runtime.session.session import Session

        if request.trace is not None:
            check_place(request.trace, TRACE)
        if request.out is not None:
            check_place(request.out, NPZ)
        path = resolve_model(request.plan)
        is_free = request.target is None and request.threads is None
        name = None if is_free else machine_name(request.target, request.threads, path)
        return Session(
            path,
            choose_target(name, path),
            request.store,
            online=request.is_online,
            dims=request.dims,
            accuracy=request.accuracy,
            ranges=request.ranges,
            outside=request.outside,
            assume=request.assume,
            cores=request.cores,
            memory=request.memory,
        )


def _execute(session: NetworkSession, request: RunRequest) -> RunOutcome:
    """Run the network, then check, save, trace and profile the runs as requested."""
    from autotune.cli.npz import read_inputs, write_outputs
    from autotune.cli.run_check import check_outputs, random_inputs
    from autotune.runtime.session.defaults import resolve_model

    with working(f"run {request.plan} on {session.target.name}", request.json):
        feeds = (
            random_inputs(session, request.seed)
            if request.inputs is None
            else read_inputs(request.inputs)
        )
        outputs, latency = run_repeatedly(session, feeds, request.repeat)
        if request.is_online:
            session.wait_idle()
    serving = session.serving(feeds)
    if serving is not session:
        say(f"{resolve_model(request.plan)}: {_reason_for_fallback(session)}")
    differences = check_outputs(serving, feeds, outputs) if request.is_checked else {}
    races = find_session_races(serving) if request.is_checked else ()
    if request.out is not None:
        write_outputs(request.out, outputs)
    if request.trace is not None:
        record_trace(serving, request.trace, request.trace_limit)
    costs = group_costs_of(serving, feeds) if request.is_profiled else None
    return RunOutcome(serving, latency, session.events, differences, races, costs)


def run_repeatedly(
    session: NetworkSession, feeds: dict[str, Any], repeat: int | None
) -> tuple[dict[str, Any], Latency | None]:
    """Run the network ``repeat`` times; return the outputs of the first run, and this machine's latency."""
    from autotune.cli.latency import measure_latency
    from autotune.targets.protocol import ExclusiveTarget

    if isinstance(session.target, ExclusiveTarget):
        session.traced_run(feeds)  # new shapes are compiled, so that numpy is not what is timed
        return measure_latency(session.run, feeds, repeat)
    outputs = session.run(feeds)
    for _ in range((repeat or 1) - 1):
        session.run(feeds)
    return outputs, None


def _reason_for_fallback(session: NetworkSession) -> str:
    if session.ranges:
        return "inputs leave their ranges; the network without ranges ran"
    return "integers may leave ±2^24; numpy computed them on the host"


def find_session_races(session: NetworkSession) -> tuple[str, ...]:
    """Return the races of the programs that the session runs now, each program once, as lines."""
    from autotune.targets.emulator.races import find_races

    tables = (table for part in session.parts.values() for table in part.tables)
    programs = {id(x.program): x.program for table in tables for x in table.group_steps}
    return tuple(f"{p.name}: {race}" for p in programs.values() for race in find_races(p))


def group_costs_of(session: NetworkSession, feeds: dict[str, Any]) -> Costs:
    """Return the cost of each group: by the emulator's counters, by this machine's clock, or on the timeline of
    several devices."""
    from autotune.cli.device_profile import devices_of
    from autotune.cli.emulator_profile import group_costs
    from autotune.cli.placed_profile import placed_groups
    from autotune.runtime.session.host_profile import host_profiles
    from autotune.targets.protocol import ExclusiveTarget

    if devices_of(session) is not None and session.last_run.timeline is not None:
        return placed_groups(session)
    is_here = isinstance(session.target, ExclusiveTarget)
    return host_profiles(session, feeds) if is_here else group_costs(session)


def _document(outcome: RunOutcome) -> dict[str, Any]:
    """Return the outcome as JSON has it."""
    from autotune.cli.device_profile import devices_document
    from autotune.cli.part_costs import parts_document

    session = outcome.session
    last, memory = session.last_run, _memory(session)
    is_counted = session.target.spec.energy.known  # a clock tells neither energy nor traffic
    return {
        "target": session.target.name,
        "planned_by": session.planned_by.value,
        "cycles": last.cycles,
        "predicted_cycles": last.predicted_cycles,
        **({} if outcome.latency is None else {"latency": outcome.latency.document()}),
        "energy_fj": last.energy_fj if is_counted else None,
        "dram_bytes": last.dram_bytes if is_counted else None,
        "memory": None if memory is None else asdict(memory),
        **parts_document(session),
        **devices_document(session),
        "check": {
            name: {"max_difference": x.largest, "ok": x.is_tolerable}
            for name, x in outcome.differences.items()
        },
        "races": list(outcome.races),
        "variants": [asdict(variant) for variant in session.variants],
        "events": [
            {"kind": e.kind.value, "run": e.run, "text": e.text, "figures": dict(e.figures)}
            for e in outcome.events
        ],
        **_cost_documents(outcome.costs),
    }


def _cost_documents(costs: Costs | None) -> dict[str, Any]:
    from autotune.cli import emulator_profile, host_profile, placed_profile

    if costs is None:
        return {}
    if isinstance(costs, list):
        return {"groups": placed_profile.documents(costs)}
    if isinstance(costs, tuple):
        return {"groups": emulator_profile.documents(costs)}
    return host_profile.parts_document(costs)


def _memory(session: NetworkSession) -> MemoryPlan | None:
    """Return the memory plan of the part with the largest arena; None without parts."""
    from autotune.runtime.execution.memory_plan import memory_plan

    plans = [memory_plan(part.table) for part in session.parts.values()]
    return max(plans, key=lambda plan: plan.arena_bytes, default=None)


def _print_outcome(outcome: RunOutcome) -> None:
    """Print cost, memory, parts, groups, differences, races and events, in this order."""
    from autotune.cli.device_profile import devices_of, print_devices
    from autotune.cli.part_costs import print_parts

    session, latency, memory = outcome.session, outcome.latency, _memory(outcome.session)
    print_facts(
        {
            "target": session.target.name,
            "plan": PLANNED_BY[session.planned_by.value],
            **({} if devices_of(session) else _time_facts(session, latency)),
            "arena bytes": "none"
            if memory is None
            else f"{memory.arena_bytes:,}  "
            f"({memory.excess:.1%} over the bound; side by side {memory.intermediate_bytes:,})",
            **{f"variant {n}": v.text for n, v in enumerate(session.variants, 1)},
        }
    )
    print_parts(session)
    print_devices(session)
    if outcome.costs is not None:
        _print_costs(outcome.costs)
    if outcome.differences:
        _print_differences(outcome.differences)
        print_facts({"races": len(outcome.races) or "none"})
    for race in outcome.races:
        say(race)
    for event in outcome.events:
        say(f"run {event.run}: {event.kind.value}: {event.text}")


def _time_facts(session: NetworkSession, latency: Latency | None) -> dict[str, str]:
    return _emulated_facts(session) if latency is None else latency.facts()


def _emulated_facts(session: NetworkSession) -> dict[str, str]:
    """Return the cost of the last run on an emulated machine, as lines for people."""
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


def _print_costs(costs: Costs) -> None:
    from autotune.cli import emulator_profile, host_profile, placed_profile

    if isinstance(costs, list):
        placed_profile.print_groups(costs)
        return
    if isinstance(costs, tuple):
        emulator_profile.print_costs(costs)
        return
    for name, profile in costs.items():
        host_profile.print_profile(profile, name if len(costs) > 1 else None)


def _print_differences(differences: Mapping[str, Difference]) -> None:
    from autotune.cli.run_check import OF_RANGE, RELATIVE

    rows = [
        (name, f"{x.largest:.3g}", "ok" if x.is_tolerable else "DIFFERS")
        for name, x in differences.items()
    ]
    title = (
        f"against the reference (tolerance {RELATIVE:g} of a number + {OF_RANGE:g} of the range)"
    )
    print_table(title, ("output", "largest difference", ""), rows)

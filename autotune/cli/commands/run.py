"""``autotune run``: execute a plan's programs on the target, check and profile them.

The way of the data: options → request → open session → runs → outcome → output.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.commands.run_outcome import RunOutcome, outcome_document, print_outcome
from autotune.cli.console import print_json, say
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
    from autotune.cli.commands.run_outcome import Costs
    from autotune.cli.latency import Latency
    from autotune.graph.accuracy import Accuracy
    from autotune.runtime.session.network_session import NetworkSession
    from autotune.runtime.session.session import Session

InputsOption = Annotated[
    Path | None, typer.Option("--inputs", help="NPZ file; default: seeded random.")
]
CheckOption = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Compare with the numpy reference, by a share of each output's range, and where that fails by what "
        "rounding to float32 leaves open; look for races.",
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
SavePlanOption = Annotated[
    Path | None,
    typer.Option(
        "--save-plan",
        help="Plan file for the plan in use after the last run, with all that was learned.",
    ),
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
    save_plan: Path | None
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
    save_plan: SavePlanOption = None,
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
        save_plan=save_plan,
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
            print_json(outcome_document(outcome))
        else:
            print_outcome(outcome)
    return int(not outcome.is_right)


def _open(request: RunRequest) -> Session:
    """Open the network on its machine, once all files can be written."""
    with working(f"open {request.plan}", request.json):
        from autotune.cli.npz import KIND as NPZ
        from autotune.report.trace_file import KIND as TRACE
        from autotune.runtime.session.defaults import choose_target, resolve_model
        from autotune.runtime.session.session import Session
        from autotune.tuner.plan import KIND as PLAN

        if request.trace is not None:
            check_place(request.trace, TRACE)
        if request.out is not None:
            check_place(request.out, NPZ)
        if request.save_plan is not None:
            check_place(request.save_plan, PLAN)
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


def _execute(session: Session, request: RunRequest) -> RunOutcome:
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
    if request.save_plan is not None:
        session.save_plan(request.save_plan)
        say(f"the plan in use is {request.save_plan}")
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

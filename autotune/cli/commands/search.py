"""``autotune search``: find fusion groups and schedules of a network, measured on the target.

The way of the data: options → request → search of every graph → reports → output.
"""

from __future__ import annotations

import json as json_text
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.commands.search_devices import (
    DevicesOption,
    DevicesRequest,
    ForOption,
    LinksOption,
    check_device_options,
    run_device_search,
)
from autotune.cli.commands.search_front import (
    FrontOption,
    WrittenFront,
    check_files,
    print_front,
    write_front,
)
from autotune.cli.commands.search_recorded import (
    EvaluationsOption,
    PriorOption,
    RecordedRequest,
    ReplayOption,
    print_recorded_search,
)
from autotune.cli.console import print_json, print_table, say
from autotune.cli.failures import exit_on_defects, failure_document, say_failures
from autotune.cli.options import (
    MOST_COUNTED,
    SHIPPED,
    AccuracyOption,
    CoresOption,
    DimOption,
    JsonOption,
    MemoryOption,
    OutOption,
    RangeOption,
    SeedOption,
    StoreOption,
    TargetOption,
    ThreadsOption,
    TimeLimitOption,
    WorkersOption,
    complete_network,
    dimensions,
    input_ranges,
    machine_name,
)
from autotune.cli.progress import Report, progress
from autotune.cli.repeating import command_line
from autotune.disk.atomic_file import check_place
from autotune.errors import InputError
from autotune.tuner.objective import NAMES as OBJECTIVES
from autotune.tuner.objective import Objective
from autotune.tuner.options import (
    DEFAULT_MEASURE,
    DEFAULT_STRATEGY,
    DEFAULT_TRIALS,
    STRATEGY_NAMES,
)
from autotune.tuner.placement.objective import Serving
from autotune.tuner.progress import SEARCH_STAGES

if TYPE_CHECKING:
    from autotune.graph.accuracy import Accuracy
    from autotune.graph.ranges import Ranges
    from autotune.runtime.session.host_profile import HostProfile
    from autotune.targets.protocol import Target
    from autotune.targets.spec import HardwareSpec
    from autotune.tuner.contest import Contest
    from autotune.tuner.exact.certificate import Certificate
    from autotune.tuner.front import FrontPoint
    from autotune.tuner.plan import Plan
    from autotune.tuner.result import GraphSearch, GroupResult, PlanResult, SearchResult

NetworkArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help=f"ONNX file, or the name of a shipped network; none with --replay. {SHIPPED}",
        autocompletion=complete_network,
    ),
]
TrialsOption = Annotated[
    int, typer.Option("--trials", min=1, max=MOST_COUNTED, help="Plans to try at most.")
]
MeasureOption = Annotated[
    int, typer.Option("--measure", min=1, max=MOST_COUNTED, help="Measurements for candidates.")
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--seconds",
        min=0.001,
        help="Time of a search on this CPU, in place of --trials and --measure. Default: 15 to 60, by the "
        "network's own time.",
    ),
]


def _complete_strategy(typed: str) -> list[str]:
    return [name for name in STRATEGY_NAMES if name.startswith(typed)]


StrategyOption = Annotated[
    str,
    typer.Option(
        "--strategy",
        help=f"What proposes plans: {', '.join(STRATEGY_NAMES)}.",
        autocompletion=_complete_strategy,
    ),
]
StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="Where the study of tried plans is kept: a URL of Optuna's storages, or a file (.log: a journal, else "
        "SQLite). Default: studies.db beside the store. :memory: keeps none.",
    ),
]


def _complete_objective(typed: str) -> list[str]:
    return [name for name in OBJECTIVES if name.startswith(typed)]


ObjectiveOption = Annotated[
    str,
    typer.Option(
        "--objective",
        help=f"What to minimise: {', '.join(OBJECTIVES)}, or a sum such as latency+4e-07*energy of cycles and "
        "femtojoules.",
        autocompletion=_complete_objective,
    ),
]
ReportOption = Annotated[Path | None, typer.Option("--report", help="HTML report to write.")]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The options of one ``autotune search``, parsed; the files can be written."""

    model: str
    target: str | None
    threads: int | None
    trials: int
    measure: int
    seconds: float | None
    cores: int | None
    memory: str | None
    objective: Objective
    plan_file: Path
    report_file: Path
    dims: dict[str, int]
    accuracy: Accuracy | None
    ranges: Ranges
    seed: int
    time_limit_seconds: float | None
    workers: str | None
    command: str
    """The command line that repeats the search."""
    strategy: str
    storage: str | None
    store: str | None
    front: int | None
    """Searches of a front; None for one plan."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of a search and the machine that it is for; with a front, its best plan by the objective."""

    spec: HardwareSpec
    result: SearchResult
    front: WrittenFront | None = None


def search(
    context: typer.Context,
    models: NetworkArgument = None,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    trials: TrialsOption = DEFAULT_TRIALS,
    measure: MeasureOption = DEFAULT_MEASURE,
    seconds: SecondsOption = None,
    cores: CoresOption = None,
    memory: MemoryOption = None,
    objective: ObjectiveOption = Objective.LATENCY.name,
    front: FrontOption = None,
    out: OutOption = None,
    report: ReportOption = None,
    dim: DimOption = None,
    accuracy: AccuracyOption = None,
    range_: RangeOption = None,
    seed: SeedOption = 0,
    time_limit: TimeLimitOption = None,
    workers: WorkersOption = None,
    strategy: StrategyOption = DEFAULT_STRATEGY,
    storage: StorageOption = None,
    store: StoreOption = None,
    replay: ReplayOption = None,
    evaluations: EvaluationsOption = None,
    prior: PriorOption = None,
    devices: DevicesOption = None,
    links: LinksOption = None,
    for_: ForOption = None,
    json: JsonOption = False,
) -> None:
    """Find what to fuse and how to tile it, measure the best, and write plan and report.

    With --devices, place the groups on several machines. With --replay, search a recorded tuning space instead.
    """
    alone = {
        "--target": target is not None,
        "--threads": threads is not None,
        "--seconds": seconds is not None,
        "--cores": cores is not None,
        "--memory": memory is not None,
        f"--objective {objective}": objective != Objective.LATENCY.name,
        "--front": front is not None,
        "--report": report is not None,
        "--storage": storage is not None,
        "--strategy": strategy != DEFAULT_STRATEGY,
        "--replay": replay is not None,
    }
    check_device_options(devices, links, for_, alone)
    recorded = RecordedRequest.of(replay, evaluations, prior, models)
    if recorded is not None:
        print_recorded_search(recorded, seed, json)
        return
    model = _network(models)
    with progress(f"search {model}", SEARCH_STAGES) as heard:  # imports alone take seconds
        plan_file, report_file = _output_files(model, out, report)
        if devices is not None:
            run_device_search(
                DevicesRequest(
                    model=model,
                    devices=devices,
                    links=links,
                    serving=for_ or Serving.LATENCY,
                    trials=trials,
                    measure=measure,
                    plan_file=plan_file,
                    dims=dimensions(dim),
                    accuracy=accuracy,
                    ranges=input_ranges(range_),
                    seed=seed,
                    time_limit_seconds=time_limit,
                    store=store,
                ),
                heard,
                json,
            )
            return
        request = SearchRequest(
            model=model,
            target=target,
            threads=threads,
            trials=trials,
            measure=measure,
            seconds=seconds,
            cores=cores,
            memory=memory,
            objective=Objective.parse(objective),
            plan_file=plan_file,
            report_file=report_file,
            dims=dimensions(dim),
            accuracy=accuracy,
            ranges=input_ranges(range_),
            seed=seed,
            time_limit_seconds=time_limit,
            workers=workers,
            command=command_line(context),
            strategy=strategy,
            storage=storage,
            store=store,
            front=front,
        )
        outcome = _execute(request, heard)
    say_failures(outcome.result.failures)
    for graph in outcome.result.graphs:
        if graph.stopped:
            say(
                f"measuring ended early, the plan is the best of what was measured: {graph.stopped}"
            )
    if json:
        documents = [search_document(graph) for graph in outcome.result.graphs]
        document = documents[0] if len(documents) == 1 else {"parts": documents}
        extra = {} if outcome.front is None else {"front": outcome.front.document}
        print_json({**document, **extra})
    else:
        print_plans(outcome.result, outcome.spec)
        if outcome.front is not None:
            print_front(outcome.front, outcome.spec)
    say(outcome.result.origin)
    say(f"plan: {plan_file}")
    say(f"report: {report_file}")
    exit_on_defects(outcome.result.failures)


def _network(models: list[str] | None) -> str:
    """Return the one network. Raises ``InputError``."""
    if models is None or len(models) != 1:
        given = f"{len(models)} were given" if models else "none was given"
        raise InputError(f"search takes one network, or --replay FILE; {given}")
    return models[0]


def _output_files(model: str, out: Path | None, report: Path | None) -> tuple[Path, Path]:
    """Return the plan file and the report file. Raises ``InputError`` for files of other kinds."""
    from autotune.report.document import KIND as PAGE
    from autotune.tuner.plan import KIND as PLAN

    default = Path(f"{Path(model).stem}.plan")
    plan_file = default if out is None else out
    beside = default if plan_file.exists() and not plan_file.is_file() else plan_file
    report_file = beside.with_suffix(".html") if report is None else report
    check_place(plan_file, PLAN)
    check_place(report_file, PAGE)
    return plan_file, report_file


def _execute(request: SearchRequest, heard: Report) -> SearchOutcome:
    """Search the network; write its plan and its report."""
    from autotune import api
    from autotune.report.from_search import write_report
    from autotune.runtime.session.defaults import choose_target, resolve_model
    from autotune.targets.protocol import ExclusiveTarget
    from autotune.tuner.interruption import SearchInterrupted

    machine = choose_target(machine_name(request.target, request.threads))
    network = resolve_model(request.model)
    heard.title = f"search {request.model} on {machine.name}"
    if request.front is None and not request.objective.is_product:  # else objectives change
        heard.cost_text = partial(cost_text, machine.spec, request.objective)
    if request.front is not None:
        return _execute_front(request, network, machine, heard)
    try:
        result = api.search(
            network,
            machine,
            trials=request.trials,
            measure=request.measure,
            seconds=request.seconds,
            objective=request.objective,
            seed=request.seed,
            dims=request.dims,
            out=request.plan_file,
            progress=heard,
            accuracy=request.accuracy,
            ranges=request.ranges,
            time_limit_seconds=request.time_limit_seconds,
            workers=request.workers,
            strategy=request.strategy,
            storage=request.storage,
            store=request.store,
            cores=request.cores,
            memory=request.memory,
        )
    except SearchInterrupted as stop:
        write_report(stop.result, machine.spec, request.report_file, command=request.command)
        say(interrupted_text(stop.result, machine.spec, request))
        raise
    heard("report", 0, 1)
    is_timed = isinstance(machine, ExclusiveTarget) and len(result.graphs) == 1
    profile = _profile_plan(network, machine, result.plan, request.dims) if is_timed else None
    write_report(result, machine.spec, request.report_file, profile, request.command)
    return SearchOutcome(machine.spec, result)


def _execute_front(
    request: SearchRequest, network: Path, machine: Target, heard: Report
) -> SearchOutcome:
    """Search a front; write every plan, the best by the objective again as the plan, and the report."""
    from autotune import api
    from autotune.report.from_search import write_report

    assert request.front is not None
    if (request.seconds, request.cores, request.memory) != (None, None, None):
        raise InputError(
            "--seconds, --cores and --memory bound searches on this CPU; with --front give --trials and --measure"
        )
    check_files(request.plan_file, request.front)
    points: tuple[FrontPoint, ...] = ()

    def keep(found: tuple[FrontPoint, ...]) -> None:
        nonlocal points
        points = found

    try:
        api.search_front(
            network,
            machine,
            request.front,
            request.trials,
            request.measure,
            request.seed,
            request.dims,
            progress=heard,
            accuracy=request.accuracy,
            ranges=request.ranges,
            time_limit_seconds=request.time_limit_seconds,
            strategy=request.strategy,
            storage=request.storage,
            store=request.store,
            workers=request.workers,
            each=keep,
        )
    except KeyboardInterrupt:
        if points:
            files = write_front(points, request.plan_file).files
            say(f"plans so far: {', '.join(map(str, files))}")
        raise
    front = write_front(points, request.plan_file)
    best = front.best(request.objective).result
    best.plan.save(request.plan_file)
    names = [file.name for file in front.files]
    write_report(
        best, machine.spec, request.report_file, None, request.command, front.points, names
    )
    return SearchOutcome(machine.spec, best, front)


def interrupted_text(result: SearchResult, spec: HardwareSpec, request: SearchRequest) -> str:
    """Return where the plan of an interrupted search is, and how good."""
    measured = result.found.measured_cycles
    cost = result.found.predicted_cycles if measured is None else measured
    kind = "predicted" if measured is None else "measured"
    return (
        f"best plan so far: {request.plan_file}, {kind} {cost_text(spec, Objective.LATENCY, cost)}, "
        f"{result.measurements} measurements; report: {request.report_file}"
    )


def cost_text(spec: HardwareSpec, objective: Objective, cost: float) -> str:
    """Return a cost with its unit: energy from femtojoules, time of this machine, or cycles."""
    if objective == Objective.ENERGY:
        return f"{cost / 1e9:,.1f} µJ"
    if objective.weighs_energy:
        return f"{cost:,.0f} {objective.unit}"
    if spec.timed:
        return f"{1e3 * cost / spec.clock_hz:,.3f} ms"
    return f"{cost:,.0f} cycles"


def _profile_plan(network: Path, machine: Target, plan: Plan, dims: dict[str, int]) -> HostProfile:
    """Run a plan on this machine; return the time of each of its groups."""
    from autotune.cli.run_check import random_inputs
    from autotune.runtime.session.host_profile import host_profile
    from autotune.runtime.session.session import Session

    with Session(network, machine, dims=dims, plan=plan) as session:
        return host_profile(session, random_inputs(session, seed=0))


def search_document(result: GraphSearch) -> dict[str, Any]:
    """Return the search over one graph as JSON has it."""
    from autotune.tuner.failures import count_failures

    plans = result.plans
    return {
        "measured": {name: plan.measured_cycles for name, plan in plans.items()},
        "predicted": {name: plan.predicted_cycles for name, plan in plans.items()},
        "energy": {name: plan.energy_fj for name, plan in plans.items()},
        "dram_bytes": {name: plan.dram_bytes for name, plan in plans.items()},
        "measurements": len(result.records),
        "failures": failure_document(count_failures(result.records)),
        "trials": len(result.trials),
        "gap": result.gap,
        "certificate": _certificate_document(result.certificate),
        "bound": _bound_document(result),
        "contest": None if result.contest is None else asdict(result.contest),
        "groups": [_group_document(group) for group in result.found.groups],
    }


def _certificate_document(certificate: Certificate | None) -> dict[str, Any] | None:
    from autotune.tuner.exact.certificate import RESTRICTION

    if certificate is None:
        return None
    return {**asdict(certificate), "statement": certificate.statement, "restriction": RESTRICTION}


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
    title = f"{result.plan.network} on {result.plan.target}, {result.measurements} measurements"
    base = result.unfused.measured_cycles
    rows = [_plan_row(name, plan, base, spec) for name, plan in result.plans.items()]
    print_table(title, columns, rows)
    for one in result.graphs:
        if one.contest is not None:
            say(contest_text(one.contest))
    for statement in result.statements:
        say(f"partition: {statement}")
    if result.above_bound is not None:
        say(bound_text(result))


def bound_text(result: SearchResult) -> str:
    """Return how far the found plan can be above the best one, and what keeps that from being faster."""
    limits = dict.fromkeys(one.bound.limit for one in result.graphs if one.bound is not None)
    return (
        f"no plan takes fewer than {result.bound_cycles:,.0f} cycles ({', '.join(limits)}): "
        f"the found plan is at most {result.above_bound:.1%} above any plan"
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

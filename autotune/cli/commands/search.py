"""``autotune search``: find fusion groups and schedules of a network, measured on the target.

The way of the data: options → request → search of every graph → reports → output.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from autotune.cli.commands.search_configurations import (
    ConfigurationRequest,
    is_timed_by_function,
    print_configurations,
)
from autotune.cli.commands.search_devices import (
    DevicesOption,
    DevicesRequest,
    ForOption,
    LinksOption,
    check_device_options,
    run_device_search,
)
from autotune.cli.commands.search_execution import SearchOutcome, execute
from autotune.cli.commands.search_front import FrontOption, print_front
from autotune.cli.commands.search_options import (
    DataOption,
    LossOption,
    MaxLossOption,
    MeasureOption,
    NetworkArgument,
    ObjectiveOption,
    ReportOption,
    SearchRequest,
    SecondsOption,
    StorageOption,
    StrategyOption,
    TrialsOption,
)
from autotune.cli.commands.search_recorded import (
    EvaluationsOption,
    PriorOption,
    RecordedRequest,
    ReplayOption,
    check_recorded_options,
    print_recorded_search,
)
from autotune.cli.commands.search_result import print_plans, print_precision, search_document
from autotune.cli.console import print_json, say
from autotune.cli.failures import exit_on_defects, say_failures
from autotune.cli.held_interrupt import HeldInterrupt, held_interrupt
from autotune.cli.options import (
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
    dimensions,
    given_options,
    input_ranges,
)
from autotune.cli.progress import progress
from autotune.cli.repeating import command_line
from autotune.disk.atomic_file import check_place
from autotune.errors import InputError
from autotune.tuner.objective import Objective
from autotune.tuner.options import DEFAULT_STRATEGY
from autotune.tuner.placement.objective import Serving
from autotune.tuner.progress import SEARCH_STAGES

ONE_MACHINE = (
    *("target", "threads", "seconds", "cores", "memory", "objective", "front"),
    *("storage", "strategy", "replay", "max_loss", "data", "loss"),
)
"""Options that do not go with ``--devices``."""


PLANNING = (
    *("threads", "trials", "seconds", "cores", "memory", "objective", "front", "out", "report"),
    *("accuracy", "range_", "strategy", "storage", "max_loss", "data", "loss"),
)
"""Options that do not go with a target that times ONNX models: it has configurations, and no plans."""
MEASURING = ("target", "measure", "dim", "time_limit", "workers", "store")
"""More options that do not go with ``--replay``: all was measured when the space was recorded."""


def search(
    context: typer.Context,
    models: NetworkArgument = None,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    trials: TrialsOption = None,
    measure: MeasureOption = None,
    seconds: SecondsOption = None,
    cores: CoresOption = None,
    memory: MemoryOption = None,
    objective: ObjectiveOption = Objective.LATENCY.name,
    front: FrontOption = None,
    max_loss: MaxLossOption = None,
    data: DataOption = None,
    loss: LossOption = None,
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

    With --max-loss and --data, choose the precision of each product too. With --devices, place the groups on several
    machines. With --replay, search a recorded tuning space instead. Of a target FILE.py:FUNCTION, find the best
    configuration of its parameters.
    """
    alone = [
        f"{typed} {objective}" if name == "objective" else typed
        for name, typed in given_options(context, ONE_MACHINE).items()
    ]
    check_device_options(devices, links, for_, alone)
    recorded = RecordedRequest.of(replay, evaluations, prior, models)
    if recorded is not None:
        check_recorded_options([*given_options(context, (*PLANNING, *MEASURING)).values()])
        print_recorded_search(recorded, seed, json)
        return
    model = _network(models)
    if is_timed_by_function(target):
        assert target is not None
        others = [*given_options(context, PLANNING).values()]
        tuning = ConfigurationRequest(model, target, dimensions(dim), store, time_limit, workers)
        print_configurations(tuning, measure, others, json)
        return
    held: AbstractContextManager[HeldInterrupt | None] = nullcontext()
    if devices is None:
        held = held_interrupt("ending: the heuristic plan is made first; Ctrl-C again ends at once")
    # imports alone take seconds
    with progress(f"search {model}", SEARCH_STAGES) as heard, held as interrupt:
        if interrupt is not None:
            heard.when_begun = interrupt.release
        plan_file, report_file = _output_files(model, out, report)
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
            max_loss=max_loss,
            data=data,
            loss=loss,
        )
        if devices is not None:
            placed = DevicesRequest(request, devices, links, for_ or Serving.LATENCY)
            run_device_search(placed, heard, json)
            return
        outcome = execute(request, heard)
    _print_outcome(outcome, request, json)


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


def _print_outcome(outcome: SearchOutcome, request: SearchRequest, json: bool) -> None:
    """Print the plans and where they are. Raises ``typer.Exit`` where a defect of ours failed a measurement."""
    result = outcome.result
    say_failures(result.failures)
    for graph in result.graphs:
        if graph.stopped:
            say(
                f"measuring ended early, the plan is the best of what was measured: {graph.stopped}"
            )
    if json:
        documents = [search_document(graph) for graph in result.graphs]
        document = documents[0] if len(documents) == 1 else {"parts": documents}
        extra: dict[str, Any] = {} if outcome.front is None else {"front": outcome.front.document}
        if result.precision is not None:
            extra["precision"] = asdict(result.precision)
        print_json({**document, **extra})
    else:
        print_plans(result, outcome.spec)
        if result.precision is not None:
            print_precision(result.precision, outcome.spec, request.objective)
        if outcome.front is not None:
            print_front(outcome.front, outcome.spec)
    say(result.origin)
    file, front = result.plan.network_file, result.precision
    if front is not None and file is not None and front.kept is not front.points[0]:
        say(f"network: {file.path}")
    say(f"plan: {request.plan_file}")
    say(f"report: {request.report_file}")
    exit_on_defects(result.failures)

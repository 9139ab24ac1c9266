"""The search behind ``autotune search``: search the network or its front, write plan and report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.commands.search_front import WrittenFront, check_files, write_front
from autotune.cli.commands.search_options import SearchRequest
from autotune.cli.commands.search_result import cost_text
from autotune.cli.console import say
from autotune.cli.options import machine_name
from autotune.cli.progress import Report
from autotune.errors import InputError
from autotune.tuner.objective import Objective
from autotune.tuner.options import SearchOptions

if TYPE_CHECKING:
    from autotune.runtime.session.host_profile import HostProfile
    from autotune.targets.protocol import Target
    from autotune.targets.spec import HardwareSpec
    from autotune.tuner.front import FrontPoint
    from autotune.tuner.plan import Plan
    from autotune.tuner.result import SearchResult


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of a search and the machine that it is for; with a front, its best plan by the objective."""

    spec: HardwareSpec
    result: SearchResult
    front: WrittenFront | None = None


def execute(request: SearchRequest, heard: Report) -> SearchOutcome:
    """Search the network; write its plan and its report."""
    from autotune import api
    from autotune.report.from_search import write_report
    from autotune.runtime.execution.native_table import WholeNetworks
    from autotune.runtime.session.defaults import choose_target, resolve_model
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
            max_loss=request.max_loss,
            data=request.data,
            loss=request.loss,
        )
    except SearchInterrupted as stop:
        write_report(stop.result, machine.spec, request.report_file, command=request.command)
        text = interrupted_text(stop.result, machine.spec, request.plan_file)
        say(f"{text}; report: {request.report_file}")
        raise
    heard("report", 0, 1)
    is_timed = isinstance(machine, WholeNetworks) and len(result.graphs) == 1
    file = None if result.plan.network_file is None else Path(result.plan.network_file.path)
    profile = (
        _profile_plan(file or network, machine, result.plan, request.dims) if is_timed else None
    )
    write_report(result, machine.spec, request.report_file, profile, request.command)
    return SearchOutcome(machine.spec, result)


def _execute_front(
    request: SearchRequest, network: Path, machine: Target, heard: Report
) -> SearchOutcome:
    """Search a front; write every plan, the best by the objective again as the plan, and the report."""
    from autotune import api
    from autotune.report.from_search import write_report
    from autotune.tuner.interruption import SearchInterrupted

    assert request.front is not None
    if (request.max_loss, request.data, request.loss) != (None, None, None):
        raise InputError(
            "--max-loss chooses one plan, --front asks for several; leave one of them out"
        )
    if (request.cores, request.memory) != (None, None):
        raise InputError(
            "--cores and --memory bound the builds of one search; with --front leave them out"
        )
    if request.objective.weighs_energy:
        SearchOptions(objective=Objective.ENERGY).check(machine.spec)
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
            seconds=request.seconds,
        )
    except KeyboardInterrupt as stop:
        if points:
            files = write_front(points, request.plan_file).files
            say(f"plans so far: {', '.join(map(str, files))}")
        elif isinstance(stop, SearchInterrupted):
            stop.result.plan.save(request.plan_file)
            say(interrupted_text(stop.result, machine.spec, request.plan_file))
        raise
    front = write_front(points, request.plan_file)
    best = front.best(request.objective).result
    best.plan.save(request.plan_file)
    names = [file.name for file in front.files]
    write_report(
        best, machine.spec, request.report_file, None, request.command, front.points, names
    )
    return SearchOutcome(machine.spec, best, front)


def interrupted_text(result: SearchResult, spec: HardwareSpec, plan_file: Path) -> str:
    """Return where the plan of an interrupted search is, and how good."""
    measured = result.found.measured_cycles
    cost = result.found.predicted_cycles if measured is None else measured
    kind = "predicted" if measured is None else "measured"
    name = (
        "the heuristic plan, as nothing is shown to be faster"
        if result.is_heuristic
        else "best plan so far"
    )
    return (
        f"{name}: {plan_file}, {kind} {cost_text(spec, Objective.LATENCY, cost)}, "
        f"{result.measurements} measurements"
    )


def _profile_plan(network: Path, machine: Target, plan: Plan, dims: dict[str, int]) -> HostProfile:
    """Run a plan on this machine; return the time of each of its groups."""
    from autotune.cli.run_check import random_inputs
    from autotune.runtime.session.host_profile import host_profile
    from autotune.runtime.session.session import Session

    with Session(network, machine, dims=dims, plan=plan) as session:
        return host_profile(session, random_inputs(session, seed=0))

"""The first program table of a session: from the cache, or compiled by a plan or by rule.

Opening never searches and asks no cost model for a plan: search is a command of its own, and learning
from runs improves the first plan in the background.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import InputError, StoreError
from autotune.graph.graph import Graph
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits
from autotune.runtime.caches.program_files import shared_programs
from autotune.runtime.caches.table_cache import cached_table, table_key
from autotune.runtime.execution.collector_pause import pause_collector
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.native_table import Draft, WholeNetworks
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, SplitGroup
from autotune.runtime.session.building import build_or_split
from autotune.runtime.session.network_session import PlannedBy
from autotune.runtime.session.opening import OpenedGraph, open_model
from autotune.targets.device_set import DeviceSet
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice

if TYPE_CHECKING:  # a session that only runs takes none of their time to import
    from autotune.cost_model.model import CostModel
    from autotune.cost_model.shipped import Answer
    from autotune.runtime.builder.plan_build import Built
    from autotune.runtime.builder.trace import BuildTrace
    from autotune.store.store import Store


@dataclass(frozen=True, slots=True)
class InitialTable:
    """A session's first table, with all that learning goes on from.

    ``cache`` holds the programs compiled so far; ``model`` and ``records`` are None without learning.
    """

    table: ProgramTable
    planned_by: PlannedBy
    cache: ProgramCache = field(default_factory=shared_programs)
    model: CostModel | None = None
    borrowed: tuple[Event, ...] = ()
    """Says that ``model`` was trained on other machines, where it was."""
    records: Store | None = None
    owns_records: bool = False
    """Whether the store was opened for this, so that the session has to close it."""
    build: BuildTrace | None = None
    """What the build did; None for a table that was kept."""


def initial_table(
    network: OpenedGraph,
    target: Target,
    store: Store | Path | str | None,
    online: bool,
    limits: BuildLimits = NO_LIMITS,
) -> InitialTable:
    """Return the first table of a network: by its plan if it has one, else by rule, built within ``limits``.

    ``online`` opens the store and predicts every group by its cost model; a CPU that was never calibrated is predicted
    at typical costs, as live requests decide there. Raises ``AutotuneError`` where another target has no model.
    """
    if isinstance(target, DeviceSet):
        return InitialTable(_placed_table(network, target, online), PlannedBy.PLAN)
    planned_by = PlannedBy.HEURISTIC if network.plan is None else PlannedBy.PLAN
    cache = shared_programs()
    if not online:
        table, build = _table(network, target, cache, limits)
        return InitialTable(table, planned_by, cache, build=build)
    owns = store is None or isinstance(store, (Path, str))
    records = _opened(store)
    with ExitStack() as failing:
        if owns:
            failing.callback(records.close)
        answer = _answer(records, target)
        table, build = _table(network, target, cache, limits)
        table = _predicted(table, answer.model)
        failing.pop_all()  # the session closes it
    return InitialTable(
        table, planned_by, cache, answer.model, _borrowed(answer), records, owns, build
    )


def _answer(records: Store, target: Target) -> Answer:
    """Return the model that learning begins with."""
    try:
        return open_model(records, target)
    except StoreError:  # never calibrated, or by an older version
        if not isinstance(target, WholeNetworks):
            raise
        from autotune.cost_model.shipped import Answer, untrained_model

        return Answer(untrained_model(target.spec), target.name)


def _borrowed(answer: Answer) -> tuple[Event, ...]:
    model = answer.model
    if not (model.is_shared or model.is_typical):
        return ()
    figures = {"mape": model.held_out_error}
    return (Event(EventKind.BORROWED, 0, time.time(), answer.line, figures),)


def _opened(store: Store | Path | str | None) -> Store:
    from autotune.store.store import Store  # a database, for learning only

    return store if isinstance(store, Store) else Store.open(store)


def _predicted(table: ProgramTable, model: CostModel) -> ProgramTable:
    from autotune.runtime.online.learning import annotated

    return annotated(table, model, table.model_version)


def _table(
    network: OpenedGraph,
    target: Target,
    cache: ProgramCache,
    limits: BuildLimits,
    given: tuple[Choice, ...] | None = None,
) -> tuple[ProgramTable, BuildTrace | None]:
    """Build the table; where the target runs whole networks, take it from the cache if possible."""
    graph = network.graph
    builds: list[Built] = []

    def built(choices: Sequence[Choice], split: tuple[SplitGroup, ...]) -> Built:
        from autotune.runtime.builder.plan_build import build_plan  # not for a table that is kept

        found = build_plan(graph, choices, target, cache, limits)
        return found.with_split(split) if split else found

    def make() -> tuple[Draft | None, ProgramTable]:
        wanted = given or first_choices(network, target)
        builds.append(build_or_split(graph, wanted, target, built))
        return builds[0].draft, builds[0].table

    with pause_collector():
        if isinstance(target, WholeNetworks) and network.is_cached:
            key = table_key(graph, network.plan, target.spec)
            table = cached_table(key, graph, target, make)
        else:
            table = make()[1]
    return table, builds[0].trace if builds else None


def variant_table(
    graph: Graph,
    target: Target,
    choices: tuple[Choice, ...] | None,
    limits: BuildLimits,
    is_cached: bool,
) -> ProgramTable:
    """Build a variant of a network by its ``choices``; None means the heuristic plan, which is kept on disk where the
    network ``is_cached``."""
    network = OpenedGraph(graph, None, {}, is_cached and choices is None)
    return _table(network, target, shared_programs(), limits, choices)[0]


def _placed_table(network: OpenedGraph, devices: DeviceSet, online: bool) -> ProgramTable:
    """Return the table of a plan for several devices. Raises ``InputError`` without a plan, and for learning."""
    from autotune.runtime.devices.placed_table import placed_table  # most sessions have one device

    if network.plan is None:
        raise InputError(
            f"{network.graph.name}: several devices run by a plan; make one with "
            f"'autotune search NETWORK --devices {devices.name}'"
        )
    if online:
        raise InputError(
            f"{network.graph.name}: a session of several devices does not learn; leave online out"
        )
    choices = network.plan.choices(network.graph)
    return placed_table(network.graph, choices, devices, shared_programs())


def first_choices(network: OpenedGraph, target: Target) -> tuple[Choice, ...]:
    """Return the groups and schedules of a network's plan, or of the heuristic one."""
    if network.plan is not None:
        return network.plan.choices(network.graph)
    from autotune.runtime.caches.schedule_cache import cached_heuristic_plan  # fuses and tiles

    return cached_heuristic_plan(network.graph, target.spec)

"""What a session is opened with, checked and resolved: the network, its plans, the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.arguments import dims_of
from autotune.disk.file_stamp import FileStamp
from autotune.errors import InputError, PlanError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits, limits_of
from autotune.runtime.session.defaults import (
    choose_accuracy,
    choose_plan,
    choose_store,
    choose_target,
    ranges_of,
    resolve_model,
)
from autotune.runtime.session.out_of_range import OutOfRangePolicy
from autotune.targets.protocol import Target
from autotune.tuner.graph_plan import GraphPlan
from autotune.tuner.plan import Plan, is_plan

if TYPE_CHECKING:
    from autotune.graph.input_class import Classes
    from autotune.runtime.guards.assumptions import Assumptions
    from autotune.runtime.online.learning import OnlineOptions
    from autotune.store.store import Store


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A network, a machine and how to run one on the other.

    ``source`` is an ONNX file or a graph; ``plan`` is for ``target``.
    """

    source: Path | Graph
    target: Target
    store: Store | Path | str | None
    plan: Plan | None
    dims: Mapping[str, int]
    accuracy: Accuracy
    ranges: Ranges
    outside: OutOfRangePolicy
    online: bool
    options: OnlineOptions | None
    assume: Classes = field(default_factory=dict)
    """Classes of inputs that variants are built for."""
    limits: BuildLimits = NO_LIMITS
    stamp: FileStamp | None = None
    """What tells if the file is still the one that was opened; None for a graph."""
    is_part: bool = False
    """True for one graph of a network file: its table is kept on disk, as that of a whole file is."""
    rows_apart: bool = False
    """True for a graph of padded inputs: no algorithm may compute on several rows together."""

    def without_plan(self) -> OpenRequest:
        """Return the request for the same network by rule, without ranges, variants and learning."""
        return replace(
            self,
            plan=None,
            accuracy=self.accuracy if self.plan is None else self.plan.accuracy,
            ranges={},
            outside=OutOfRangePolicy.REFUSE,
            online=False,
            options=None,
            assume={},
        )

    def for_graph(
        self, graph: Graph, plan: GraphPlan | None, rows_apart: bool = False
    ) -> OpenRequest:
        """Return the request for one graph of the network, by its plan or by rule."""
        own = None
        if plan is not None:
            assert self.plan is not None, "it has the plan of the graph"
            own = replace(self.plan, graphs=(plan,))
        is_part = isinstance(self.source, Path)
        return replace(
            self,
            source=graph,
            plan=own,
            dims={},
            ranges={},
            is_part=is_part,
            rows_apart=rows_apart,
        )


def open_request(
    source: Path | str | Plan | Graph,
    target: Target | Path | str | None = None,
    store: Store | Path | str | None = None,
    online: bool = False,
    dims: Mapping[str, int] | None = None,
    *,
    plan: Plan | Path | str | None = None,
    options: OnlineOptions | None = None,
    threads: int | None = None,
    accuracy: Accuracy | str | None = None,
    ranges: Ranges | None = None,
    outside: OutOfRangePolicy | str = OutOfRangePolicy.REFUSE,
    assume: Assumptions | None = None,
    cores: int | None = None,
    memory: int | str | None = None,
) -> OpenRequest:
    """Check the arguments of a session and resolve names, files and defaults.

    Raises ``InputError`` for an argument of a wrong type and for ranges other than the plan's. Raises
    ``PlanError`` for a plan of another machine or of a network file that has changed.
    """
    given, policy = choose_plan(plan), OutOfRangePolicy.parse(outside)
    bound, limits, classes = dims_of(dims), ranges_of(ranges), _classes(assume)
    build = limits_of(cores, memory)
    machine = choose_target(target, source if given is None else given, threads)
    chosen, records = choose_accuracy(accuracy, machine.spec), choose_store(store)
    network, used, place = _resolve(source, given)
    if used is not None:
        used.check_target(machine.spec)
        _check_ranges(place, used, limits)
        limits = dict(used.ranges)
        if network is None or len(used.graphs) > 1:
            bound = bound or dict(used.dims)
    if network is None:
        assert used is not None, "it names the network"
        network = _network_file(used, place)
    return OpenRequest(
        network,
        machine,
        records,
        used,
        bound,
        chosen,
        limits,
        policy,
        online,
        options,
        classes,
        build,
        FileStamp.of(network) if isinstance(network, Path) else None,
    )


def _classes(assume: Assumptions | None) -> Classes:
    """Return the classes that a user states. Raises ``InputError`` for what is none."""
    if assume is None:
        return {}
    from autotune.runtime.guards.assumptions import classes_of

    return classes_of(assume)


def _resolve(
    source: Path | str | Plan | Graph, plan: Plan | None
) -> tuple[Path | Graph | None, Plan | None, str]:
    """Return the network (None where the plan names it), the plan, and the plan's name in errors."""
    if isinstance(source, Graph):
        return source, plan, "plan"
    if isinstance(source, Plan):
        return None, source, "plan"
    path = resolve_model(source)
    return (None, choose_plan(path), str(path)) if is_plan(path) else (path, plan, "plan")


def _network_file(plan: Plan, place: str) -> Path:
    if plan.network_file is None:
        raise PlanError(
            f"{place}: names no network file; make it with 'autotune search', or open the network "
            "and give both: Session(graph, plan=plan)"
        )
    return plan.network_file.check()


def _check_ranges(place: str, plan: Plan, ranges: Ranges) -> None:
    """Refuse ranges that differ from those that a plan was made for."""
    if ranges and dict(ranges) != dict(plan.ranges):
        raise InputError(
            f"{place}: was made for the ranges {dict(plan.ranges)}, got {dict(ranges)}; leave them "
            "out, or search again with others"
        )

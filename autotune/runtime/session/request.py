"""What a session is opened with, checked and resolved: the network, its plans, the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.arguments import dims_of
from autotune.errors import InputError, PlanError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges
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
from autotune.tuner.plan import Plan, is_plan
from autotune.tuner.plan_tree import PlanTree

if TYPE_CHECKING:
    from autotune.runtime.online.learning import OnlineOptions
    from autotune.store.store import Store


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A network, a machine and how to run one on the other.

    ``source`` is an ONNX file or a graph. ``plans`` are those of its graphs, all for ``target``.
    ``is_static`` is True for a graph and for the plan of one, False for the plans of a tree, and
    None where only the ONNX file can tell.
    """

    source: Path | Graph
    target: Target
    store: Store | Path | None
    plans: tuple[Plan, ...]
    dims: Mapping[str, int]
    accuracy: Accuracy
    ranges: Ranges
    outside: OutOfRangePolicy
    online: bool
    options: OnlineOptions | None
    is_static: bool | None

    @property
    def plan(self) -> Plan | None:
        """The plan of a network that is one graph. Raises ``InputError`` for plans of a tree."""
        if len(self.plans) > 1:
            file = self.plans[0].network_file
            raise InputError(
                f"the plans of {'a network' if file is None else file.path} are for a network with "
                "control flow; open that"
            )
        return self.plans[0] if self.plans else None

    def without_plan(self) -> OpenRequest:
        """Return the request for the same network by rule, without ranges and learning."""
        return replace(
            self,
            plans=(),
            accuracy=self.plans[0].accuracy if self.plans else self.accuracy,
            ranges={},
            outside=OutOfRangePolicy.REFUSE,
            online=False,
            options=None,
            is_static=True if isinstance(self.source, Graph) else None,
        )

    def for_graph(self, graph: Graph, plan: Plan | None) -> OpenRequest:
        """Return the request for one graph of the network, by its plan or by rule."""
        plans = () if plan is None else (plan,)
        return replace(self, source=graph, plans=plans, dims={}, ranges={}, is_static=True)


def open_request(
    source: Path | str | Plan | Graph,
    target: Target | Path | str | None = None,
    store: Store | Path | str | None = None,
    online: bool = False,
    dims: Mapping[str, int] | None = None,
    *,
    plan: Plan | PlanTree | Path | str | None = None,
    options: OnlineOptions | None = None,
    threads: int | None = None,
    accuracy: Accuracy | str | None = None,
    ranges: Ranges | None = None,
    outside: OutOfRangePolicy | str = OutOfRangePolicy.REFUSE,
) -> OpenRequest:
    """Check the arguments of a session and resolve names, files and defaults.

    Raises ``InputError`` for an argument of a wrong type and for ranges that are not those of the
    plan, ``PlanError`` for a plan of another machine or of a network file that has changed.
    """
    given, policy = choose_plan(plan), OutOfRangePolicy.parse(outside)
    bound, limits = dims_of(dims), ranges_of(ranges)
    machine = choose_target(target, source if given is None else given, threads)
    chosen, records = choose_accuracy(accuracy, machine.spec), choose_store(store)
    network, found, place = _resolve(source, given)
    plans = () if found is None else found.plans if isinstance(found, PlanTree) else (found,)
    for one in plans:
        one.check_target(machine.spec)
    if isinstance(found, Plan):
        _check_ranges(place, found, limits)
        limits = dict(found.ranges)
    is_static = True if isinstance(network, Graph) else None
    if network is None:
        assert found is not None, "it names the network"
        network, is_static = _network_file(found, place), isinstance(found, Plan)
        bound = bound or dict(found.dims)
    elif isinstance(found, PlanTree):
        bound = bound or dict(found.dims)
    return OpenRequest(
        network, machine, records, plans, bound, chosen, limits, policy, online, options, is_static
    )


def _resolve(
    source: Path | str | Plan | Graph, plan: Plan | PlanTree | None
) -> tuple[Path | Graph | None, Plan | PlanTree | None, str]:
    """Return the network (None where the plan names it), the plan, and the plan's name in errors."""
    if isinstance(source, Graph):
        return source, plan, "plan"
    if isinstance(source, Plan):
        return None, source, "plan"
    path = resolve_model(source)
    return (None, choose_plan(path), str(path)) if is_plan(path) else (path, plan, "plan")


def _network_file(plan: Plan | PlanTree, place: str) -> Path:
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

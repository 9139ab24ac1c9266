"""Sessions over networks whose shapes, or whose control flow, only a run decides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.arguments import dims_of
from autotune.errors import AutotuneError, InputError, ModelError
from autotune.frontend.control.flow import has_control
from autotune.frontend.host_integers import needs_host
from autotune.frontend.model_file import open_axes, peek_model
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.note import Note
from autotune.graph.ranges import Ranges
from autotune.operators.axes import Layout
from autotune.operators.interval_rules import Interval
from autotune.runtime.execution.event import Event
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.io_adapter import as_array, of_type
from autotune.runtime.execution.ownership import owned
from autotune.runtime.execution.profiler import GroupProfile, PairProfile
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.signature import TensorInfo, arrays_by_name, tensors_of_model
from autotune.runtime.online.learning import OnlineOptions
from autotune.runtime.session.control.binding import bound_model, unusual_types
from autotune.runtime.session.defaults import (
    choose_accuracy,
    choose_plan,
    choose_store,
    choose_target,
    resolve_model,
)
from autotune.runtime.session.initial_table import PlannedBy
from autotune.runtime.session.out_of_range import OutOfRangePolicy
from autotune.runtime.session.part import Part, Runs, parts_of
from autotune.runtime.session.session import Session
from autotune.runtime.session.version_table import Version
from autotune.runtime.session.versions import Line, Versions
from autotune.targets.protocol import Target
from autotune.tuner.plan import Plan
from autotune.tuner.plan_tree import PlanTree, is_plan_tree

if TYPE_CHECKING:
    from autotune.store.store import Store


def is_dynamic(path: Path, dims: Mapping[str, int]) -> bool:
    """Return True if an ONNX file leaves dimensions open that ``dims`` does not bind, has control flow
    or integers that only numpy computes, or if a file holds plans for such a network."""
    if is_plan_tree(path):
        return True
    model = peek_model(path)
    stored = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in stored]
    symbols = {symbol for value in values for symbol in open_axes(value).values()}
    return has_control(model) or not symbols <= dims.keys() or needs_host(model)


class DynamicSession(Session):
    """What ``Session`` opens for an ONNX file with dimensions that ``dims`` leaves open, or with
    control flow.

    A run binds open dimensions by the arrays that it is given. For every new binding the network is
    specialised: imported, planned and compiled by a session of its own; ``VERSIONS_KEPT`` of them
    are kept, the one that was not used for longest goes first. Control flow is a tree: each straight
    piece and each body is a network of its own, with versions of its own. A plan, or the
    plans of a tree, are for the versions whose networks they were made for; the others are planned as
    a session without a plan is.

    Raises ``ModelError`` for a bad network, as far as that is known before shapes are.
    """

    def __init__(
        self,
        source: Path | str,
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
    ) -> None:
        OutOfRangePolicy.parse(
            outside
        )  # for the session's sake: without ranges nothing is outside of them
        if ranges:
            raise InputError(
                f"{source}: ranges are for a network whose shapes and operators are known before it "
                "runs; bind its dimensions (dims), or open it without ranges"
            )
        plan = choose_plan(plan)
        self.target = choose_target(target, source if plan is None else plan, threads)
        path, dims, plans = _opened(resolve_model(source), dims_of(dims), plan)
        self.path = path
        self._store, self._online, self._options = choose_store(store), online, options
        self._plans, self._accuracy = plans, choose_accuracy(accuracy, self.target.spec)
        for one in plans:
            one.check_target(self.target.spec)
            if one.ranges:
                raise InputError(
                    f"{path}: the plan is for inputs in ranges, which need a network whose shapes and "
                    "operators are known before it runs; bind its dimensions (dims), or search "
                    "without ranges"
                )
        self._runs = Runs()
        self._closed = False
        self.model = bound_model(self.path, dims)
        self._unusual = unusual_types(self.model)
        try:
            self._versions = Versions(self.model, self._opened_graph, self.path.stem)
            self._versions.prepare()
        except ModelError as error:
            raise ModelError(f"{self.path}: {error}") from None

    @property
    def ranges(self) -> Mapping[str, Interval]:
        """None: they need a network that is known before it runs."""
        return {}

    def _opened_graph(self, graph: Graph) -> Part:
        plan = next((one for one in self._plans if _is_for(one, graph, self.target)), None)
        session = Session(
            graph,
            self.target,
            self._store,
            self._online,
            plan=plan,
            options=self._options,
            accuracy=self._accuracy,
        )
        return Part(session, self._runs)

    @property
    def _name(self) -> str:
        """Name of the network."""
        return self.path.stem

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every input; open dimensions by their names."""
        stored = {tensor.name for tensor in self.model.graph.initializer}
        return tensors_of_model(x for x in self.model.graph.input if x.name not in stored)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every output, as far as the file declares them."""
        return tensors_of_model(self.model.graph.output)

    def run(self, *inputs: Any, **named: Any) -> dict[str, npt.NDArray[Any]]:
        """Run the network once, at the shapes of these arrays; a sequence is a list of arrays.

        ``inputs`` is one mapping of arrays by input name, or the arrays in the order of
        ``session.inputs``; ``named`` gives arrays by keyword. Raises ``InputError`` for a wrong name,
        rank or element type and for extents that contradict the network or each other,
        ``ModelError`` for a network that cannot be had at these shapes.
        """
        if self._closed:
            raise AutotuneError(f"{self.path.stem}: the session is closed; open another")
        infos = self.inputs
        sequences = {info.name for info in infos if info.dtype is None}
        given: dict[str, Any] = {
            x: y
            if y is None or (isinstance(y, list) and x in sequences)
            else as_array(self.path.stem, x, y)
            for x, y in arrays_by_name(self.path.stem, infos, inputs, named).items()
        }
        for name, dtype in self._unusual.items():
            if isinstance(given.get(name), np.ndarray):
                given[name] = of_type(given[name], dtype)
        with self._runs:
            return owned(self._versions.run(given), given)

    def traced_run(
        self, inputs: Mapping[str, npt.NDArray[np.generic]]
    ) -> tuple[dict[str, npt.NDArray[Any]], RunTrace]:
        """``run``, and the cost of the run that finished last."""
        return self.run(inputs), self.last_run

    @property
    def newest(self) -> Version:
        """The version that was used last. Raises ``AutotuneError`` before the first."""
        held = self._versions.held
        if not held:
            raise AutotuneError(f"{self.path.stem}: no shapes are known yet; call run() first")
        return held[-1]

    @property
    def parts(self) -> Mapping[str, Session]:
        """The sessions at hand by the name of what they run: one for each version of the network,
        or of each piece and body of its control flow."""
        found: dict[str, Session] = {}
        for version in self._versions.held:
            for part in parts_of(version):
                name, number = part.graph.name, 2
                while name in found:
                    name, number = f"{part.graph.name} ({number})", number + 1
                found[name] = part.session
        return found

    def part_inputs(
        self, inputs: Mapping[str, npt.NDArray[np.generic]]
    ) -> Mapping[str, Mapping[str, npt.NDArray[np.generic]]]:
        """What each part that a run on these inputs reaches gets in it, the first time where that is
        several times: runs the network once more."""
        with self._runs.watched() as fed:
            self.run(inputs)
        return {name: fed[id(part)] for name, part in self.parts.items() if id(part) in fed}

    @property
    def notes(self) -> tuple[Note, ...]:
        """Control flow that was folded in the newest version."""
        return self.newest.notes

    @property
    def graph(self) -> Graph:
        """The network as the newest version has it. Raises ``AutotuneError`` where that is a tree."""
        return self._only().graph

    @property
    def table(self) -> ProgramTable:
        """The program table of the newest version. Raises ``AutotuneError`` where that is a tree."""
        return self._only().table

    def _only(self) -> Session:
        version = self.newest
        if isinstance(version, Line) and isinstance(version.programs, Part):
            return version.programs.session
        raise AutotuneError(
            f"{self.path.stem}: is not one graph at these shapes; see the parts of the session"
        )

    @property
    def last_run(self) -> RunTrace:
        """What the run that finished last cost: all groups, as often as they ran."""
        last = self._runs.last
        if last is None:
            raise AutotuneError(f"{self.path.stem}: nothing was run yet; call run() first")
        return last

    @property
    def planned_by(self) -> PlannedBy:
        """Where the plans of the parts at hand come from: the least that all of them are."""
        sources = {part.planned_by for part in self.parts.values()}
        order = (PlannedBy.HEURISTIC, PlannedBy.PLAN, PlannedBy.LEARNING)
        return next((one for one in order if one in sources), PlannedBy.HEURISTIC)

    @property
    def events(self) -> tuple[Event, ...]:
        """What online learning did in all parts, those that have gone included, oldest first."""
        gone = self._runs.told  # first, so that a part that goes now is not told of twice
        here = [event for part in self.parts.values() for event in part.events]
        return tuple(sorted([*gone, *here], key=lambda event: event.at_seconds))

    def profile(self) -> tuple[GroupProfile, ...]:
        """Runs, mean cost and prediction of every group of every part at hand."""
        return tuple(row for part in self.parts.values() for row in part.profile())

    def profile_pairs(self) -> tuple[PairProfile, ...]:
        """Groups of one part that run one after the other."""
        return tuple(row for part in self.parts.values() for row in part.profile_pairs())

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when every finished run of every part has been learned from."""
        for part in self.parts.values():
            part.wait_idle(timeout_seconds)

    def close(self) -> None:
        """Close all parts. Closing again does nothing."""
        self._closed = True
        self._versions.close()


def _opened(
    source: Path, dims: Mapping[str, int], plan: Plan | PlanTree | None
) -> tuple[Path, Mapping[str, int], tuple[Plan, ...]]:
    """The network file meant, the dimensions that are bound, and the plans at hand."""
    if is_plan_tree(source):
        tree = PlanTree.load(source)
        return tree.network_file.check(), dims or tree.dims, tree.plans
    if isinstance(plan, PlanTree):
        return source, dims or plan.dims, plan.plans
    return source, dims, () if plan is None else (plan,)


def _is_for(plan: Plan, graph: Graph, target: Target) -> bool:
    """Whether a plan was made for a graph as a session runs it."""
    run = simplify(graph, Layout(target.spec.layout), plan.accuracy).graph
    return run.fingerprint == plan.fingerprint

"""Sessions over networks whose shapes, or whose control flow, only a run decides."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from time import perf_counter, perf_counter_ns, time
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.disk.file_stamp import FileStamp, now_ns
from autotune.errors import AutotuneError, InputError, ModelError
from autotune.frontend import importing
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.note import Note
from autotune.operators.axes import Layout
from autotune.operators.interval import Interval
from autotune.runtime.caches.padded_cache import PaddedCache
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.io_adapter import as_array, of_type
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.ownership import owned
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.random_inputs import draw_array
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.execution.signature import TensorInfo, tensors_of_model
from autotune.runtime.guards.assumptions import check_names
from autotune.runtime.guards.variant import VariantStatus
from autotune.runtime.online.program_room import hold_programs
from autotune.runtime.profile.group_profile import GroupProfile, PairProfile
from autotune.runtime.profile.registry import registry
from autotune.runtime.profile.session_profile import SessionProfile
from autotune.runtime.session.buckets import Buckets
from autotune.runtime.session.compile_queue import CompileQueue
from autotune.runtime.session.control.binding import unusual_types
from autotune.runtime.session.control.tree_runner import TreeRunner
from autotune.runtime.session.control.version_table import Version
from autotune.runtime.session.control.versions import GraphVersion, Runnable, Versions
from autotune.runtime.session.exploration import drawn_inputs
from autotune.runtime.session.graph_session import GraphSession
from autotune.runtime.session.network_session import Arrays, NetworkSession, PlannedBy
from autotune.runtime.session.open_dims import OpenDims
from autotune.runtime.session.part import Runs, SessionPart
from autotune.runtime.session.request import OpenRequest
from autotune.runtime.session.session_status import register
from autotune.runtime.session.shape_sharing import share_shapes
from autotune.runtime.session.tiered_part import TieredPart, parts_of
from autotune.targets.protocol import Target
from autotune.tuner.graph_plan import GraphPlan
from autotune.tuner.plan import Plan

NEW_SHAPES = 4
"""New shapes in a row, without one that came again, after which a shape is compiled at its second run."""


class DynamicSession:
    """Runs a network whose dimensions are open, or which has control flow.

    A run binds open dimensions by the arrays that it is given. For every new binding the network is
    specialised: imported, planned and compiled by a session of its own; ``VERSIONS_KEPT`` of them
    stay, the least recently used goes first. No run waits for the compiler: numpy answers until the
    programs of a binding are there (``TieredPart``); ``traced_run``, which is for costs, waits. On this CPU
    padded inputs run by buckets too, and a decoder's steps have their programs when the session is open. Elsewhere
    a decoder's steps stay with numpy: after ``NEW_SHAPES`` only what comes again is compiled. Control flow is a tree: each straight piece and each body is a network of its own,
    with versions of its own. Plans run the versions whose graphs they were made for; other versions are
    planned by rule.

    Raises ``ModelError`` for a bad network, as far as that is known before shapes are, and
    ``InputError`` for ranges: they require static shapes.
    """

    def __init__(self, request: OpenRequest) -> None:
        assert isinstance(request.source, Path), "a graph has no open dimensions"
        _check_ranges(request)
        self._request = request
        self.target: Target = request.target
        self.path, self._name = request.source, request.source.stem
        self._runs = Runs()
        self._queue = CompileQueue(self.name)
        self._proofs = CompileQueue(self.name)
        """Apart from the compiler: what is proved runs by numpy at once, without import."""
        self.history = SessionProfile(self.target.spec.profile_id)
        self._closed = False
        began, stamp = now_ns(), FileStamp.of(self.path)
        self.model = importing.open_network(self.path, request.dims)
        check_names(self.name, [value.name for value in self.model.inputs], request.assume)
        self._unusual = unusual_types(self.model.inputs)
        try:
            self._versions = Versions(self.model, self._part, self.name, TreeRunner)
            with self._runs.patient():
                self._versions.prepare()
        except ModelError as error:
            raise ModelError(f"{self.path}: {error}") from None
        self._sequences = {info.name for info in self.inputs if info.dtype is None}
        self._dims = OpenDims.of(self.model, request.dims)
        is_settled = stamp is not None and stamp.settled(began)
        self._new_shapes = 0
        self._buckets = self._opened_buckets(stamp if is_settled else None)
        if self._buckets is not None:
            self._buckets.prepare_steps()
        register(self)

    def _opened_buckets(self, stamp: FileStamp | None) -> Buckets | None:
        """What runs new shapes on padded inputs; None without open dimensions, and on emulated machines: padding
        costs cycles there, and shapes share programs by dispatch. Proofs are kept by the file's ``stamp``."""
        if self._dims is None or not isinstance(self.target, WholeNetworks):
            return None
        queues = self._proofs, self._queue
        weights = self.model.weights.data
        kept = None if stamp is None else PaddedCache(stamp, self._request.dims, weights)
        return Buckets(self.model, self.name, self._dims, self._padded, queues, self._runs, kept)

    def _part(self, graph: Graph) -> Runnable:
        """One graph: compiled in the background, or at once where the caller is patient."""
        return self._open_part(graph) if self._runs.is_patient else self._tiered(graph)

    def _tiered(self, graph: Graph) -> TieredPart:
        return TieredPart(graph, self._open_part, self._queue, self._runs)

    def _padded(self, graph: Graph) -> TieredPart:
        """One graph of padded inputs, in whose padding anything may come up."""
        part = partial(self._open_part, rows_apart=True)
        return TieredPart(graph, part, self._queue, self._runs)

    def _open_part(self, graph: Graph, rows_apart: bool = False) -> SessionPart:
        request, plan = self._request, None
        if request.plan is not None:
            plan = _plan_of(request.plan, graph, self.target, rows_apart)
        began = perf_counter()
        session = GraphSession(request.for_graph(graph, plan, rows_apart), history=self.history)
        self._hold(session, perf_counter() - began)
        others = (
            part.session for version in self._versions.held for part in parts_of(version, False)
        )
        self._runs.tell(share_shapes([*(x for x in others if x.name == session.name), session]))
        return SessionPart(session, self._runs)

    def _hold(self, session: GraphSession, seconds: float) -> None:
        """Count the memory of a part's programs, which took so long to make; others of the process may have to go for it."""
        hold_programs(self, session, seconds, lambda x: x.runs, DynamicSession._give_up)

    def _give_up(self, session: GraphSession) -> None:
        """Let a bucket or the version of a shape go; its next run is that of a new shape. Pieces and bodies of control flow stay."""

        def is_it(version: Version) -> bool:
            parts = parts_of(version, wait=False) if isinstance(version, GraphVersion) else ()
            return any(part.session is session for part in parts)

        in_bucket = self._buckets is not None and self._buckets.give_up(session)
        if in_bucket or self._versions.give_up(is_it):
            text = f"{session.name}: programs of one shape give way: memory is short"
            self._runs.tell([Event(EventKind.FREED, 0, time(), text, {})])

    @property
    def name(self) -> str:
        """Name of the network."""
        return self._name

    @property
    def is_online(self) -> bool:
        """True if the parts learn from their runs."""
        return self._request.online

    @property
    def is_closed(self) -> bool:
        """True once ``close`` was called."""
        return self._closed

    @property
    def ranges(self) -> Mapping[str, Interval]:
        """Always empty: input ranges require static shapes."""
        return {}

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every input; open dimensions by their names."""
        return tensors_of_model(self.model.inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every output, as far as the file declares them."""
        return tensors_of_model(self.model.outputs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Run the network once, at the shapes of these arrays; a sequence is a list of arrays.

        Raises ``InputError`` for a wrong name, rank or element type and for extents that contradict
        the network or each other, ``ModelError`` for a network that cannot be specialised to these
        shapes.
        """
        began = perf_counter_ns()
        if self._closed:
            raise AutotuneError(f"{self.name}: the session is closed; open another")
        fed: dict[str, Any] = {
            x: y
            if type(y) is np.ndarray or y is None or (isinstance(y, list) and x in self._sequences)
            else as_array(self.name, x, y)
            for x, y in inputs.items()
        }
        for name, dtype in self._unusual.items():
            if isinstance(fed.get(name), np.ndarray):
                fed[name] = of_type(fed[name], dtype)
        with self._runs:
            outputs = self._answer(fed)
        self.history.record_parts(self._runs.traces, began, perf_counter_ns())
        return outputs

    def _answer(self, fed: dict[str, Any]) -> dict[str, Any]:
        """Run the programs of these shapes; those of a bucket that holds them; or numpy. Outputs are
        the caller's."""
        extents = None
        if self._buckets is not None and not self._runs.is_patient:
            assert self._dims is not None, "buckets have some"
            extents = self._dims.extents(fed)  # a version refuses what does not fit
        if self._buckets is None or extents is None or self._is_compiled(fed):
            with self._runs.deferred(self._is_growing(fed)):
                return owned(self._versions.run(fed), fed)
        is_served = self._buckets.note(extents)
        found = self._buckets.find(extents) if is_served else None
        if is_served and found is None and self._versions.peek(fed) is None:
            self._buckets.wait_proof(extents)
            found = self._buckets.find(extents)
        if found is not None:
            part, extent = found
            with suppress(InputError):  # it may bound sums over padding, which the inputs have not
                is_compiled = (
                    part.is_compiled
                )  # programs give arrays of their own, or parts of them
                made = part.run(fed, extent)
                return made if is_compiled else owned(made, fed)
        with self._runs.deferred(is_served):
            return owned(self._versions.run(fed), fed)

    def _is_growing(self, fed: dict[str, Any]) -> bool:
        """Return True where shapes keep being new, as those of a decoder's cache: programs of one would be ready
        when it is over, and making them takes time from the next. Threads need not agree on the count."""
        if self._dims is None or self._buckets is not None:
            return False
        self._new_shapes = self._new_shapes + 1 if self._versions.peek(fed) is None else 0
        return self._new_shapes > NEW_SHAPES

    def _is_compiled(self, fed: dict[str, Any]) -> bool:
        version = self._versions.peek(fed)
        return version is not None and next(parts_of(version, wait=False), None) is not None

    def traced_run(self, inputs: Arrays) -> tuple[dict[str, npt.NDArray[Any]], RunTrace]:
        """Run the network once; return its outputs and the cost of this thread's run. Waits for
        programs."""
        with self._runs.patient():
            outputs = self.run(inputs)
        return outputs, self._runs.own

    def serving(self, inputs: Arrays) -> NetworkSession:
        """Return this session: it runs all inputs."""
        return self

    def reference_outputs(self, inputs: Arrays) -> dict[str, Any]:
        """Return the outputs that the numpy reference computes, by name."""
        return Versions(self.model, ReferenceSession, self.name, TreeRunner).run(inputs)

    def draw_inputs(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return random inputs of the declared types.

        Raises ``InputError`` for an open dimension and for an input that is no tensor.
        """
        return drawn_inputs(self.model, lambda kind: draw_array(kind, rng))

    @property
    def newest(self) -> Version:
        """The version that was used last. Raises ``AutotuneError`` before the first."""
        held = self._versions.held
        if not held:
            raise AutotuneError(f"{self.name}: no shapes are known yet; call run() first")
        return held[-1]

    @property
    def parts(self) -> Mapping[str, NetworkSession]:
        """The sessions at hand by the name of what they run: one for each version of the network,
        or of each piece and body of its control flow. Compiles what is not compiled yet."""
        return self._parts(wait=True)

    def _parts(self, wait: bool) -> Mapping[str, NetworkSession]:
        found: dict[str, NetworkSession] = {}
        for version in self._versions.held:
            for part in parts_of(version, wait):
                name, number = part.graph.name, 2
                while name in found:
                    name, number = f"{part.graph.name} ({number})", number + 1
                found[name] = part.session
        return found

    def part_inputs(self, inputs: Arrays) -> Mapping[str, Arrays]:
        """What each part that a run on these inputs reaches gets in it, the first time where that is
        several times: runs the network once more."""
        with self._runs.patient(), self._runs.watched() as fed:
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

    @property
    def tables(self) -> tuple[ProgramTable, ...]:
        """The program tables of all parts that are compiled."""
        return tuple(part.table for part in self._parts(wait=False).values())

    def _only(self) -> GraphSession:
        version = self.newest
        if isinstance(version, GraphVersion):
            for part in parts_of(version, wait=True):
                return part.session
        raise AutotuneError(
            f"{self.name}: is not one graph at these shapes; see the parts of the session"
        )

    @property
    def last_run(self) -> RunTrace:
        """What the run that finished last cost: all groups, as often as they ran."""
        last = self._runs.last
        if last is None:
            raise AutotuneError(f"{self.name}: nothing was run yet; call run() first")
        return last

    @property
    def planned_by(self) -> PlannedBy:
        """Where the plans of the parts at hand come from: the least that all of them are."""
        sources = {part.planned_by for part in self._parts(wait=False).values()}
        order = (PlannedBy.HEURISTIC, PlannedBy.PLAN, PlannedBy.LEARNING)
        return next((one for one in order if one in sources), PlannedBy.HEURISTIC)

    @property
    def variants(self) -> tuple[VariantStatus, ...]:
        """The variants of all compiled parts."""
        parts = self._parts(wait=False).values()
        return tuple(variant for part in parts for variant in part.variants)

    @property
    def events(self) -> tuple[Event, ...]:
        """What online learning did in all parts, those that have gone included, oldest first."""
        gone = self._runs.told  # first, so that a part that goes now is not told of twice
        here = [event for part in self._parts(wait=False).values() for event in part.events]
        return tuple(sorted([*gone, *here], key=lambda event: event.at_seconds))

    def graph_plans(self) -> tuple[GraphPlan, ...]:
        """The plans of all parts that are compiled, of padded shapes as well."""
        padded = () if self._buckets is None else self._buckets.compiled
        sessions = (*self._parts(wait=False).values(), *(part.session for part in padded))
        return tuple(plan for session in sessions for plan in session.graph_plans())

    def profile(self) -> tuple[GroupProfile, ...]:
        """Executions, cost, origin and resources of every group, of parts that have gone as well."""
        return self.history.rows()

    def profile_pairs(self) -> tuple[PairProfile, ...]:
        """Groups that follow each other or pass data, within a part or from one to the next."""
        return self.history.pairs()

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when all shapes that were run are compiled, and every finished run of every part
        has been learned from."""
        for queue in (self._proofs, self._queue):
            queue.wait(timeout_seconds)
        for part in self._parts(wait=False).values():
            part.wait_idle(timeout_seconds)

    def close(self) -> None:
        """Close all parts. Closing again does nothing. Raises ``AutotuneError`` when the learning of one failed, after all
        are closed."""
        self._closed = True
        self._queue.close()
        with ExitStack() as closing:
            closing.callback(registry().close, self.history)
            closing.callback(self._versions.close)
            if self._buckets is not None:
                closing.callback(self._buckets.close)


def _check_ranges(request: OpenRequest) -> None:
    """Raise ``InputError`` for ranges, given or of a plan."""
    if request.plan is not None and request.plan.ranges:
        raise InputError(
            f"{request.source}: the plan is for inputs in ranges, which need a network whose shapes "
            "and operators are known before it runs; bind its dimensions (dims), or search without "
            "ranges"
        )
    if request.ranges:
        raise InputError(
            f"{request.source}: ranges are for a network whose shapes and operators are known before "
            "it runs; bind its dimensions (dims), or open it without ranges"
        )


def _plan_of(plan: Plan, graph: Graph, target: Target, rows_apart: bool) -> GraphPlan | None:
    """Return the plan that was made for a graph as a session runs it; None if there is none."""
    spec = target.spec
    run = simplify(
        graph,
        Layout(spec.layout),
        plan.accuracy,
        formats=plan.formats_on(spec),
        rows_apart=rows_apart,
    ).graph
    return next((one for one in plan.graphs if one.fingerprint == run.fingerprint), None)

"""``autotune.Session``: a network that runs on a machine, as users hold it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from autotune.display import Card, Displayed
from autotune.errors import AutotuneError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges
from autotune.operators.interval import Interval
from autotune.runtime.execution.collector_pause import collect_before_requests
from autotune.runtime.execution.event import Event
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.signature import TensorInfo, arrays_by_name
from autotune.runtime.profile.group_profile import GroupProfile, PairProfile
from autotune.runtime.profile.session_profile import SessionProfile
from autotune.runtime.profile.status import SessionStatus
from autotune.runtime.session.factory import open_session
from autotune.runtime.session.network_session import Arrays, NetworkSession, PlannedBy
from autotune.runtime.session.out_of_range import OutOfRangePolicy
from autotune.runtime.session.request import open_request
from autotune.runtime.session.session_status import status_of
from autotune.targets.protocol import Target
from autotune.tuner.graph_plan import GraphPlan
from autotune.tuner.plan import Plan

if TYPE_CHECKING:  # a session that runs by a plan takes none of their time to import
    from autotune.runtime.guards.assumptions import Assumptions
    from autotune.runtime.guards.variant import VariantStatus
    from autotune.runtime.online.learning import OnlineOptions
    from autotune.store.store import Store


class Session(Displayed):
    """Runs a network. Safe to use from several threads, and a context manager.

    ``source`` is an ONNX file, a plan file, the name of a shipped network, a ``Plan`` or a ``Graph``.
    ``target`` is a name, a spec file or an open target; None is the machine of the plan, or else
    this CPU (``cpu``), on which ``threads`` sets the number of threads (None: one per core).

    ``plan`` (or its file) runs a network by a plan; without one, every target runs by the heuristic
    plan, and ``planned_by`` says so. Opening never searches. ``store`` (None: the user's) is opened
    for ``online`` learning, which ``options`` tune.

    ``dims`` binds symbolic dimensions by name. A network with open dimensions or control flow is
    specialised to the arrays of each run: imported, planned and compiled for every new binding, of
    which the newest stay. Plans run the graphs that they were made for; other graphs are planned as
    without a plan.

    ``accuracy`` is ``exact``, ``close`` or ``fast`` (None: ``close`` on this CPU, ``exact``
    elsewhere): ``close`` and ``fast`` allow algorithms that round more. ``ranges`` are the least and
    the largest number by input; passes remove operators without effect on such inputs. Every run
    checks the ranges: other inputs are refused, or with ``outside="general"`` run by the network
    without ranges. A plan brings its own accuracy and ranges.

    ``assume`` names classes of inputs that are frequent: ``{"attention_mask": "ones"}``, ``"zeros"``, a
    number, ``(least, largest)`` or an array; or a list of example inputs. A variant is built without what has no
    effect on such inputs. A guard checks every run, and other inputs run by the general program.

    ``cores`` bounds the threads that build programs (None: all), ``memory`` the bytes of this process
    while it builds (a number, or a text such as ``4GiB``; None: any). ``status().builds`` tells what
    was built. A build that exceeds the memory is refused.

    Raises ``PlanError`` for a plan of another machine or network, ``ModelError`` for a bad network and
    ``InputError`` for an argument of a wrong type. ``AutotuneError`` says that a cost model of this CPU
    is needed, which was never calibrated.
    """

    def __init__(
        self,
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
    ) -> None:
        with collect_before_requests() if online else nullcontext():
            self._request = open_request(
                source,
                target,
                store,
                online,
                dims,
                plan=plan,
                options=options,
                threads=threads,
                accuracy=accuracy,
                ranges=ranges,
                outside=outside,
                assume=assume,
                cores=cores,
                memory=memory,
            )
            self._network: NetworkSession = open_session(self._request)

    def run(self, *inputs: Any, **named: Any) -> dict[str, npt.NDArray[Any]]:
        """Run the network once and return its outputs by name, in the network's element types.

        ``inputs`` is one mapping of arrays by input name, or the arrays in the order of
        ``session.inputs``; ``named`` gives arrays by keyword. A sequence is a list of arrays. Uses
        the program table that is current now.

        Raises ``InputError`` for a wrong name, shape or element type. Extents that contradict each
        other and integers beyond the proved exact ones are ``InputError`` too. ``ModelError`` says
        that the network cannot be specialised to these shapes, ``AutotuneError`` that the session
        is closed.
        """
        if len(inputs) == 1 and not named and type(inputs[0]) is dict:  # the usual call
            return self._network.run(inputs[0])
        return self._network.run(arrays_by_name(self.name, self.inputs, inputs, named))

    def traced_run(self, inputs: Arrays) -> tuple[dict[str, npt.NDArray[Any]], RunTrace]:
        """Run the network once; return its outputs and the cost of this very run."""
        return self._network.traced_run(inputs)

    def serving(self, inputs: Arrays) -> NetworkSession:
        """Return the session that runs these inputs: this one, or a fallback for inputs outside of
        their ranges or for integers that programs cannot hold.

        Raises ``AutotuneError`` for a closed session.
        """
        other = self._network.serving(inputs)
        return self if other is self._network else other

    def reference_outputs(self, inputs: Arrays) -> dict[str, Any]:
        """Return the outputs that the numpy reference computes, by name."""
        return self._network.reference_outputs(inputs)

    def draw_inputs(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return random inputs within their ranges.

        Raises ``InputError`` for an open dimension and for an input that is no tensor.
        """
        return self._network.draw_inputs(rng)

    @property
    def name(self) -> str:
        """Name of the network."""
        return self._network.name

    @property
    def target(self) -> Target:
        """Machine that runs the network."""
        return self._network.target

    @property
    def is_online(self) -> bool:
        """True if the session learns from its runs."""
        return self._network.is_online

    @property
    def is_closed(self) -> bool:
        """True once ``close`` was called."""
        return self._network.is_closed

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every input; open dimensions by their names."""
        return self._network.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every output, as far as the file declares them."""
        return self._network.outputs

    @property
    def ranges(self) -> Mapping[str, Interval]:
        """Bounds that the inputs must stay within, for inputs that have some."""
        return self._network.ranges

    @property
    def graph(self) -> Graph:
        """The network as it is run. Raises ``AutotuneError`` while it is not one graph."""
        return self._network.graph

    @property
    def table(self) -> ProgramTable:
        """The program table of the next run. Raises ``AutotuneError`` while it is not one graph."""
        return self._network.table

    @property
    def tables(self) -> tuple[ProgramTable, ...]:
        """The program tables that are compiled; asking compiles none."""
        return self._network.tables

    @property
    def parts(self) -> Mapping[str, NetworkSession]:
        """Sessions of one graph each that this one consists of, by name: one for each specialised
        version of the network, or of each piece and body of its control flow."""
        return self._network.parts

    def part_inputs(self, inputs: Arrays) -> Mapping[str, Arrays]:
        """Return the inputs of each part that a run on ``inputs`` reaches, by the name of the part.

        Runs a network with control flow once more; of several runs of a part the first counts.
        """
        return self._network.part_inputs(inputs)

    @property
    def last_run(self) -> RunTrace:
        """Cost of the run that finished last: all groups, as often as they ran.

        Raises ``AutotuneError`` before the first run.
        """
        return self._network.last_run

    @property
    def planned_by(self) -> PlannedBy:
        """Origin of the plan that the next run will use: the least that holds for all parts."""
        return self._network.planned_by

    @property
    def variants(self) -> tuple[VariantStatus, ...]:
        """Variants for classes of inputs, with the runs that they served and what they save."""
        return self._network.variants

    @property
    def events(self) -> tuple[Event, ...]:
        """Groups that could not be built at opening and steps of online learning, oldest first."""
        return self._network.events

    @property
    def history(self) -> SessionProfile:
        """The profile that the runs of all parts enter."""
        return self._network.history

    def status(self) -> SessionStatus:
        """Return what the session runs and how fast, and the cost, origin and history of its groups.

        ``autotune status`` shows the same of the sessions of other processes.
        """
        return status_of(self._network)

    def save_plan(self, path: Path | str) -> Plan:
        """Write the plan that the next run uses to a file, and return it; what was learned stays in use.

        ``Session(path)`` and ``autotune run`` open it as a plan that a search has made. It holds every graph that is
        compiled, and measured costs of the groups that ran; variants for classes of inputs are no part of a plan.

        Raises ``PlanError`` for a file that cannot be written, and for a network file that has changed since it was
        opened. Raises ``InputError`` for a session of several devices. Raises ``AutotuneError`` for a closed session,
        and while no shapes are known.
        """
        from autotune.runtime.session.saved_plan import plan_of

        if self.is_closed:
            raise AutotuneError(f"{self.name}: the session is closed; save its plan before")
        plan = plan_of(self._request, self.graph_plans(), self.name)
        plan.save(path)
        return plan

    def graph_plans(self) -> tuple[GraphPlan, ...]:
        """Return the plans that the compiled graphs run by now, with what their runs took."""
        return self._network.graph_plans()

    def profile(self) -> tuple[GroupProfile, ...]:
        """Return executions, cost, origin and resources of every group."""
        return self._network.profile()

    def profile_pairs(self) -> tuple[PairProfile, ...]:
        """Return groups that follow each other or pass data, the most frequent first."""
        return self._network.profile_pairs()

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when every finished run has been learned from.

        Raises ``AutotuneError`` when that takes longer, or when the learning failed.
        """
        self._network.wait_idle(timeout_seconds)

    def close(self) -> None:
        """Stop learning and close the store if the session opened it. Closing again does nothing.

        Raises ``AutotuneError`` when the learning failed.
        """
        self._network.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _card(self) -> Card:
        ends = (("input", self.inputs), ("output", self.outputs))
        facts = [(end, ", ".join(map(str, infos))) for end, infos in ends]
        rows = [(end, *info.cells) for end, infos in ends for info in infos]
        state = " (closed)" if self.is_closed else ""
        title = f"Session {self.name} on {self.target.name}{state}"
        return Card(title, facts, ("", "name", "shape", "element type"), rows)

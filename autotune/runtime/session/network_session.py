"""The protocol of sessions: a network opened on a machine, whatever decides its shapes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.runtime.execution.event import Event
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.signature import TensorInfo
from autotune.runtime.profile.group_profile import GroupProfile, PairProfile
from autotune.runtime.profile.session_profile import SessionProfile
from autotune.targets.protocol import Target
from autotune.tuner.graph_plan import GraphPlan

if TYPE_CHECKING:
    from autotune.runtime.guards.variant import VariantStatus

Arrays = Mapping[str, npt.NDArray[np.generic]]
"""Arrays by input name."""


class PlannedBy(StrEnum):
    """The origin of the plan that a session runs."""

    PLAN = "plan"
    """A plan that was given: ``autotune search`` made it."""
    HEURISTIC = "heuristic"
    """Fusion and schedules by rule; nothing was searched, and no cost model predicts the groups."""
    LEARNING = "learning"
    """Found by this session's online learning and measured to be better than the one before."""


class NetworkSession(Protocol):
    """A network opened on a machine. Safe to use from several threads."""

    @property
    def name(self) -> str:
        """Name of the network."""
        ...

    @property
    def target(self) -> Target:
        """Machine that runs it."""
        ...

    @property
    def is_online(self) -> bool:
        """True if the session learns from its runs."""
        ...

    @property
    def is_closed(self) -> bool:
        """True once ``close`` was called."""
        ...

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every input; open dimensions by their names."""
        ...

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every output."""
        ...

    @property
    def ranges(self) -> Mapping[str, Interval]:
        """Bounds that the inputs must stay within, for inputs that have some."""
        ...

    @property
    def graph(self) -> Graph:
        """The network as it is run. Raises ``AutotuneError`` while it is not one graph."""
        ...

    @property
    def table(self) -> ProgramTable:
        """The program table of the next run. Raises ``AutotuneError`` while it is not one graph."""
        ...

    @property
    def tables(self) -> tuple[ProgramTable, ...]:
        """The program tables that are compiled; asking compiles none."""
        ...

    @property
    def parts(self) -> Mapping[str, NetworkSession]:
        """Sessions of one graph each that this one consists of, by name."""
        ...

    def part_inputs(self, inputs: Arrays) -> Mapping[str, Arrays]:
        """Return the inputs of each part in a run on ``inputs``, by the name of the part."""
        ...

    def serving(self, inputs: Arrays) -> NetworkSession:
        """Return the session that runs these inputs: itself, or a fallback for inputs outside of
        their ranges or for integers that programs cannot hold."""
        ...

    def run(self, inputs: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Run the network once and return its outputs by name."""
        ...

    def traced_run(self, inputs: Arrays) -> tuple[dict[str, npt.NDArray[Any]], RunTrace]:
        """Run the network once; return its outputs and the cost of this very run."""
        ...

    def reference_outputs(self, inputs: Arrays) -> dict[str, Any]:
        """Return the outputs that the numpy reference computes, by name."""
        ...

    def draw_inputs(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return random inputs within their ranges. Raises ``InputError`` for an open dimension
        and for an input that is no tensor."""
        ...

    @property
    def last_run(self) -> RunTrace:
        """Cost of the run that finished last. Raises ``AutotuneError`` before the first run."""
        ...

    @property
    def planned_by(self) -> PlannedBy:
        """Origin of the plan that the next run will use."""
        ...

    @property
    def variants(self) -> tuple[VariantStatus, ...]:
        """Variants for classes of inputs, with the runs that they served."""
        ...

    @property
    def events(self) -> tuple[Event, ...]:
        """Groups that could not be built at opening and steps of online learning, oldest first."""
        ...

    @property
    def history(self) -> SessionProfile:
        """The profile that its runs enter; parts share that of their session."""
        ...

    def graph_plans(self) -> tuple[GraphPlan, ...]:
        """Return the plans that its graphs run by now, with what their runs took."""
        ...

    def profile(self) -> tuple[GroupProfile, ...]:
        """Return executions, cost, origin and resources of every group."""
        ...

    def profile_pairs(self) -> tuple[PairProfile, ...]:
        """Return groups that follow each other or pass data, the most frequent first."""
        ...

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when every finished run has been learned from. Raises ``AutotuneError`` when that
        takes longer, or when the learning failed."""
        ...

    def close(self) -> None:
        """Stop learning and release what the session opened. Closing again does nothing."""
        ...

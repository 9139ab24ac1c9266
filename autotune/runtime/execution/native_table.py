"""A program table as one native executable, for targets that run whole networks in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from autotune.graph.graph import Graph
from autotune.isa.formats import Format
from autotune.runtime.execution.program_table import (
    GroupStep,
    ProgramTable,
    SplitGroup,
    Step,
    ViewStep,
)
from autotune.targets.native.linking.linking import Linkable
from autotune.targets.native.running.executable import (
    AliasedSlice,
    Executable,
    Network,
    Part,
    Workshop,
)
from autotune.targets.protocol import Target

if TYPE_CHECKING:
    from autotune.runtime.execution.concat_aliasing import Made


@runtime_checkable
class WholeNetworks(Protocol):
    """A target that runs a whole plan in one call."""

    def linkables(self, network: Network) -> tuple[Linkable, ...]:
        """The programs of a network's parts, verified and bound."""
        ...

    def executable(
        self,
        network: Network,
        programs: Sequence[Linkable] | None = None,
        workshop: Workshop | None = None,
    ) -> Executable:
        """Compile and place a network, whose ``linkables`` may be known."""
        ...

    def workshop(self) -> Workshop:
        """What executables of one network's plans may share."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """A program table with bound programs, without network and memory, so that a cache can hold it.

    ``altered`` is that of ``ProgramTable``.
    """

    steps: tuple[Step, ...]
    parts: tuple[Part, ...]
    views: Mapping[str, str]
    windows: Mapping[str, AliasedSlice]
    altered: frozenset[int]
    programs: tuple[Linkable, ...]
    split: tuple[SplitGroup, ...] = ()

    def network(self, graph: Graph) -> Network:
        """Return the computation as the native engine takes it."""
        return _network(graph, self.parts, self.views, self.windows)

    def table(
        self, graph: Graph, target: WholeNetworks, workshop: Workshop | None = None
    ) -> ProgramTable:
        """Return the table of the drafted network, ready to run; tables of a ``workshop`` share what they can."""
        return self.linked(graph, target.executable(self.network(graph), self.programs, workshop))

    def linked(self, graph: Graph, executable: Executable) -> ProgramTable:
        """Return the table of the drafted network with its executable."""
        return ProgramTable(
            graph, self.steps, executable=executable, altered=self.altered, split=self.split
        )


def link_table(table: ProgramTable, target: Target) -> ProgramTable:
    """Return the table with its executable if the target runs whole networks."""
    if not isinstance(target, WholeNetworks):
        return table
    ready = draft_table(table, target).table(table.graph, target)
    return replace(table, executable=ready.executable, altered=ready.altered)


def draft_table(table: ProgramTable, target: WholeNetworks) -> Draft:
    """Verify and bind the programs of a table; alias tensors into concatenations where possible."""
    network = network_of(table)
    return draft_of(table, network, target.linkables(network))


def draft_of(table: ProgramTable, network: Network, programs: Sequence[Linkable]) -> Draft:
    """Return the draft of a table whose ``network`` and its bound ``programs`` are known."""
    pairs = zip(table.group_steps, network.parts, strict=True)
    altered = (i for i, (step, part) in enumerate(pairs) if part.program is not step.program)
    places = network.parts, network.views, network.windows
    return Draft(table.steps, *places, frozenset(altered), tuple(programs), table.split)


def network_of(table: ProgramTable, made: Made | None = None) -> Network:
    """Return the computation of a table as the native engine takes it.

    ``made`` holds programs that several plans of one graph share (``alias_concatenations``).
    """
    from autotune.runtime.execution.concat_aliasing import (
        alias_concatenations,
    )  # not for a table that is kept

    views: dict[str, str] = {}
    for step in table.steps:
        if isinstance(step, ViewStep):
            views |= {op.output: op.inputs[0] for op in step.group.ops}
    steps = [step for step in table.steps if isinstance(step, GroupStep)]
    found = alias_concatenations(table.graph, steps, views, {} if made is None else made)
    return _network(table.graph, found.parts, views, found.windows)


def _network(
    graph: Graph,
    parts: tuple[Part, ...],
    views: Mapping[str, str],
    windows: Mapping[str, AliasedSlice],
) -> Network:
    return Network(
        parts,
        views,
        graph.constants,
        tuple(graph.inputs),
        tuple(graph.outputs),
        {x: graph.shape(x) for x in (*graph.inputs, *graph.outputs)},
        windows,
        {x: kind.storage for x, kind in graph.types.items() if kind.storage is not Format.FP32},
    )

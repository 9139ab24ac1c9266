"""A program table as one native executable, for targets that run whole networks in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

from autotune.runtime.program_table import GroupStep, ProgramTable, ViewStep
from autotune.runtime.windows import windowed
from autotune.targets.native.executable import Executable, Network
from autotune.targets.protocol import Target


@runtime_checkable
class WholeNetworks(Protocol):
    """A target that runs a whole plan in one call."""

    def executable(self, network: Network) -> Executable:
        """Compile and place a network."""
        ...


def runs_by_rule(target: Target) -> bool:
    """Whether a network may run on a target without plan and calibration: where people come to have
    it computed, and not to learn what it costs."""
    return isinstance(target, WholeNetworks)


def prepared(table: ProgramTable, target: Target) -> ProgramTable:
    """The table with its executable, where the target runs whole networks."""
    if not isinstance(target, WholeNetworks):
        return table
    network = network_of(table)
    pairs = zip(table.group_steps, network.parts, strict=True)
    altered = (i for i, (step, part) in enumerate(pairs) if part.program is not step.program)
    return replace(table, executable=target.executable(network), altered=frozenset(altered))


def network_of(table: ProgramTable) -> Network:
    """What a table computes, as the native engine takes it."""
    graph = table.graph
    views: dict[str, str] = {}
    for step in table.steps:
        if isinstance(step, ViewStep):
            views |= {op.output: op.inputs[0] for op in step.group.ops}
    steps = [step for step in table.steps if isinstance(step, GroupStep)]
    found = windowed(graph, steps, views)
    return Network(
        found.parts,
        views,
        graph.constants,
        tuple(graph.inputs),
        tuple(graph.outputs),
        {x: graph.shape(x) for x in (*graph.inputs, *graph.outputs)},
        found.windows,
    )

"""Costs on the edges of a network: what its groups are predicted and measured to take, by operator and by transfer.

A fused tensor is an edge between two operators. A tensor that leaves its group passes through memory: an edge leads from
its operator to the transfer, and one from the transfer to each reader. A group's cost is shared out by what its operators
compute and its transfers move, at the peak rates of the machine: the edges of a group add up to its cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autotune.graph.graph import Graph
from autotune.graph.work import flops
from autotune.operators.op import Op


class EdgeKind(StrEnum):
    """What an edge stands for."""

    COMPUTE = "compute"
    """An operator makes a tensor that stays in its group."""
    STORE = "store"
    """An operator makes a tensor, which goes to memory."""
    LOAD = "load"
    """An operator reads a tensor from memory: another group's, an input or a weight."""
    CONTROL = "control"
    """Control flow runs a graph."""


@dataclass(frozen=True, slots=True)
class GroupCost:
    """Cost of one fusion group in one run; None where it is not known."""

    operators: tuple[str, ...]
    predicted_cycles: float | None
    measured_cycles: float | None
    energy_fj: float | None


@dataclass(frozen=True, slots=True)
class Rates:
    """Peak rates of a machine, by which the cost of a group is shared out."""

    flops_per_cycle: float
    bytes_per_cycle: float


@dataclass(frozen=True, slots=True)
class CostEdge:
    """An edge with its cost. A ``source`` or ``target`` that is no operator is the transfer of ``tensor``."""

    source: str
    target: str
    tensor: str
    kind: EdgeKind
    moved_bytes: int
    predicted_cycles: float | None
    measured_cycles: float | None
    energy_fj: float | None

    @property
    def cycles(self) -> float | None:
        """Measured cycles, or predicted ones without a measurement."""
        return self.predicted_cycles if self.measured_cycles is None else self.measured_cycles


@dataclass(frozen=True, slots=True)
class _Share:
    source: str
    target: str
    tensor: str
    kind: EdgeKind
    moved_bytes: int
    cycles: float


def cost_edges(graph: Graph, groups: Sequence[GroupCost], rates: Rates) -> tuple[CostEdge, ...]:
    """Return the edges of all groups, in the order of the groups."""
    edges: list[CostEdge] = []
    for group in groups:
        shares = list(_shares(graph, group, rates))
        total = sum(share.cycles for share in shares) or 1.0
        edges += (_priced(share, share.cycles / total, group) for share in shares)
    return tuple(edges)


def _priced(share: _Share, part: float, group: GroupCost) -> CostEdge:
    costs = (group.predicted_cycles, group.measured_cycles, group.energy_fj)
    priced = (None if cost is None else cost * part for cost in costs)
    return CostEdge(
        share.source, share.target, share.tensor, share.kind, share.moved_bytes, *priced
    )


def _shares(graph: Graph, group: GroupCost, rates: Rates) -> Iterator[_Share]:
    """Give the edges of a group with the cycles that each would take alone, at peak rates."""
    inside = set(group.operators)
    for op in (graph.named[name] for name in group.operators):
        for x in dict.fromkeys(op.inputs):
            maker = graph.producer.get(x)
            if maker is None or maker.name not in inside:
                size = graph.types[x].size_bytes
                yield _Share(x, op.name, x, EdgeKind.LOAD, size, size / rates.bytes_per_cycle)
        yield from _made(graph, op, inside, rates)


def _made(graph: Graph, op: Op, inside: set[str], rates: Rates) -> Iterator[_Share]:
    """Give the edges that lead out of an operator; its own work is shared equally among them."""
    readers = graph.consumers[op.output]
    own = [reader for reader in readers if reader.name in inside]
    leaves = op.output in graph.outputs or len(own) < len(readers)
    count = len(own) + leaves or 1
    work = (flops(op, graph) + graph.types[op.output].elements) / rates.flops_per_cycle / count
    for reader in own:
        yield _Share(op.name, reader.name, op.output, EdgeKind.COMPUTE, 0, work)
    if leaves or not own:
        size = graph.types[op.output].size_bytes
        cycles = work + size / rates.bytes_per_cycle
        yield _Share(op.name, op.output, op.output, EdgeKind.STORE, size, cycles)


def saved_cycles(edges: Sequence[CostEdge], graph: Graph, pruned: Graph) -> float | None:
    """Return the cycles of the edges that a pruned graph lacks, or has shorter; None if a cost is missing."""
    saved = 0.0
    for edge in edges:
        if edge.cycles is None:
            return None
        saved += edge.cycles * (1.0 - _kept(edge, graph, pruned))
    return saved


def _kept(edge: CostEdge, graph: Graph, pruned: Graph) -> float:
    """Return the share of an edge's tensor that a pruned graph still makes or reads."""
    reads = edge.kind is EdgeKind.LOAD
    op = pruned.named.get(edge.target if reads else edge.source)
    if op is None:
        return 0.0
    whole = graph.named[op.name]
    if not reads:
        return pruned.types[op.output].elements / graph.types[whole.output].elements
    place = whole.inputs.index(edge.tensor)
    if place >= len(op.inputs):
        return 0.0
    return min(1.0, pruned.types[op.inputs[place]].elements / graph.types[edge.tensor].elements)

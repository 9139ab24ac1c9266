"""Costs of the lines between groups in the report: edges of the network, joined by the groups that they lead between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from autotune.graph.cost_edges import CostEdge, EdgeKind, GroupCost, cost_edges
from autotune.graph.graph import Graph
from autotune.report.view import GroupRow, ReadCost
from autotune.runtime.session.cost_graph import rates_of, total
from autotune.targets.spec import HardwareSpec
from autotune.tuner.result import GroupResult


def with_read_costs(
    rows: Sequence[GroupRow], groups: Sequence[GroupResult], spec: HardwareSpec
) -> tuple[GroupRow, ...]:
    """Return the groups of one graph with the costs of what each reads of others."""
    edges = _edges(groups, spec)
    loads: dict[tuple[int, int], list[CostEdge]] = defaultdict(list)
    stores = {edge.tensor: edge for edge in edges if edge.kind is EdgeKind.STORE}
    home = {
        op.name: row.index for row, item in zip(rows, groups, strict=True) for op in item.group.ops
    }
    maker = {
        x: row.index for row, item in zip(rows, groups, strict=True) for x in item.group.outputs
    }
    for edge in edges:
        if edge.kind is EdgeKind.LOAD and edge.tensor in maker:
            loads[maker[edge.tensor], home[edge.target]].append(edge)
    return tuple(_priced(row, loads, stores) for row in rows)


def _edges(groups: Sequence[GroupResult], spec: HardwareSpec) -> tuple[CostEdge, ...]:
    costs = [
        GroupCost(
            tuple(op.name for op in item.group.ops),
            item.predicted_cycles,
            None if item.measured_cycles is None else float(item.measured_cycles),
            None if item.energy_fj is None else float(item.energy_fj),
        )
        for item in groups
    ]
    return cost_edges(_graph(groups), costs, rates_of(spec))


def _graph(groups: Sequence[GroupResult]) -> Graph:
    """Return the network of the groups; its weights are inputs, as their numbers cost nothing."""
    ops = [op for item in groups for op in item.group.ops]
    types = {x: kind for item in groups for x, kind in item.group.type_of.items()}
    made = {op.output for op in ops}
    read = {x for op in ops for x in op.inputs}
    outputs = (x for item in groups for x in item.group.outputs if x not in read)
    return Graph("plan", ops, types, tuple(x for x in types if x not in made), tuple(outputs), {})


def _priced(
    row: GroupRow,
    loads: dict[tuple[int, int], list[CostEdge]],
    stores: dict[str, CostEdge],
) -> GroupRow:
    costs = []
    for source in row.reads:
        own = loads[source, row.index]
        both = [*own, *(stores[x] for x in dict.fromkeys(e.tensor for e in own) if x in stores)]
        costs.append(
            ReadCost(
                sum(edge.moved_bytes for edge in both),
                total(edge.predicted_cycles for edge in both) or 0.0,
                total(edge.measured_cycles for edge in both),
                total(edge.energy_fj for edge in both),
            )
        )
    return replace(row, read_costs=tuple(costs))

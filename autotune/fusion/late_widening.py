"""Dequantisation moves to the group that reads its result: a narrow tensor passes between groups then.

Rules append every element-wise operator to its producer. Behind a narrow tensor that would store four
times the bytes for the next group to read.
"""

from __future__ import annotations

from autotune.fusion.partition import Fits, Partition
from autotune.graph.graph import Graph
from autotune.isa.formats import Format
from autotune.operators.op import Family, Op

ELEMENTWISE = (Family.UNARY, Family.BINARY)


def with_late_widening(partition: Partition, fits: Fits) -> Partition:
    """Return the partition with element-wise operators on one narrow tensor in the group that alone
    reads their result, where both groups ``fits``."""
    graph = partition.graph
    if all(kind.storage is Format.FP32 for kind in graph.types.values()):
        return partition
    groups = [list(names) for names in partition.groups]
    home = dict(partition.home)
    for op in graph.ops:
        chain = _chain(op, graph, home)
        if chain is None:
            continue
        source, target = home[op.name], home[graph.consumers[chain[-1].output][0].name]
        names = [link.name for link in chain]
        left = tuple(x for x in groups[source] if x not in names)
        joint = tuple(x.name for x in graph.ops if x.name in names or home[x.name] == target)
        if fits(left) and fits(joint):
            groups[source], groups[target] = list(left), list(joint)
            home |= dict.fromkeys(names, target)
    return Partition.of(graph, groups)


def _chain(op: Op, graph: Graph, home: dict[str, int]) -> tuple[Op, ...] | None:
    """Return the operators from ``op`` on, which reads a narrow tensor of its own group, to the end of the
    group, if only one other group reads the result."""
    variables = [x for x in op.inputs if x not in graph.constants]
    if len(variables) != 1 or graph.types[variables[0]].storage is Format.FP32:
        return None
    maker = graph.producer.get(variables[0])
    if maker is None or home[maker.name] != home[op.name]:
        return None
    chain: tuple[Op, ...] = ()
    while _is_map(op, graph) and op.output not in graph.outputs:
        chain = (*chain, op)
        homes = {home[x.name] for x in graph.consumers[op.output]}
        if home[op.name] not in homes:
            return chain if len(homes) == 1 else None
        if len(graph.consumers[op.output]) > 1:
            return None
        (op,) = graph.consumers[op.output]
    return None


def _is_map(op: Op, graph: Graph) -> bool:
    """Return True if an element-wise operator makes wide numbers of one tensor and constants."""
    variables = [x for x in op.inputs if x not in graph.constants]
    is_wide = graph.types[op.output].storage is Format.FP32
    return op.family in ELEMENTWISE and len(variables) == 1 and is_wide

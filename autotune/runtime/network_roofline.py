"""The roofline of a whole network on this machine: what no plan undercuts, by the peaks that were measured.

Only work that every plan has counts: multiply-adds, and what it needs of tensors from outside, once. Fusion may spare
all else.
"""

from __future__ import annotations

from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.operators.block_sparsity import zero_blocks
from autotune.operators.op import Family, Op
from autotune.runtime.session.roofline import Limit, Roofs
from autotune.targets.spec import HardwareSpec
from autotune.tuner.bound.bound import LowerBound
from autotune.tuner.bound.demand import Demand
from autotune.tuner.bound.operator_work import nonzero_share, product_of

_PRODUCTS = (Family.CONV, Family.MATMUL, Family.WINOGRAD, Family.STRASSEN)


def network_roofline(graph: Graph, spec: HardwareSpec) -> LowerBound:
    """Return the least cycles of a run that follows others, by any partition and schedules.

    Weights that are zero may be left out, and caches may hold their whole capacity from run to run.
    """
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    roofs, demand = Roofs.of(spec), Demand.of(group)
    moved = _read_bytes(group, demand) + sum(group.type_of[x].size_bytes for x in group.outputs)
    far = max(0.0, moved - roofs.capacity_bytes)
    seconds = {
        Limit.ARITHMETIC: 2.0 * _multiply_adds(group, demand, spec) / roofs.flops,
        Limit.MEMORY: far / roofs.memory_bytes,
        Limit.CACHE: moved / roofs.cache_bytes,
    }
    cycles = {limit.value: one * spec.clock_hz for limit, one in seconds.items()}
    return LowerBound(cycles, far, is_exact=False)


def _multiply_adds(group: Group, demand: Demand, spec: HardwareSpec) -> float:
    """Return multiply-adds in the time of fp32 ones."""
    return sum(
        product_of(op, group, demand).multiply_adds
        * _dense_share(op, group)
        / max(1, spec.matrix.macs_per_cell(op.multiplied))
        for op in group.ops
        if op.family in _PRODUCTS
    )


def _read_bytes(group: Group, demand: Demand) -> float:
    """Return bytes of inputs and constants that every plan reads; rows of a table may be the same."""
    elements: dict[str, float] = {}
    for op in group.ops:
        for index, x in enumerate(op.inputs):
            if x not in group.producer and (op.family is not Family.GATHER or index):
                need = demand.read[op.name, index] * (
                    _dense_share(op, group) if index == 1 else 1.0
                )
                elements[x] = max(elements.get(x, 0.0), need)
    return sum(count * group.type_of[x].storage.bytes for x, count in elements.items())


def _dense_share(op: Op, group: Group) -> float:
    """Return the share of an operator's weight that is not in blocks of zeros, which programs leave out."""
    blocks = zero_blocks(op)
    return 1.0 if blocks is None else nonzero_share(blocks, op, group.type_of[op.inputs[1]].shape)

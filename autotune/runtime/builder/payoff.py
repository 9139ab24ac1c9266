"""What a fusion is worth: seconds that a run saves by it, from shapes and spec alone."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.graph.work import flops, multiply_adds
from autotune.operators.op import Family, Op
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class Payoff:
    """Seconds of a group's operators, bound by arithmetic or by DRAM, apart and fused.

    ``compute_seconds`` and ``memory_seconds`` are sums over the operators run apart; ``apart_seconds`` takes the
    larger of both for each, which is what its roofline allows. ``saved_bytes`` never reach DRAM once fused.
    """

    compute_seconds: float
    memory_seconds: float
    apart_seconds: float
    saved_bytes: int
    saved_seconds: float

    @property
    def overlap_seconds(self) -> float:
        """Complementarity: time hidden as compute-bound operators run beside memory-bound ones."""
        return self.apart_seconds - max(self.compute_seconds, self.memory_seconds)

    @property
    def fused_seconds(self) -> float:
        """What the roofline allows for the group."""
        return max(self.compute_seconds, self.memory_seconds - self.saved_seconds)

    @property
    def seconds(self) -> float:
        """Time that fusing saves at most: what overlaps, and what is not moved."""
        return self.apart_seconds - self.fused_seconds


def payoff_of(graph: Graph, group: Group, spec: HardwareSpec) -> Payoff:
    """Return what fusing a group is worth on a machine; a single operator's is 0."""
    bandwidth = spec.dram.bytes_per_cycle * spec.clock_hz
    compute = memory = apart = 0.0
    for op in group.ops:
        if op.family is not Family.RESHAPE:
            busy, moved = _compute_seconds(graph, op, spec), _bytes(group, op) / bandwidth
            compute, memory, apart = compute + busy, memory + moved, apart + max(busy, moved)
    saved = _saved_bytes(group) if len(group.ops) > 1 else 0
    return Payoff(compute, memory, apart, saved, saved / bandwidth)


def _compute_seconds(graph: Graph, op: Op, spec: HardwareSpec) -> float:
    products = multiply_adds(op, graph)
    others = flops(op, graph) - 2 * products
    cycles = products / max(1, spec.peak_macs(op.multiplied)) + others / (
        spec.vector.lanes * spec.cores
    )
    return cycles / spec.clock_hz


def _bytes(group: Group, op: Op) -> int:
    kinds = (group.type_of[x] for x in {*op.inputs, op.output})
    return sum(kind.size_bytes for kind in kinds)


def _saved_bytes(group: Group) -> int:
    from autotune.tuner.reasons.on_chip_tensors import kept_tensors

    return sum(kept.saved_bytes for kept in kept_tensors(group))

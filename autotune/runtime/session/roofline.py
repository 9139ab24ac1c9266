"""The roofline of a network's groups on this machine: what bounds each of them from below.

After Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009, with a second roof for what caches
give. Between a session's program table and the profile that people read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from autotune.graph.graph import Graph
from autotune.graph.work import flops
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.operators.op import Op
from autotune.runtime.execution.program_table import GroupStep
from autotune.targets.native.running.executable import Network
from autotune.targets.native.running.tensors import tensor_bytes
from autotune.targets.spec import HardwareSpec


class Limit(StrEnum):
    """The resource that a bound comes from."""

    ARITHMETIC = "arithmetic"
    MEMORY = "memory"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Roofs:
    """What a machine gives at the most, per second: operations of fp32, bytes of main memory and of caches,
    and the bytes that these hold. ``bf16_per_fp32`` are operations of bf16 in the time of one of fp32."""

    flops: float
    memory_bytes: float
    cache_bytes: float
    capacity_bytes: int
    bf16_per_fp32: int = 1

    @classmethod
    def of(cls, spec: HardwareSpec) -> Roofs:
        """Peak and bandwidth as the spec has them, which were measured. A core's second-level cache
        gives a vector per cycle at the most."""
        vector_bytes = 4 * spec.vector.lanes
        return cls(
            2 * spec.peak_macs_per_cycle * spec.clock_hz,
            spec.dram.bytes_per_cycle * spec.clock_hz,
            spec.cores * vector_bytes * spec.clock_hz,
            spec.scratchpad.size_bytes * spec.cores,
            max(1, spec.matrix.macs_per_cell(Format.BF16)),
        )


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one group: scalar operations, in the time of fp32 ones, and bytes.

    ``touched_bytes`` are those of its inputs, constants and outputs, each once; ``memory_bytes`` those among them that
    caches cannot hold from one use to the next.
    """

    flops: int
    touched_bytes: int
    memory_bytes: int

    def bounds(self, roofs: Roofs) -> Mapping[Limit, float]:
        """Seconds that each resource takes at the least."""
        return {
            Limit.ARITHMETIC: self.flops / roofs.flops,
            Limit.MEMORY: self.memory_bytes / roofs.memory_bytes,
            Limit.CACHE: self.touched_bytes / roofs.cache_bytes,
        }


def works(
    graph: Graph, steps: Sequence[GroupStep], network: Network, arena_bytes: int, roofs: Roofs
) -> tuple[Work, ...]:
    """The work of every step of a network that runs again and again: of its parts, in order, with
    intermediates in an arena."""
    outside = {*network.constants, *map(network.root, (*network.inputs, *network.outputs))}
    parts = zip(steps, network.parts, strict=True)
    touches = [_touched(step, part.program, network) for step, part in parts]
    far = far_bytes(touches, outside, arena_bytes, roofs.capacity_bytes)
    return tuple(
        Work(
            sum(_flops(op, graph, roofs) for op in step.group.ops),
            sum(touched.sizes.values()),
            beyond,
        )
        for step, touched, beyond in zip(steps, touches, far, strict=True)
    )


def _flops(op: Op, graph: Graph, roofs: Roofs) -> int:
    return flops(op, graph) // (roofs.bf16_per_fp32 if op.is_bf16 else 1)


@dataclass(frozen=True, slots=True)
class Touched:
    """Bytes of each block of memory that a part reads or writes, and the blocks that it writes."""

    sizes: Mapping[str, int]
    written: frozenset[str]


def _touched(step: GroupStep, program: Program, network: Network) -> Touched:
    """``program`` is what the network runs for the step. One whose results lie where they are wanted
    has no instructions, and touches nothing; a tensor in a window has the extents of the whole."""
    sizes: dict[str, int] = {}
    written = set()
    if all(i.opcode is Opcode.HALT for stream in program.streams for i in stream):
        return Touched({}, frozenset())
    for tensor in step.program.tensors:
        root = network.root(step.bindings[tensor.name])
        sizes[root] = sizes.get(root, 0) + tensor_bytes(tensor)
        if tensor.role is Role.OUTPUT:
            written.add(root)
    return Touched(sizes, frozenset(written))


def far_bytes(
    touches: Sequence[Touched], outside: Set[str], arena_bytes: int, capacity_bytes: int
) -> list[int]:
    """Bytes of each step that come from main memory or go there: from one use of theirs to the next the
    network touches more than caches hold, if these drop what was used longest ago. Of the step of
    the next use nothing else counts: it may begin with them."""
    count = len(touches)
    uses: dict[str, list[int]] = {}
    for step, touched in enumerate(touches):
        for root in touched.sizes:
            uses.setdefault(root, []).append(step)
    far = [0] * count
    for root, steps in uses.items():
        for this, following in zip(steps, [*steps[1:], steps[0] + count], strict=True):
            between = [touches[i % count] for i in range(this, following)]
            if _distinct_bytes(between, outside, arena_bytes) <= capacity_bytes:
                continue
            then = following % count
            if root in touches[this].written:
                far[this] += touches[this].sizes[root]
            if root not in touches[then].written:
                far[then] += touches[then].sizes[root]
    return far


def _distinct_bytes(touches: Iterable[Touched], outside: Set[str], arena_bytes: int) -> int:
    """Return the distinct bytes that some steps touch; tensors in the arena share its bytes."""
    sizes: dict[str, int] = {}
    for touched in touches:
        for root, size in touched.sizes.items():
            sizes[root] = max(size, sizes.get(root, 0))
    inside = sum(size for root, size in sizes.items() if root not in outside)
    return min(inside, arena_bytes) + sum(size for root, size in sizes.items() if root in outside)

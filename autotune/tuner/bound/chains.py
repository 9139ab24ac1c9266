"""Element-wise operators share passes: the least part of a pass that each one accounts for.

A pass of the vector unit runs through up to ``MAX_STAGES`` operators and takes as long as its slowest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.fusion.group import Group
from autotune.fusion.nest import EPILOGUE_FNS, MAX_STAGES
from autotune.isa.functions import CostClass
from autotune.operators.contraction import is_depthwise
from autotune.operators.op import Family, Op, OpKind
from autotune.targets.spec import VectorSpec

ELEMENTWISE = frozenset((Family.UNARY, Family.BINARY))
CONTRACTIONS = frozenset((Family.CONV, Family.MATMUL, Family.WINOGRAD, Family.STRASSEN))


def pass_cycles(kind: CostClass, vector: VectorSpec) -> int:
    """Return the cycles of one pass of a function's class, as the emulator counts them."""
    cycles = {
        CostClass.SIMPLE: 1,
        CostClass.DIVIDE: vector.divide_cycles,
        CostClass.TRANSCENDENTAL: vector.transcendental_cycles,
    }
    return max(1, cycles[kind])


def pass_shares(group: Group, vector: VectorSpec) -> dict[str, float]:
    """Return the cycles per pass over its elements that each element-wise operator accounts for.

    Shares of the operators of any one pass add up to no more than the pass takes. An operator that a
    contraction's epilogue may take along accounts for nothing.
    """
    free = _epilogues(group)
    ops = [op for op in group.ops if op.family in ELEMENTWISE and op.output not in free]
    cost = {op.output: pass_cycles(op.function.row.cost, vector) for op in ops}
    links = _links(group)
    shares = {op.output: 0.0 for op in group.ops if op.family in ELEMENTWISE}
    below = 0
    for level in sorted(set(cost.values())):
        most = _most_on_a_path(group, links, {x for x, cycles in cost.items() if cycles >= level})
        for x, cycles in cost.items():
            if cycles >= level:
                shares[x] += (level - below) / most[x]
        below = level
    return shares


def _epilogues(group: Group) -> set[str]:
    """Return results of operators that a contraction may make on the way out of its accumulator, and
    of roundings that need no pass."""
    adds: set[str] = set()
    free: set[str] = set()
    for op in group.ops:
        behind = any(_is_contraction(group, x) or x in adds for x in op.inputs)
        if behind and op.kind is OpKind.ADD:
            adds.add(op.output)
        if behind and (op.kind is OpKind.ADD or op.kind in EPILOGUE_FNS):
            free.add(op.output)
        if op.kind in (OpKind.BF16, OpKind.FP16):  # STORE and CONVERT round too
            free.add(op.output)
    return free


def _is_contraction(group: Group, tensor: str) -> bool:
    op = group.producer.get(tensor)
    return op is not None and runs_on_the_array(op, group)


def runs_on_the_array(op: Op, group: Group) -> bool:
    """Return True if the matrix unit computes an operator."""
    if op.family is Family.CONV:
        return not is_depthwise(op, group.type_of)
    return op.family in CONTRACTIONS


Links = Mapping[str, Sequence[str]]


def _links(group: Group) -> Links:
    """Return the element-wise results that one pass may make before each element-wise result."""
    before: dict[str, list[str]] = {}
    for op in group.ops:
        if op.family in ELEMENTWISE:
            shape = group.type_of[op.output].shape
            before[op.output] = [
                x for x in op.inputs if x in before and group.type_of[x].shape == shape
            ]
    return before


def _most_on_a_path(group: Group, before: Links, counted: set[str]) -> dict[str, int]:
    """Return the most ``counted`` results on a path of ``MAX_STAGES`` through each result."""
    behind: dict[str, list[str]] = {x: [] for x in before}
    for x, makers in before.items():
        for maker in makers:
            behind[maker].append(x)
    order = [op.output for op in group.ops if op.output in before]
    up = _longest(order, before, counted)
    down = _longest(order[::-1], behind, counted)
    return {
        x: max(
            up[x][length] + down[x][MAX_STAGES - 1 - length] - (x in counted)
            for length in range(MAX_STAGES)
        )
        for x in order
    }


def _longest(order: Sequence[str], sources: Links, counted: set[str]) -> dict[str, list[int]]:
    """Return the most counted results on paths of up to 1, 2, … results that end at each one."""
    most: dict[str, list[int]] = {}
    for x in order:
        own = int(x in counted)
        most[x] = [own] + [
            own + max((most[s][length] for s in sources[x]), default=0)
            for length in range(MAX_STAGES - 1)
        ]
    return most

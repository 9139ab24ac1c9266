"""What a vector run's arithmetic weighs, by which elementwise.py chooses how to write it."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.isa.functions import Origin
from autotune.targets.native.codegen.vector.vector_run import Binary, Node, Unary, VectorRun

POLYNOMIAL_WEIGHT = 20
POWER_WEIGHT = 3 * POLYNOMIAL_WEIGHT


def weight_of(run: VectorRun) -> int:
    """About the number of instructions of a body."""
    return weight_of_nodes(run.body)


def has_polynomial(run: VectorRun) -> bool:
    """Whether a body computes a function by a polynomial: a long chain of instructions."""
    return any(_node_weight(node) >= POLYNOMIAL_WEIGHT for node in run.body)


def weight_of_nodes(nodes: Iterable[Node]) -> int:
    """About the number of instructions that nodes are."""
    return sum(_node_weight(node) for node in nodes)


def _node_weight(node: Node) -> int:
    match node:
        case Unary(fn):
            return POLYNOMIAL_WEIGHT if fn.row.origin is Origin.POLYNOMIAL else 1
        case Binary(fn):
            return POWER_WEIGHT if fn.row.origin is Origin.POLYNOMIAL else 1
        case _:
            return 1

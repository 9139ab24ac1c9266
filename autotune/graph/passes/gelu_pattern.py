"""Pass: recognises GELU written out with Erf or Tanh, as most exporters write it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.op import Op, OpKind
from autotune.graph.passes.note import Note, PassResult, rebuilt

CUBED = 0.044715
"""What x³ weighs in the approximation."""


@dataclass(frozen=True, slots=True)
class GeluPattern:
    """0.5 · x · (1 + erf(x / √2)), in any order of the factors, becomes one GELU, and so does
    0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))), which approximates it (arXiv:1606.08415)."""

    name: str = "gelu-pattern"

    def run(self, graph: Graph) -> PassResult:
        """Replace the last operator of each match; dead-node removal takes the rest."""
        found = {op.name: gelu for op in graph.ops if (gelu := _gelu(op, graph)) is not None}
        ops = [_replaced(op, *found[op.name]) if op.name in found else op for op in graph.ops]
        notes = tuple(Note(self.name, name, "written-out GELU is one operator") for name in found)
        return PassResult(rebuilt(graph, ops) if notes else graph, notes)


def _replaced(op: Op, kind: OpKind, x: str) -> Op:
    return Op.make(op.name, kind, (x,), op.output)


def _number(graph: Graph, tensor: str) -> float | None:
    value = graph.constants.get(tensor)
    return float(value.reshape(())) if value is not None and value.size == 1 else None


def _close(value: float | None, wanted: float) -> bool:
    return value is not None and bool(np.isclose(value, wanted, rtol=1e-5))


def _factors(op: Op, graph: Graph, depth: int = 2) -> list[str]:
    """The tensors multiplied together, looking through inner products read only here."""
    leaves: list[str] = []
    for x in op.inputs:
        inner = graph.producer.get(x)
        private = x not in graph.outputs and len(graph.consumers[x]) == 1
        if inner is not None and inner.kind is OpKind.MUL and private and depth > 1:
            leaves += _factors(inner, graph, depth - 1)
        else:
            leaves.append(x)
    return leaves


def _gelu(op: Op, graph: Graph) -> tuple[OpKind, str] | None:
    """Which function of which x a product {0.5, x, gate of x} that ends at ``op`` is, or None."""
    if op.kind is not OpKind.MUL:
        return None
    leaves = _factors(op, graph)
    halves = [t for t in leaves if _close(_number(graph, t), 0.5)]
    gates = {t: gate for t in leaves if (gate := _gate(t, graph)) is not None}
    rest = [t for t in leaves if t not in halves and t not in gates]
    if (len(leaves), len(halves), len(gates), len(rest)) != (3, 1, 1, 1):
        return None
    ((kind, x),) = gates.values()
    same = x == rest[0] and graph.shape(x) == graph.shape(op.output)
    return (kind, x) if same else None


def _gate(tensor: str, graph: Graph) -> tuple[OpKind, str] | None:
    """The function and the x of 1 + erf(x / √2) or of 1 + tanh(√(2/π) · (x + 0.044715 · x³))."""
    inner = _beside(tensor, OpKind.ADD, 1.0, graph)
    made = graph.producer.get(inner) if inner is not None else None
    if made is None or made.kind not in (OpKind.ERF, OpKind.TANH):
        return None
    exact = made.kind is OpKind.ERF
    x = (_over_root if exact else _with_cube)(made.inputs[0], graph)
    return None if x is None else (OpKind.GELU if exact else OpKind.GELU_TANH, x)


def _beside(tensor: str, kind: OpKind, number: float, graph: Graph) -> str | None:
    """The other operand of a sum or product with this number, or None."""
    op = graph.producer.get(tensor)
    if op is None or op.kind is not kind:
        return None
    pairs = (op.inputs, op.inputs[::-1])
    return next((other for one, other in pairs if _close(_number(graph, one), number)), None)


def _over_root(tensor: str, graph: Graph) -> str | None:
    """The x of x / √2, or None."""
    op = graph.producer.get(tensor)
    if op is not None and op.kind is OpKind.DIV:
        return op.inputs[0] if _close(_number(graph, op.inputs[1]), math.sqrt(2)) else None
    return _beside(tensor, OpKind.MUL, 1 / math.sqrt(2), graph)


def _with_cube(tensor: str, graph: Graph) -> str | None:
    """The x of √(2/π) · (x + 0.044715 · x³), or None."""
    total = _beside(tensor, OpKind.MUL, math.sqrt(2 / math.pi), graph)
    add = graph.producer.get(total) if total is not None else None
    if add is None or add.kind is not OpKind.ADD:
        return None
    pairs = (add.inputs, add.inputs[::-1])
    return next(
        (x for x, term in pairs if _is_cube(_beside(term, OpKind.MUL, CUBED, graph), x, graph)),
        None,
    )


def _is_cube(tensor: str | None, x: str, graph: Graph) -> bool:
    op = graph.producer.get(tensor) if tensor is not None else None
    if op is None or op.kind is not OpKind.POW or op.inputs[0] != x:
        return False
    return _close(_number(graph, op.inputs[1]), 3.0)

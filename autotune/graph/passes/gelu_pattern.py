"""Pass: recognises GELU written out with Erf, as most exporters write it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.op import Op, OpKind
from autotune.graph.passes.note import Note, PassResult, rebuilt


@dataclass(frozen=True, slots=True)
class GeluPattern:
    """0.5 · x · (1 + erf(x / √2)), in any order of the factors, becomes one GELU."""

    name: str = "gelu-pattern"

    def run(self, graph: Graph) -> PassResult:
        """Replace the last operator of each match; dead-node removal takes the rest."""
        found: dict[str, str] = {}
        for op in graph.ops:
            x = _gelu_input(op, graph)
            if x is not None:
                found[op.name] = x
        ops = [
            Op.make(op.name, OpKind.GELU, (found[op.name],), op.output) if op.name in found else op
            for op in graph.ops
        ]
        notes = tuple(Note(self.name, name, "written-out GELU is one operator") for name in found)
        return PassResult(rebuilt(graph, ops) if notes else graph, notes)


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


def _gelu_input(op: Op, graph: Graph) -> str | None:
    """The x of a product {0.5, x, 1 + erf(x/√2)} that ends at ``op``, or None."""
    if op.kind is not OpKind.MUL:
        return None
    leaves = _factors(op, graph)
    halves = [t for t in leaves if _close(_number(graph, t), 0.5)]
    gates = [t for t in leaves if _erf_input(t, graph) is not None]
    rest = [t for t in leaves if t not in halves and t not in gates]
    if (len(leaves), len(halves), len(gates), len(rest)) != (3, 1, 1, 1):
        return None
    same = _erf_input(gates[0], graph) == rest[0]
    return rest[0] if same and graph.shape(rest[0]) == graph.shape(op.output) else None


def _erf_input(tensor: str, graph: Graph) -> str | None:
    """The x of 1 + erf(x/√2), or None."""
    add = graph.producer.get(tensor)
    if add is None or add.kind is not OpKind.ADD:
        return None
    for one, other in (add.inputs, add.inputs[::-1]):
        erf = graph.producer.get(other)
        if not _close(_number(graph, one), 1.0) or erf is None or erf.kind is not OpKind.ERF:
            continue
        scaled = graph.producer.get(erf.inputs[0])
        if scaled is None:
            continue
        if scaled.kind is OpKind.DIV and _close(_number(graph, scaled.inputs[1]), math.sqrt(2)):
            return scaled.inputs[0]
        if scaled.kind is OpKind.MUL:
            for factor, x in (scaled.inputs, scaled.inputs[::-1]):
                if _close(_number(graph, factor), 1 / math.sqrt(2)):
                    return x
    return None

"""Private fragments of a graph as functions of one tensor, which can be tried on float64 numbers.

Exporters write one function in many ways. What a fragment computes is told from its values on probes
(activation_pattern.py, normal_pattern.py), so that no way of writing it needs a pattern.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array

Values = npt.NDArray[np.float64]
Function = Callable[..., Values]

MOST_OPS = 16
"""Operators of a fragment: layer normalisation as TensorFlow writes it has 12."""
MOST_LINKS = 4
"""Those of a fragment that reads its source once: 1 / (1 + exp(−x)) has as many."""


POINTWISE = frozenset(
    {
        *(OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.POW),
        *(OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.CLIP, OpKind.RELU, OpKind.NEG, OpKind.ABS),
        *(OpKind.SQRT, OpKind.RECIPROCAL, OpKind.EXP, OpKind.LOG, OpKind.ERF, OpKind.TANH),
        *(OpKind.SIGMOID, OpKind.SOFTPLUS),
    }
)
"""Element-wise kinds that exporters write functions with."""
REDUCTIONS: Mapping[OpKind, Function] = {
    OpKind.REDUCE_MEAN: np.mean,
    OpKind.REDUCE_SUM: np.sum,
    OpKind.REDUCE_MAX: np.max,
}


@dataclass(frozen=True, slots=True)
class Cone:
    """Operators, the last one included, that only it needs: a function of ``source`` and constants."""

    source: str
    ops: tuple[Op, ...]
    graph: Graph

    @property
    def kinds(self) -> frozenset[OpKind]:
        """Kinds of its operators."""
        return frozenset(op.kind for op in self.ops)

    @property
    def reads(self) -> int:
        """How often its operators read the source."""
        return sum(op.inputs.count(self.source) for op in self.ops)

    @property
    def constants(self) -> tuple[Array, ...]:
        """The constants that it reads, each once."""
        names = dict.fromkeys(x for op in self.ops for x in op.inputs)
        return tuple(self.graph.constants[x] for x in names if x in self.graph.constants)

    @property
    def formula(self) -> tuple[object, ...]:
        """Equal for fragments that compute the same in the same way with constants of one number."""
        place: dict[str, object] = {self.source: -1}
        for i, op in enumerate(self.ops):
            place[op.output] = i
        constants = self.graph.constants
        return tuple(
            (
                op.kind,
                op.attrs,
                *(place[x] if x in place else (constants[x].item(),) for x in op.inputs),
            )
            for op in self.ops
        )

    def of(self, source: Values) -> Values:
        """The values of the last operator. The axes of ``source`` are the tensor's last ones; others
        have an extent of 1 in all constants."""
        known = {self.source: source}
        for name in dict.fromkeys(x for op in self.ops for x in op.inputs):
            if name in self.graph.constants:
                known[name] = _trimmed(self.graph.constants[name])
        with np.errstate(all="ignore"):
            for op in self.ops:
                mean = self._mean(op, known)
                operands = [known[x] for x in op.inputs]
                known[op.output] = self._value(op, operands) if mean is None else mean
        return known[self.ops[-1].output]

    def _mean(self, op: Op, known: Mapping[str, Values]) -> Values | None:
        """The value of a sum of n elements times 1/n, whatever 1/n rounds to: the sum divided by n. How 1/n
        rounds would stay, of rows whose elements are equal, when their mean is taken off."""
        producer, constants = self.graph.producer, self.graph.constants
        sums = [x for x in op.inputs if x in producer and producer[x].kind is OpKind.REDUCE_SUM]
        factors = [constants[x] for x in op.inputs if x in constants]
        if op.kind is not OpKind.MUL or not sums or not factors or factors[0].size != 1:
            return None
        extents = self.graph.shape(producer[sums[0]].inputs[0])
        count = math.prod(extents[axis] for axis in producer[sums[0]].ints("axes"))
        is_mean = factors[0].item() == np.float32(1 / count)
        return known[sums[0]] / count if is_mean else None

    def _value(self, op: Op, operands: list[Values]) -> Values:
        if op.kind in POINTWISE:
            return op.function.row.reference(*operands, *op.scalars)
        rank = len(self.graph.shape(op.inputs[0]))
        axes = tuple(axis - rank for axis in op.ints("axes"))
        return REDUCTIONS[op.kind](operands[0], axis=axes, keepdims=True)


def cones(last: Op, graph: Graph, reductions: bool = False) -> Iterator[Cone]:
    """The fragments that end at ``last`` and read one tensor besides constants, smallest first."""
    inside, made = {last.name: last}, {last.output}
    sources = dict.fromkeys(x for x in last.inputs if x not in graph.constants)
    while sources and len(inside) <= MOST_OPS:
        if len(sources) == 1:
            ops = sorted(inside.values(), key=lambda op: graph.position[op.name])
            cone = Cone(next(iter(sources)), tuple(ops), graph)
            yield cone
            if len(ops) >= MOST_LINKS and cone.reads == 1 and not reductions:
                return
        makers = [graph.producer[x] for x in sources if x in graph.producer]
        wider = [op for op in makers if _belongs(op, inside, graph, reductions)]
        if not wider:
            return
        latest = max(wider, key=lambda op: graph.position[op.name])
        inside[latest.name] = latest
        made.add(latest.output)
        del sources[latest.output]
        new = (x for x in latest.inputs if x not in made and x not in graph.constants)
        sources.update(dict.fromkeys(new))


def _trimmed(constant: Array) -> Values:
    """A constant without leading axes of extent 1."""
    value = constant.astype(np.float64)
    while value.ndim and value.shape[0] == 1:
        value = value[0]
    return value


def is_pointwise(op: Op) -> bool:
    """Whether a fragment may hold an operator, reductions aside."""
    return op.kind in POINTWISE


def _belongs(op: Op, inside: Mapping[str, Op], graph: Graph, reductions: bool) -> bool:
    """Whether a fragment may take in the maker of what it reads: nothing else reads that."""
    if not (is_pointwise(op) or (reductions and op.kind in REDUCTIONS)):
        return False
    if op.output in graph.outputs or not graph.types[op.output].dtype.is_float:
        return False
    return all(reader.name in inside for reader in graph.consumers[op.output])

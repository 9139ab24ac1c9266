"""The network: a directed acyclic graph of operators."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from autotune.display import Card, Displayed
from autotune.errors import ModelError
from autotune.graph.topological_order import CycleError, topological_order
from autotune.operators.op import Op
from autotune.operators.tensor import Array, TensorType

if TYPE_CHECKING:
    import networkx as nx

    from autotune.fusion.group import Group


class Graph(Displayed):
    """An immutable network: operators in topological order, tensor types and constants.

    ``inputs`` are fed at run time and ``constants`` hold weights. Every other tensor is the output
    of exactly one operator. Raises ``ModelError`` for cycles, undefined or doubly defined tensors.
    """

    def __init__(
        self,
        name: str,
        ops: Iterable[Op],
        types: Mapping[str, TensorType],
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        constants: Mapping[str, Array],
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.types = MappingProxyType(dict(types))
        self.constants = MappingProxyType(dict(constants))
        self.ops = self._sorted(tuple(ops))
        self._check()

    def _card(self) -> Card:
        kinds = Counter(op.kind.value for op in self.ops)
        ends = (("inputs", self.inputs), ("outputs", self.outputs))
        facts = [(name, ", ".join(f"{x} {list(self.shape(x))}" for x in xs)) for name, xs in ends]
        rows = [(kind, str(count)) for kind, count in kinds.most_common()]
        title = f"Graph {self.name} of {len(self.ops)} operators"
        return Card(title, facts, ("operator", "times"), rows)

    def _sorted(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        producer: dict[str, Op] = {}
        for op in ops:
            if op.output in producer or op.output in self.inputs or op.output in self.constants:
                raise ModelError(f"{op.name}: tensor {op.output!r} is defined twice")
            producer[op.output] = op
        position = {op.output: index for index, op in enumerate(ops)}
        try:
            order = topological_order(
                [{position[x] for x in op.inputs if x in position} for op in ops]
            )
        except CycleError as error:
            cycle = " -> ".join(ops[i].output for i in error.positions)
            raise ModelError(
                f"{self.name}: the graph has a cycle through tensors {cycle}"
            ) from None
        return tuple(ops[i] for i in order)

    def _check(self) -> None:
        defined = set(self.inputs) | set(self.constants) | {op.output for op in self.ops}
        for op in self.ops:
            for x in op.inputs:
                if x not in defined:
                    raise ModelError(f"{op.name}: input tensor {x!r} is not defined")
        for x in self.outputs:
            if x not in defined:
                raise ModelError(f"{self.name}: output tensor {x!r} is not defined")
        for x in defined:
            if x not in self.types:
                raise ModelError(f"{self.name}: tensor {x!r} has no known type")
        for x, value in self.constants.items():
            if tuple(value.shape) != self.types[x].shape:
                raise ModelError(
                    f"{self.name}: constant {x!r} has shape {value.shape}, not {self.types[x].shape}"
                )

    @cached_property
    def producer(self) -> Mapping[str, Op]:
        """Tensor name to the operator that makes it."""
        return {op.output: op for op in self.ops}

    @cached_property
    def named(self) -> Mapping[str, Op]:
        """Operators by name."""
        return {op.name: op for op in self.ops}

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Operator name to its place in ``ops``."""
        return {op.name: i for i, op in enumerate(self.ops)}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Op, ...]]:
        """Tensor name to the operators that read it, in topological order, each once."""
        readers: dict[str, list[Op]] = {name: [] for name in self.types}
        for op in self.ops:
            for x in dict.fromkeys(op.inputs):
                readers[x].append(op)
        return {name: tuple(ops) for name, ops in readers.items()}

    @cached_property
    def digraph(self) -> nx.DiGraph:
        """The networkx view.

        It has a node per operator name (attribute ``op``) and an edge per tensor between two
        operators (attribute ``tensor``).
        """
        import networkx as nx  # for search only; a network that runs does without

        digraph = nx.DiGraph()
        for op in self.ops:
            digraph.add_node(op.name, op=op)
        for op in self.ops:
            for x in op.inputs:
                if x in self.producer:
                    digraph.add_edge(self.producer[x].name, op.name, tensor=x)
        return digraph

    def successors(self, name: str) -> tuple[str, ...]:
        """Return the names of the operators that read the named operator's result."""
        return tuple(op.name for op in self.consumers[self.named[name].output])

    def predecessors(self, name: str) -> tuple[str, ...]:
        """Return the names of the operators that make the named operator's inputs, each once."""
        inputs = dict.fromkeys(self.named[name].inputs)
        return tuple(self.producer[x].name for x in inputs if x in self.producer)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.types[tensor].shape

    def group(self, names: Iterable[str] | str) -> Group:
        """Return the fusion group of the named operators, or of one.

        Raises ``InputError`` for an unknown name and for operators that cannot be one program, as a
        path leaves them and comes back.
        """
        from autotune.fusion.group import Group

        return Group.of_names(self, (names,) if isinstance(names, str) else tuple(names))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over structure and shapes, without weights: the plan's network id."""
        parts: tuple[object, ...] = (
            self.ops,
            sorted((k, v.shape, v.dtype.value) for k, v in self.types.items()),
            self.inputs,
            self.outputs,
        )
        narrow = sorted((k, v.storage.name) for k, v in self.types.items() if v.storage.value)
        text = repr((*parts, narrow) if narrow else parts)
        return hashlib.sha256(text.encode()).hexdigest()

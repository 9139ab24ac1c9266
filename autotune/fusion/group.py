"""Fusion groups: convex connected subgraphs that become one program each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autotune.errors import ScheduleError
from autotune.graph.graph import Graph
from autotune.graph.serialization import op_of, plain_op
from autotune.operators.op import Family, Op
from autotune.operators.tensor import TensorType


@dataclass(frozen=True)
class Group:
    """Operators in topological order, with the types of every tensor they read or make.

    ``outputs`` are read outside of the group; ``constants`` are inputs with values known before run
    time. A group stands alone: it can be pickled and stored as JSON. Groups of equal structure and
    shapes have the same ``key``, whatever their tensors' names.
    """

    ops: tuple[Op, ...]
    types: tuple[tuple[str, TensorType], ...]
    outputs: tuple[str, ...]
    constants: frozenset[str]

    def __post_init__(self) -> None:
        if not self.ops:
            raise ScheduleError("a fusion group needs at least one operator")
        made = {op.output for op in self.ops}
        missing = [x for x in self.outputs if x not in made]
        if missing or not self.outputs:
            raise ScheduleError(f"group outputs {missing or '()'} are not made by its operators")

    @classmethod
    def from_graph(cls, graph: Graph, names: Iterable[str]) -> Group:
        """Return the group of the named operators of ``graph``, in the graph's order."""
        wanted = set(names)
        ops = tuple(graph.ops[i] for i in sorted(graph.position[name] for name in wanted))
        outputs = tuple(
            op.output
            for op in ops
            if op.output in graph.outputs
            or any(user.name not in wanted for user in graph.consumers[op.output])
        )
        tensors = dict.fromkeys(x for op in ops for x in (*op.inputs, op.output))
        return cls(
            ops,
            tuple((x, graph.types[x].stored) for x in tensors),
            outputs,
            frozenset(x for x in tensors if x in graph.constants),
        )

    @cached_property
    def type_of(self) -> Mapping[str, TensorType]:
        """Tensor name to type."""
        return dict(self.types)

    @cached_property
    def producer(self) -> Mapping[str, Op]:
        """Tensor name to the operator of this group that makes it."""
        return {op.output: op for op in self.ops}

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Tensors read but not made here (constants included), in order of first use."""
        return tuple(
            dict.fromkeys(x for op in self.ops for x in op.inputs if x not in self.producer)
        )

    @property
    def is_view(self) -> bool:
        """True if the group only renames memory (reshapes): it needs no program."""
        return all(op.family is Family.RESHAPE for op in self.ops)

    @cached_property
    def canonical(self) -> Group:
        """The group with positional names: equal for groups of equal cost."""
        names: dict[str, str] = {}
        for op in self.ops:
            for x in (*op.inputs, op.output):
                names.setdefault(x, f"t{len(names)}")
        ops = tuple(
            Op(f"op{i}", op.kind, tuple(names[x] for x in op.inputs), names[op.output], op.attrs)
            for i, op in enumerate(self.ops)
        )
        return Group(
            ops,
            tuple((names[x], t) for x, t in self.types),
            tuple(names[x] for x in self.outputs),
            frozenset(names[x] for x in self.constants),
        )

    @cached_property
    def key(self) -> str:
        """SHA-256 (24 hex digits) of the canonical structure: operators, attributes, shapes."""
        return hashlib.sha256(self.canonical._text().encode()).hexdigest()[:24]

    def _text(self) -> str:
        return json.dumps(self._plain(), sort_keys=True)

    def _plain(self) -> dict[str, Any]:
        return {
            "ops": [plain_op(op) for op in self.ops],
            "types": [[x, t.shape, t.dtype.value] for x, t in self.types],
            "outputs": self.outputs,
            "constants": sorted(self.constants),
        }

    def to_json(self) -> str:
        """Return lossless JSON text; ``from_json`` reads it back."""
        return self._text()

    @classmethod
    def from_json(cls, text: str) -> Group:
        """Read what ``to_json`` wrote."""
        plain = json.loads(text)
        ops = tuple(op_of(row) for row in plain["ops"])
        types = tuple((x, TensorType(tuple(shape))) for x, shape, _ in plain["types"])
        return cls(ops, types, tuple(plain["outputs"]), frozenset(plain["constants"]))


def is_convex(graph: Graph, names: set[str]) -> bool:
    """Return True if no path leaves the set and comes back: such a set can be one program."""
    position = {op.name: i for i, op in enumerate(graph.ops)}
    last = max(position[name] for name in names)
    frontier = [s for name in names for s in graph.successors(name) if s not in names]
    seen: set[str] = set()
    while frontier:
        name = frontier.pop()
        if name in seen or position[name] > last:
            continue
        seen.add(name)
        for successor in graph.successors(name):
            if successor in names:
                return False
            frontier.append(successor)
    return True


def is_connected(graph: Graph, names: set[str]) -> bool:
    """Return True if tensors made and read inside the set connect it."""
    apart, frontier = set(names), [next(iter(names))]
    while frontier:
        name = frontier.pop()
        if name in apart:
            apart.remove(name)
            frontier += [*graph.successors(name), *graph.predecessors(name)]
    return not apart

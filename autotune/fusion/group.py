"""Fusion groups: convex connected subgraphs that become one program each."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autotune.display import Card, Displayed
from autotune.errors import InputError, ScheduleError
from autotune.fusion.operands import Shape, Tensor, arrange, build, nearest, row_of, shape_of
from autotune.graph.graph import Graph
from autotune.graph.serialization import op_of, plain_op, plain_type, type_of
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import TensorType


class Structure:
    """What the cost of a group depends on, without any name; a key of caches."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: object) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Structure) and self._parts == other._parts


@dataclass(frozen=True, repr=False)
class Group(Displayed):
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

    def _card(self) -> Card:
        kinds = Counter(op.kind.value for op in self.ops)
        names = ", ".join(f"{kind} × {n}" if n > 1 else kind for kind, n in kinds.items())
        ends = (("reads", self.inputs), ("makes", self.outputs))
        facts = [
            (label, ", ".join(str(list(self.type_of[x].shape)) for x in xs)) for label, xs in ends
        ]
        rows = [
            (op.name, op.kind.value, str(list(self.type_of[op.output].shape))) for op in self.ops
        ]
        return Card(f"Group of {names}", facts, ("operator", "kind", "result"), rows)

    @classmethod
    def of_names(cls, graph: Graph, names: tuple[str, ...]) -> Group:
        """Return the group of the named operators. Raises ``InputError`` as ``Graph.group`` does."""
        for name in names:
            if name not in graph.named:
                raise InputError(
                    f"{graph.name} has no operator {name!r}{nearest(name, graph.named)} "
                    "(graph.ops lists all)"
                )
        if names and not is_convex(graph, set(names)):
            raise InputError(
                f"{', '.join(names)} cannot be one program: a path leaves them and comes back; "
                "name the operators on it as well"
            )
        return cls.from_graph(graph, names)

    @cached_property
    def type_of(self) -> Mapping[str, TensorType]:
        """Tensor name to type."""
        return dict(self.types)

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Names of all tensors, in the order of ``types``: equal structures have equal orders."""
        return tuple(name for name, _ in self.types)

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

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Tensor name to its position in order of first use."""
        names = dict.fromkeys(x for op in self.ops for x in (*op.inputs, op.output))
        return {x: place for place, x in enumerate(names)}

    @cached_property
    def structure(self) -> Structure:
        """Operators, shapes and outputs by position: equal for groups of equal cost."""
        at = self.places
        ops = tuple((op.kind, tuple(at[x] for x in op.inputs), op.attrs) for op in self.ops)
        made = tuple(at[op.output] for op in self.ops)
        shapes = tuple((self.type_of[x].shape, self.type_of[x].storage) for x in at)
        return Structure(ops, made, shapes, tuple(at[x] for x in self.outputs))

    def then(
        self,
        kind: OpKind | str,
        /,
        *operands: Group | Shape,
        name: str = "",
        constants: Iterable[str] | None = None,
        **given: Any,
    ) -> Group:
        """Return this group with one operator more, whose first operand is this group's result.

        Other operands and attributes are those of ``layer``.
        """
        return self.fuse(layer(kind, self, *operands, name=name, constants=constants, **given))

    def fuse(self, consumer: Group, keep: Iterable[str] = ()) -> Group:
        """Return the group of these operators and those of a consumer, joined by tensor names.

        A result that the consumer reads stays inside; ``keep`` names those that others read too.
        Raises ``InputError`` if the consumer reads nothing of this group, or makes what it has.
        """
        kept = {keep} if isinstance(keep, str) else set(keep)
        read = set(consumer.inputs)
        if not read & self.producer.keys():
            raise InputError(
                f"the consumer reads {', '.join(consumer.inputs)}; the producer makes "
                f"{', '.join(self.producer)}: the two groups have no tensor in common"
            )
        for x in consumer.producer.keys() & self.places.keys():
            raise InputError(f"tensor {x!r} is made by the consumer and known to the producer")
        for x in consumer.places.keys() & self.places.keys():
            if consumer.type_of[x] != self.type_of[x]:
                shapes = [list(group.type_of[x].shape) for group in (self, consumer)]
                raise InputError(f"tensor {x!r} has shape {shapes[0]} and {shapes[1]}")
        types = {**self.type_of, **consumer.type_of}
        ops = (*self.ops, *consumer.ops)
        made = {**self.producer, **consumer.producer}
        outputs = [x for x in self.outputs if x not in read or x in kept]
        tensors = dict.fromkeys(x for op in ops for x in (*op.inputs, op.output))
        return Group(
            ops,
            tuple((x, types[x]) for x in tensors),
            (*outputs, *consumer.outputs),
            frozenset((self.constants | consumer.constants) - made.keys()),
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
            "types": [[x, *plain_type(t)] for x, t in self.types],
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
        types = tuple((x, type_of(row)) for x, *row in plain["types"])
        return cls(ops, types, tuple(plain["outputs"]), frozenset(plain["constants"]))


def layer(
    kind: OpKind | str,
    /,
    *operands: Group | Shape,
    name: str = "",
    constants: Iterable[str] | None = None,
    **given: Any,
) -> Group:
    """Return the group of one operator, from plain shapes.

    An operand is a shape, or a group whose last result is read: ``layer("relu", conv)``. Operands
    go by position or by the name that errors tell, with attributes as in ONNX:
    ``layer("conv", x=(1, 64, 56, 56), w=(64, 64, 3, 3), pads=1)``. Equal calls make equal tensors,
    which ``name`` tells apart. ``constants`` names operands that are known before run time (None:
    weights). Raises ``InputError`` for an unknown kind, operand or attribute, ``ModelError`` for
    shapes that do not fit.
    """
    row = row_of(kind)
    listed, attributes = arrange(row, operands, given)
    groups = [x for x in listed.values() if isinstance(x, Group)]
    for number, group in enumerate(groups):
        if any(other is not group and other == group for other in groups[:number]):
            raise InputError(
                f"{row.kind}: two operands are equal, {group!r}; tell them apart by name=, or pass "
                "the same object twice"
            )
    read = {
        label: Tensor(x.outputs[-1], x.type_of[x.outputs[-1]])
        if isinstance(x, Group)
        else shape_of(x, f"{row.kind}: {label}")
        for label, x in listed.items()
    }
    built = build(row, read, attributes, name, constants)
    tensors = dict(built.tensors)  # an operand may be read twice
    return Group((built.op,), tuple(tensors.items()), (built.op.output,), built.constants)


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


def connected_halves(
    graph: Graph, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Give the ways to cut operators in two, in their order, so that each half is connected."""
    for at in range(1, len(names)):
        halves = names[:at], names[at:]
        if all(is_connected(graph, set(half)) for half in halves):
            yield halves

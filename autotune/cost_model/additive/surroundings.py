"""Where an operator stands in its group: what makes its inputs, what reads its result, what lies between."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from autotune.cost_model.additive.operator_work import ELEMENT_BYTES, OperatorWork
from autotune.fusion.file_part import FilePart, Node
from autotune.fusion.group import Group
from autotune.operators.families import FAMILIES
from autotune.operators.family import Work
from autotune.operators.op import Family, Op


class Neighbour(IntEnum):
    """Sorts of operators that a neighbour may be, as fusing systems tell them apart."""

    OUTSIDE = 0
    CONV = 1
    MATMUL = 2
    ACTIVATION = 3
    BINARY = 4
    POOL = 5
    NORM = 6
    MOVE = 7
    OTHER = 8


_OWN_SORTS = {
    Family.CONV: Neighbour.CONV,
    Family.WINOGRAD: Neighbour.CONV,
    Family.MATMUL: Neighbour.MATMUL,
    Family.STRASSEN: Neighbour.MATMUL,
    Family.UNARY: Neighbour.ACTIVATION,
    Family.BINARY: Neighbour.BINARY,
    Family.POOL: Neighbour.POOL,
    Family.REDUCE: Neighbour.POOL,
    Family.SOFTMAX: Neighbour.NORM,
    Family.LAYER_NORM: Neighbour.NORM,
}
"""Families that fusing systems tell apart from others of the same work."""
_SORTS = {
    family: _OWN_SORTS.get(family, Neighbour.MOVE if row.work is Work.MOVE else Neighbour.OTHER)
    for family, row in FAMILIES.items()
}
_IMAGES = (Neighbour.CONV, Neighbour.POOL)
_THROUGH = (Neighbour.ACTIVATION, Neighbour.BINARY)


@dataclass(frozen=True)
class Surroundings:
    """The operators of a group by their neighbours; every question is about one operator."""

    group: Group

    @cached_property
    def works(self) -> tuple[OperatorWork, ...]:
        """Sizes of every operator, in order."""
        return tuple(OperatorWork(op, self.group) for op in self.group.ops)

    @cached_property
    def readers(self) -> dict[str, list[Op]]:
        """Tensor name to the operators that read it."""
        found: dict[str, list[Op]] = {}
        for op in self.group.ops:
            for x in dict.fromkeys(op.inputs):
                found.setdefault(x, []).append(op)
        return found

    @cached_property
    def _made_before(self) -> dict[str, int]:
        """Tensor name to the bytes that the group moved before it was made."""
        moved, before = 0, {}
        for work in self.works:
            moved += work.moved_bytes
            before[work.op.output] = moved
        return before

    def producer(self, op: Op, place: int) -> Op | None:
        """Return the operator that makes the input at ``place``, None outside of the group."""
        return self.group.producer.get(op.inputs[place]) if place < len(op.inputs) else None

    def before(self, op: Op, place: int = 0) -> Neighbour:
        """Return the sort of operator that makes an input."""
        made = self.producer(op, place)
        return Neighbour.OUTSIDE if made is None else _SORTS[made.family]

    def after(self, op: Op) -> Neighbour:
        """Return the sort of the first operator that reads the result."""
        readers = self.readers.get(op.output)
        return _SORTS[readers[0].family] if readers else Neighbour.OUTSIDE

    def is_only_reader(self, op: Op, place: int = 0) -> bool:
        """Return True if nothing else needs an input that the group makes."""
        made = self.producer(op, place)
        if made is None or made.output in self.group.outputs:
            return False
        return len(self.readers[made.output]) == 1

    def reader_count(self, op: Op) -> int:
        """Return the number of operators that read the result, the world outside being one."""
        return len(self.readers.get(op.output, ())) + (op.output in self.group.outputs)

    @cached_property
    def _contraction_distance(self) -> dict[str, int]:
        """Tensor name to the element-wise operators since the contraction that it continues; −1 for none."""
        found: dict[str, int] = {}
        for op in self.group.ops:
            found[op.output] = -1
            if op.family in (Family.CONV, Family.MATMUL, Family.WINOGRAD, Family.STRASSEN):
                found[op.output] = 0
            elif op.family in (Family.UNARY, Family.BINARY):
                chains = [
                    found[x] + 1
                    for place, x in enumerate(op.inputs)
                    if found.get(x, -1) >= 0 and self.is_only_reader(op, place)
                ]
                found[op.output] = max(chains, default=-1)
        return found

    def steps_since_contraction(self, op: Op) -> int:
        """Return how many element-wise operators the result is behind a contraction that only they
        read; 0 for a contraction, −1 elsewhere."""
        return self._contraction_distance[op.output]

    @cached_property
    def _image_before(self) -> dict[str, bool]:
        """Tensor name to whether it comes from a convolution through element-wise operators and pools."""
        found: dict[str, bool] = {}
        for op in self.group.ops:
            sort = _SORTS[op.family]
            found[op.output] = sort is Neighbour.CONV or (
                (sort in _THROUGH or sort is Neighbour.POOL or op.family is Family.CONCAT)
                and any(found.get(x, False) for x in op.inputs)
            )
        return found

    @cached_property
    def _image_after(self) -> dict[str, bool]:
        """Tensor name to whether it reaches a convolution or pool through element-wise operators."""
        found: dict[str, bool] = {}
        for op in reversed(self.group.ops):
            found[op.output] = any(
                _SORTS[reader.family] in _IMAGES
                or (_SORTS[reader.family] in _THROUGH and found[reader.output])
                for reader in self.readers.get(op.output, ())
            )
        return found

    def continues_image(self, op: Op) -> bool:
        """Return True if an input comes from a convolution of the group."""
        return any(self._image_before.get(x, False) for x in op.inputs)

    def feeds_image(self, op: Op) -> bool:
        """Return True if the result goes on to a convolution of the group."""
        return self._image_after[op.output]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes of the group's file that import wrote in other operators; none for a group without a file."""
        return self.group.nodes if isinstance(self.group, FilePart) else ()

    @cached_property
    def _node_sizes(self) -> dict[str, int]:
        """Result of every operator that import made with others of one node, to their number."""
        outputs = [op.output for op in self.group.ops]
        return {outputs[place]: len(places) for _, places in self.nodes for place in places}

    def operators_of_node(self, op: Op) -> int:
        """Return how many operators import made of the node that an operator is of: those of all steps, of a recurrent layer."""
        return self._node_sizes.get(op.output, 1)

    def bytes_of(self, tensors: Iterable[str]) -> int:
        """Return the bytes of some tensors of the group."""
        return ELEMENT_BYTES * sum(math.prod(self.group.type_of[x].shape) for x in tensors)

    def is_read_within(self, tensor: str, made: Container[str]) -> bool:
        """Return True if nothing reads a tensor but operators that make one of ``made``."""
        return all(op.output in made for op in self.readers.get(tensor, ()))

    def bytes_since(self, op: Op) -> int:
        """Return the bytes that the group moves between making an input and reading it, the largest of
        all inputs; what comes from outside waits for as long as all of the group takes."""
        now = self._made_before[op.output]
        whole = self.total_bytes
        computed = [x for x in op.inputs if x not in self.group.constants]
        waits = [now - self._made_before[x] if x in self._made_before else whole for x in computed]
        return max(waits, default=0)

    @cached_property
    def total_bytes(self) -> int:
        """Bytes that all operators of the group move."""
        return sum(work.moved_bytes for work in self.works)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all constants of the group, each once."""
        return self.bytes_of(self.group.constants)

"""Tensors that a group keeps on chip: the traffic that shapes alone say fusion saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.operators.op import Family


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """One tensor, and how often it crosses between DRAM and scratchpad, each time whole.

    ``apart`` counts the crossings if every operator runs by itself, ``fused`` those of the group.
    """

    tensor: str
    shape: tuple[int, ...]
    size_bytes: int
    apart: int
    fused: int

    @property
    def saved_bytes(self) -> int:
        """Bytes of the crossings that fusion saves."""
        return (self.apart - self.fused) * self.size_bytes


def kept_tensors(group: Group) -> tuple[KeptTensor, ...]:
    """Return the tensors that cross less often than with operators run apart, most bytes first.

    Views cross nothing: a reshape's result is its operand.
    """
    saving = [kept for kept in _crossings(group) if kept.saved_bytes]
    return tuple(sorted(saving, key=lambda kept: -kept.saved_bytes))


def _crossings(group: Group) -> Iterator[KeptTensor]:
    source = _sources(group)
    readers: dict[str, int] = {}
    made: set[str] = set()
    for op in group.ops:
        if op.family is Family.RESHAPE:
            continue
        made.add(op.output)
        for x in {source.get(x, x) for x in op.inputs}:
            readers[x] = readers.get(x, 0) + 1
    stored = {source.get(x, x) for x in group.outputs}
    for x in dict.fromkeys((*readers, *made)):
        reads, kind = readers.get(x, 0), group.type_of[x]
        fused = int(x in stored) if x in made else 1
        size = kind.size_bytes
        yield KeptTensor(x, kind.shape, size, reads + int(x in made), fused)


def _sources(group: Group) -> dict[str, str]:
    """Return the tensor whose memory each view renames."""
    source: dict[str, str] = {}
    for op in group.ops:
        if op.family is Family.RESHAPE:
            source[op.output] = source.get(op.inputs[0], op.inputs[0])
    return source

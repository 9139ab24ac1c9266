"""A writer that counts what emitters emit, for all schedules of a table at once.

Emitters of vector stages run on it unchanged: extents of its operands are arrays, so that one
emission counts every schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from autotune.cost_model.steps.extents import Extent, Extents
from autotune.isa.functions import BinaryFn, CostClass, StageKind, UnaryFn
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.tile import Body
from autotune.targets.spec import HardwareSpec

_STAGES = tuple((f"stage{number}_kind", f"stage{number}_fn") for number in range(4))
"""Names of the fields of a chain's stages."""
_UNARY_COSTS = {int(fn): fn.row.cost for fn in UnaryFn}
_BINARY_COSTS = {int(fn): fn.row.cost for fn in BinaryFn}
_UNARY = int(StageKind.UNARY)


@dataclass(frozen=True, slots=True)
class Temporary:
    """The extents of a temporary; coordinates count for nothing."""

    view: Extents
    origin: tuple[()] = ()


@dataclass(slots=True)
class VectorWork:
    """``repeats`` equal vector instructions over ``elements`` each, which read ``operands`` elements
    per element and write ``written`` in all; ``classes`` are of the functions that a pass runs
    through, ``conflict`` the cycles that reading one pass takes for its banks."""

    repeats: Extent
    elements: Extent
    operands: int
    written: Extent
    classes: tuple[CostClass, ...] = (CostClass.SIMPLE,)
    conflict: Extent = 1


_Key = tuple[int, int, int, tuple[CostClass, ...], int]


@dataclass(slots=True)
class CountingWriter:
    """Collects the vector instructions that emitters emit, equal ones as one ``VectorWork``."""

    spec: HardwareSpec
    weight: Extent = 1
    """Times that each emitted instruction runs."""
    _work: dict[_Key, VectorWork] = field(default_factory=dict)

    @property
    def work(self) -> list[VectorWork]:
        """Instructions so far."""
        return list(self._work.values())

    def emit(
        self,
        opcode: Opcode,
        unit: Unit,
        writes: tuple[Extents, ...],
        reads: tuple[Extents, ...],
        **fields: Any,
    ) -> None:
        """Count one instruction."""
        assert unit is Unit.VECTOR, "only vector instructions are counted"
        (result,) = writes
        over, operands = (reads[0], 1) if opcode is Opcode.REDUCE else (result, len(reads))
        if opcode is Opcode.MASK:
            operands = 0  # it only writes
        classes = _classes(opcode, fields)
        conflict = _worst(reads, self.spec)
        elements, written = over.elements, result.elements
        key = (id(elements), operands, id(written), classes, id(conflict))
        same = self._work.get(key)
        if same is None:
            self._work[key] = VectorWork(
                self.weight, elements, operands, written, classes, conflict
            )
        else:
            same.repeats = same.repeats + self.weight

    def over_batch(self, rank: int, operands: Sequence[Extents], body: Body) -> None:
        """Count ``body`` once for all indices of the first ``rank`` dimensions."""
        sizes = operands[0].sizes[:rank]
        outer, self.weight = self.weight, self.weight * prod(sizes)
        body(self, *(x.reshaped(x.sizes[rank:], x.strides[rank:]) for x in operands))
        self.weight = outer

    def each(self, *extents: int) -> Iterator[tuple[int, ...]]:
        """Yield the first index, then the last one with the weight of all but the first."""
        yield (0,) * len(extents)
        others = prod(extents) - 1
        if others:
            outer, self.weight = self.weight, self.weight * others
            yield tuple(extent - 1 for extent in extents)
            self.weight = outer


def _worst(reads: tuple[Extents, ...], spec: HardwareSpec) -> Extent:
    """Return the conflict of the operand that takes longest to read."""
    worst: Extent = 1
    for read in reads:
        if read.strides:
            found = read.conflict(spec)
            worst = found if isinstance(worst, int) and worst == 1 else np.maximum(worst, found)
    return worst


def _classes(opcode: Opcode, fields: dict[str, Any]) -> tuple[CostClass, ...]:
    """Return the cost classes of the functions of one pass."""
    match opcode:
        case Opcode.UNARY:
            return (_UNARY_COSTS[fields["fn"]],)
        case Opcode.BINARY:
            return (_BINARY_COSTS[fields["fn"]],)
        case Opcode.CHAIN:
            return tuple(_stages(fields))
        case _:
            return (CostClass.SIMPLE,)


def _stages(fields: dict[str, Any]) -> Iterator[CostClass]:
    for kind_name, fn_name in _STAGES:
        kind = fields.get(kind_name)
        if kind is None:
            return
        yield (_UNARY_COSTS if kind == _UNARY else _BINARY_COSTS)[fields[fn_name]]

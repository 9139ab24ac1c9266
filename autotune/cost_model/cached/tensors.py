"""What a CPU's engine makes of a nest's tensors and views: which are loaded, shown in another order,
or packed before a run, and how many bytes they are. ``work_counts.py`` counts by it."""

from __future__ import annotations

import math

from autotune.fusion.nest import Nest, Stage
from autotune.isa.formats import ELEMENT_BYTES
from autotune.operators.op import Family


def moved_bytes(nest: Nest) -> float:
    """Return the bytes of all tensors that a nest loads and stores, each once, and of rows that it looks up."""
    rows = sum(math.prod(nest.types[stage.output].shape) for stage in _look_ups(nest))
    return _bytes_of(nest, _transferred(nest)) + float(ELEMENT_BYTES * rows)


def held_bytes(nest: Nest) -> float:
    """Return the bytes of all tensors that a nest uses, each once: caches would have to hold them. It may want
    any row of a table."""
    return _bytes_of(nest, _transferred(nest) | {s.op.inputs[0] for s in _look_ups(nest)})


def _transferred(nest: Nest) -> set[str]:
    return {nest.buffers[i].tensor for i in nest.loads} | set(nest.stores)


def _look_ups(nest: Nest) -> list[Stage]:
    return [stage for stage in nest.stages if stage.op.family is Family.GATHER]


def _bytes_of(nest: Nest, names: set[str]) -> float:
    return float(ELEMENT_BYTES * sum(math.prod(nest.types[x].shape) for x in names))


class Views:
    """The views of a nest, and what they show."""

    def __init__(self, nest: Nest) -> None:
        self._made = {stage.output: stage for stage in nest.stages}
        self.turned = _turned(nest)
        stored = (self._made[x] for x in nest.stores if x in self.turned)
        self.stored_turned = {self.source(stage).output for stage in stored}

    def source(self, stage: Stage) -> Stage:
        """What made the elements that a view shows; the last view itself where they are loaded."""
        while stage.view and stage.op.inputs[0] in self._made:
            stage = self._made[stage.op.inputs[0]]
        return stage

    def reshaped(self, stage: Stage) -> bool:
        """Whether a view, or one that it shows, is of another shape."""
        while stage.view:
            if stage.op.family is Family.RESHAPE:
                return True
            if stage.op.inputs[0] not in self._made:
                return False
            stage = self._made[stage.op.inputs[0]]
        return False


def _last(shape: tuple[int, ...]) -> int:
    """The dimension of unit stride."""
    return max((d for d, n in enumerate(shape) if n > 1), default=0)


def _turned(nest: Nest) -> set[str]:
    """Views that do not have unit stride along their last dimension."""
    found: set[str] = set()
    for stage in nest.stages:
        if not stage.view:
            continue
        source, result = (nest.types[x].shape for x in (stage.op.inputs[0], stage.output))
        last = _last(result)
        match stage.op.family:
            case Family.TRANSPOSE:
                turns = stage.op.ints("perm")[last] != _last(source)
            case Family.SLICE:
                turns = last != _last(source)
            case _:
                turns = False
        if turns or stage.op.inputs[0] in found:
            found.add(stage.output)
    return found


def packed_ahead(nest: Nest, stage: Stage) -> bool:
    """Whether the factor in lanes is a constant, as far as a nest shows it: weights of a
    convolution, or a loaded matrix."""
    if stage.operands[1] is None:
        return False
    return stage.op.family is not Family.MATMUL or len(nest.types[stage.op.inputs[1]].shape) == 2

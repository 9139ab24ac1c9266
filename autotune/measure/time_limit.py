"""Time limits of single candidates: by their size, unless the user sets one."""

from __future__ import annotations

from autotune.fusion.group import Group
from autotune.measure.batching import tensor_bytes
from autotune.operators.families import FAMILIES
from autotune.operators.op import Op
from autotune.schedule.candidate import Candidate

BASE_SECONDS = 60.0
"""Lowering, code generation and visits of a small candidate take 0.2 s alone; a machine whose cores
ten others want, and that pages, takes some seconds."""

BYTES_PER_SECOND = 2e7
"""Tensors are drawn, packed and visited at a hundred times this rate."""

OPERATIONS_PER_SECOND = 5e7
"""Ten repeats at 5·10⁸ scalar operations a second, a hundredth of what one core reaches."""


def default_seconds(candidate: Candidate) -> float:
    """Return the seconds after which a measurement of the candidate has certainly hung."""
    group = candidate.group
    work = sum(_operations(group, op) for op in group.ops)
    return BASE_SECONDS + tensor_bytes(group) / BYTES_PER_SECOND + work / OPERATIONS_PER_SECOND


def _operations(group: Group, op: Op) -> int:
    shapes = [group.type_of[name].shape for name in op.inputs]
    return FAMILIES[op.family].operations(op, shapes, group.type_of[op.output].shape)

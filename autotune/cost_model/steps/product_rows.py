"""Rows of one MATMUL of a tile: read by the estimates of emulated machines and of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autotune.cost_model.steps.extents import Extent, product
from autotune.operators.op import Op
from autotune.operators.tensor import TensorType


def product_rows(
    op: Op, types: Mapping[str, TensorType], out: Sequence[Extent]
) -> tuple[Extent, Extent]:
    """Rows of one instruction and the number of instructions of a MATMUL's tile of extents ``out``.

    Batch axes that share the second factor become rows, as ``lowering/joint_rows.py`` joins them.
    """
    if any(n > 1 for n in types[op.inputs[1]].shape[:-2]):
        return out[-2], product(list(out[:-2]))
    return joint_rows(types[op.output].shape, out)


def joint_rows(shape: Sequence[int], out: Sequence[Extent]) -> tuple[Extent, Extent]:
    """Rows of one instruction and the number of instructions of a tile of extents ``out`` of a result of ``shape``, all
    by one second factor: mirrors ``lowering/joint_rows.py``."""
    rows: Extent = out[-2]
    repeats: Extent = 1
    dense, joins = np.equal(rows, shape[-2]), np.asarray(True)
    for extent, n in zip(reversed(out[:-2]), reversed(shape[:-2]), strict=True):
        joins = joins & ((rows == 1) | (extent == 1) | dense)
        rows = np.where(joins, rows * extent, rows)
        repeats = np.where(joins, repeats, repeats * extent)
        dense = dense & (extent == n)
    return rows, repeats

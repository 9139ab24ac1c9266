"""Batches are as large as workers and memory allow, and never empty."""

from __future__ import annotations

import pytest

from autotune.fusion.group import Group
from autotune.measure.batching import (
    BATCH,
    BATCH_ALONE,
    BATCH_ALONE_BYTES,
    PORTIONS,
    batch_size,
    round_batch_size,
    tensor_bytes,
)
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import TensorType
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import NestSchedule, Schedule

MIB = 1 << 20


def dense(rows: int, inner: int, columns: int) -> Candidate:
    """A product with constant weights; nothing of the kind is allocated."""
    types = {"x": (rows, inner), "w": (inner, columns), "y": (rows, columns)}
    attributes = (("trans_a", 0), ("trans_b", 0))
    group = Group(
        (Op("product", OpKind.MATMUL, ("x", "w"), "y", attributes),),
        tuple((name, TensorType(shape)) for name, shape in types.items()),
        ("y",),
        frozenset({"w"}),
    )
    return Candidate(group, Schedule((NestSchedule((1,), (0,), ()),)), "net")


SMALL = dense(1, 1, 1)
QUARTER = dense(1, 4096, 2048)
"""Holds 64 MiB, its weights twice, and a little."""
VGG = dense(1, 25088, 4096)


def test_a_program_holds_its_tensors_and_its_weights_packed() -> None:
    assert tensor_bytes(dense(3, 5, 7).group) == 4 * (3 * 5 + 2 * 5 * 7 + 3 * 7)
    assert 64 * MIB < tensor_bytes(QUARTER.group) < 65 * MIB
    assert tensor_bytes(VGG.group) > 3 * BATCH_ALONE_BYTES


@pytest.mark.parametrize(
    ("waiting", "size"),
    [
        ([SMALL] * 30, BATCH_ALONE),
        ([QUARTER] * 30, 3),
        ([QUARTER, QUARTER, VGG, SMALL, SMALL], 2),
        ([VGG] * 30, 1),
        ([SMALL, VGG, SMALL], 1),
        ([VGG, SMALL, SMALL], 1),
        ([SMALL] * 7 + [VGG], 7),
    ],
)
def test_batches_of_a_round_end_before_they_hold_too_much(
    waiting: list[Candidate], size: int
) -> None:
    assert round_batch_size(waiting, len(waiting), 1) == size


@pytest.mark.parametrize(
    ("count", "workers", "size"), [(40, 2, 8), (9, 2, 5), (3, 4, 1), (1, 1, 1)]
)
def test_a_round_is_shared_out_evenly(count: int, workers: int, size: int) -> None:
    assert round_batch_size([SMALL] * count, count, workers) == size


@pytest.mark.parametrize("count", [1, 2, 63, 64, 10_000])
def test_batches_become_small_at_the_end(count: int) -> None:
    assert batch_size(count, 2) == min(BATCH, max(1, count // (2 * PORTIONS)))

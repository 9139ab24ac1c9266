"""How many of the candidates that wait a worker gets at once: so many at most, and so many bytes; dispatch
asks for every batch."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.fusion.group import Group
from autotune.schedule.candidate import Candidate

BATCH = 32
"""Candidates per message at most: about 0.2 ms of sending for some 30 ms of measuring."""

BATCH_ALONE = 8
"""The same on a target that runs alone: their results come when all of a round is measured, and their
tensors lie in memory until then …"""

BATCH_ALONE_BYTES = 1 << 28
"""… of so many bytes at most, unless one candidate has more: eight of VGG's first dense layer have 6 GiB, and
a worker that the system ends for that would be taken for a candidate's failure."""

PORTIONS = 4
"""Batches per worker that what is left is cut into: small ones at the end let all finish together."""


def portion(waiting: int, workers: int) -> int:
    """Candidates of the next batch, when so many wait and workers come for them one by one."""
    return min(BATCH, max(1, waiting // (PORTIONS * workers)))


def portion_alone(waiting: Iterable[Candidate], count: int, workers: int) -> int:
    """Candidates of the next batch of a round, when ``count`` wait, in order, and are shared out evenly to
    so many workers that have none yet."""
    share = min(BATCH_ALONE, -(-count // workers))
    held_bytes = 0
    for place, candidate in zip(range(share), waiting, strict=False):
        held_bytes += tensor_bytes(candidate.group)
        if held_bytes > BATCH_ALONE_BYTES:
            return max(1, place)
    return share


def tensor_bytes(group: Group) -> int:
    """Bytes that a prepared program of the group holds: its tensors, and its constants once more, as
    kernels take them."""
    outside = (*group.inputs, *group.outputs, *group.constants)
    types = (group.type_of[name] for name in outside)
    return sum(of.elements * of.dtype.size_bytes for of in types)

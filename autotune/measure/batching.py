"""Batch sizes: how many waiting candidates a worker gets at once, bounded by count and bytes."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.fusion.group import Group
from autotune.schedule.candidate import Candidate

BATCH = 32
"""Candidates per message at most: about 0.2 ms of sending for some 30 ms of measuring."""

BATCH_ALONE = 8
"""The same on a target that runs alone: tensors stay in memory until a whole round is measured."""

BATCH_ALONE_BYTES = 1 << 28
"""Bytes of tensors in such a batch at most, or one candidate: eight of VGG's first dense layer have
6 GiB, and a worker ended by the system for its memory would count as a failed candidate."""

PORTIONS = 4
"""Batches per worker that the rest is cut into: small last batches let all workers finish together."""


def batch_size(waiting: int, workers: int) -> int:
    """Return the size of the next batch, from the counts of waiting candidates and of workers."""
    return min(BATCH, max(1, waiting // (PORTIONS * workers)))


def round_batch_size(waiting: Iterable[Candidate], count: int, workers: int) -> int:
    """Return the size of the next batch of a round: an even share of ``count`` waiting candidates for
    ``workers`` workers, within ``BATCH_ALONE`` candidates and ``BATCH_ALONE_BYTES`` of tensors."""
    share = min(BATCH_ALONE, -(-count // workers))
    held_bytes = 0
    for place, candidate in zip(range(share), waiting, strict=False):
        held_bytes += tensor_bytes(candidate.group)
        if held_bytes > BATCH_ALONE_BYTES:
            return max(1, place)
    return share


def tensor_bytes(group: Group) -> int:
    """Count the bytes that a prepared program of the group holds: its tensors, and its constants once
    more in packed form."""
    outside = (*group.inputs, *group.outputs, *group.constants)
    types = (group.type_of[name] for name in outside)
    return sum(of.size_bytes for of in types)

"""Hand-overs of tensors between devices of this process, measured: a copy by the device's own thread.

A session's device works in a thread of its own. A tensor that another device made goes there by waking that thread, copying
the tensor into the device's memory, and waking the one that waits.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from autotune.runtime.devices.device_worker import DeviceWorker
from autotune.targets.device_set import TIME_LIMIT_SECONDS
from autotune.targets.link_memory import MeasuredLink, fitted, recall_link, remember_link

SIZES = tuple(1 << power for power in range(12, 25, 2))
"""Bytes of the tensors: 4 KiB to 16 MiB, as networks have them."""
ROUNDS = 61
"""Hand-overs of each size, of which the median counts."""


def hand_over_seconds(
    sizes: Sequence[int], rounds: int = ROUNDS, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the median seconds of a hand-over of so many bytes each; sizes take turns in random order, so that all meet
    the same load and one another's traces in the caches.

    The tensor is written right before, as its maker does. Memory of the device is at hand, as a device's is.
    """
    words = max(sizes) // 4
    made, held = np.zeros(words, np.float32), np.zeros(words, np.float32)
    times: list[list[float]] = [[] for _ in sizes]
    order = np.random.default_rng(0)
    worker = DeviceWorker("link", TIME_LIMIT_SECONDS)
    try:
        for turn in range(rounds + 1):
            for number in order.permutation(len(sizes)):
                source, place = (array[: sizes[number] // 4] for array in (made, held))
                source.fill(turn)
                begin = clock()
                worker.call(partial(np.copyto, place, source))
                times[number].append(clock() - begin)
    finally:
        worker.stop()
    return [statistics.median(row[1:]) for row in times]  # the first turn meets cold pages


def measure_link(profile_id: str) -> MeasuredLink:
    """Measure hand-overs on this machine, and remember the link under its profile. Takes some seconds.

    Raises ``StoreError`` where the link cannot be kept.
    """
    found = fitted(zip(SIZES, hand_over_seconds(SIZES), strict=True))
    remember_link(profile_id, found)
    return found


def known_link(profile_id: str) -> MeasuredLink:
    """Return the remembered link of this machine; measure it where there is none."""
    known = recall_link(profile_id)
    return measure_link(profile_id) if known is None else known

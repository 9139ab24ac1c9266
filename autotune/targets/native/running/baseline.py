"""Baseline: what readings of the reference are on a calm machine, learned from all of them.

A host disturbs its guests for milliseconds, or for ten seconds on end. The baseline is therefore a low quantile over the
last half minute of visits, by medians of blocks: one lucky reading does not make it, and one long spell does not spoil it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from autotune.targets.native.running.sampling import quantile

BLOCK = 32
"""Readings of a block: some 12 milliseconds of visits."""

BLOCKS = 2048
"""Blocks that are remembered: some 25 seconds of visits."""

SURE = 512
"""Blocks that overrule what was expected: some six seconds of visits."""


class Baseline:
    """A ``share`` of readings is at most ``value``.

    A process may begin in a spell: its first blocks lower what is ``expected`` (0.0: nothing), and only ``SURE`` ones
    raise it.
    """

    def __init__(self, share: float, expected: float, first: Iterable[float]) -> None:
        """``first``: readings that come at once, of which one at least is above 0."""
        self._share, self._expected = share, expected
        self._block: list[float] = []
        self._medians: deque[float] = deque(maxlen=BLOCKS)
        self.value = expected
        for reading in first:
            self.add(reading)
        if not self._medians:
            self._end_block()

    @property
    def is_sure(self) -> bool:
        """Whether there are enough readings to overrule what was expected."""
        return len(self._medians) >= SURE

    def add(self, reading: float) -> bool:
        """Take a reading; return True if ``value`` is now that of one more block."""
        self._block.append(reading)
        if len(self._block) < BLOCK:
            return False
        self._end_block()
        return True

    def _end_block(self) -> None:
        self._medians.append(quantile(self._block, 0.5))
        self._block.clear()
        own = quantile(self._medians, self._share)
        holds = self._expected and not self.is_sure
        self.value = min(self._expected, own) if holds else own

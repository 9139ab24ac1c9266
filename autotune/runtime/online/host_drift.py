"""Drift of the machine that also runs everything else: a plateau higher or lower than any that went by itself.

Ordinary noise of such a machine is no noise around a level: clocks step by a tenth for seconds, others' work comes and goes. Other
work makes runs longer, never shorter, so a block of runs counts as long as its lower quartile. The least of the newest blocks is the
plateau that all of them reach; drift is a plateau above every one that the runs came back from. Plateaus have several lengths: the
longer, the lower are those that went by themselves. The same holds downwards.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import exp, inf, log
from statistics import median

from autotune.errors import InputError
from autotune.runtime.online.drift import DetectedDrift

MOST_BLOCKS = 256
"""A stay of so many blocks is no noise, however often it is seen."""


@dataclass(frozen=True, slots=True)
class HostDriftRule:
    """What counts as drift of this machine: a plateau of one of ``plateau_blocks`` that lies by half of ``change`` (a
    fraction) or more beyond all of its length that passed. A block is ``block_runs`` runs over ``block_seconds``; of more runs in
    that time some are looked at. A plateau is no drift before ``plateau_seconds``.
    After n blocks it has to lie by 1 + ``young_blocks`` / n times as much beyond: few blocks do not tell how high noise goes. The level before is the median of the first ``level_blocks``."""

    change: float = 0.05
    block_runs: int = 12
    block_seconds: float = 0.02
    plateau_seconds: float = 0.1
    plateau_blocks: tuple[int, ...] = (3, 6, 12, 24, 48)
    level_blocks: int = 64
    young_blocks: int = 128

    def __post_init__(self) -> None:
        if not 0 < self.change <= 1:
            raise InputError(f"drift by {self.change} is not in 0..1; 0.05 asks for 5 %")
        for name in ("block_runs", "level_blocks"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)} must be ≥ 1")
        if not self.plateau_blocks or min(self.plateau_blocks) < 1:
            raise InputError(f"plateau_blocks = {self.plateau_blocks} must be lengths ≥ 1")
        for name in ("block_seconds", "plateau_seconds"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} = {getattr(self, name):g} must be ≥ 0")


def looks_apart_seconds(rule: object) -> float:
    """Return the seconds between two runs that a detector with this rule looks at; 0 if it looks at all."""
    own = HostDriftRule() if rule is None else rule
    return own.block_seconds / own.block_runs if isinstance(own, HostDriftRule) else 0.0


class HostDriftDetector:
    """Follows the seconds that runs of one plan take. Constant time and memory a run.

    What it learns of this machine's noise outlives ``restart``: a machine that steps to and fro has to stay for longer
    each time than it ever stayed before.
    """

    def __init__(self, rule: HostDriftRule | None = None) -> None:
        self.rule = HostDriftRule() if rule is None else rule
        self._pause_seconds = looks_apart_seconds(self.rule)
        self._quartile = self.rule.block_runs // 4
        self._steps = _Steps()
        self._lengths = tuple(
            _Length(blocks, self.rule, self._steps) for blocks in self.rule.plateau_blocks
        )
        self._stay_blocks, self._change = MOST_BLOCKS, 0.0
        self.restart()

    def restart(self) -> None:
        """Take the level from the runs that come from now on."""
        self._block: list[float] = []
        self._next_seconds = self._began_seconds = -inf
        self._levels: list[tuple[float, float]] = []
        self._level: float | None = None
        if self._stay_blocks < MOST_BLOCKS:
            self._steps.add(self._stay_blocks, self._change)
        self._stay_blocks, self._change = 0, 0.0
        for length in self._lengths:
            length.restart()

    def observe(self, seconds: float, at_seconds: float = 0.0) -> DetectedDrift | None:
        """Take in one run and when it ended; say if there is drift."""
        if at_seconds < self._next_seconds:
            return None
        self._next_seconds = at_seconds + self._pause_seconds
        block = self._block
        if not block:
            self._began_seconds = at_seconds
        block.append(seconds)
        if len(block) < self.rule.block_runs:
            return None
        block.sort()
        quartile = block[self._quartile]
        block.clear()
        return self.observe_block(quartile, self._began_seconds)

    def observe_block(self, seconds: float, began_seconds: float) -> DetectedDrift | None:
        """Take in the lower quartile of a block's runs, and when its first run ended; say if there is drift."""
        self._began_seconds, value = began_seconds, log(seconds)
        self._stay_blocks += 1
        if self._level is None:
            self._learn(value)
            return None
        return self._test(value - self._level)

    def _learn(self, value: float) -> None:
        """Take the level from the first blocks, then the plateaus among them."""
        self._levels.append((value, self._began_seconds))
        if len(self._levels) < self.rule.level_blocks:
            return
        level = self._level = median(value for value, _ in self._levels)
        for length in self._lengths:
            for value, began_seconds in self._levels:
                length.learn(value - level, began_seconds)
        self._levels.clear()

    def _test(self, height: float) -> DetectedDrift | None:
        found = [length.test(height, self._began_seconds) for length in self._lengths]
        drift = next((one for one in found if one is not None), None)
        if drift is not None:
            self._change = abs(log(1 + drift.change))
        return drift


class _Steps:
    """Stays at a level that drift ended soon: a machine that steps to and fro has to stay for longer each time."""

    def __init__(self) -> None:
        self._blocks, self._height = 0, 0.0

    def add(self, blocks: int, height: float) -> None:
        """Note a stay of so many blocks, and the change that ended it."""
        self._blocks = max(self._blocks, blocks)
        self._height = max(self._height, height)

    def wanted_blocks(self, height: float) -> float:
        """Return the blocks that a plateau has to last: the higher, the fewer."""
        return float(self._blocks * (self._height / height) ** 2)


class _Length:
    """Plateaus of one length, upwards and downwards."""

    def __init__(self, blocks: int, rule: HostDriftRule, steps: _Steps) -> None:
        self._blocks = self._longest = blocks
        """Blocks of a plateau; and of the longest stay away from a level that passed."""
        self._rule, self._steps, self._seen = rule, steps, 0
        self._up, self._down = _Side(), _Side()
        self._heights: deque[float] = deque(maxlen=blocks)
        self._began: deque[float] = deque(maxlen=blocks)

    def restart(self) -> None:
        """Begin at a new level."""
        self._heights.clear()
        self._began.clear()
        self._up.begin()
        self._down.begin()

    def _plateaus(self, height: float, began_seconds: float) -> tuple[tuple[_Side, float], ...]:
        """Take in a block; return both sides, with the height that all of the newest blocks reach."""
        heights = self._heights
        heights.append(height)
        self._began.append(began_seconds)
        if len(heights) < self._blocks:
            return ()
        return (self._up, min(heights)), (self._down, -max(heights))

    def learn(self, height: float, began_seconds: float) -> None:
        """Take in a block that is no drift."""
        self._seen += 1
        for side, plateau in self._plateaus(height, began_seconds):
            side.passed = max(side.passed, plateau)

    def test(self, height: float, began_seconds: float) -> DetectedDrift | None:
        """Take in a block; say if there is drift."""
        rule = self._rule
        self._seen += 1
        half = log(1 + rule.change) / 2
        margin = half * (1 + rule.young_blocks / self._seen)
        for side, plateau in self._plateaus(height, began_seconds):
            side.add(plateau, half, self._began[0])
            is_long = began_seconds - self._began[0] >= rule.plateau_seconds
            if is_long and plateau > side.passed + margin and self._lasts(side, plateau):
                noise = max(self._up.passed, self._down.passed)
                return DetectedDrift(
                    exp(median(self._heights)) - 1, exp(noise) - 1, side.since_seconds
                )
            if plateau <= 0.0 and side.blocks:
                long = side.blocks + self._blocks if side.highest > margin else 0
                self._longest = min(MOST_BLOCKS, max(self._longest, long))
                side.end()
        return None

    def _lasts(self, side: _Side, plateau: float) -> bool:
        """Return True if runs stay for longer than ever before; the further beyond what passed, the sooner."""
        wanted = self._longest * (side.passed / plateau) ** 2
        return side.blocks + self._blocks > max(wanted, self._steps.wanted_blocks(plateau))


class _Side:
    """Plateaus on one side of the level: the highest that passed, and the one that runs are on."""

    __slots__ = ("blocks", "highest", "passed", "since_seconds")

    def __init__(self) -> None:
        self.passed = 0.0
        self.begin()

    def begin(self) -> None:
        self.highest, self.blocks, self.since_seconds = 0.0, 0, inf

    def add(self, plateau: float, half: float, began_seconds: float) -> None:
        """Take in a plateau and when it began: what is ``half`` of a change high may become drift."""
        if plateau <= half:
            self.since_seconds = inf
        if plateau <= 0.0:
            return
        if plateau > half:
            self.since_seconds = min(self.since_seconds, began_seconds)
        self.blocks += 1
        self.highest = max(self.highest, plateau)

    def end(self) -> None:
        """The runs came back: what was reached is known from now on."""
        self.passed = max(self.passed, self.highest)
        self.begin()

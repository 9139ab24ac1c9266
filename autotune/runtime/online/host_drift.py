"""Drift of the machine that also runs everything else: a plateau higher or lower than any that went by itself.

Ordinary noise of such a machine is no noise around a level: clocks step by a tenth for seconds, others' work comes and goes. The
test is on ranks of medians. Runs are cut into blocks. The least of the newest three blocks' medians is the plateau
that all three reach; drift is a plateau above every one that the runs came back from. The same holds downwards.
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
    """What counts as drift of this machine: a plateau of ``plateau_blocks`` that lies by half of ``change`` (a
    fraction) or more beyond all that passed. A block is ``block_runs`` runs over ``block_seconds``; of more runs in
    that time some are looked at. The level before is the median of the first ``level_blocks``."""

    change: float = 0.05
    block_runs: int = 12
    block_seconds: float = 0.1
    plateau_blocks: int = 3
    level_blocks: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.change <= 1:
            raise InputError(f"drift by {self.change} is not in 0..1; 0.05 asks for 5 %")
        for name in ("block_runs", "plateau_blocks", "level_blocks"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)} must be ≥ 1")
        if self.block_seconds < 0:
            raise InputError(f"block_seconds = {self.block_seconds:g} must be ≥ 0")


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
        self._up, self._down = _Side(), _Side()
        self._longest = self.rule.plateau_blocks
        """Blocks of the longest stay away from a level, or at one, that passed."""
        self._stay = MOST_BLOCKS
        self.restart()

    def restart(self) -> None:
        """Take the level from the runs that come from now on."""
        self._block: list[float] = []
        self._next_seconds = self._began_seconds = -inf
        self._newest: deque[float] = deque(maxlen=self.rule.plateau_blocks)
        self._levels: list[float] = []
        self._level: float | None = None
        if self._stay < MOST_BLOCKS:
            self._longest = max(self._longest, self._stay)
        self._stay = 0
        self._up.begin()
        self._down.begin()

    @property
    def noise(self) -> float:
        """Highest plateau that passed, over the level (a fraction): smaller changes cannot be told from noise."""
        return exp(max(self._up.passed, self._down.passed)) - 1

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
        value = log(median(block))
        block.clear()
        self._stay += 1
        if self._level is None:
            self._learn(value)
            return None
        self._newest.append(value - self._level)
        return self._test()

    def _learn(self, value: float) -> None:
        """Take the level from the first blocks, then the plateaus among them."""
        self._levels.append(value)
        if len(self._levels) < self.rule.level_blocks:
            return
        level = self._level = median(self._levels)
        for one in self._levels:
            self._newest.append(one - level)
            for side, plateau in self._plateaus():
                side.passed = max(side.passed, plateau)
        self._levels.clear()

    def _plateaus(self) -> tuple[tuple[_Side, float], ...]:
        """Both sides, with the height that all of the newest blocks reach."""
        return (self._up, min(self._newest)), (self._down, -max(self._newest))

    def _test(self) -> DetectedDrift | None:
        margin = log(1 + self.rule.change) / 2
        for side, plateau in self._plateaus():
            side.add(plateau, self._began_seconds)
            if plateau > side.passed + margin and self._lasts(side, plateau):
                return DetectedDrift(exp(median(self._newest)) - 1, self.noise, side.since_seconds)
            if plateau <= 0.0 and side.blocks:
                long = side.blocks + len(self._newest) if side.highest > margin else 0
                self._longest = min(MOST_BLOCKS, max(self._longest, long))
                side.end()
        return None

    def _lasts(self, side: _Side, plateau: float) -> bool:
        """Return True if runs stay for longer than ever before; the further beyond what passed, the sooner."""
        wanted = self._longest * (side.passed / plateau) ** 2
        return side.blocks + len(self._newest) > wanted


class _Side:
    """Plateaus on one side of the level: the highest that passed, and the one that runs are on."""

    __slots__ = ("blocks", "highest", "passed", "since_seconds")

    def __init__(self) -> None:
        self.passed = 0.0
        self.begin()

    def begin(self) -> None:
        self.highest, self.blocks, self.since_seconds = 0.0, 0, 0.0

    def add(self, plateau: float, at_seconds: float) -> None:
        if plateau <= 0.0:
            return
        if self.blocks == 0:
            self.since_seconds = at_seconds
        self.blocks += 1
        self.highest = max(self.highest, plateau)

    def end(self) -> None:
        """The runs came back: what was reached is known from now on."""
        self.passed = max(self.passed, self.highest)
        self.begin()

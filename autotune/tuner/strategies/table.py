"""The fusion strategies of a search, in order: each one is seeded with what those before it found."""

from __future__ import annotations

from autotune.tuner.strategies.climbing import Climbing
from autotune.tuner.strategies.dynamic import Dynamic
from autotune.tuner.strategies.greedy import Greedy
from autotune.tuner.strategies.strategy import Strategy
from autotune.tuner.strategies.tpe import Tpe

STRATEGIES: tuple[Strategy, ...] = (Greedy(), Dynamic(), Tpe(), Climbing())

"""The fusion strategies of a search, in order: each one is seeded with what those before it found."""

from __future__ import annotations

from autotune.search.strategies.climbing import Climbing
from autotune.search.strategies.dynamic import Dynamic
from autotune.search.strategies.greedy import Greedy
from autotune.search.strategies.strategy import Strategy
from autotune.search.strategies.tpe import Tpe

STRATEGIES: tuple[Strategy, ...] = (Greedy(), Dynamic(), Tpe(), Climbing())

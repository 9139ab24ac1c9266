"""A contest of two plans: whole runs in turns, until a sequential test decides.

Groups that are timed alone run on warm operands, and the least of many noisy times is too good to be true. Whole runs
in turns have neither fault. The plan in use stays unless the other one is shown to be faster.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

LOOKS = (16, 32, 64, 128)
"""Rounds after which the test may decide; the last ends the contest."""
RISK = 0.01
"""Probability of a win, over all looks, of a challenger that is not faster."""
MARGIN = 0.005
"""Share by which a run must be shorter to count as a win: a near tie goes to the plan in use."""
SECONDS = 12.0
"""Time after which the next look ends the contest."""
ROUND_SECONDS = 0.002
"""A round repeats runs for this long at least and takes the shortest."""
MOST_REPEATS = 64


@dataclass(frozen=True, slots=True)
class Contest:
    """Outcome of a contest: in ``wins`` of the ``rounds`` the challenger was faster by the margin.

    ``gain`` is the time of the plan in use over the challenger's, the median over the rounds.
    """

    rounds: int
    wins: int
    gain: float
    is_won: bool


def hold_contest(
    champion: Callable[[], float],
    challenger: Callable[[], float],
    clock: Callable[[], float] = time.monotonic,
    *,
    seconds: float = SECONDS,
) -> Contest:
    """Run both plans in turns; return who is faster. The next look after ``seconds`` ends it.

    ``champion`` is the plan in use; both callables run their plan once and return seconds. A sign test decides on the
    rounds' pairs, at each of ``LOOKS`` with an equal part of ``RISK`` (Pocock 1977, *Group sequential methods*,
    Biometrika 64). The challenger loses at the first look where it is not ahead.
    """
    start, ratios, wins = clock(), [], 0
    repeats = _repeats(champion(), challenger())
    for number in range(1, LOOKS[-1] + 1):
        first, second = (champion, challenger) if number % 2 else (challenger, champion)
        times = {first: _shortest(first, repeats), second: _shortest(second, repeats)}
        ratios.append(times[champion] / times[challenger])
        wins += ratios[-1] > 1.0 + MARGIN
        ends = number in LOOKS
        if ends and wins >= needed_wins(number):
            return Contest(number, wins, statistics.median(ratios), True)
        if ends and (wins <= number / 2 or clock() - start > seconds):
            break
    return Contest(len(ratios), wins, statistics.median(ratios), False)


@functools.cache
def needed_wins(rounds: int, risk: float = RISK) -> int:
    """Return the fewest wins of so many rounds that one look accepts, at a risk over all looks."""
    least, tail, level = rounds + 1, 0.0, risk / len(LOOKS)
    while least and (tail := tail + math.comb(rounds, least - 1) / 2.0**rounds) <= level:
        least -= 1
    return least


def _repeats(*seconds: float) -> int:
    return min(MOST_REPEATS, max(1, math.ceil(ROUND_SECONDS / max(min(seconds), 1e-9))))


def _shortest(run: Callable[[], float], repeats: int) -> float:
    return min(run() for _ in range(repeats))

"""A set of whole numbers, held as disjoint intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class IntervalSet:
    """Sorted, disjoint, closed intervals, with a gap between neighbours."""

    __slots__ = ("highs", "lows")

    def __init__(self) -> None:
        self.lows: list[int] = []
        self.highs: list[int] = []

    def copy(self) -> IntervalSet:
        """Return an equal, independent set."""
        other = IntervalSet()
        other.lows, other.highs = self.lows.copy(), self.highs.copy()
        return other

    def add(self, low: int, high: int) -> None:
        """Add ``low`` to ``high``, both included."""
        first = bisect_left(self.highs, low - 1)
        if first < len(self.lows) and self.lows[first] <= low and high <= self.highs[first]:
            return
        last = bisect_right(self.lows, high + 1)
        if first < last:
            low = min(low, self.lows[first])
            high = max(high, self.highs[last - 1])
        self.lows[first:last] = [low]
        self.highs[first:last] = [high]

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self.highs, number)
        return place < len(self.lows) and self.lows[place] <= number

    def holds_both(self, low: int, high: int) -> bool:
        """Return True if ``low`` and ``high`` are in the set; ``low`` is at most ``high``."""
        place = bisect_left(self.highs, low)
        if place == len(self.lows) or self.lows[place] > low:
            return False
        return high <= self.highs[place] or high in self

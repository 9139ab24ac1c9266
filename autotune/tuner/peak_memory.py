"""Bytes of intermediate tensors that live at once while a plan runs.

Inputs, constants and what no group reads are outside of it. Views share the memory of what they view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fusion.group import Group


@dataclass(frozen=True, slots=True)
class Loads:
    """``live`` are the bytes that live while each group runs; ``spans`` the first and the last step of each
    intermediate tensor, by name. Groups are in running order."""

    live: tuple[int, ...]
    spans: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Loads:
        """Return the loads of groups in running order."""
        root: dict[str, str] = {}
        made: dict[str, int] = {}
        read: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for step, group in enumerate(groups):
            for name in group.inputs:
                read[root.get(name, name)] = step
            for name in group.outputs:
                if group.is_view:
                    root[name] = root.get(group.inputs[0], group.inputs[0])
                    continue
                made[name] = step
                sizes[name] = group.type_of[name].size_bytes
        spans = {x: (first, read[x]) for x, first in made.items() if x in read}
        change = [0] * (len(groups) + 1)
        for name, (first, last) in spans.items():
            change[first] += sizes[name]
            change[last + 1] -= sizes[name]
        live, total = [], 0
        for step in range(len(groups)):
            total += change[step]
            live.append(total)
        return cls(tuple(live), spans)

    @property
    def peak_bytes(self) -> int:
        """Largest sum of tensors that live at once, which no placement in memory undercuts."""
        return max(self.live, default=0)

    def is_at_peak(self, name: str) -> bool:
        """Return True for a tensor that lives while most does."""
        first, last = self.spans.get(name, (0, -1))
        return self.peak_bytes in self.live[first : last + 1]

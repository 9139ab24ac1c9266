"""Forms of a network's convolutions and products that a search chose, and what showed that they are faster."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.tuner.contest import Contest


@dataclass(frozen=True, slots=True)
class FormChoice:
    """Forms that won against the rule's in whole runs, each network by its heuristic plan.

    They are those for ``macs_per_byte`` multiply-adds while a byte of weights arrives, and the rule's those for
    ``usual`` ones. ``changed`` operators have another form by them.
    """

    macs_per_byte: int
    usual: int
    changed: int
    contest: Contest

    @property
    def statement(self) -> str:
        """One line in words."""
        plural = (
            "operator takes another form" if self.changed == 1 else "operators take other forms"
        )
        return (
            f"{self.changed} {plural} (Winograd's, Strassen's or direct), those for {self.macs_per_byte} multiply-adds a byte instead of "
            f"{self.usual}: {self.contest.gain:.3f} times the speed by heuristic plans (faster in {self.contest.wins} of "
            f"{self.contest.rounds} rounds)"
        )

"""Variants of one graph, each behind its guard, and the runs that they served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.operators.tensor import Array
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.guards.guard import Guard


@dataclass(frozen=True, slots=True)
class Worth:
    """What a variant saves in a run, and what its guard costs: in cycles of an emulated machine, in
    nanoseconds of this one. ``saved`` is measured without the guard; ``runs`` of each version were compared."""

    general: float
    variant: float
    guard: float
    unit: str
    runs: int

    @property
    def gain(self) -> float:
        """Share of a run that the variant saves, guard included; negative where it costs more."""
        return 1.0 - (self.variant + self.guard) / self.general if self.general else 0.0

    @property
    def text(self) -> str:
        """The figures in one line."""
        return (
            f"{self.general:,.0f} → {self.variant:,.0f} {self.unit} and {self.guard:,.0f} for the guard "
            f"({self.gain:+.1%})"
        )


@dataclass(frozen=True, slots=True)
class VariantStatus:
    """What a session tells of a variant: its class, its share of the network's operations, and who was served."""

    classes: str
    operators: int
    share: float
    served: int
    fell_back: int
    worth: Worth | None

    @property
    def text(self) -> str:
        """The status in one line."""
        measured = "" if self.worth is None else f"; {self.worth.text}"
        return (
            f"{self.classes}: {self.share:.1%} of the operations; served {self.served} runs, "
            f"{self.fell_back} fell back{measured}"
        )


class Variant:
    """A program table that is right for inputs which pass the guard. Safe to use from several threads."""

    def __init__(
        self, guard: Guard, table: ProgramTable, share: float, worth: Worth | None = None
    ) -> None:
        self.guard, self.table, self.share, self.worth = guard, table, share, worth
        self.served = self.fell_back = 0
        """Runs, about: a count between two threads may be lost."""

    def serves(self, inputs: Mapping[str, Array]) -> bool:
        """Check the inputs of one run; return True if the table is right for them."""
        if self.guard.passes(inputs):
            self.served += 1
            return True
        self.fell_back += 1
        return False

    @property
    def status(self) -> VariantStatus:
        """What there is to tell of it."""
        return VariantStatus(
            self.guard.text,
            len(self.table.graph.ops),
            self.share,
            self.served,
            self.fell_back,
            self.worth,
        )

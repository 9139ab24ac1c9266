"""Objective of a search: the cost that it minimises, of cycles and femtojoules."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from autotune.errors import InputError

if TYPE_CHECKING:  # the command line shows names of objectives in its help
    import numpy as np
    import numpy.typing as npt

Figure = TypeVar("Figure", int, float, "npt.NDArray[np.float64]")
"""Cycles or femtojoules, of one candidate or of many."""

_SUM = re.compile(r"latency\+([^*]+)\*energy")
_BOUND = re.compile(r"memory<=([0-9]+(?:\.[0-9]+)?)(B|KiB|MiB|GiB)?")
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True)
class Objective:
    """Cost of a run: ``cycle_weight`` × cycles + ``energy_weight`` × femtojoules, or the product of both.

    A search minimises a sum, since costs of groups add up. For the product (``is_product``) it minimises
    several sums one after the other. Peak memory is bounded (``is_memory``) by searches on this CPU alone; within the
    bound they minimise cycles. Make one by ``parse``, ``weighted`` or ``within``, or take a constant.
    """

    LATENCY: ClassVar[Objective]
    ENERGY: ClassVar[Objective]
    ENERGY_DELAY: ClassVar[Objective]
    MEMORY: ClassVar[Objective]

    cycle_weight: float
    energy_weight: float
    is_product: bool = False
    most_bytes: int | None = None
    """Peak memory that a plan shall have at most, where it can; 0 means the least."""

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Return the objective of this name. Raises ``InputError`` for any other."""
        if text in _BY_NAME:
            return _BY_NAME[text]
        bound = _BOUND.fullmatch(text.replace(" ", ""))
        if bound:
            return cls.within(round(float(bound[1]) * _UNITS[bound[2] or "B"]))
        found = _SUM.fullmatch(text.replace(" ", ""))
        try:
            return cls.weighted(float(found[1])) if found else _unknown(text)
        except ValueError:
            return _unknown(text)

    @classmethod
    def weighted(cls, energy_weight: float) -> Objective:
        """Return cycles plus ``energy_weight`` × femtojoules; the weight, above 0, is kept in 6 digits.

        Raises ``ValueError`` for any other weight.
        """
        if not (math.isfinite(energy_weight) and energy_weight > 0):
            raise ValueError(f"the weight of energy is {energy_weight}; it is above 0")
        return cls(1.0, float(f"{energy_weight:.6g}"))

    @classmethod
    def within(cls, most_bytes: int) -> Objective:
        """Return latency within so many bytes of intermediate tensors at once."""
        return cls(1.0, 0.0, most_bytes=most_bytes)

    @property
    def is_memory(self) -> bool:
        """True where peak memory counts."""
        return self.most_bytes is not None

    @property
    def name(self) -> str:
        """Text that ``parse`` reads."""
        known = next((name for name, one in _BY_NAME.items() if one == self), None)
        if known is None and self.most_bytes is not None:
            return f"memory<={self.most_bytes}"
        return known or f"latency+{self.energy_weight!r}*energy"

    @property
    def unit(self) -> str:
        """Unit of its costs."""
        if not self.weighs_energy:
            return "cycles"
        return "femtojoules" if self == self.ENERGY else "weighted cycles"

    @property
    def weighs_energy(self) -> bool:
        """True where femtojoules count."""
        return self.energy_weight > 0 or self.is_product

    def of(self, cycles: Figure, energy_fj: Figure) -> Figure:
        """Return the cost of one candidate, or of each of many."""
        if self.is_product:
            return cycles * energy_fj
        if self.cycle_weight == 0:
            return energy_fj
        if self.energy_weight == 0:
            return cycles
        return self.cycle_weight * cycles + self.energy_weight * energy_fj  # type: ignore[return-value]


Objective.LATENCY = Objective(1.0, 0.0)
Objective.ENERGY = Objective(0.0, 1.0)
Objective.ENERGY_DELAY = Objective(0.0, 0.0, is_product=True)
Objective.MEMORY = Objective.within(0)
_BY_NAME = {
    "latency": Objective.LATENCY,
    "energy": Objective.ENERGY,
    "energy-delay": Objective.ENERGY_DELAY,
    "memory": Objective.MEMORY,
}
NAMES = tuple(_BY_NAME)
"""Objectives by name; a weighted sum such as ``latency+4e-07*energy`` is one too, and a bound such as ``memory<=2MiB``."""


def _unknown(text: str) -> Objective:
    raise InputError(
        f"objective {text!r} is not one of: {', '.join(NAMES)}, or a sum such as latency+4e-07*energy, "
        "or a bound such as memory<=2MiB"
    )

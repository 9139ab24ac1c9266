"""The machines to explore: values of a base's main numbers, what follows from them, and a budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from autotune.errors import InputError, SpecError
from autotune.targets.components import Components
from autotune.targets.derived import most_watts
from autotune.targets.drawn import ALLOWED
from autotune.targets.plausibility import CHECKS
from autotune.targets.settings import (
    KEYS,
    Assignment,
    Setting,
    Value,
    check_settings,
    with_settings,
)
from autotune.targets.spec import DATAFLOWS, HardwareSpec

DOUBLINGS: Mapping[str, tuple[int, int, float, float]] = {
    # key: (halvings and doublings of the base's value, least and greatest value)
    "matrix.rows": (2, 2, 4, 256),
    "matrix.cols": (2, 2, 4, 256),
    "vector.lanes": (2, 2, 4, 1024),
    "scratchpad.size_bytes": (3, 3, 16 << 10, 1 << 25),
    "dram.bytes_per_cycle": (2, 2, 0.5, 1024),
    "cores": (3, 3, 1, 8),
}
"""Numbers that are explored unless told, within what the shipped model was trained on."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Most area in mm² and most watts with every part at its peak; infinite for none."""

    area_mm2: float = math.inf
    watts: float = math.inf

    def __post_init__(self) -> None:
        for name in ("area_mm2", "watts"):
            value = getattr(self, name)
            if not value > 0:
                raise InputError(f"{name} = {value} is not above 0")


@dataclass(frozen=True, slots=True)
class Design:
    """A machine to explore: its settings, what follows from them included, and its price."""

    settings: tuple[tuple[str, Value], ...]
    spec: HardwareSpec
    area_mm2: float
    watts: float


@dataclass(frozen=True)
class Space:
    """Machines around a base: every combination of the values of some numbers."""

    base: HardwareSpec
    parameters: tuple[Setting, ...]
    components: Components
    budget: Budget
    own: tuple[Setting, ...] = ()
    """Parameters that the user gave; they are among ``parameters``."""

    @classmethod
    def around(
        cls,
        base: HardwareSpec,
        settings: Iterable[Setting],
        components: Components,
        budget: Budget | None = None,
    ) -> Space:
        """Return the space of ``DOUBLINGS`` and dataflows around a base; ``settings`` replace values.

        Without a budget, machines are as large and as hungry as the base at most. Raises ``InputError`` for
        a key that is set twice.
        """
        own = tuple(settings)
        check_settings(own)
        if any("layout" in setting.keys for setting in own):
            raise InputError(
                "layout: all machines of an exploration keep the base's; change the base"
            )
        fixed = {key for setting in own for key in setting.keys}
        parameters = [Setting((key,), _doubled(base, key)) for key in DOUBLINGS if key not in fixed]
        if "matrix.dataflow" not in fixed:
            parameters.append(Setting(("matrix.dataflow",), DATAFLOWS))
        if budget is None:
            budget = Budget(components.area_mm2(base), most_watts(base))
        return cls(base, (*own, *parameters), components, budget, own)

    @property
    def count(self) -> int:
        """Combinations, with those beyond the budget."""
        return math.prod(len(parameter.values) for parameter in self.parameters)

    @cached_property
    def base_design(self) -> Design:
        """The base itself."""
        return self._design({}, self.base)

    def design(self, assignment: Assignment) -> Design | None:
        """Return a machine with what follows from its settings; None where that is none to build.

        Banks serve every lane and the machine's share of the channel; energies follow the sizes of parts.
        None is a machine beyond the budget, or with a contradiction that the base does not have.
        """
        made = self.unbounded(assignment)
        if made is None:
            return None
        return made if self.allows(made) and self._is_sound(made.spec) else None

    def allows(self, design: Design) -> bool:
        """Return True if a machine is within the budget."""
        return design.area_mm2 <= self.budget.area_mm2 and design.watts <= self.budget.watts

    def unbounded(self, assignment: Assignment) -> Design | None:
        """Return a machine, whatever its price; None if it is not legal."""
        try:
            raw = with_settings(self.base, assignment)
            follows = self._following(raw, assignment)
            return self._design({**assignment, **follows}, raw)
        except SpecError:
            return None

    def _design(self, settings: Assignment, raw: HardwareSpec) -> Design:
        spec = with_settings(self.base, settings)
        changed = tuple(
            (key, value) for key, value in settings.items() if _own(self.base, key) != value
        )
        return Design(changed, spec, self.components.area_mm2(spec), most_watts(spec))

    def _following(self, raw: HardwareSpec, assignment: Assignment) -> dict[str, Value]:
        words = max(raw.vector.lanes, math.ceil(raw.dram.bytes_per_cycle / 4 / raw.cores))
        banks = max(self.base.scratchpad.banks, 1 << (words - 1).bit_length())
        follows = {"scratchpad.banks": banks} | self.components.energies(raw, self.base)
        return {key: value for key, value in follows.items() if key not in assignment}

    def _is_sound(self, spec: HardwareSpec) -> bool:
        return all(
            check.finding(spec) is None or check.finding(self.base) is not None
            for check in CHECKS
            if check.name not in ALLOWED
        )


def _own(spec: HardwareSpec, key: str) -> object:
    """Return the value of a key."""
    section, dot, name = key.partition(".")
    return getattr(getattr(spec, section), name) if dot else getattr(spec, section)


def _doubled(base: HardwareSpec, key: str) -> tuple[Value, ...]:
    """Return a number of the base, halved and doubled within the limits of its row."""
    down, up, low, high = DOUBLINGS[key]
    own = _own(base, key)
    assert isinstance(own, (int, float))
    steps = [own * 2.0**power for power in range(-down, up + 1)]
    kept = [
        value for value in steps if low <= value <= high and (KEYS[key] is float or value % 1 == 0)
    ]
    values = [value if KEYS[key] is float else int(value) for value in kept]
    return tuple(values or [own])


def doubled(design: Design, space: Space, key: str) -> Design | None:
    """Return a machine with twice as much of one resource; None if it is not legal."""
    value = _own(design.spec, key)
    assert isinstance(value, (int, float))
    own = {
        k: v for k, v in design.settings if not k.startswith("energy.") and k != "scratchpad.banks"
    }
    return space.unbounded({**own, key: value * 2})

"""The nearest known machine: where a search begins on a machine without measurements.

A machine whose numbers were changed is a new hardware profile. What was learned on its neighbour is
not thrown away: ``transfer`` reads what its measurements say of the new one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass

from autotune.errors import SpecError
from autotune.store.store import Store, StoredProfile
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec
from autotune.targets.spec_document import read_document, spec_document
from autotune.tuner.objective import Objective

COMPARED = ("cores", "matrix", "vector", "scratchpad", "dram", "control")
"""Numbers of a spec that decide cycles, as probes of both machines tell them."""
FARTHEST = 1.0
"""Largest distance of a neighbour: that of a machine with twice or half of every number."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A machine that was measured: its name, hardware profile, numbers, and distance."""

    name: str
    profile_id: str
    spec: HardwareSpec
    distance: float

    @property
    def machine(self) -> str:
        """Name of the machine in studies."""
        return machine_name(self.name, self.profile_id)


def machine_name(name: str, profile_id: str) -> str:
    """Return the name of a machine in studies."""
    return f"{name} {profile_id[:12]}"


def remember_machine(store: Store, target: Target) -> None:
    """Enter a machine into the store."""
    text = json.dumps(spec_document(target.spec))
    store.save_profile(StoredProfile(target.spec.profile_id, target.name, text))


def nearest_machine(
    store: Store, spec: HardwareSpec, objective: Objective, groups: Collection[str]
) -> Neighbour | None:
    """Return the machine whose numbers are nearest, of those that have measured one of these ``groups``, by key.

    None where none is near. Of equally near ones the first by hardware profile counts.
    """
    for distance, profile, other in sorted(_distances(store, spec), key=lambda one: one[0]):
        if distance > FARTHEST:
            return None
        by_energy = objective == Objective.ENERGY
        if store.best_schedules(profile.profile_id, by_energy, groups):
            return Neighbour(profile.name, profile.profile_id, other, distance)
    return None


def _distances(
    store: Store, spec: HardwareSpec
) -> Iterator[tuple[float, StoredProfile, HardwareSpec]]:
    for profile in store.measured_profiles():
        other = _read(profile.spec_json)
        if other is None or profile.profile_id == spec.profile_id:
            continue
        if _is_comparable(spec, other):
            yield machine_distance(spec, other), profile, other


def _read(text: str) -> HardwareSpec | None:
    """Return the machine in a text; None where another version described machines otherwise."""
    try:
        document = json.loads(text)
        return read_document(document) if isinstance(document, dict) else None
    except (ValueError, SpecError):
        return None


def _is_comparable(one: HardwareSpec, other: HardwareSpec) -> bool:
    """Return True if schedules of one machine mean the same on the other."""
    return (
        one.memory is other.memory
        and one.layout == other.layout
        and one.tile_multiple == other.tile_multiple
    )


def machine_distance(one: HardwareSpec, other: HardwareSpec) -> float:
    """Return the root mean square of the log2 ratios of two machines' numbers; other words count as 1."""
    pairs = [pair for name in COMPARED for pair in _leaves(name, one, other)]
    return math.sqrt(sum(_apart(a, b) ** 2 for a, b in pairs) / len(pairs))


def _leaves(name: str, one: HardwareSpec, other: HardwareSpec) -> list[tuple[object, object]]:
    first, second = getattr(one, name), getattr(other, name)
    if isinstance(first, int):
        return [(first, second)]
    here, there = asdict(first), asdict(second)
    return [(here[field], there[field]) for field in here]


def _apart(one: object, other: object) -> float:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.log2(1.0 + one) - math.log2(1.0 + other)
    return float(one != other)

"""Steps of products from float32 to narrow formats, ranked by harm, and choices made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.qdq import Formats

REPRIEVES = 12
"""Steps at most that are tried again, once the others are chosen."""
Gains = Mapping[tuple[str, NarrowFormat], float]
"""What each format gains at each product, in one unit."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Loss of a network in which one product alone is narrow, and what its format gains there."""

    name: str
    format: NarrowFormat
    loss: float
    gain: float


@dataclass(frozen=True, slots=True)
class Step:
    """One product becomes narrower: from the format ``before`` (None: float32) to ``format``.

    ``harm`` is the squared loss that it adds by the gain that it adds: squares of losses add up where rounding errors
    are independent.
    """

    name: str
    before: NarrowFormat | None
    format: NarrowFormat
    harm: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Formats of the products that are narrow, their share of what all could gain, and the greater loss of calibration
    and held-out runs. ``seconds`` are those predicted of the whole network; None without a target."""

    formats: Formats
    gain: float
    loss: float
    seconds: float | None = None

    @property
    def cost(self) -> float:
        """What a choice is better for having less of."""
        return -self.gain if self.seconds is None else self.seconds


def share_of(formats: Formats, gains: Gains) -> float:
    """Return the share of what the best format of every product gains."""
    most: dict[str, float] = {}
    for (name, _), gain in gains.items():
        most[name] = max(most.get(name, 0.0), gain)
    total = sum(most.values())
    return sum(gains[one] for one in formats.items()) / total if total else 0.0


def steps_of(sensitivities: Sequence[Sensitivity]) -> tuple[Step, ...]:
    """Return how products become narrower, the most harmful step first.

    A product goes along the lower convex hull of its formats' squared losses over their gains, so its steps come in
    order: a format above the line between two others is skipped.
    """
    by_product: dict[str, list[Sensitivity]] = {}
    for one in sensitivities:
        by_product.setdefault(one.name, []).append(one)
    steps = [step for left in by_product.values() for step in reversed(_hull(left))]
    return tuple(sorted(steps, key=lambda step: step.harm, reverse=True))


def _hull(formats: Sequence[Sensitivity]) -> list[Step]:
    steps: list[Step] = []
    before, gain, square = None, 0.0, 0.0
    left = [one for one in formats if one.gain > 0.0]
    if not left:
        least = min(formats, key=lambda one: one.loss)
        return [Step(least.name, None, least.format, float("inf"))]
    while left:
        harms = [(one.loss**2 - square) / (one.gain - gain) for one in left]
        at = min(range(len(left)), key=lambda i: (harms[i], -left[i].gain))
        chosen = left[at]
        steps.append(Step(chosen.name, before, chosen.format, harms[at]))
        before, gain, square = chosen.format, chosen.gain, chosen.loss**2
        left = [one for one in left if one.gain > gain]
    return steps


def formats_of(steps: Sequence[Step]) -> dict[str, NarrowFormat]:
    """Return the formats after these steps, the most harmful first."""
    return {step.name: step.format for step in reversed(steps)}


def unbeaten(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return choices by rising cost, without those that another one beats."""
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda one: (one.cost, one.loss)):
        if not kept or choice.loss < kept[-1].loss:
            kept.append(choice)
    return tuple(kept)


def within_limit(
    ranked: Sequence[Step], limit: float, loss: Callable[[Formats], float]
) -> tuple[Step, ...]:
    """Return the steps to take: all but the most harmful, such that the loss is within the limit.

    The shortest prefix of the ranking to leave out is found by bisection, as if losses fell along it; then
    single steps of it come back, the least harmful first. Empty if no step fits.
    """
    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high) // 2
        if loss(formats_of(ranked[middle:])) <= limit:
            high = middle
        else:
            low = middle + 1
    chosen = list(ranked[high:])
    for step in list(reversed(ranked[:high]))[:REPRIEVES]:
        if formats_of(chosen).get(step.name) is step.before:
            more = [one for one in ranked if one in chosen or one is step]
            chosen = more if loss(formats_of(more)) <= limit else chosen
    return tuple(chosen)


def steps_towards(formats: Formats, sensitivities: Sequence[Sensitivity]) -> tuple[Step, ...]:
    """Return the steps of a choice, the most harmful first."""
    gains = {(one.name, one.format): one.gain for one in sensitivities}
    return steps_of(
        [
            one
            for one in sensitivities
            if (one.name, one.format) in formats.items()
            or (one.name in formats and 0.0 < one.gain < gains[one.name, formats[one.name]])
        ]
    )

"""Which products stay in float32: those that harm most for what they gain, until the loss is within its limit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import InputError
from autotune.quantisation.loss import Loss, Outputs, loss_of
from autotune.quantisation.observation import opened_model
from autotune.quantisation.samples import Run, Samples
from autotune.quantisation.switched import SwitchedNetwork
from autotune.runtime.session.session import Session
from autotune.tuner.progress import Progress

SENSITIVITY_RUNS = 8
"""Calibration runs at most that sensitivity is measured on."""
FRONT_POINTS = 9
"""Choices of a front at most, besides the one that is kept."""
REPRIEVES = 12
"""Products at most that are tried in int8 again, once the others are chosen."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Loss of a network in which one product alone is quantised, and what int8 gains there."""

    name: str
    loss: float
    gain: float

    @property
    def harm(self) -> float:
        """Squared loss by gain: squares of losses add up where rounding errors are independent."""
        return self.loss**2 / self.gain if self.gain > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Choice:
    """Names of the quantised products, their share of what all could gain, and the greater loss of calibration and
    held-out runs."""

    names: tuple[str, ...]
    gain: float
    loss: float


@dataclass(frozen=True, slots=True)
class PrecisionResult:
    """Sensitivities, the most harmful first; the choice that is kept; choices from all products to none."""

    ranked: tuple[Sensitivity, ...]
    kept: Choice
    front: tuple[Choice, ...]


class PrecisionSearch:
    """Measures choices of products on a session of a switched network.

    Sensitivity ranks products by calibration runs; held-out runs say only how far down the ranking to go.
    """

    def __init__(
        self,
        switched: SwitchedNetwork,
        session: Session,
        samples: Samples,
        measure: Loss,
        gains: Mapping[str, float],
    ) -> None:
        self._switched, self._session, self._measure = switched, session, measure
        self._gains = gains
        self._calibration = samples.calibration[:SENSITIVITY_RUNS]
        self._held_out = samples.held_out
        self._wanted = self._outputs((), self._calibration)
        self._wanted_held_out = self._outputs((), self._held_out)
        self._losses: dict[frozenset[str], float] = {}

    def sensitivities(self, names: Sequence[str], progress: Progress) -> tuple[Sensitivity, ...]:
        """Return each product's, the most harmful first.

        Agreement of the largest element is too coarse for one product: its ranking is by relative error.
        """
        measure = Loss.RELATIVE if self._measure is Loss.TOP1 else self._measure
        found = []
        for number, name in enumerate(names):
            progress("sensitivity", number, len(names))
            outputs = self._outputs((name,), self._calibration)
            loss = loss_of(self._wanted, outputs, measure)
            loss = loss**0.5 if measure is Loss.COSINE else loss  # it is a square already
            found.append(Sensitivity(name, loss, self._gains[name]))
        progress("sensitivity", len(names), len(names))
        return tuple(sorted(found, key=lambda one: one.harm, reverse=True))

    def loss(self, names: Collection[str]) -> float:
        """Return the greater loss of calibration and held-out runs with these products quantised."""
        key = frozenset(names)
        if key not in self._losses:
            self._losses[key] = max(
                loss_of(wanted, self._outputs(key, runs), self._measure)
                for wanted, runs in (
                    (self._wanted, self._calibration),
                    (self._wanted_held_out, self._held_out),
                )
            )
        return self._losses[key]

    def choice(self, names: Collection[str]) -> Choice:
        """Return a choice with its share of the gain and its loss."""
        total = sum(self._gains.values())
        gain = sum(self._gains[x] for x in names)
        return Choice(tuple(names), gain / total if total else 0.0, self.loss(names))

    def front(self, ranked: Sequence[Sensitivity]) -> tuple[Choice, ...]:
        """Return choices between all products and none, of which none beats another in gain and loss."""
        count = len(ranked)
        places = sorted({round(i * count / (FRONT_POINTS - 1)) for i in range(FRONT_POINTS)})
        return unbeaten([self.choice([one.name for one in ranked[i:]]) for i in places])

    def _outputs(self, names: Collection[str], runs: Sequence[Run]) -> list[Outputs]:
        return self._switched.outputs(self._session, names, runs)


def unbeaten(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return choices by falling gain, without those that another one beats."""
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda one: (-one.gain, one.loss)):
        if not kept or choice.loss < kept[-1].loss:
            kept.append(choice)
    return tuple(kept)


def within_limit(
    ranked: Sequence[Sensitivity], limit: float, loss: Callable[[Collection[str]], float]
) -> tuple[str, ...]:
    """Return the products to quantise: all but the most harmful, such that the loss is within the limit.

    The shortest prefix of the ranking to leave out is found by bisection, as if losses fell along it; then
    single products of it come back, the least harmful first. Empty if no product fits.
    """
    low, high = 0, len(ranked)
    names = [one.name for one in ranked]
    while low < high:
        middle = (low + high) // 2
        if loss(names[middle:]) <= limit:
            high = middle
        else:
            low = middle + 1
    chosen = names[high:]
    for one in list(reversed(ranked[:high]))[:REPRIEVES]:
        if loss([*chosen, one.name]) <= limit:
            chosen.append(one.name)
    return tuple(x for x in names if x in chosen)


def search_precision(
    switched: SwitchedNetwork,
    samples: Samples,
    measure: Loss,
    limit: float,
    gains: Mapping[str, float],
    dims: Mapping[str, int],
    progress: Progress,
) -> PrecisionResult:
    """Return the products to quantise within a limit, by rising harm, and the front around them.

    Raises ``InputError`` if no product alone is within the limit.
    """
    with opened_model(switched.model, dims) as session:
        search = PrecisionSearch(switched, session, samples, measure, gains)
        ranked = search.sensitivities(tuple(gains), progress)
        chosen = within_limit(ranked, limit, search.loss)
        if not chosen:
            least = min(search.loss((one.name,)) for one in ranked)
            raise InputError(
                f"no product alone is within a {measure} loss of {limit:.3%}: the least harmful one costs {least:.3%}; "
                "raise --max-loss, or keep the network in float32"
            )
        return PrecisionResult(ranked, search.choice(chosen), search.front(ranked))

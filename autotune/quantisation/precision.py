"""Which products become narrow, and how narrow: those stay wider that harm most for what they gain, until the loss is
within its limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle

from autotune.errors import InputError
from autotune.quantisation.findings import Findings
from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.loss import Loss, Outputs, loss_of
from autotune.quantisation.observation import opened_model
from autotune.quantisation.qdq import Formats
from autotune.quantisation.samples import Run, Samples
from autotune.quantisation.steps import (
    Choice,
    Gains,
    Sensitivity,
    Step,
    formats_of,
    share_of,
    steps_of,
    unbeaten,
    within_limit,
)
from autotune.quantisation.switched import SwitchedNetwork
from autotune.runtime.session.session import Session
from autotune.tuner.progress import Progress

SENSITIVITY_RUNS = 8
"""Calibration runs at most that sensitivity is measured on."""
FRONT_POINTS = 9
"""Choices of a front at most, besides the one that is kept."""
Price = Callable[[Formats], float]
"""Predicts the seconds of a whole network by the formats of its products."""
PRICED = 32
"""Neighbours of a choice at most whose whole network is priced."""


@dataclass(frozen=True, slots=True)
class PrecisionResult:
    """Sensitivities, the choice that is kept, and choices from all products to none."""

    sensitivities: tuple[Sensitivity, ...]
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
        gains: Gains,
        findings: Findings,
        price: Price | None,
    ) -> None:
        self._switched, self._session, self._measure = switched, session, measure
        self._gains, self._findings, self._price = gains, findings, price
        self._calibration = samples.calibration[:SENSITIVITY_RUNS]
        self._held_out = samples.held_out
        self._losses: dict[frozenset[tuple[str, NarrowFormat]], tuple[float, float]] = {}
        self._quick: dict[frozenset[tuple[str, NarrowFormat]], float] = {}

    @cached_property
    def _wanted(self) -> list[Outputs]:
        return self._outputs({}, self._calibration)

    @cached_property
    def _wanted_held_out(self) -> list[Outputs]:
        return self._outputs({}, self._held_out)

    def sensitivities(self, progress: Progress) -> tuple[Sensitivity, ...]:
        """Return that of each product in each format.

        Agreement of the largest element is too coarse for one product: its ranking is by relative error.
        """
        measure = Loss.RELATIVE if self._measure is Loss.TOP1 else self._measure
        found = []
        for number, ((name, format), gain) in enumerate(self._gains.items()):
            progress("sensitivity", number, len(self._gains))
            one = {name: format}
            alone = partial(self._alone, one, measure)
            loss = self._findings.get(f"alone {measure} {_text(one)}", alone)
            loss = loss**0.5 if measure is Loss.COSINE else loss  # it is a square already
            found.append(Sensitivity(name, format, loss, gain))
        progress("sensitivity", len(self._gains), len(self._gains))
        return tuple(found)

    def _alone(self, formats: Formats, measure: Loss) -> float:
        return loss_of(self._wanted, self._outputs(formats, self._calibration), measure)

    def loss(self, formats: Formats) -> float:
        """Return the greater loss of calibration and held-out runs with these products narrow."""
        return max(self._both(formats))

    def calibration_loss(self, formats: Formats) -> float:
        """Return the loss of calibration runs with these products narrow."""
        return self._both(formats)[0]

    def _both(self, formats: Formats) -> tuple[float, float]:
        """Return the losses of calibration and of held-out runs."""
        key = frozenset(formats.items())
        if key not in self._losses:
            name = f"losses {self._measure} {_text(formats)}"
            first, second = self._findings.get(name, lambda: self._measured(formats))
            self._losses[key] = first, second
        return self._losses[key]

    def _measured(self, formats: Formats) -> list[float]:
        pairs = ((self._wanted, self._calibration), (self._wanted_held_out, self._held_out))
        return [
            loss_of(wanted, self._outputs(formats, runs), self._measure) for wanted, runs in pairs
        ]

    def choice(self, formats: Formats) -> Choice:
        """Return a choice with its share of the gain, its loss, and its price if there is one."""
        seconds = None if self._price is None else self._seconds(formats)
        return Choice(formats, share_of(formats, self._gains), self.loss(formats), seconds)

    def front(self, ranked: Sequence[Step]) -> list[Choice]:
        """Return choices along a ranking, between all products and none."""
        count = len(ranked)
        places = sorted({round(i * count / (FRONT_POINTS - 1)) for i in range(FRONT_POINTS)})
        return [self.choice(formats_of(ranked[i:])) for i in places]

    def improved(self, choice: Choice, limit: float) -> Choice:
        """Return a choice within the limit that is cheaper as a whole network, where a neighbour is.

        A gain is that of a product by itself; in a network a product may pay for conversions, or save those of
        others. So single products change their format, those of most gain first, while that pays.
        """
        options: dict[str, list[NarrowFormat | None]] = {}
        for name, format in sorted(self._gains, key=lambda one: -self._gains[one]):
            options.setdefault(name, [None]).append(format)
        moves = [(name, new) for name, formats in options.items() for new in formats]
        left, since = PRICED, 0
        for name, new in cycle(moves):
            if left <= 0 or since >= len(moves):
                break
            since += 1
            if choice.formats.get(name) is new:
                continue
            formats = {x: old for x, old in choice.formats.items() if x != name}
            if new is not None:
                formats[name] = new
            left -= 1
            assert choice.seconds is not None
            if self._seconds(formats) < choice.seconds and self.loss(formats) <= limit:
                choice, since = self.choice(formats), 0
        return choice

    def _seconds(self, formats: Formats) -> float:
        assert self._price is not None
        key = frozenset(formats.items())
        if key not in self._quick:
            self._quick[key] = self._price(formats)
        return self._quick[key]

    def _outputs(self, formats: Formats, runs: Sequence[Run]) -> list[Outputs]:
        return self._switched.outputs(self._session, formats, runs)


def search_precision(
    switched: SwitchedNetwork,
    samples: Samples,
    measure: Loss,
    limit: float,
    gains: Gains,
    dims: Mapping[str, int],
    findings: Findings,
    price: Price | None,
    progress: Progress,
) -> PrecisionResult:
    """Return the formats of products within a limit, and the front around them.

    ``price`` predicts the seconds of the whole network; the fastest choice is then kept, else that of most gain.
    Raises ``InputError`` if no product alone is within the limit.
    """
    with opened_model(switched.model, dims) as session:
        search = PrecisionSearch(switched, session, samples, measure, gains, findings, price)
        found = search.sensitivities(progress)
        rankings = rankings_of(found)
        chosen = [within_limit(steps, limit, search.loss) for steps in rankings]
        if not any(chosen):
            least = min(search.loss({one.name: one.format}) for one in found)
            raise InputError(
                f"no product alone is within a {measure} loss of {limit:.3%}: the least harmful one costs {least:.3%}; "
                "raise --max-loss, or keep the network in float32"
            )
        within = [search.choice(formats_of(steps)) for steps in chosen if steps]
        others = [choice for steps in rankings for choice in search.front(steps)]
        fit = [one for one in (*within, *others) if one.formats and one.loss <= limit]
        kept = min(fit, key=lambda one: one.cost)
        kept = kept if price is None else search.improved(kept, limit)
        return PrecisionResult(found, kept, unbeaten([*within, *others, kept]))


def rankings_of(found: Sequence[Sensitivity]) -> list[tuple[Step, ...]]:
    """Return the steps among all formats, and among each by itself."""
    formats = tuple(dict.fromkeys(one.format for one in found))
    single = [steps_of([one for one in found if one.format is f]) for f in formats]
    return single if len(single) == 1 else [steps_of(found), *single]


def _text(formats: Formats) -> str:
    return " ".join(f"{name}:{format}" for name, format in sorted(formats.items()))

"""An Optuna study of formats: trials are choices for all products, with two values, predicted cost and loss.

Our rule enters its proposals first; a sampler of Optuna's proposes more from all trials. The sampler sees the trials
of one search, as predicted costs change with every plan that is searched. A storage keeps the trials of all searches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.qdq import Formats
from autotune.quantisation.space import PrecisionSpace
from autotune.quantisation.steps import Gains, formats_of
from autotune.tuner.progress import Progress

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage

PLAIN = "float32"
SAMPLED = 16
"""Trials that a sampler proposes at most."""
POPULATION = 16
"""Trials of a generation of NSGA-II."""
ALONG = 4
"""Choices along each ranking, between all of its steps and none."""
MOVES = 16
"""Products at most whose format is changed alone in the cheapest choice of the rule."""
RECONSIDERED = 12
"""Cheapest choices within the limit that are priced again once more plans are known."""
RULE = "rule"
Price = Callable[[Formats], float]
Key = frozenset[tuple[str, NarrowFormat]]


@dataclass(frozen=True, slots=True)
class Proposer:
    """What proposes choices: the name that trials tell, whether our rule is first, and the sampler for the rest."""

    name: str
    has_rule: bool
    sampler: Callable[[int], BaseSampler] | None


def _genetic(seed: int) -> BaseSampler:
    import optuna

    return optuna.samplers.NSGAIISampler(population_size=POPULATION, seed=seed)


def _random(seed: int) -> BaseSampler:
    import optuna

    return optuna.samplers.RandomSampler(seed=seed)


def _parzen(seed: int) -> BaseSampler:
    import optuna

    return optuna.samplers.TPESampler(seed=seed)


DEFAULT = Proposer("NSGA-II", has_rule=True, sampler=_genetic)
PROPOSERS = {
    "greedy": Proposer(RULE, has_rule=True, sampler=None),
    "random": Proposer("random", has_rule=False, sampler=_random),
    "tpe": Proposer("TPE", has_rule=False, sampler=_parzen),
}
"""By the strategy of the search; ``DEFAULT`` for the others."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Formats of products that were tried: predicted cost, the loss of calibration runs, the greater one of both kinds
    of runs, and who proposed them."""

    formats: Formats
    cost: float
    loss: float
    greater_loss: float
    origin: str


@dataclass(frozen=True, slots=True)
class StudyKeeper:
    """Keeps the trials of a network's searches in a storage of Optuna's: one study for the same network and inputs."""

    storage: BaseStorage
    title: str
    """The network, the machine, the objective and the measure of loss, as a reader of the storage sees them."""

    def study(self, space: PrecisionSpace) -> Study:
        """Open or make the study of a network's formats."""
        import optuna

        return optuna.create_study(
            storage=self.storage,
            study_name=f"{self.title}, precision{space.label} {space.fingerprint}",
            directions=["minimize"] * 2,
            load_if_exists=True,
        )


class PrecisionStudy:
    """Choices of formats of one network on one machine; ``price`` predicts the cost of a run."""

    def __init__(
        self,
        space: PrecisionSpace,
        price: Price,
        limit: float,
        proposer: Proposer,
        seed: int,
        keeper: StudyKeeper | None = None,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space, self._price, self._limit, self._proposer = space, price, limit, proposer
        sampler = None if proposer.sampler is None else proposer.sampler(seed)
        self.study: Study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler)
        self._tried: dict[Key, Assignment] = {}
        self._kept = None if keeper is None else keeper.study(space)

    @cached_property
    def _options(self) -> dict[str, dict[str, NarrowFormat | None]]:
        """By product: its formats by name."""
        found: dict[str, dict[str, NarrowFormat | None]] = {}
        for format, names in self._space.names.items():
            for name in names:
                found.setdefault(name, {PLAIN: None})[str(format)] = format
        return found

    @property
    def tried(self) -> tuple[Assignment, ...]:
        """Every choice that was tried, once."""
        return tuple(self._tried.values())

    def enter(self, formats: Formats, origin: str) -> Assignment:
        """Try a choice that is not tried yet; return it with its values."""
        if (key := frozenset(formats.items())) not in self._tried:
            self.study.enqueue_trial(self._written(formats), user_attrs={"origin": origin})
            self._run_next()
        return self._tried[key]

    def propose(self, gains: Gains, count: int, progress: Progress) -> list[Formats]:
        """Try what the rule proposes by these gains, then ``count`` choices of the sampler.

        Return the rule's choices of most gain: of all formats, and of each alone.
        """
        most = self._enter_rule(gains) if self._proposer.has_rule else []
        if self._proposer.sampler is not None:
            for number in range(count):
                progress("sample", number, count)
                self._run_next()
        return most

    def reconsider(self) -> list[Assignment]:
        """Price the cheapest choices within the limit again; return them, the cheapest first."""
        for one in self.within[:RECONSIDERED]:
            key = frozenset(one.formats.items())
            self._tried[key] = replace(one, cost=self._price(one.formats))
        return self.within[:RECONSIDERED]

    def _enter_rule(self, gains: Gains) -> list[Formats]:
        """Try float32, each format everywhere, choices along rankings, and the neighbours of the cheapest."""
        space = self._space
        for formats in ({}, *map(space.uniform, space.names)):
            self.enter(formats, RULE)
        most: list[Formats] = []
        for steps in space.rankings(gains):
            most.append(self.enter(space.within(steps, self._limit), RULE).formats)
            for place in range(1, ALONG):
                self.enter(formats_of(steps[place * len(steps) // ALONG :]), RULE)
        self._improve(gains)
        return most

    def _improve(self, gains: Gains) -> None:
        """Change single products of the cheapest choice within the limit, those of most gain first, while that pays."""
        best, left = self.within[0], MOVES
        for name in sorted({x for x, _ in gains}, key=lambda x: -self._most(gains, x)):
            for format in self._options[name].values():
                changed = {x: old for x, old in best.formats.items() if x != name}
                changed |= {} if format is None else {name: format}
                if left and changed != best.formats:
                    left -= frozenset(changed.items()) not in self._tried
                    found = self.enter(changed, RULE)
                    best = min(best, found, key=self._order)

    def _most(self, gains: Gains, name: str) -> float:
        return max(gain for (x, _), gain in gains.items() if x == name)

    def _order(self, one: Assignment) -> tuple[bool, float]:
        return one.greater_loss > self._limit, one.cost

    @property
    def within(self) -> list[Assignment]:
        """Choices within the limit on both kinds of runs, the cheapest first; float32 at least."""
        fit = [one for one in self._tried.values() if one.greater_loss <= self._limit]
        return sorted(fit, key=lambda one: one.cost)

    def _run_next(self) -> None:
        """Run the next trial: the one that is enqueued, else the sampler's."""
        trial = self.study.ask()
        picked = {
            name: trial.suggest_categorical(name, list(formats))
            for name, formats in self._options.items()
        }
        formats = self._read(picked)
        key = frozenset(formats.items())
        if key not in self._tried:
            losses = self._space.losses
            origin = trial.user_attrs.get("origin", self._proposer.name)
            self._tried[key] = Assignment(
                *(formats, self._price(formats), losses.calibration_loss(formats)),
                *(losses.loss(formats), origin),
            )
        one = self._tried[key]
        trial.set_user_attr("origin", one.origin)
        trial.set_user_attr("greater loss", one.greater_loss)
        told = self.study.tell(trial, [one.cost, one.loss])
        if self._kept is not None:
            self._kept.add_trial(told)

    def _written(self, formats: Formats) -> dict[str, str]:
        return {name: str(formats.get(name, PLAIN)) for name in self._options}

    def _read(self, params: Mapping[str, str]) -> dict[str, NarrowFormat]:
        options = self._options
        picked = ((name, options[name][text]) for name, text in params.items())
        return {name: format for name, format in picked if format is not None}

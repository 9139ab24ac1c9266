"""The cost model for embedding: ask what a group would cost, without measuring or searching."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from autotune.cost_model.cost import Cost, Costs, FusionGain
from autotune.cost_model.model import CostModel
from autotune.cost_model.predictor_file import is_predictor, read_predictor, write_predictor
from autotune.cost_model.prepared import ENUMERATED, PreparedGroup, name_of
from autotune.cost_model.shipped import Answer, predicting_model
from autotune.display import Card, Displayed
from autotune.errors import InputError, ScheduleError
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import Ints
from autotune.targets.opening import HOST, load_spec
from autotune.targets.spec import HardwareSpec

if TYPE_CHECKING:
    from autotune.cost_model.explanation import Explanation
    from autotune.store.store import Store
    from autotune.targets.protocol import Target

Groups = Group | tuple[Group, Group]
"""A group, or a producer and its consumer, which are fused."""

REMEMBERED = 4096
"""Answers of each kind that a predictor keeps; the oldest ones go."""


class _Asked:
    """A question as a key of a cache: equal by ``identity``, whatever tensors are called."""

    __slots__ = ("groups", "identity", "keep")

    def __init__(
        self, identity: Hashable, groups: tuple[Group, ...], keep: tuple[str, ...] = ()
    ) -> None:
        self.identity = identity
        self.groups = groups
        self.keep = keep

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self.identity == other.identity


class Predictor(Displayed):
    """Answers from a trained model; immutable, usable from several threads.

    Answers are remembered by structure: groups of equal operators and shapes are analysed once,
    whatever their tensors are called.
    """

    def __init__(self, model: CostModel, origin: str = "") -> None:
        """``origin`` says in one line which model answers and how sure it is."""
        self.model = model
        self.origin = origin
        self._prepared = lru_cache(REMEMBERED)(self._prepare)
        self._best = lru_cache(REMEMBERED)(self._find_best)
        self._gains = lru_cache(REMEMBERED)(self._find_gain)
        self._costs = lru_cache(REMEMBERED)(self._find_cost)

    def __reduce__(self) -> tuple[Any, ...]:
        return _revived, (self.model.to_bytes(), self.spec, self.origin)

    def _card(self) -> Card:
        metrics = self.model.metrics
        rows = [(name, f"{float(value):.4g}") for name, value in metrics.items()]
        facts = [("held-out MAPE", f"{metrics['mape']:.2%}")] if "mape" in metrics else []
        return Card(f"Predictor {self.spec.name}", facts, ("metric", "value"), rows)

    @property
    def spec(self) -> HardwareSpec:
        """The machine that costs are predicted for."""
        return self.model.spec

    @classmethod
    def load(
        cls,
        source: Target | Path | str = HOST,
        store: Store | Path | str | None = None,
        version: str | None = None,
    ) -> Predictor:
        """Load a predictor from the file that ``save`` wrote, or for a target from the store.

        A target is a name, a spec file or an open one; the cost model is that of its last
        calibration, else on emulated machines the shipped one, on a CPU one at typical costs. ``store``
        is a file or an open store (None: the user's). ``version`` asks for an older model: the first
        digits of its SHA-256, or 'shipped'. A saved file needs no store, and no package besides numpy. Raises ``StoreError`` if
        there is no model, or only one of another version.
        """
        if isinstance(source, (str, Path)):
            if is_predictor(Path(source)):
                return cls(read_predictor(Path(source)), f"{source}: a saved predictor")
            answer = _answer(load_spec(source), str(source), store, version)
        elif hasattr(source, "spec"):
            answer = _answer(source.spec, source.name, store, version)
        else:
            raise InputError(f"a target is a name, a file or open, not {type(source).__name__}")
        return cls(answer.model, answer.line)

    def save(self, file: Path | str) -> None:
        """Write spec and model to one file, which ``load`` reads on any machine.

        Raises ``InputError`` where no file can be written, or one of another kind is.
        """
        if not isinstance(file, (str, Path)):
            raise InputError(f"file is a path, not {type(file).__name__}")
        write_predictor(Path(file), self.model)

    def prepare(self, group: Groups) -> PreparedGroup:
        """Return a group made ready for many questions: rows of schedules, and their costs.

        Raises ``ScheduleError`` if no program can be made of it.
        """
        return self._made_ready(_asked(group))

    def predict(self, group: Groups, schedule: Schedule | None = None) -> Cost:
        """Cost of a group by a schedule, or by the best one that the model knows.

        A pair of groups is fused. Raises ``ScheduleError`` when the group cannot run on the
        machine, or not by the schedule.
        """
        asked = _asked(group)
        if schedule is not None:
            return self._costs(asked, schedule)
        best = self._best(asked)
        if isinstance(best, Rejection):
            raise ScheduleError(f"{name_of(_fused(asked))}: {best.reason}")
        return best

    def best_schedule(self, group: Groups) -> Schedule:
        """Return the schedule of a group that the model predicts to take the fewest cycles.

        It is looked for among 1024 enumerated ones and the neighbours of the best. Raises
        ``ScheduleError`` when the group cannot run on the machine.
        """
        return self.predict(group).schedule

    def schedules(self, group: Groups, limit: int = ENUMERATED) -> Ints:
        """Return at most ``limit`` legal schedules of a group as rows of int64 [n, columns].

        ``prepare(group).columns`` names the columns. No rows mean that no tile fits.
        """
        return self.prepare(group).schedules(limit)

    def predict_batch(self, group: Groups, schedules: npt.ArrayLike) -> Costs:
        """Costs of many schedules of one group, rows [n, columns] as ``schedules`` makes them.

        Raises ``InputError`` for an array of another shape, ``ScheduleError`` for the first row
        that is not legal.
        """
        return self.prepare(group).predict_batch(schedules)

    def should_fuse(self, producer: Group, consumer: Group, keep: Iterable[str] = ()) -> FusionGain:
        """Return what fusing two groups saves; true if the gain exceeds the uncertainty.

        The groups are joined by tensor names. A result that the consumer reads stays on chip,
        unless ``keep`` names it: others read it too. Raises ``InputError`` if the consumer reads
        nothing of the producer, ``ScheduleError`` if one of them cannot run by itself.
        """
        kept = (keep,) if isinstance(keep, str) else tuple(keep)
        return self._gains(_asked((producer, consumer), kept))

    def explain(self, group: Groups, schedule: Schedule | None = None) -> Explanation:
        """Return why a group costs what is predicted, by a schedule or by the best one.

        Of a pair of groups, the gain of fusing them is told as well. Raises what ``predict``
        raises.
        """
        from autotune.cost_model.explanation import explain_cost  # for both kinds of memory

        cost = self.predict(group, schedule)
        fusion = None if isinstance(group, Group) else self.should_fuse(*group)
        return explain_cost(self.model, self.prepare(group), cost, fusion)

    def _made_ready(self, asked: _Asked) -> PreparedGroup:
        prepared = self._prepared(asked)
        if isinstance(prepared, Rejection):
            raise ScheduleError(prepared.reason)
        return prepared

    def _find_cost(self, asked: _Asked, schedule: Schedule) -> Cost:
        return self._made_ready(asked).predict(schedule)

    def _prepare(self, asked: _Asked) -> PreparedGroup | Rejection:
        try:
            return PreparedGroup(self.model, _fused(asked))
        except ScheduleError as error:
            return Rejection(str(error))

    def _find_best(self, asked: _Asked) -> Cost | Rejection:
        prepared = self._prepared(asked)
        return prepared if isinstance(prepared, Rejection) else prepared.best

    def _find_gain(self, asked: _Asked) -> FusionGain:
        producer, consumer = asked.groups
        separate = (self.predict(producer), self.predict(consumer))
        fused = self._best(_asked(_fused(asked)))
        if isinstance(fused, Rejection):
            return FusionGain(separate, None, obstacle=fused.reason)
        return FusionGain.of(separate, fused)


def _revived(blob: bytes, spec: HardwareSpec, origin: str) -> Predictor:
    """Return a predictor that another process pickled."""
    return Predictor(CostModel.from_bytes(blob, spec), origin)


def _asked(group: Groups, keep: tuple[str, ...] = ()) -> _Asked:
    """Return a question's key. Raises ``InputError`` for what is no group."""
    if isinstance(group, Group):
        return _Asked(group.structure, (group,))
    if isinstance(group, tuple) and len(group) == 2 and all(isinstance(g, Group) for g in group):
        producer, consumer = group
        at, places = producer.places, consumer.places
        links = tuple((place, at[x]) for x, place in places.items() if x in at)
        kept = tuple(at[x] for x in keep if x in at)
        return _Asked((producer.structure, consumer.structure, links, kept), group, keep)
    raise InputError(
        f"costs are those of a Group or of a producer and its consumer, not of "
        f"{type(group).__name__}; autotune.layer and Graph.group make groups"
    )


def _fused(asked: _Asked) -> Group:
    """Return the one group that a question is about."""
    if len(asked.groups) == 1:
        return asked.groups[0]
    producer, consumer = asked.groups
    return producer.fuse(consumer, asked.keep)


def _answer(
    spec: HardwareSpec, name: str, place: Store | Path | str | None, version: str | None
) -> Answer:
    """Return the model that answers for a machine; ``place`` is a store, open or not."""
    from autotune.store.store import Store  # SQLAlchemy: saved predictors do without

    if isinstance(place, Store):
        return predicting_model(place, spec, name, version)
    with Store.open(place, reading=True) as own:
        return predicting_model(own, spec, name, version)

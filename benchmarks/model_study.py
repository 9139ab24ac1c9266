"""Held-out predictions of a target: every network's programs, by models that saw nothing of that network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.first_choice import kept_first
from autotune.cost_model.fitting import fit
from autotune.cost_model.model import CostModel
from autotune.cost_model.verifier import Verifier, can_verify
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.store.records import Record
from autotune.targets.spec import HardwareSpec
from benchmarks.model_baselines import BASELINES, Trained
from benchmarks.model_measure import MeasuredPlan, MeasuredSet
from benchmarks.model_rows import Programs, Rows, rows_of
from benchmarks.model_scores import Judged, Scores, score

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

OURS = "ours"
DRAFT = "draft"
"""The first stage of ours alone, on CPUs, where the second lowers and binds programs."""
FLOOR = "noise floor"


@dataclass(frozen=True, slots=True)
class Study:
    """What is known of a target: test programs as ``rows`` (all sets, then all parts of plans), and the
    training ``records`` with their rows in the same order. ``fold`` is the fold of each network."""

    spec: HardwareSpec
    sets: tuple[MeasuredSet, ...]
    plans: tuple[MeasuredPlan, ...]
    rows: Rows
    records: tuple[Record, ...]
    training: Rows
    fold: Mapping[str, int]

    @classmethod
    def of(
        cls,
        spec: HardwareSpec,
        sets: Sequence[MeasuredSet],
        plans: Sequence[MeasuredPlan],
        records: Sequence[Record],
        folds: int,
    ) -> Study:
        """Prepare a study that holds out each network with those of its fold, one of ``folds``."""
        ordered, training = _by_group(records)
        tested = [Programs(s.network, s.group, s.schedules, s.cycles) for s in sets]
        for plan in plans:
            for at, (group, schedule) in enumerate(plan.parts):
                tested.append(Programs(plan.network, group, [schedule], plan.cycles[at : at + 1]))
        names = sorted({one.network for one in tested})
        order = np.random.default_rng(0).permutation(len(names))
        fold = {names[i]: place % folds for place, i in enumerate(order.tolist())}
        rows = rows_of(tested, spec)
        return cls(spec, tuple(sets), tuple(plans), rows, ordered, rows_of(training, spec), fold)

    @property
    def folds(self) -> int:
        """The number of folds."""
        return 1 + max(self.fold.values())

    def tested(self, fold: int) -> Mask:
        """Return the test programs [r] of a fold's networks."""
        held = [name for name, own in self.fold.items() if own == fold]
        return np.isin(self.rows.networks, held)

    def known(self, fold: int) -> Mask:
        """Return the training programs that share neither a network nor a group with a fold's."""
        tested = self.tested(fold)
        networks, keys = self.rows.networks[tested], self.rows.keys[tested]
        seen = np.isin(self.training.networks, networks) | np.isin(self.training.keys, keys)
        return np.asarray(~seen, dtype=np.bool_)

    def predict(self, train: Callable[[Rows], Trained], folds: Sequence[int] = ()) -> Floats:
        """Return held-out cycles [r] of a baseline; NaN outside of ``folds`` (none: all)."""
        cycles = np.full(len(self.rows), np.nan)
        for fold in folds or range(self.folds):
            tested = self.tested(fold)
            cycles[tested] = train(self.training.take(self.known(fold)))(self.rows.take(tested))
        return cycles

    def predict_ours(self, say: Callable[[str], None]) -> tuple[dict[str, Floats], tuple[str, ...]]:
        """Return held-out cycles with the ends of their intervals [3, r], and the kind of each fold's model.

        Models are what a calibration trains. On CPUs those of the first stage stand beside them, as ``DRAFT``.
        """
        shape = (3, len(self.rows))
        stages = (DRAFT, OURS) if can_verify(self.spec) else (OURS,)
        found = {stage: np.full(shape, np.nan) for stage in stages}
        kinds = []
        for fold in range(self.folds):
            say(f"  ours, networks of fold {fold + 1} of {self.folds}")
            records = [self.records[i] for i in np.flatnonzero(self.known(fold)).tolist()]
            draft = fit(records, self.spec, seed=0)
            model = draft.with_verifier(Verifier.fit(records, self.spec, 0))
            kinds.append(_kind(model))
            for one, at in self._programs():
                if self.fold[one.network] == fold:
                    found[stages[0]][:, at] = asked = _chosen(draft, one)
                    found[OURS][:, at] = _verified(model, one, asked)
        return found, tuple(kinds)

    def _programs(self) -> list[tuple[Programs, slice]]:
        """Return all test programs, by group, with their places among the rows."""
        found, first = [], 0
        for one in self.sets:
            programs = Programs(one.network, one.group, one.schedules, one.cycles)
            found.append((programs, slice(first, first + len(one))))
            first += len(one)
        for plan in self.plans:
            for at, (group, schedule) in enumerate(plan.parts):
                part = Programs(plan.network, group, [schedule], plan.cycles[at : at + 1])
                found.append((part, slice(first, first + 1)))
                first += 1
        return found

    def judged(self, predicted: Floats) -> tuple[Judged, ...]:
        """Return the sets beside what was predicted of them, [r] or [3, r]."""
        found, first = [], 0
        for one in self.sets:
            part = predicted[..., first : first + len(one)]
            first += len(one)
            if not np.isnan(part).any():
                found.append(Judged(one, part) if part.ndim == 1 else Judged(one, *part))
        return tuple(found)

    def plan_ratios(self, predicted: Floats) -> dict[str, float]:
        """Return predicted over measured cycles of each network's whole plan."""
        cycles = predicted if predicted.ndim == 1 else predicted[0]
        first, ratios = sum(map(len, self.sets)), {}
        for plan in self.plans:
            part = cycles[first : first + len(plan.parts)]
            first += len(plan.parts)
            ratios[plan.network] = float(plan.counts @ part) / plan.total_cycles
        return ratios


def scores_by_network(judged: Sequence[Judged]) -> dict[str, Scores]:
    """Return the figures of each network's sets."""
    names = dict.fromkeys(one.measured.network for one in judged)
    return {name: score([one for one in judged if one.measured.network == name]) for name in names}


def held_out(study: Study, say: Callable[[str], None]) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Return the held-out predictions of every predictor, and the kinds of our models."""
    predicted = {}
    for name, train in BASELINES.items():
        say(f"  {name}")
        predicted[name] = study.predict(train)
    ours, kinds = study.predict_ours(say)
    return predicted | ours, kinds


def _kind(model: CostModel) -> str:
    """Return the kind of a model, and of its second stage where it has one."""
    if model.verifier is None:
        return model.kind
    return f"{model.kind} and bound programs"


def _asked(model: CostModel, programs: Programs) -> Floats:
    """Return cycles, low and high [3, n] of a group's schedules: the sums over its nests."""
    found = np.zeros((3, len(programs.schedules)))
    for at, nest in enumerate(nests_of(programs.group)):
        table = ScheduleTable.of(nest, [schedule.nests[at] for schedule in programs.schedules])
        found += model.estimate(nest, table).columns[:3]
    return found


def _chosen(model: CostModel, programs: Programs) -> Floats:
    """Return what a model predicts of a group's schedules [3, n], none below the one that it chooses."""
    asked = _asked(model, programs)
    if model.chooser is model:
        return asked
    formula = _asked(model.chooser, programs)[0]
    first = int(np.argmin(formula))
    kept = kept_first(asked, first)
    kept[0, first] = np.nextafter(kept[0, first], 0.0)  # it is chosen among what costs as much
    return kept


def _verified(model: CostModel, programs: Programs, asked: Floats) -> Floats:
    """Return what the second stage says of programs [3, n]; ``asked`` where there is none, or no program."""
    verifier = model.verifier
    if verifier is None:
        return asked
    formula = _asked(model.formula, programs)[0]
    cycles = verifier.cycles(programs.group, programs.schedules, formula)
    interval = np.stack([cycles, cycles / verifier.spread, cycles * verifier.spread])
    return np.where(np.isfinite(cycles), interval, asked)


def _by_group(records: Sequence[Record]) -> tuple[tuple[Record, ...], list[Programs]]:
    """Return the records ordered by group and network, and the programs that they measured."""
    members: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        members.setdefault((record.network, record.group_key), []).append(record)
    programs = [
        Programs(
            own[0].network,
            Group.from_json(own[0].group_json),
            [Schedule.from_json(record.schedule_json) for record in own],
            np.array([record.cycles for record in own], dtype=np.float64),
        )
        for own in members.values()
    ]
    return tuple(record for own in members.values() for record in own), programs

"""Fits a cost model and judges it beside the one before: in this thread, or in a process of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autotune.cost_model.fitting import extended, fit_model
from autotune.cost_model.model import CostModel
from autotune.cost_model.replay_set import Replayed, Verdict, judge, predicted_cycles
from autotune.runtime.online.online_dataset import TrainingSet
from autotune.targets.spec import HardwareSpec

EXTENDED_FROM = 2000
"""Measurements from which on a model that knows most of them is extended: with fewer, fitting takes seconds."""

NEWS_SHARE = 0.1
"""Growth of a training set (a fraction) up to which it was mostly known to the model before."""

_PORTION = 32
"""Records that are pickled at once: other threads may run between two portions."""

Packed = tuple[list[bytes], tuple[float, ...], bool, list[bytes], bytes]
"""Records in portions, their weights, whether the machine drifted, the replay set in portions, and the model before."""


class LeftOff(Exception):
    """Raised through a fit or a search, to leave it."""


def fitted(
    training: TrainingSet,
    replayed: Sequence[Replayed],
    before: CostModel,
    spec: HardwareSpec,
    seed: int,
    stopping: Callable[[], bool] = lambda: False,
) -> tuple[CostModel, Verdict | None]:
    """Return a model of these costs, and how it errs on ``replayed`` beside the one before.

    A model that knows most of the costs is extended; one is fitted where it cannot be, or errs more then.
    Works in this thread alone, so that its priority is that of all the work. Raises ``LeftOff`` when ``stopping``.
    """

    def judged(model: CostModel) -> Verdict | None:
        if stopping():
            raise LeftOff
        return judge(
            replayed,
            lambda record: predicted_cycles(before, record),
            lambda record: predicted_cycles(model, record),
        )

    def in_this_thread(learn: Callable[[int], None], folds: Iterable[int]) -> None:
        for fold in folds:
            if stopping():
                raise LeftOff
            learn(fold)

    if _knows(before, training):
        more = extended(before, training.records, seed=seed, weights=training.weights)
        verdict = None if more is None else judged(more)
        if more is not None and verdict is not None and not verdict.is_worse:
            return more, verdict
    model = fit_model(
        training.records, spec, seed=seed, weights=training.weights, for_each=in_this_thread
    )
    return model, judged(model)


def _knows(model: CostModel, training: TrainingSet) -> bool:
    """Return True if a model was trained on most of a training set of a machine that did not drift since."""
    known = 0 if model.provenance is None else model.provenance.measurements
    count = len(training.records)
    is_large = min(known, count) >= EXTENDED_FROM
    return not training.drifted and is_large and count <= (1.0 + NEWS_SHARE) * known


def pack(training: TrainingSet, replayed: Sequence[Replayed], before: bytes) -> Packed:
    """Return what ``fitted_apart`` takes."""
    records = _portions(training.records)
    return records, training.weights, training.drifted, _portions(replayed), before


def fitted_apart(work: Packed, spec: HardwareSpec, seed: int) -> tuple[bytes, Verdict | None]:
    """Do what ``fitted`` does with what ``pack`` made; the model comes as bytes."""
    records, weights, drifted, replayed, before = work
    training = TrainingSet(tuple(_joined(records)), weights, drifted)
    old = CostModel.from_bytes(before, spec)
    model, verdict = fitted(training, _joined(replayed), old, spec, seed)
    return model.to_bytes(), verdict


def _portions(items: Sequence[object]) -> list[bytes]:
    return [pickle.dumps(items[i : i + _PORTION]) for i in range(0, len(items), _PORTION)]


def _joined(portions: list[bytes]) -> list[Any]:
    return [item for portion in portions for item in pickle.loads(portion)]

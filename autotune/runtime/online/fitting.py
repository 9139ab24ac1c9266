"""Fits a cost model and judges it beside the one before: in this thread, or in a process of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autotune.cost_model.model import CostModel
from autotune.cost_model.shipped import fit_model
from autotune.runtime.online.learning import predicted_cycles
from autotune.runtime.online.online_dataset import TrainingSet
from autotune.runtime.online.replay_set import Replayed, Verdict, judge
from autotune.targets.spec import HardwareSpec

_PORTION = 32
"""Records that are pickled at once: other threads may run between two portions."""

Packed = tuple[list[bytes], tuple[float, ...], list[bytes], bytes]
"""Records in portions, their weights, the replay set in portions, and the model before."""


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

    Works in this thread alone, so that its priority is that of all the work. Raises ``LeftOff`` when ``stopping``.
    """

    def in_this_thread(learn: Callable[[int], None], folds: Iterable[int]) -> None:
        for fold in folds:
            if stopping():
                raise LeftOff
            learn(fold)

    model = fit_model(
        training.records, spec, seed=seed, weights=training.weights, for_each=in_this_thread
    )
    if stopping():
        raise LeftOff
    verdict = judge(
        replayed,
        lambda record: predicted_cycles(before, record),
        lambda record: predicted_cycles(model, record),
    )
    return model, verdict


def pack(training: TrainingSet, replayed: Sequence[Replayed], before: bytes) -> Packed:
    """Return what ``fitted_apart`` takes."""
    return _portions(training.records), training.weights, _portions(replayed), before


def fitted_apart(work: Packed, spec: HardwareSpec, seed: int) -> tuple[bytes, Verdict | None]:
    """Do what ``fitted`` does with what ``pack`` made; the model comes as bytes."""
    records, weights, replayed, before = work
    training = TrainingSet(tuple(_joined(records)), weights)
    old = CostModel.from_bytes(before, spec)
    model, verdict = fitted(training, _joined(replayed), old, spec, seed)
    return model.to_bytes(), verdict


def _portions(items: Sequence[object]) -> list[bytes]:
    return [pickle.dumps(items[i : i + _PORTION]) for i in range(0, len(items), _PORTION)]


def _joined(portions: list[bytes]) -> list[Any]:
    return [item for portion in portions for item in pickle.loads(portion)]

"""How far outputs of a quantised network are from those in float32: a number from 0 on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError

Outputs = Mapping[str, npt.NDArray[Any]]


class Loss(StrEnum):
    """Measures of loss, each 0 for equal outputs.

    ``relative``: the Euclidean norm of the difference over that of the output, over all runs.
    ``cosine``: 1 − cosine of the angle between both outputs of a run, averaged.
    ``top1``: the fraction of rows along the last axis whose largest element is another one.
    Each is that of the worst output.
    """

    RELATIVE = "relative"
    COSINE = "cosine"
    TOP1 = "top1"


def loss_of(wanted: Sequence[Outputs], found: Sequence[Outputs], measure: Loss) -> float:
    """Return the loss of some runs; ``wanted`` are the float32 outputs of each."""
    assert len(wanted) == len(found) > 0
    losses = []
    for name in wanted[0]:
        pairs = [
            (np.asarray(x[name], np.float64), np.asarray(y[name], np.float64))
            for x, y in zip(wanted, found, strict=True)
        ]
        losses.append(_output_loss(pairs, measure))
    return max(losses)


def check_outputs(runs: Sequence[Outputs]) -> None:
    """Raise ``InputError`` for float32 outputs that no loss can be measured on."""
    for run in runs:
        for name, value in run.items():
            if not isinstance(value, np.ndarray):
                raise InputError(f"output {name!r} is no tensor; a loss is measured on tensors")
            if value.dtype.kind not in "fiub" or not np.isfinite(value).all():
                raise InputError(
                    f"output {name!r} is not finite in float32 on these inputs; no loss can be measured on it"
                )


def _output_loss(
    pairs: Sequence[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]], measure: Loss
) -> float:
    match measure:
        case Loss.RELATIVE:
            distance = sum(float(((x - y) ** 2).sum()) for x, y in pairs)
            size = sum(float((x**2).sum()) for x, _ in pairs)
            return math.sqrt(_ratio(distance, size))
        case Loss.COSINE:
            return float(np.mean([_cosine_distance(x.ravel(), y.ravel()) for x, y in pairs]))
        case Loss.TOP1:
            return float(np.mean(np.concatenate([_changed_rows(x, y) for x, y in pairs])))
        case _:
            assert_never(measure)


def _ratio(part: float, whole: float) -> float:
    if whole:
        return part / whole
    return 0.0 if part == 0 else float("inf")


def _cosine_distance(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    if not lengths:
        return 0.0 if np.array_equal(x, y) else 1.0
    return max(0.0, 1.0 - float(x @ y) / lengths)


def _changed_rows(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    if not x.ndim:
        return np.zeros(1, bool)
    return np.atleast_1d(x.argmax(axis=-1) != y.argmax(axis=-1)).ravel()

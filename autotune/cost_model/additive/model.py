"""What groups and whole networks cost on a machine that was measured from outside alone.

A group costs one run plus its operators, each in its place; a network is a group of all its operators.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.additive.dataset import OperatorRows, configured, operator_rows
from autotune.cost_model.additive.features import (
    COSTED,
    FEATURES,
    PARTS,
    VERSION,
    operator_features,
)
from autotune.cost_model.additive.training import Fitted, fit
from autotune.cost_model.forest import Forest
from autotune.cost_model.metrics import coverage, spearman
from autotune.cost_model.provenance import Provenance
from autotune.cost_model.training import COVERAGE, conformal_quantile, folds
from autotune.errors import StoreError
from autotune.fusion.group import Group
from autotune.store.records import Record
from autotune.targets.plugins.tunables import Tunables, Value, configurations

Floats = npt.NDArray[np.float64]

MIN_GROUPS = 50
"""Fewer measured groups give no model."""

NEAR_GROUPS = 200
"""Held-out groups of about the same number of operators from which an interval's width comes."""

MAGIC = b"autotune-additive\n"
FORMAT_VERSION = 1
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Seconds:
    """Predicted seconds of one run; ``low`` to ``high`` holds 90 % of measurements."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HeldOutErrors:
    """|log(measured / predicted)| of groups that were not trained on, by number of operators [r]."""

    operators: npt.NDArray[np.int64]
    errors: Floats

    def spread(self, operators: int) -> float:
        """Return the log error that 90 % of groups with about as many operators stay within."""
        distance = np.abs(np.log(self.operators) - np.log(operators))
        near = np.argsort(distance, kind="stable")[:NEAR_GROUPS]
        return conformal_quantile(self.errors[near], COVERAGE)


class AdditiveModel:
    """Predicts seconds of groups on one machine. Immutable; usable from several threads."""

    def __init__(
        self,
        profile_id: str,
        fitted: Fitted,
        held: HeldOutErrors,
        metrics: Mapping[str, float],
        provenance: Provenance | None = None,
        tunables: Tunables = (),
    ) -> None:
        """``provenance`` says what it was trained on (None: its file does not say)."""
        self.tunables = tunables
        self.provenance = provenance
        self.profile_id = profile_id
        self.metrics = dict(metrics)
        self._fitted = fitted
        self._held = held

    @classmethod
    def fit(
        cls,
        records: Sequence[Record],
        profile_id: str,
        clock_hz: float,
        name: str,
        seed: int,
        tunables: Tunables = (),
    ) -> AdditiveModel:
        """Train on measured groups; ``metrics`` are of networks that were not trained on.

        Raises ``StoreError`` when fewer than ``MIN_GROUPS`` groups were measured.
        """
        data = operator_rows(records, clock_hz, tunables)
        if len(data) < MIN_GROUPS:
            failed = [record.reason for record in records if record.reason]
            hint = f"; the last failure: {failed[-1]}" if failed else ""
            raise StoreError(
                f"{name}: {len(data)} groups measured, a cost model needs {MIN_GROUPS}; raise the "
                f"budget of 'autotune calibrate --target {name}'{hint}"
            )
        fold = folds(data.networks, data.keys, np.random.default_rng(seed))
        predicted, plain = held_out_seconds(data, fold, seed)
        error = np.abs(np.log(data.seconds / predicted))
        held = HeldOutErrors(data.operators, error)
        origin = Provenance(data.fingerprint, _feature_hash(), len(data), seed)
        metrics = _metrics(data, predicted, plain, held)
        return cls(profile_id, fit(data, seed), held, metrics, origin, tunables)

    def predict(self, group: Group, configuration: Mapping[str, Value] | None = None) -> Seconds:
        """Return the seconds of a group, or of a network as a group of all its operators, in a configuration of the
        machine's parameters (None: the best one)."""
        chosen = self.best_configuration(group) if configuration is None else configuration
        seconds = self._fitted.run_seconds + float(self.operator_seconds(group, chosen).sum())
        spread = float(np.exp(self._held.spread(len(group.ops))))
        return Seconds(seconds, seconds / spread, seconds * spread)

    def operator_seconds(self, group: Group, configuration: Mapping[str, Value]) -> Floats:
        """Return the share of each operator of a group [n], in its place there."""
        x, work = operator_features(group)
        return self._fitted.operator_seconds(configured(x, self.tunables, configuration), work)

    def best_configuration(self, group: Group) -> dict[str, Value]:
        """Return the configuration in which a group is predicted to be fastest; empty without parameters."""
        return self.ranked(group)[0][0] if self.tunables else {}

    def ranked(
        self, group: Group, space: Tunables | None = None
    ) -> list[tuple[dict[str, Value], float]]:
        """Return configurations of a group with their seconds, the fastest first; ``space`` may have other values of the
        parameters than what was calibrated (None: those)."""
        x, work = operator_features(group)
        weighed = list(configurations(self.tunables if space is None else space))
        rows = np.concatenate([configured(x, self.tunables, one) for one in weighed])
        each = self._fitted.operator_seconds(rows, np.tile(work, (len(weighed), 1)))
        seconds = self._fitted.run_seconds + each.reshape(len(weighed), -1).sum(axis=1)
        order = np.argsort(seconds, kind="stable").tolist()
        return [(weighed[i], float(seconds[i])) for i in order]

    def to_bytes(self) -> bytes:
        """The model as a file: a JSON header and the trees."""
        body = self._fitted.trees.to_bytes()
        header = json.dumps(
            {
                "format": FORMAT_VERSION,
                "features": _feature_hash(),
                "profile_id": self.profile_id,
                "run_seconds": self._fitted.run_seconds,
                "unit_costs": self._fitted.unit_costs.tolist(),
                "held_operators": self._held.operators.tolist(),
                "held_errors": self._held.errors.tolist(),
                "metrics": self.metrics,
                "trained_on": None if self.provenance is None else self.provenance.plain(),
                "parameters": self.tunables,
                "sha256": hashlib.sha256(body).hexdigest(),
            }
        ).encode()
        return MAGIC + len(header).to_bytes(_LENGTH_BYTES, "little") + header + body

    @classmethod
    def from_bytes(cls, blob: bytes, profile_id: str, name: str) -> AdditiveModel:
        """Read what ``to_bytes`` wrote. Raises ``StoreError`` for a broken file, other features or another
        machine."""
        retrain = f"run 'autotune calibrate --target {name}' to train a new one"
        header, body = _split(blob, retrain)
        if header.get("format") != FORMAT_VERSION or header.get("features") != _feature_hash():
            raise StoreError(f"cost model of {name}: of another version of autotune; {retrain}")
        if header.get("profile_id") != profile_id:
            raise StoreError(f"cost model of {name}: trained for another machine; {retrain}")
        if hashlib.sha256(body).hexdigest() != header.get("sha256"):
            raise StoreError(f"cost model of {name}: damaged, its checksum differs; {retrain}")
        trees = Forest.from_bytes(body)
        fitted = Fitted(float(header["run_seconds"]), np.array(header["unit_costs"]), trees)
        held = HeldOutErrors(np.array(header["held_operators"]), np.array(header["held_errors"]))
        tunables = tuple((key, tuple(values)) for key, values in header.get("parameters", ()))
        return cls(profile_id, fitted, held, header["metrics"], _provenance(header), tunables)


def provenance_of(blob: bytes) -> Provenance | None:
    """Return what a model of any machine was trained on; None where its file does not say, or is none."""
    try:
        return _provenance(_split(blob, "")[0])
    except StoreError:
        return None


def _provenance(header: Mapping[str, Any]) -> Provenance | None:
    plain = header.get("trained_on")
    return None if plain is None else Provenance(**plain)


def held_out_seconds(
    data: OperatorRows, fold: npt.NDArray[np.int64], seed: int
) -> tuple[Floats, Floats]:
    """Predict every fold [r] by what the others teach, without any group that occurs in it; also by the
    unit costs alone."""
    predicted, plain = np.ones(len(data)), np.ones(len(data))
    for index in np.unique(fold):
        tested = fold == index
        known = ~np.isin(data.keys, data.keys[tested])
        fitted, part = fit(data.take(known), seed), data.take(tested)
        each = fitted.operator_seconds(part.x, part.work)
        predicted[tested] = fitted.run_seconds + part.summed(each)
        plain[tested] = fitted.run_seconds + part.summed(fitted.plain_seconds(part.work))
    return predicted, plain


def _metrics(
    data: OperatorRows, predicted: Floats, plain: Floats, held: HeldOutErrors
) -> dict[str, float]:
    spread = np.exp([held.spread(int(n)) for n in data.operators])
    error = np.abs(predicted / data.seconds - 1)
    return {
        "mape": float(np.mean(error)),
        "formula_mape": float(np.mean(np.abs(plain / data.seconds - 1))),
        "median_error": float(np.median(error)),
        "within_10": float(np.mean(error <= 0.1)),
        "spearman": spearman(data.seconds, predicted),
        "coverage": coverage(data.seconds, predicted / spread, predicted * spread),
        "n": float(len(data)),
        "networks": float(len(np.unique(data.networks))),
    }


def _feature_hash() -> str:
    names = [VERSION, *(row.name for row in FEATURES), *COSTED, *PARTS]
    return hashlib.sha256(repr(names).encode()).hexdigest()[:16]


def _split(blob: bytes, retrain: str) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + _LENGTH_BYTES
    if not blob.startswith(MAGIC) or len(blob) < start:
        raise StoreError(f"cost model: not one of groups; {retrain}")
    end = start + int.from_bytes(blob[len(MAGIC) : start], "little")
    try:
        header = json.loads(blob[start:end])
    except ValueError:
        raise StoreError(f"cost model: damaged header; {retrain}") from None
    return header, blob[end:]

"""Measured groups as rows of operators: features and work of each beside what its group cost."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autotune.cost_model.additive.features import COSTED, FEATURES, PARTS, operator_features
from autotune.cost_model.part_rows import PartRows
from autotune.fusion.file_part import FilePart
from autotune.store.records import Outcome, Record
from autotune.targets.plugins.tunables import Tunables, Value, columns, from_text

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OperatorRows(PartRows):
    """``r`` groups and the ``n`` operators of all: ``x`` [n, F], ``work`` [n, 1 + P], ``owner`` [n] their group.
    Groups have measured ``seconds``, ``weight``, ``keys`` and ``networks``, all [r]."""

    PER_PART = ("x", "work")

    x: Floats
    work: Floats
    owner: Ints
    seconds: Floats
    weight: Floats
    keys: npt.NDArray[np.str_]
    networks: npt.NDArray[np.str_]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all columns as hexadecimal digits; another value, row or order makes another."""
        digest = hashlib.sha256()
        for field in fields(self):
            column = getattr(self, field.name)
            digest.update(f"{field.name} {column.dtype.str} {column.shape}\n".encode())
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    @property
    def group_work(self) -> Floats:
        """Counted work [r, K, P] of whole groups, by what prices it."""
        totals = np.zeros((len(self), len(COSTED), len(PARTS)))
        np.add.at(totals, (self.owner, self.work[:, 0].astype(np.int64)), self.work[:, 1:])
        return totals

    @property
    def operators(self) -> Ints:
        """Number of operators [r] of each group."""
        return np.bincount(self.owner, minlength=len(self)).astype(np.int64)


def operator_rows(
    records: Sequence[Record], clock_hz: float, tunables: Tunables = ()
) -> OperatorRows:
    """Return the rows of successful measurements; of one candidate's several the last counts. The values of
    ``tunables`` are features of all operators of a group."""
    good = (r for r in records if r.outcome is Outcome.OK and r.cycles > 0)
    held = list({(r.group_key, r.schedule_json): r for r in good}.values())
    parts = []
    for record in held:
        x, work = _features(record.group_json)
        parts.append((configured(x, tunables, from_text(record.schedule_json)), work))
    width = len(FEATURES) + len(tunables)
    return OperatorRows(
        np.concatenate([x for x, _ in parts] or [np.empty((0, width))]),
        np.concatenate([work for _, work in parts] or [np.empty((0, 1 + len(PARTS)))]),
        np.repeat(np.arange(len(held)), [len(x) for x, _ in parts]).astype(np.int64),
        np.array([record.cycles / clock_hz for record in held], np.float64),
        np.array([record.trust for record in held], np.float64),
        np.array([record.group_key for record in held], np.str_),
        np.array([record.network for record in held], np.str_),
    )


def configured(x: Floats, tunables: Tunables, configuration: Mapping[str, Value]) -> Floats:
    """Return features of operators [n, F] with those of a configuration behind them."""
    values = columns(tunables, configuration)
    return np.concatenate([x, np.tile(values, (len(x), 1))], axis=1) if values else x


@lru_cache(maxsize=8192)
def _features(group_json: str) -> tuple[Floats, Floats]:
    """Features and work of a stored group. Cached: training again asks for most again."""
    return operator_features(FilePart.from_json(group_json))

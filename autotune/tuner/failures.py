"""Failures of a calibration or a search: how many candidates of each kind, with a reason as example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from autotune.measure.measurement import FailureKind
from autotune.store.records import Outcome, Record


@dataclass(frozen=True, slots=True)
class FailureCount:
    """``count`` candidates that failed in one way, and the most frequent ``reason``."""

    kind: FailureKind
    count: int
    reason: str


def count_failures(records: Iterable[Record]) -> tuple[FailureCount, ...]:
    """Count the failed records by kind, in the order of ``FailureKind``."""
    reasons: dict[FailureKind, list[str]] = {kind: [] for kind in FailureKind}
    for record in records:
        if record.outcome is not Outcome.OK:
            reasons[FailureKind.of(record.reason)].append(record.reason)
    return tuple(
        FailureCount(kind, len(found), max(found, key=found.count))
        for kind, found in reasons.items()
        if found
    )


def count_reasons(records: Iterable[Record]) -> tuple[FailureCount, ...]:
    """Count the failed records by reason, in the order of ``FailureKind``, the most frequent first."""
    counts = Counter(r.reason for r in records if r.outcome is not Outcome.OK)
    kinds = list(FailureKind)
    found = [FailureCount(FailureKind.of(reason), n, reason) for reason, n in counts.items()]
    return tuple(sorted(found, key=lambda one: (kinds.index(one.kind), -one.count)))

"""Gate of a calibration: keeps the model before where the new one is worse; both stay in the store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from autotune.cost_model.replay_set import Verdict
from autotune.store.store import Store, StoredModel

DIGITS = 12
"""Digits of a model's id in the note."""


def save_better(
    store: Store,
    profile_id: str,
    blob: bytes,
    metrics: Mapping[str, float],
    feature_version: int,
    before: StoredModel | None,
    verdict: Verdict | None,
) -> bool:
    """Save a new model, behind the one before if the ``verdict`` finds it worse.

    Return True if the new one is the newest.
    """
    is_new = before is None or verdict is None or not verdict.is_worse
    store.save_model(profile_id, blob, metrics, feature_version, None if is_new else before)
    return is_new


def note(verdict: Verdict | None, blob: bytes, before: StoredModel | None) -> str:
    """Say which of two models is kept and why; '' where there was none before."""
    if before is None or before.blob == blob:
        return ""
    if verdict is None:
        return f"the new one; too few new measurements to judge it by. {_other(before.sha256)}"
    errors = (
        f"mean error on {verdict.count} new measurements that neither was trained on: {verdict.before:.1%} "
        f"before, {verdict.after:.1%} now"
    )
    if verdict.is_worse:
        return f"the one before; {errors}. {_other(hashlib.sha256(blob).hexdigest())}"
    return f"the new one; {errors}. {_other(before.sha256)}"


def _other(sha256: str) -> str:
    return f"'predict --model {sha256[:DIGITS]}' asks the other"

"""Stored models: a trained cost model's bytes with what is known of them; read by search and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StoredModel:
    """The bytes of a cost model, intact (their SHA-256 was checked), its held-out ``metrics``,
    the version of the features that it was trained on, and seconds since 1970."""

    blob: bytes
    metrics: Mapping[str, float] = field(hash=False)
    feature_version: int
    created_at: float

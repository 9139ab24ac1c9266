"""What a cost model was trained on: a fingerprint of its training rows, and a hash of its features."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotune.cost_model.version import FEATURE_VERSION


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a model comes from: models of equal provenance have equal bytes, on one version of XGBoost.

    ``fingerprint`` is the SHA-256 of the training rows (``Dataset.fingerprint``), ``features`` that of
    the feature names and their version, ``base`` that of the model that it refines ('' without one).
    ``seed`` is that of training.
    """

    fingerprint: str
    features: str
    measurements: int
    seed: int
    base: str = ""

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON takes them."""
        return asdict(self)


def feature_hash(names: Sequence[str]) -> str:
    """Return the SHA-256 of feature names, in order, and of the version of how they are counted."""
    return hashlib.sha256("\n".join((str(FEATURE_VERSION), *names)).encode()).hexdigest()

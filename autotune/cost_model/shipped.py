"""The cost model that ships with the package, and the choice of the model that answers for a machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cost_model.cached.work_kinds import TYPICAL_ERROR, TYPICAL_FACTOR
from autotune.cost_model.model import TYPICAL, CostModel
from autotune.cost_model.model_file import SHIPPED
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import StoreError
from autotune.targets.spec import HardwareSpec, Memory

if TYPE_CHECKING:
    from autotune.store.store import Store

MODELS = Path(__file__).parent / "models"
"""Files of shared models by kind of memory; ``make models`` rebuilds them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The model that answers for a machine, and the target's name as the user spells it."""

    model: CostModel
    target: str

    @property
    def line(self) -> str:
        """One line for people: which model answers, its held-out error, and how to improve it."""
        calibrate = f"'autotune calibrate --target {self.target}' measures this one"
        if self.model.kind == TYPICAL:
            return (
                f"{self.target}: predicted at typical costs of a CPU, nothing measured here: elsewhere mean error "
                f"{TYPICAL_ERROR:.0%}, 90 % of programs within a factor of {TYPICAL_FACTOR:g}; {calibrate}"
            )
        error = f"{self.model.metrics['mape']:.1%}"
        if not self.model.is_shared:
            return (
                f"{self.target}: predicted by its calibrated model ({self.model.kind}), mean error {error} on networks "
                "it has not seen"
            )
        machines = int(self.model.metrics["machines"])
        return (
            f"{self.target}: predicted by the shipped model of {machines} machines, mean error {error} on "
            f"machines and networks it has not seen; {calibrate}"
        )


def shipped_model(spec: HardwareSpec) -> CostModel | None:
    """Return the model in the package for a machine's kind of memory, or None. Raises ``StoreError``."""
    blob = _shipped_blob(spec.memory)
    return None if blob is None else CostModel.from_bytes(blob, spec)


def untrained_model(spec: HardwareSpec) -> CostModel:
    """Return the model that knows no measurement of a machine: the shipped one, or a CPU's typical costs."""
    shipped = shipped_model(spec)
    return CostModel.typical(spec) if shipped is None else shipped


@cache
def _shipped_blob(memory: Memory) -> bytes | None:
    file = MODELS / f"{memory.value}.model"
    return file.read_bytes() if file.exists() else None


def answering_model(
    store: Store, spec: HardwareSpec, name: str | None = None, version: str | None = None
) -> Answer:
    """Return the newest stored model of a machine that this version reads, else the shipped one.

    ``name`` is the target's as the user spells it (None: the spec's). ``version`` asks for one kept model,
    by the first digits of its SHA-256, or for the ``SHIPPED`` one. Raises ``StoreError`` for a machine
    without such a model.
    """
    target = spec.name if name is None else name
    profile = spec.profile_id
    if version is not None:
        return Answer(_version_of(store, spec, target, version), target)
    stored = store.load_model(profile, FEATURE_VERSION)
    if stored is not None:
        return Answer(CostModel.from_bytes(stored.blob, spec), target)
    shipped = shipped_model(spec)
    if shipped is not None:
        return Answer(shipped, target)
    older = store.load_model(profile)
    if older is not None:
        CostModel.from_bytes(older.blob, spec)  # raises, with the versions of both
    raise StoreError(
        f"no cost model for {target} (hardware profile {profile}); "
        f"run 'autotune calibrate --target {target}' first"
    )


def predicting_model(
    store: Store, spec: HardwareSpec, name: str | None = None, version: str | None = None
) -> Answer:
    """Return the model that answers a person's or a compiler's question: as ``answering_model``, but a CPU that was
    never calibrated is predicted at typical costs. A search asks ``answering_model``.

    Raises ``StoreError`` for a version that is not there, and for a model of another version of autotune.
    """
    is_measured = store.load_model(spec.profile_id) is not None
    if version is None and spec.memory is Memory.CACHED and not is_measured:
        return Answer(CostModel.typical(spec), spec.name if name is None else name)
    return answering_model(store, spec, name, version)


def _version_of(store: Store, spec: HardwareSpec, target: str, version: str) -> CostModel:
    """Return one version of a machine's model. Raises ``StoreError`` if there is none."""
    if version == SHIPPED:
        shipped = shipped_model(spec)
        if shipped is None:
            raise StoreError(
                f"{target}: no model ships for machines with {spec.memory.value} memory"
            )
        return shipped
    stored = store.load_model(spec.profile_id, version=version)
    if stored is None:
        raise StoreError(
            f"{target}: no model {version!r}; 'autotune store models --target {target}' lists them"
        )
    return CostModel.from_bytes(stored.blob, spec)

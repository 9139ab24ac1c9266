"""From a measurement to the record that the store keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from autotune.fusion.group import Group
from autotune.measure.measurement import Failed, Measured
from autotune.store.records import Outcome, Record
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.protocol import Target

GROUP_TEXTS_KEPT = 10_000
"""Texts of groups that are remembered, some 5 MB."""
_GROUP_TEXTS: dict[str, str] = {}


DOUBTFUL_TRUST = 0.8
"""Times that training would trust less are measured a second time: those with a standard error above
2.5 %."""


def to_record(
    result: Measured | Failed,
    target: Target | ModelTarget,
    source: str,
    clock: Callable[[], float] = time.time,
) -> Record:
    """Return the record of one measurement; ``source`` is one of ``SOURCES``.

    ``clock`` gives seconds since 1970. A failed measurement keeps its reason and costs nothing.
    """
    candidate = result.candidate
    is_native = not isinstance(target, ModelTarget) and target.spec.timed
    done = result.execution if isinstance(result, Measured) else None
    return Record(
        group_key=candidate.group.key,
        group_json=_group_json(candidate.group),
        schedule_json=candidate.schedule.to_json(),
        profile_id=(target if isinstance(target, ModelTarget) else target.spec).profile_id,
        target=target.name,
        network=candidate.network,
        source=source,
        outcome=Outcome.OK if done is not None else Outcome.FAILED,
        reason=result.reason if isinstance(result, Failed) else "",
        cycles=done.cycles if done is not None else 0,
        energy_fj=done.energy_fj if done is not None else 0,
        dram_bytes=done.dram_bytes if done is not None else 0,
        counters=dict(done.counters) if done is not None else {},
        created_at=clock(),
        toolchain=toolchain(is_native),
    )


def _group_json(group: Group) -> str:
    """Return the text of a group, made once for equal groups: a calibration measures some fifty schedules of each."""
    text = _GROUP_TEXTS.get(group.key)
    if text is None:
        if len(_GROUP_TEXTS) >= GROUP_TEXTS_KEPT:
            _GROUP_TEXTS.clear()
        _GROUP_TEXTS[group.key] = text = group.canonical.to_json()
    return text


def in_fixed_order(records: Iterable[Record]) -> list[Record]:
    """Return records by group and schedule, those of one candidate as they are: a model trained on them
    does not depend on the order in which workers answered."""
    return sorted(records, key=lambda record: (record.group_key, record.schedule_json))


@cache
def toolchain(is_native: bool) -> str:
    """Return the programs that made the code that was measured, with their versions."""
    names = ("autotune", "llvmlite") if is_native else ("autotune",)
    return ", ".join(f"{name} {_version(name)}" for name in names)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"

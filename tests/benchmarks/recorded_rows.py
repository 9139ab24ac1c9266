"""Rows that were measured on real targets: groups, schedules and cycles, from the files in ``recorded/``.

``cpu_rows.json.gz`` and ``ort_rows.json.gz`` come from ``autotune calibrate`` of 2026-11-25 on one thread of a Zen 5
server CPU, seed 0, shipped networks and generated graphs: of ``cpu``, and of ONNX Runtime 1.32 as target ``ort``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from autotune.store.records import Outcome, Record
from autotune.targets.spec import HardwareSpec
from autotune.targets.spec_document import read_document

FOLDER = Path(__file__).parent / "recorded"


def recorded(name: str) -> list[Record]:
    """Return the measurements of one target."""
    document = _document(name)
    groups = [json.dumps(group, separators=(",", ":")) for group in document["groups"]]
    return [
        Record(
            f"{group}", groups[group], json.dumps(schedule, separators=(",", ":")), name, name, network,
            "calibrate", Outcome.OK, "", cycles, 0, 0,
        )
        for group, schedule, network, cycles in document["rows"]
    ]  # fmt: skip


def recorded_spec() -> HardwareSpec:
    """Return the numbers of the CPU as they were measured: another CPU's would make other features."""
    return read_document(_document("cpu")["spec"])


def _document(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        gzip.decompress((FOLDER / f"{name}_rows.json.gz").read_bytes())
    )
    return document

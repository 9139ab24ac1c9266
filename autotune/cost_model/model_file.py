"""The file form of a cost model: a JSON header, then its parts, trees as tables.

Nothing is unpickled; a header that does not match this version or machine is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.provenance import Provenance
from autotune.cost_model.raw.model import corrected_model
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import StoreError
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]

RAW, GUIDED, FORMULA = "raw", "guided", "formula"
"""Kinds of models by what trees correct: counted work at fitted prices, or the analytic cycles; or nothing."""
SHIPPED = "shipped"
"""Kind of the model in the package, and its name as a version of a machine's model."""
MAGIC = b"autotune-hpm\n"
FORMAT_VERSION = 3
_LENGTH_BYTES = 8


def pack(
    spec: HardwareSpec,
    parts: Mapping[str, bytes],
    factor: float,
    metrics: Mapping[str, float],
    unit_costs: Sequence[float] = (),
    shared: bool = False,
    provenance: Provenance | None = None,
    support: Floats | None = None,
    is_raw: bool = False,
    formula_chooses: bool = False,
) -> bytes:
    """Header length, header, ``parts`` one after the other. A shared model is for every machine with the
    spec's kind of memory; ``support`` are percentiles of its training set."""
    body = b"".join(parts.values())
    header = json.dumps(
        {
            "format": FORMAT_VERSION,
            "feature_version": FEATURE_VERSION,
            "raw": is_raw,
            "formula_chooses": formula_chooses,
            "features": list(corrected_model(spec, is_raw).feature_names),
            "profile_id": None if shared else spec.profile_id,
            "memory": spec.memory.value,
            "factor": factor,
            "metrics": dict(metrics),
            "prices": list(unit_costs),
            "trained_on": None if provenance is None else provenance.plain(),
            "support": None if support is None else support.tolist(),
            "parts": {name: len(raw) for name, raw in parts.items()},
            "sha256": hashlib.sha256(body).hexdigest(),
        }
    ).encode()
    return MAGIC + len(header).to_bytes(_LENGTH_BYTES, "little") + header + body


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The content of a file: parts by name, conformal factor, metrics, unit costs, what it was trained on,
    and percentiles of its support (both None in files of before they were kept); ``is_raw`` where its trees correct
    counted work at prices instead of analytic cycles, ``formula_chooses`` where the plain formula chooses among schedules."""

    parts: dict[str, bytes]
    factor: float
    metrics: dict[str, float]
    unit_costs: list[float]
    provenance: Provenance | None
    support: Floats | None
    is_raw: bool = False
    formula_chooses: bool = False


def unpack(blob: bytes, spec: HardwareSpec) -> Unpacked:
    """Read what ``pack`` wrote. Raises ``StoreError`` for a file that is broken, of another version, or
    of another machine."""
    header, body = _split(blob)
    retrain = f"run 'autotune calibrate --target {spec.name}' to train a new one"
    is_raw = bool(header.get("raw"))
    names = list(corrected_model(spec, is_raw).feature_names)
    if (header.get("format"), header.get("feature_version")) != (FORMAT_VERSION, FEATURE_VERSION):
        raise StoreError(
            f"cost model: format {header.get('format')}, features {header.get('feature_version')}; "
            f"this version reads {FORMAT_VERSION}, {FEATURE_VERSION}; {retrain}"
        )
    if header.get("features") != names:
        raise StoreError(f"cost model: trained on other features than this version has; {retrain}")
    if header.get("profile_id") is None:
        if header.get("memory") != spec.memory.value:
            raise StoreError(
                f"cost model: trained for machines with memory {header.get('memory')!r}, "
                f"{spec.name} has {spec.memory.value!r}; {retrain}"
            )
    elif header.get("profile_id") != spec.profile_id:
        raise StoreError(
            f"cost model: trained for hardware profile {header.get('profile_id')}, "
            f"{spec.name} is {spec.profile_id}; {retrain}"
        )
    if hashlib.sha256(body).hexdigest() != header.get("sha256"):
        raise StoreError(f"cost model: damaged, its checksum differs; {retrain}")
    parts: dict[str, bytes] = {}
    start = 0
    for name, length in header["parts"].items():
        parts[name] = body[start : start + length]
        start += length
    unit_costs = [float(cost) for cost in header["prices"]]
    known = header.get("support")
    return Unpacked(
        parts,
        float(header["factor"]),
        dict(header["metrics"]),
        unit_costs,
        _provenance(header),
        None if known is None else np.array(known, dtype=np.float64),
        is_raw,
        bool(header.get("formula_chooses")),
    )


def provenance_of(blob: bytes) -> Provenance | None:
    """Return what a model of any machine was trained on; None where its file does not say, or is none."""
    try:
        return _provenance(_split(blob)[0])
    except StoreError:
        return None


def kind_of(blob: bytes) -> str:
    """Return which kind of model a file holds, ``shipped`` for one of every machine; '' where it is none."""
    try:
        header = _split(blob)[0]
    except StoreError:
        return ""
    if header.get("profile_id") is None:
        return SHIPPED
    if header.get("raw"):
        return RAW
    return GUIDED if {"cycles", "base cycles"} & set(header.get("parts", ())) else FORMULA


def _provenance(header: Mapping[str, Any]) -> Provenance | None:
    """Return what a header says of the training set. Raises ``StoreError`` for fields of another version."""
    plain = header.get("trained_on")
    try:
        return None if plain is None else Provenance(**plain)
    except TypeError:
        raise StoreError(
            "cost model: damaged header; run 'autotune calibrate' to train a new one"
        ) from None


def is_shared(blob: bytes) -> bool:
    """Return True if a model is for every machine with one kind of memory. Raises ``StoreError``."""
    return _split(blob)[0].get("profile_id") is None


def _split(blob: bytes) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + _LENGTH_BYTES
    if not blob.startswith(MAGIC) or len(blob) < start:
        raise StoreError("cost model: not a cost model file; run 'autotune calibrate' to train one")
    end = start + int.from_bytes(blob[len(MAGIC) : start], "little")
    try:
        header = json.loads(blob[start:end])
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise StoreError("cost model: damaged header; run 'autotune calibrate' to train a new one")
    return header, blob[end:]

"""A spec as plain data and back: for files that carry a machine along, where TOML is for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from autotune.errors import SpecError
from autotune.targets.spec import HardwareSpec
from autotune.targets.toml_spec import parse_spec

_APART = ("name", "identity")
"""Fields that no TOML file has: its own name, and what probes say."""


def spec_document(spec: HardwareSpec) -> dict[str, Any]:
    """Return a spec as JSON can hold it; ``read_document`` reads it back, equal in every number."""
    numbers = asdict(spec)
    apart = {key: numbers.pop(key) for key in _APART}
    return {**apart, "machine": numbers | {"sources": list(spec.sources)}}


def read_document(document: Mapping[str, Any]) -> HardwareSpec:
    """Return the spec in plain data. Raises ``SpecError`` for a missing or absurd number."""
    name, identity = (document.get(key) for key in _APART)
    machine = document.get("machine")
    if not (isinstance(name, str) and isinstance(identity, str) and isinstance(machine, dict)):
        raise SpecError("a machine has a name, an identity and numbers")
    return replace(parse_spec(name, machine), identity=identity)

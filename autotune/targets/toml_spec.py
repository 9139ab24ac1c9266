"""Reads a hardware spec from TOML; the border between files and ``HardwareSpec``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from autotune.disk.regular_file import regular_text
from autotune.errors import SpecError
from autotune.targets.physical import PhysicalSpec
from autotune.targets.spec import (
    ControlSpec,
    DramSpec,
    EnergySpec,
    HardwareSpec,
    MatrixSpec,
    Memory,
    ScratchpadSpec,
    VectorSpec,
)

SECTIONS: dict[str, type] = {
    "matrix": MatrixSpec,
    "vector": VectorSpec,
    "scratchpad": ScratchpadSpec,
    "dram": DramSpec,
    "control": ControlSpec,
    "energy": EnergySpec,
}
"""TOML table to the dataclass whose fields are its keys."""

OPTIONAL: dict[str, type] = {"physical": PhysicalSpec}
"""Tables that may be left out, as may any key of theirs; the dataclass has defaults."""

_TOP: dict[str, type] = {"description": str, "sources": list, "cores": int, "clock_hz": float}
_TOP_OPTIONAL: dict[str, type] = {"layout": str, "tile_multiple": int, "memory": Memory}
_WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list of texts",
    bool: "true or false",
    dict: "a section",
}
_SIZE_LIMIT_BYTES = 1 << 20
"""More than any spec; protects against being handed something else."""

Section = TypeVar("Section")


def read_spec(path: Path) -> HardwareSpec:
    """Read the spec in a TOML file; its name is the file's stem.

    Raises ``SpecError`` with file, key, value and the allowed values.
    """
    import tomllib  # specs in files of predictors are JSON

    try:
        if path.stat().st_size > _SIZE_LIMIT_BYTES:
            raise SpecError(f"{path}: larger than {_SIZE_LIMIT_BYTES} bytes; not a hardware spec")
        document = tomllib.loads(regular_text(path))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path}: not a text file; a hardware spec is TOML") from None
    except RecursionError:
        raise SpecError(f"{path}: nested too deeply; not a hardware spec") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path}: not valid TOML: {error}") from None
    try:
        return parse_spec(path.stem, document)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def parse_spec(name: str, document: Mapping[str, Any]) -> HardwareSpec:
    """Return the spec in a parsed TOML document. Raises ``SpecError`` with key and value."""
    _check_keys(document, [*_TOP, *SECTIONS], "", [*_TOP_OPTIONAL, *OPTIONAL])
    kinds = _TOP | {key: kind for key, kind in _TOP_OPTIONAL.items() if key in document}
    top = {key: _typed(document[key], kind, key) for key, kind in kinds.items()}
    parts: dict[str, Any] = {
        key: _section(document[key], kind, key) for key, kind in SECTIONS.items()
    }
    optional: dict[str, Any] = {
        key: _section(document[key], kind, key) for key, kind in OPTIONAL.items() if key in document
    }
    return HardwareSpec(name=name, **(top | parts | optional))


def _section(value: object, kind: type[Section], section: str) -> Section:
    keys: dict[str, Any] = _typed(value, dict, section)
    kinds = get_type_hints(kind)
    rows = fields(kind)  # type: ignore[arg-type]
    names = [row.name for row in rows]
    needed = [] if section in OPTIONAL else [row.name for row in rows if row.default is MISSING]
    _check_keys(keys, needed, f"{section}.", [name for name in names if name not in needed])
    return kind(
        **{key: _typed(keys[key], kinds[key], f"{section}.{key}") for key in names if key in keys}
    )


def _check_keys(
    given: Mapping[str, Any], needed: list[str], prefix: str, optional: list[str]
) -> None:
    for key in needed:
        if key not in given:
            raise SpecError(f"{prefix}{key}: missing; a spec gives every key (see edge.toml)")
    known = [*needed, *optional]
    for key in given:
        if key not in known:
            raise SpecError(f"{prefix}{key}: unknown key; known: {', '.join(known)}")


def _typed(value: Any, kind: type, where: str) -> Any:
    """Return ``value`` as ``kind``; a whole number may stand for a float, a text for an enum."""
    if issubclass(kind, Enum):
        members = {member.value: member for member in kind}
        if type(value) is not str or value not in members:
            raise SpecError(f"{where}: {value!r} is not one of: {', '.join(members)}")
        return members[value]
    if kind is float and type(value) is int:
        return float(value)
    fits = type(value) is kind
    if kind is list:
        fits = fits and all(type(item) is str for item in value)
    if not fits:
        raise SpecError(f"{where}: {value!r} is not {_WORDS[kind]}")
    return tuple(value) if kind is list else value

"""Settings of a spec by dotted key, such as ``dram.bytes_per_cycle``: what studies of machines change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, get_type_hints

from autotune.errors import InputError, SpecError
from autotune.targets.spec import HardwareSpec
from autotune.targets.toml_spec import SECTIONS

Value = int | float | str
"""A number or a truth of a spec, or the name of a dataflow or layout."""
Assignment = Mapping[str, Value]
"""Values by dotted key."""

TOP: Mapping[str, type] = {"cores": int, "clock_hz": float, "layout": str, "tile_multiple": int}
"""Keys outside of all sections."""
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20}
_TRUTHS = {"true": True, "false": False}
_EXAMPLE = "such as dram.bytes_per_cycle=12.8,25.6,51.2"


def _key_types() -> dict[str, type]:
    types = dict(TOP)
    for section, kind in SECTIONS.items():
        hints = get_type_hints(kind)
        types |= {f"{section}.{row.name}": hints[row.name] for row in fields(kind)}
    return types


KEYS: Mapping[str, type] = _key_types()
"""Every key that may be set, with the type of its values."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Keys that take the same value, and the values that they take one after the other."""

    keys: tuple[str, ...]
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        for key in self.keys:
            _require_key(key)
        if not self.values or len(set(self.values)) < len(self.values):
            raise InputError(f"{self.name}: values {list(self.values)} are none or repeat")

    @property
    def name(self) -> str:
        """The keys as the user spells them."""
        return ",".join(self.keys)

    @property
    def text(self) -> str:
        """The setting as ``--set`` takes it."""
        return f"{self.name}={','.join(map(spelled_value, self.values))}"

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Read ``KEY=VALUE,VALUE…``; ``KEY,KEY=…`` gives several keys each value.

        Whole numbers may end in Ki or Mi. Raises ``InputError`` or ``SpecError``, with the known keys.
        """
        left, equals, right = text.partition("=")
        keys = tuple(key.strip() for key in left.split(","))
        texts = [value.strip() for value in right.split(",")]
        if not equals or not all(keys) or not all(texts):
            raise InputError(f"{text!r} is not KEY=VALUE,…, {_EXAMPLE}")
        for key in keys:
            _require_key(key)
        kinds = {KEYS[key] for key in keys}
        if len(kinds) > 1:
            raise InputError(f"{left}: keys of different kinds cannot share values; set them apart")
        return cls(keys, tuple(_value(one, kinds.copy().pop(), left) for one in texts))


def _require_key(key: str) -> None:
    if key in KEYS:
        return
    section = key.partition(".")[0]
    near = [name for name in KEYS if name.startswith(f"{section}.")]
    if near:
        raise SpecError(f"{key}: unknown key; {section} has: {', '.join(near)}")
    known = [*TOP, *(f"{name}.…" for name in SECTIONS)]
    raise SpecError(f"{key}: unknown key; known: {', '.join(known)}")


def _value(text: str, kind: type, where: str) -> Value:
    """Return a value of a key. Raises ``SpecError`` for a text that is none."""
    if kind is str:
        return text
    if kind is bool:
        if text not in _TRUTHS:
            raise SpecError(f"{where}: {text!r} is not true or false")
        return _TRUTHS[text]
    unit = _UNITS.get(text[-2:], 1)
    digits = text if unit == 1 else text[:-2]
    try:
        number: Value = int(digits) * unit if kind is int else float(digits) * unit
    except ValueError:
        word = "whole number" if kind is int else "number"
        raise SpecError(f"{where}: {text!r} is not a {word}") from None
    return number


def check_settings(settings: Iterable[Setting]) -> None:
    """Raise ``InputError`` for a key that is set twice."""
    seen: set[str] = set()
    for setting in settings:
        for key in setting.keys:
            if key in seen:
                raise InputError(f"{key}: set twice; give all of its values at once, {_EXAMPLE}")
            seen.add(key)


def assignments(settings: Iterable[Setting]) -> tuple[dict[str, Value], ...]:
    """Return every combination of the settings' values; the last setting changes fastest."""
    chosen = tuple(settings)
    check_settings(chosen)
    return tuple(
        {key: value for setting, value in zip(chosen, values, strict=True) for key in setting.keys}
        for values in product(*(setting.values for setting in chosen))
    )


def spelled_assignment(assignment: Assignment) -> str:
    """Return ``key=value`` of all keys, as ``--set`` takes them."""
    return " ".join(f"{key}={spelled_value(value)}" for key, value in assignment.items())


def spelled_value(value: Value) -> str:
    """Return a value as ``--set`` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_settings(spec: HardwareSpec, assignment: Assignment) -> HardwareSpec:
    """Return the machine with these values in place of its own; it is called by them.

    Raises ``SpecError`` for an unknown key, and for values that make no legal machine.
    """
    top: dict[str, Any] = {}
    parts: dict[str, dict[str, Value]] = {}
    for key, value in assignment.items():
        _require_key(key)
        section, dot, name = key.partition(".")
        if dot:
            parts.setdefault(section, {})[name] = value
        else:
            top[key] = value
    text = spelled_assignment(assignment)
    try:
        for section, values in parts.items():
            top[section] = replace(getattr(spec, section), **values)
        return replace(spec, name=f"{spec.name} {text}".strip(), **top)
    except SpecError as error:
        raise SpecError(f"{spec.name} with {text}: {error}") from None

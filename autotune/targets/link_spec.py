"""Links between the devices of a session: how long a tensor takes from one to another; read from TOML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.disk.regular_file import regular_text
from autotune.errors import SpecError
from autotune.targets.device_name import machine_of

SHIPPED = Path(__file__).parent / "links" / "pcie3x4.toml"
"""Links of devices whose user names none."""
HOST_MEMORY = "cpu"
"""Place of a network's inputs and outputs, also where no group runs on this CPU."""
_NUMBERS = ("bandwidth_bytes_per_second", "latency_seconds")
_KEYS = ("description", "sources", "default", "link", "memory")


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """One direction of a link. It carries one transfer at a time; the other direction works beside it.

    Raises ``SpecError`` for a bandwidth outside of 1e3..1e13 B/s and a latency outside of 0..10 s.
    """

    bandwidth_bytes_per_second: float
    latency_seconds: float

    def __post_init__(self) -> None:
        if not 1e3 <= self.bandwidth_bytes_per_second <= 1e13:
            raise SpecError(
                f"bandwidth_bytes_per_second: {self.bandwidth_bytes_per_second:g} is not in 1e3..1e13"
            )
        if not 0.0 <= self.latency_seconds <= 10.0:
            raise SpecError(f"latency_seconds: {self.latency_seconds:g} is not in 0..10")

    def seconds(self, size_bytes: float) -> float:
        """Time of a transfer: latency, then all bytes at the bandwidth."""
        return self.latency_seconds + size_bytes / self.bandwidth_bytes_per_second


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """A DRAM channel that several devices load and store through: groups that run at the same time share it.

    Raises ``SpecError`` for fewer than two devices, and for a bandwidth outside of 1e3..1e13 B/s.
    """

    devices: tuple[str, ...]
    bandwidth_bytes_per_second: float

    def __post_init__(self) -> None:
        if len(set(self.devices)) < 2:
            raise SpecError(f"devices = {list(self.devices)!r:.80} is not two names or more")
        if not 1e3 <= self.bandwidth_bytes_per_second <= 1e13:
            raise SpecError(
                f"bandwidth_bytes_per_second: {self.bandwidth_bytes_per_second:g} is not in 1e3..1e13"
            )


@dataclass(frozen=True)
class Links:
    """Links between devices by their names; ``default`` joins pairs that are not named, None leaves them apart."""

    description: str
    default: LinkSpec | None
    pairs: Mapping[tuple[str, str], LinkSpec]
    """Links by the sorted names of their ends; the same in both directions. A machine's name stands for every
    device of that machine that is not named itself: ``edge`` for ``edge`` and ``edge#2``."""
    memories: tuple[SharedMemory, ...] = ()
    """Channels that devices share; a device that is in none has memory of its own."""

    def between(self, first: str, second: str) -> LinkSpec:
        """Return the link of two devices. Raises ``SpecError`` where there is none."""
        ends = place_of(first), place_of(second)
        machines = machine_of(ends[0]), machine_of(ends[1])
        found = self.pairs.get(_ends(*ends), self.pairs.get(_ends(*machines), self.default))
        if found is None:
            raise SpecError(
                f"no link joins {first} and {second}; add [[link]] between = "
                f'["{first}", "{second}"], or a [default] section'
            )
        return found

    def check_devices(self, names: Iterable[str]) -> None:
        """Raise ``SpecError`` for two devices without a link."""
        self.joining(names)

    def joining(self, names: Iterable[str]) -> tuple[tuple[str, str, LinkSpec], ...]:
        """Return the link of each two devices, this CPU's memory included. Raises ``SpecError`` where there is none."""
        ordered = list(dict.fromkeys(map(place_of, (*names, HOST_MEMORY))))
        return tuple(
            (first, second, self.between(first, second))
            for place, first in enumerate(ordered)
            for second in ordered[place + 1 :]
        )

    def document(self) -> dict[str, Any]:
        """Return the links as a plan file and TOML have them; ``parse_links`` reads them back."""
        default = {} if self.default is None else {"default": _numbers(self.default)}
        rows = [{"between": list(ends), **_numbers(link)} for ends, link in self.pairs.items()]
        shared = [
            {
                "devices": list(one.devices),
                "bandwidth_bytes_per_second": one.bandwidth_bytes_per_second,
            }
            for one in self.memories
        ]
        return {"description": self.description, **default, "link": rows, "memory": shared}


def read_links(path: Path | None = None) -> Links:
    """Read links from a TOML file; None means the shipped ones.

    Raises ``SpecError`` with file, key and value.
    """
    import tomllib  # most commands read no TOML

    chosen = SHIPPED if path is None else path
    try:
        document = tomllib.loads(regular_text(chosen))
    except OSError as error:
        raise SpecError(f"{chosen}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{chosen}: not a text file; links are TOML") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{chosen}: not valid TOML: {error}") from None
    try:
        return parse_links(document)
    except SpecError as error:
        raise SpecError(f"{chosen}: {error}") from None


def parse_links(document: Mapping[str, Any]) -> Links:
    """Return the links in a parsed document. Raises ``SpecError`` with key and value."""
    for key in document:
        if key not in _KEYS:
            raise SpecError(f"{key}: unknown key; known: {', '.join(_KEYS)}")
    rows = document.get("link", [])
    if not isinstance(rows, list):
        raise SpecError(f"link: {rows!r:.80} is not a list of [[link]] sections")
    pairs: dict[tuple[str, str], LinkSpec] = {}
    for number, row in enumerate(rows):
        ends = _checked_ends(row, f"link {number + 1}")
        if ends in pairs:
            raise SpecError(f"link {number + 1}: {' and '.join(ends)} are joined twice")
        pairs[ends] = _link(row, f"link {number + 1}", ("between", *_NUMBERS))
    shared = document.get("memory", [])
    if not isinstance(shared, list):
        raise SpecError(f"memory: {shared!r:.80} is not a list of [[memory]] sections")
    memories = tuple(_memory(row, f"memory {n + 1}") for n, row in enumerate(shared))
    _check_apart(memories)
    default = document.get("default")
    return Links(
        str(document.get("description", "")),
        None if default is None else _link(default, "default", _NUMBERS),
        pairs,
        memories,
    )


def _memory(row: object, where: str) -> SharedMemory:
    known = ("devices", "bandwidth_bytes_per_second")
    numbers = _numbers_of(row, where, known, known[1:])
    names = row["devices"] if isinstance(row, dict) and "devices" in row else None
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        raise SpecError(
            f'{where}: devices = {names!r:.80} is not names, such as ["edge", "mobile"]'
        )
    try:
        return SharedMemory(tuple(map(place_of, names)), *numbers)
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None


def _check_apart(memories: tuple[SharedMemory, ...]) -> None:
    """Raise ``SpecError`` for a device in two memories."""
    seen: set[str] = set()
    for memory in memories:
        for name in memory.devices:
            if name in seen:
                raise SpecError(f"memory: {name} is in two memories; a device has one")
        seen.update(memory.devices)


def _checked_ends(row: object, where: str) -> tuple[str, str]:
    ends = row.get("between") if isinstance(row, dict) else None
    if not (
        isinstance(ends, list)
        and all(type(one) is str for one in ends)
        and len(ends) == len(set(ends)) == 2
    ):
        raise SpecError(
            f'{where}: between = {ends!r:.80} is not two names, such as ["edge", "cpu"]'
        )
    return _ends(*ends)


def place_of(name: str) -> str:
    """Return the end of a link that a device is: ``cpu:2`` is ``cpu``."""
    place, _, _ = name.partition(":")
    return place if place == HOST_MEMORY else name


def _ends(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first <= second else (second, first)


def _link(row: object, where: str, known: tuple[str, ...]) -> LinkSpec:
    values = _numbers_of(row, where, known, _NUMBERS)
    try:
        return LinkSpec(*values)
    except SpecError as error:
        raise SpecError(f"{where}.{error}") from None


def _numbers_of(
    row: object, where: str, known: tuple[str, ...], wanted: tuple[str, ...]
) -> list[float]:
    """Return the numbers of a section. Raises ``SpecError`` for other keys and for what is no number."""
    if not isinstance(row, dict):
        raise SpecError(f"{where}: {row!r:.80} is not a section")
    for key in row:
        if key not in known:
            raise SpecError(f"{where}.{key}: unknown key; known: {', '.join(known)}")
    values = []
    for key in wanted:
        value = row.get(key)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
        ):
            raise SpecError(f"{where}.{key}: {value!r:.80} is not a number")
        values.append(float(value))
    return values


def _numbers(link: LinkSpec) -> dict[str, float]:
    return {key: getattr(link, key) for key in _NUMBERS}

"""Limits of a build: cores and memory, as users give them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.errors import AutotuneError, InputError
from autotune.targets.native.cpu.topology import core_count

_UNITS = {"": 1, "b": 1} | {
    unit: scale
    for power, letter in enumerate("kmgt", 1)
    for unit, scale in (
        (letter, 1 << 10 * power),
        (f"{letter}ib", 1 << 10 * power),
        (f"{letter}b", 1000**power),
    )
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


class MemoryExceeded(AutotuneError):
    """A build that does not fit the memory that it may use."""


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Most threads of a build, and most bytes of this process while it builds. None: all cores, any memory."""

    cores: int | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.cores is not None and self.cores < 1:
            raise InputError(f"cores={self.cores}: a build needs at least 1 core; None means all")
        if self.memory_bytes is not None and self.memory_bytes < 1:
            raise InputError(f"memory={self.memory_bytes}: give bytes, or a text such as '4GiB'")

    @property
    def threads(self) -> int:
        """Threads that the build may use: no more than this process has cores."""
        from autotune.targets.native.compiling.compiler import generates_alone

        if generates_alone():
            return 1
        return core_count() if self.cores is None else min(self.cores, core_count())


NO_LIMITS = BuildLimits()
"""All cores, and any memory."""


def limits_of(cores: object = None, memory: object = None) -> BuildLimits:
    """Return the limits that an argument or option names.

    ``memory`` is a number of bytes or a text such as ``4GiB`` or ``500MB``. Raises ``InputError``.
    """
    if cores is not None and (isinstance(cores, bool) or not isinstance(cores, int)):
        raise InputError(f"cores={cores!r} is no whole number; give one, or None for all cores")
    return BuildLimits(cores, None if memory is None else _bytes_of(memory))


def _bytes_of(memory: object) -> int:
    if isinstance(memory, int) and not isinstance(memory, bool):
        return memory
    found = _SIZE.fullmatch(memory.lower()) if isinstance(memory, str) else None
    if found is None or found[2] not in _UNITS:
        raise InputError(
            f"memory={memory!r} is no size; give bytes, or a text such as '4GiB' or '500MB'"
        )
    return int(float(found[1]) * _UNITS[found[2]])


def size_text(size_bytes: float) -> str:
    """Return bytes as people read them: 1.5 GiB."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes:.0f} B"

"""What the system says of the CPU: its name, flags, cores that may be used, caches, nominal clock.

Read from ``/proc`` and ``/sys`` where there are such; what is not told is None or empty.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from collections.abc import Iterator
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_CPUS = Path("/sys/devices/system/cpu")
_FAMILY = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
"""Lines of ``/proc/cpuinfo`` on x86-64, then on aarch64; stepping and microcode change no plan."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def usable_cores() -> tuple[int, ...]:
    """Numbers of the cores that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return tuple(sorted(affinity(0))) if affinity else tuple(range(os.cpu_count() or 1))


def core_count() -> int:
    """How many cores this process may use."""
    return len(usable_cores())


@contextlib.contextmanager
def held_to_first() -> Iterator[None]:
    """Keep the calling thread on the first core that it may use."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def model_name() -> str:
    """As the vendor sells it, or else the architecture."""
    return _cpuinfo().get("model name", "") or platform.processor() or platform.machine()


def family() -> str:
    """Vendor, family and model by the numbers that the CPU tells; empty where it tells none."""
    lines = _cpuinfo()
    return " ".join(lines[key] for key in _FAMILY if key in lines)


def flags() -> frozenset[str]:
    """Instruction set extensions by the kernel's names; for AVX2, FMA and AVX-512 they are LLVM's."""
    return frozenset(_cpuinfo().get("flags", "").split())


def clock_hz() -> float | None:
    """What the kernel says the clock is now."""
    try:
        return float(_cpuinfo()["cpu MHz"]) * 1e6
    except (KeyError, ValueError):
        return None


def cache_bytes(level: int) -> int | None:
    """Size of a core's data or unified cache; one that several cores share counts in parts, one
    that only the hardware threads of a core share does not."""
    index = _cache(level)
    if index is not None:
        core = usable_cores()[0]
        siblings = _listed(_CPUS / f"cpu{core}/topology/thread_siblings_list") or 1
        size = size_of(_text(index / "size"))
        sharing = _listed(index / "shared_cpu_list") or 1
        return None if size is None else size // max(1, sharing // siblings)
    # on AMD this line is the L2, on Intel the whole L3: only small ones are a core's own
    size = size_of(_cpuinfo().get("cache size", "").replace(" KB", "K")) if level == 2 else None
    return size if size is not None and size <= 4 << 20 else None


def cache_ways(level: int) -> int | None:
    """Lines that a set of a core's data or unified cache holds; None if the system does not tell."""
    index = _cache(level)
    text = "" if index is None else _text(index / "ways_of_associativity")
    return int(text) if text.isdigit() and int(text) > 0 else None


def _cache(level: int) -> Path | None:
    """The folder of a core's data or unified cache."""
    core = usable_cores()[0]
    for index in sorted((_CPUS / f"cpu{core}/cache").glob("index*")):
        if _text(index / "level") == str(level) and _text(index / "type") != "Instruction":
            return index
    return None


def size_of(text: str) -> int | None:
    """Bytes of ``512K``, as sysfs writes it; None for anything else."""
    number, unit = text[:-1], text[-1:]
    return int(number) * _UNITS[unit] if unit in _UNITS and number.isdigit() else None


@functools.cache
def _cpuinfo() -> dict[str, str]:
    """The first core's lines."""
    pairs = (line.partition(":") for line in _text(_CPUINFO).partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _listed(path: Path) -> int:
    """How many cores a list such as ``0-3,8`` names."""
    ranges = [part.split("-") for part in _text(path).split(",") if part]
    try:
        return sum(int(ends[-1]) - int(ends[0]) + 1 for ends in ranges)
    except ValueError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace").strip()
    except OSError:
        return ""

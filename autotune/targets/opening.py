"""The shipped hardware specs and this machine's, and opening a target by name or file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from autotune.arguments import integer_of, path_of
from autotune.errors import SpecError
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec

SPECS = Path(__file__).parent / "specs"

HOST = "cpu"
"""Name of the machine that this runs on; ``cpu:2`` is two threads of it."""


@cache
def spec_names() -> tuple[str, ...]:
    """Names of the shipped specs, smallest machine first."""
    names = (path.stem for path in SPECS.glob("*.toml"))
    return tuple(sorted(names, key=lambda name: (load_spec(name).peak_macs_per_cycle, name)))


def load_spec(path_or_name: Path | str) -> HardwareSpec:
    """A shipped spec by name, the host's (``cpu``, ``cpu:2``), or one read from a TOML file.

    Raises ``SpecError`` for an unknown name, and for a file that is no legal spec.
    """
    if is_host(path_or_name):
        from autotune.targets.native.detection.detect import detected

        return detected(_threads_of(str(path_or_name)))
    from autotune.targets.toml_spec import read_spec  # this machine has no file

    shipped = SPECS / f"{path_or_name}.toml"
    if isinstance(path_or_name, str) and shipped.parent == SPECS and shipped.is_file():
        return read_spec(shipped)
    path = Path(path_or_name)
    if not str(path_or_name) or (not path.exists() and path.suffix != ".toml"):
        raise SpecError(
            f"no target is named {str(path_or_name)!r}; shipped: {', '.join(spec_names())}; "
            f"{HOST} is this machine; or give the path of a .toml file"
        )
    return read_spec(path)


def is_host(name_or_path: Path | str) -> bool:
    """Whether a target's name means the machine that this runs on."""
    return isinstance(name_or_path, str) and name_or_path.partition(":")[0] == HOST


def host_name(name_or_path: Path | str, threads: int | None) -> Path | str:
    """The name of a target used with so many threads: ``cpu`` with 2 is ``cpu:2``. Raises
    ``SpecError`` for threads of any other machine, and for two different numbers of them."""
    if threads is None:
        return name_or_path
    integer_of(threads, "threads")  # the machine says how many there may be
    if not is_host(name_or_path):
        raise SpecError(
            f"threads = {threads} for {name_or_path}: only {HOST} has threads, the cores of other "
            "machines stand in their specs; leave it out"
        )
    named = _threads_of(str(name_or_path))
    if named not in (None, threads):
        raise SpecError(f"{threads} threads for {name_or_path}; say the number once")
    return f"{HOST}:{threads}"


def _threads_of(name: str) -> int | None:
    """Of ``cpu:2`` 2. Raises ``SpecError`` for what is no number."""
    _, colon, number = name.partition(":")
    if not colon:
        return None
    if not (number.isascii() and number.isdigit()):
        raise SpecError(f"{name!r}: {number!r} is not a number of threads, such as {HOST}:2")
    return int(number)


def target(name_or_path: Path | str, threads: int | None = None) -> Target:
    """The emulator of a shipped or own spec; for ``cpu`` this machine itself with ``threads``, one
    per core unless told. Raises ``SpecError`` as ``load_spec`` does, and for threads of a machine
    that is emulated."""
    path_of(name_or_path, "a target")
    name_or_path = host_name(name_or_path, threads)
    if is_host(name_or_path):
        from autotune.targets.native.running.target import NativeTarget

        return NativeTarget(load_spec(name_or_path))
    from autotune.targets.emulator.target import EmulatorTarget  # this machine does without

    return EmulatorTarget(load_spec(name_or_path), str(name_or_path))

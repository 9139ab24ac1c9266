"""The shipped hardware specs, and opening a target by name or file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from autotune.errors import SpecError
from autotune.targets.emulator import EmulatorTarget
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec
from autotune.targets.toml_spec import read_spec

SPECS = Path(__file__).parent / "specs"


@cache
def spec_names() -> tuple[str, ...]:
    """Names of the shipped specs, smallest machine first."""
    names = (path.stem for path in SPECS.glob("*.toml"))
    return tuple(sorted(names, key=lambda name: (load_spec(name).peak_macs_per_cycle, name)))


def load_spec(path_or_name: Path | str) -> HardwareSpec:
    """A shipped spec by name, or one read from a TOML file.

    Raises ``SpecError`` for an unknown name, and for a file that is no legal spec.
    """
    shipped = SPECS / f"{path_or_name}.toml"
    if isinstance(path_or_name, str) and shipped.parent == SPECS and shipped.is_file():
        return read_spec(shipped)
    path = Path(path_or_name)
    if not path.exists() and path.suffix != ".toml":
        raise SpecError(
            f"no target is named {str(path_or_name)!r}; shipped: {', '.join(spec_names())}; "
            "or give the path of a .toml file"
        )
    return read_spec(path)


def target(name_or_path: Path | str) -> Target:
    """The emulator of a shipped or own spec. Raises ``SpecError`` as ``load_spec`` does."""
    return EmulatorTarget(load_spec(name_or_path), str(name_or_path))

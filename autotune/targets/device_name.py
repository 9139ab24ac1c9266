"""Names of the devices of a session: a machine's own name, and numbers where several are equal."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import InputError


def machine_of(device: str) -> str:
    """Return the machine that a device is one of: ``edge#2`` is an ``edge``."""
    machine, _, number = device.rpartition("#")
    return machine if machine and number.isascii() and number.isdigit() else device


def device_names(machines: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each of several machines: the second ``edge`` is ``edge#2``.

    Numbers that the names have already count for nothing. Raises ``InputError`` for no machine, an empty name, and
    this CPU twice: ``cpu`` with any number of threads is one device.
    """
    if not machines or not all(machines):
        raise InputError("devices are names with commas between them, such as edge,mobile,cpu")
    seen: dict[str, list[str]] = {}
    names = []
    for machine in map(machine_of, machines):
        is_here = machine.partition(":")[0] == "cpu"
        equal = seen.setdefault("cpu" if is_here else machine, [])
        equal.append(machine)
        if is_here and len(equal) > 1:
            raise InputError(
                f"{' and '.join(dict.fromkeys(equal))}: this machine is one device; name it once"
            )
        names.append(machine if len(equal) == 1 else f"{machine}#{len(equal)}")
    return tuple(names)

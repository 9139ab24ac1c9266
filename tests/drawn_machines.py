"""Machines that drawn networks run on: emulated ones of small scratchpads and several cores, and this one."""

from __future__ import annotations

from dataclasses import replace

from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec, target
from autotune.targets.protocol import Target


def emulator(name: str, cores: int, scratchpad_bytes: int, layout: str) -> Target:
    """A shipped machine with other cores, a smaller scratchpad and the images in another layout."""
    spec = load_spec(name)
    small = replace(spec.scratchpad, size_bytes=scratchpad_bytes)
    return EmulatorTarget(replace(spec, cores=cores, scratchpad=small, layout=layout))


MACHINES = {
    "three cores of 16 KiB": lambda: emulator("edge", 3, 1 << 14, "channels_first"),
    "two cores of 64 KiB, channels last": lambda: emulator("server", 2, 1 << 16, "channels_last"),
    "this machine, one thread": lambda: target("cpu", 1),
    "this machine, two threads": lambda: target("cpu", 2),
}

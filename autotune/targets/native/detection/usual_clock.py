"""The host's usual clock: measured when the machine is first timed, and kept beside its figures.

Times of later calibrations are given at this clock, whatever the clock is then, so that they agree.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from autotune.disk.atomic_file import PRIVATE_MODE, replace_file
from autotune.disk.home import home
from autotune.disk.private_folder import make_private
from autotune.disk.regular_file import regular_text
from autotune.errors import InputError
from autotune.kernels.native.executor import ThreadPool
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.compiling.memory import aligned_floats
from autotune.targets.native.detection.detect import identity
from autotune.targets.native.detection.probe import DEPTH, clock_kernel, kernel_plan, nanoseconds

TRIPS = 1000
READINGS = 100
REST_SECONDS = 0.003
"""Readings are spread over a third of a second: a clock that has risen falls within milliseconds."""

PLAUSIBLE_HZ = (1e8, 1e11)
"""A file that says anything else is not believed."""


def usual_clock_hz(compiler: Compiler) -> float:
    """Cycles per second of one core: from the file, or measured now and kept there."""
    return _kept(compiler, home())


@functools.cache
def _kept(compiler: Compiler, folder: Path) -> float:
    path = folder / "hosts" / f"{identity(1)}.clock.json"
    known = _read(path)
    if known is not None:
        return known
    found = measured_clock_hz(compiler)
    with contextlib.suppress(OSError, InputError):  # not to keep it costs a third of a second
        make_private(path.parent)
        replace_file(path, json.dumps({"clock_hz": found}) + "\n", mode=PRIVATE_MODE)
    return found


def measured_clock_hz(compiler: Compiler, rest: Callable[[float], None] = time.sleep) -> float:
    """Measure the clock: the median of some readings, each the fastest of three runs."""
    room = aligned_floats(64)
    room[:] = 0.5
    (address,) = compiler.compile([clock_kernel()])
    plan = kernel_plan(ThreadPool(1), address, [[(1, 0, 0, 0, 0, 0)]], TRIPS, room)
    here = np.array([room.ctypes.data], np.int64)
    readings = []
    for _ in range(READINGS):
        readings.append(min(nanoseconds(plan, here) for _ in range(3)))
        rest(REST_SECONDS)
    return float(DEPTH * TRIPS * 1e9 / np.median(readings))


def _read(path: Path) -> float | None:
    """What the file says; None for none, or one that is not whole."""
    try:
        clock_hz = float(json.loads(regular_text(path))["clock_hz"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    low, high = PLAUSIBLE_HZ
    return clock_hz if low < clock_hz < high else None

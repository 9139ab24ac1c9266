"""Warns once per process that the home folder cannot be written, so that nothing is cached."""

from __future__ import annotations

import functools
import warnings

from autotune.disk.home import home


def warn_unwritable_home(error: Exception) -> None:
    """Warn, the first time, that this process caches nothing, and why."""
    _note(str(home()), getattr(error, "strerror", None) or str(error))


@functools.cache
def _note(place: str, reason: str) -> None:
    warnings.warn(
        f"{place}: cannot be written ({reason}); networks run, but nothing is kept and each start "
        "takes longer: make it writable or set AUTOTUNE_HOME to another folder",
        RuntimeWarning,
        stacklevel=2,
    )

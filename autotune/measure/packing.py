"""Packing: a target as bytes, with its present state, for worker processes to rebuild."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any

from autotune.targets.emulator import EmulatorTarget
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec

_PRIVATE_TO_PROCESS = ("_lock", "_loaded")
"""Attributes of an emulator that mean nothing elsewhere: a lock, and programs kept by their id."""


def packed(target: Target) -> bytes | None:
    """The pickled target; None for one that another process could not load."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(target)
    except (AttributeError, TypeError, pickle.PicklingError):
        return None
    data = buffer.getvalue()
    # Workers do not import the user's script, so its classes are unknown to them.
    return None if b"__main__" in data else data


class _Pickler(pickle.Pickler):
    """Reduces an emulator, alone or inside another target, to its spec, name and state: derated
    bandwidth and whatever else its physics holds."""

    def reducer_override(self, obj: Any) -> Any:
        """What to rebuild ``obj`` from; everything else is pickled as usual."""
        if type(obj) is not EmulatorTarget:
            return NotImplemented
        state = {k: v for k, v in vars(obj).items() if k not in _PRIVATE_TO_PROCESS}
        return _emulator, (obj.spec, obj.name, state)


def _emulator(spec: HardwareSpec, name: str, state: Mapping[str, Any]) -> EmulatorTarget:
    target = EmulatorTarget(spec, name)
    vars(target).update(state)
    return target

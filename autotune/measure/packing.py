"""Packing: a target as bytes, with its present state, for worker processes to rebuild."""

from __future__ import annotations

import io
import pickle
from typing import Any

from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Target


def pack(target: Target) -> bytes | None:
    """Pickle a target; None for one that another process could not load or must not copy."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(target)
    except (AttributeError, TypeError, pickle.PicklingError):
        return None
    data = buffer.getvalue()
    # Workers do not import the user's script, so its classes are unknown to them.
    return None if b"__main__" in data else data


class _Pickler(pickle.Pickler):
    """Refuses a machine with a physical state, alone or inside another target: it is one machine
    with one history, while copies would each heat up alone and draw the same noise."""

    def reducer_override(self, obj: Any) -> Any:
        """Everything else is pickled as usual."""
        if isinstance(obj, EmulatorTarget) and obj.physical_state is not None:
            raise pickle.PicklingError(f"{obj.name} has a physical state")
        return NotImplemented

"""Budget of a calibration: refused before anything is measured if it is too small for any model."""

from __future__ import annotations

from autotune.errors import StoreError


def check_budget(name: str, budget: int, known: int, needed: int) -> None:
    """Raise ``StoreError`` where ``budget`` measurements beside ``known`` good ones train no model of ``name``."""
    if budget + known < needed:
        raise StoreError(
            f"{name}: a cost model needs {needed} measurements, and a budget of {budget} beside {known} known "
            f"ones gives no more than {budget + known}; nothing was measured, raise --budget to {needed - known}"
        )

"""What a defect in lowering or in a target raises: names alone, so that sessions import them at no cost."""

from __future__ import annotations

DEFECTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""One candidate that meets a defect must not end a calibration of thousands, nor keep a network from
running; the reason that is reported names the exception."""

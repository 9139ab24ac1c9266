"""Whether each value of a stream fits its field; the verifier's first look at instructions."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from autotune.isa.program import Instruction
from autotune.isa.table import INSTRUCTIONS, Field, FieldType, Opcode

FLOAT32_LIMIT = struct.unpack("<f", struct.pack("<I", 0x7F7F_FFFF))[0]
"""Largest finite float32."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """What the values of one opcode must be."""

    types: tuple[type, ...]
    lows: npt.NDArray[np.float64]
    highs: npt.NDArray[np.float64]


def _limits(fields: Sequence[Field]) -> _Limits:
    floats = [field.type is FieldType.FLOAT for field in fields]
    pairs = list(zip(fields, floats, strict=True))
    return _Limits(
        tuple(float if is_float else int for is_float in floats),
        np.array([-FLOAT32_LIMIT if is_float else field.low for field, is_float in pairs]),
        np.array([FLOAT32_LIMIT if is_float else field.high for field, is_float in pairs]),
    )


_LIMITS = {int(opcode): _limits(row.all_fields) for opcode, row in INSTRUCTIONS.items()}


def first_misfit(stream: Sequence[Instruction]) -> tuple[int, str] | None:
    """Position and reason of the first instruction whose values do not fit its row: unknown
    opcode, wrong number or type of values, out of range, NaN. None if all fit."""
    rows = []
    for at, instruction in enumerate(stream):
        values = instruction.values
        limits = _LIMITS.get(values[0]) if values and type(values[0]) is int else None
        if limits is None:
            return at, f"unknown opcode {values[0] if values else 'in an empty instruction'}"
        if tuple(map(type, values)) != limits.types:
            return at, _type_reason(values, limits.types)
        rows.append(limits)
    if not rows:
        return None
    try:
        flat = np.fromiter(
            chain.from_iterable([instruction.values for instruction in stream]), np.float64
        )
    except OverflowError:
        return _first_out_of_range(stream)
    inside = np.concatenate([row.lows for row in rows]) <= flat
    inside &= flat <= np.concatenate([row.highs for row in rows])
    inside |= np.isinf(flat)
    return None if inside.all() else _first_out_of_range(stream)


def _type_reason(values: Sequence[int | float], types: Sequence[type]) -> str:
    fields = INSTRUCTIONS[Opcode(int(values[0]))].all_fields
    if len(values) != len(types):
        return f"{len(values)} values for {len(types)} fields; build it with Instruction.make"
    for field, value, wanted in zip(fields, values, types, strict=True):
        if type(value) is not wanted:
            return (
                f"{field.name} = {value!r} is {type(value).__name__}, not {wanted.__name__}; "
                "build it with Instruction.make"
            )
    raise AssertionError("the types agree")


def _first_out_of_range(stream: Sequence[Instruction]) -> tuple[int, str]:
    for at, instruction in enumerate(stream):
        for field, value in zip(instruction.row.all_fields, instruction.values, strict=True):
            if value != value:
                return at, f"{field.name} is NaN"
            if field.type is FieldType.FLOAT:
                if FLOAT32_LIMIT < abs(value) < float("inf"):
                    return at, f"{field.name} = {value} does not fit a float32"
            elif not field.low <= value <= field.high:
                return at, f"{field.name} = {value} is not in {field.low} to {field.high}"
    raise AssertionError("every value is in range")

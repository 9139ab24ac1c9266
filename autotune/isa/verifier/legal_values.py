"""Legal values of every field: the verifier's first check of a stream.

A legal value is more than one that fits: codes are known, extents and trips begin at 1.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from autotune.isa.access import BIAS_DIMENSION, EXTENT_FIELDS
from autotune.isa.fields import HEADER, MAX_RANK, Field, FieldType
from autotune.isa.functions import UnaryFn
from autotune.isa.notation import CODES, EPILOGUE_FUNCTIONS
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, pack_table
from autotune.isa.table import INSTRUCTIONS

FLOAT32_LIMIT = struct.unpack("<f", struct.pack("<I", 0x7F7F_FFFF))[0]
"""Largest finite float32."""
_FLOAT = frozenset((float,))
Floats = Callable[..., tuple[float, ...]]


def _code_limits() -> dict[tuple[Opcode, str], tuple[int, int]]:
    """Return the limits of all codes; codes count from 0 without a gap."""
    limits: dict[tuple[Opcode, str], tuple[int, int]] = {}
    for opcode, fields in CODES.items():
        for name, codes in fields.items():
            known = sorted(map(int, codes))
            assert known == list(range(len(known)))
            limits[opcode, name] = (0, known[-1])
    assert sorted(EPILOGUE_FUNCTIONS) == list(UnaryFn)[: len(EPILOGUE_FUNCTIONS)]
    for opcode in (Opcode.MATMUL, Opcode.TRANSFORM):
        limits[opcode, "fn"] = (0, len(EPILOGUE_FUNCTIONS) - 1)
    limits[Opcode.MATMUL, "bias_axis"] = (0, max(BIAS_DIMENSION))
    for d in range(MAX_RANK):
        limits[Opcode.GATHER, f"axis{d}"] = (0, MAX_RANK - 1)
    return limits


CODE_LIMITS = _code_limits()
"""Smallest and largest known code of each field that holds one."""


def _at_least_one() -> dict[tuple[Opcode, str], str]:
    reasons = {
        (opcode, name): "an extent is 0; every extent is at least 1"
        for opcode, names in EXTENT_FIELDS.items()
        for name in names
    }
    reasons[Opcode.LOOP, "trips"] = "0 trips; a loop runs at least once"
    for opcode in (Opcode.WAIT, Opcode.SIGNAL):
        reasons[opcode, "semaphore"] = "semaphore 0 means none"
    return reasons


AT_LEAST_ONE = _at_least_one()
"""Unsigned fields that must not be 0, with the message that refuses a 0."""


def _legal(opcode: Opcode, field: Field) -> tuple[int, int]:
    """Return the smallest and largest value of a field, as float32 bits for a FLOAT.

    Control instructions leave the header's semaphores alone.
    """
    if field.type is FieldType.FLOAT:
        return 0, (1 << 32) - 1
    if INSTRUCTIONS[opcode].unit is Unit.CONTROL and field in HEADER[1:]:
        return 0, 0
    if (opcode, field.name) in AT_LEAST_ONE:
        return 1, field.high
    return CODE_LIMITS.get((opcode, field.name), (field.low, field.high))


def _floats(fields: Sequence[Field]) -> Floats | None:
    places = [i for i, field in enumerate(fields) if field.type is FieldType.FLOAT]
    if len(places) == 1:
        place = places[0]
        return lambda values: (values[place],)
    return itemgetter(*places) if places else None


@dataclass(frozen=True, slots=True)
class _Shape:
    """Form of one opcode's values: row in the limits, number of values, getter of the FLOAT
    ones."""

    number: int
    count: int
    floats: Floats | None


def _limits() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return smallest values and distances to the largest, ``[opcodes, fields]``, padded with 0."""
    width = max(len(row.all_fields) for row in INSTRUCTIONS.values())
    lows = np.zeros((len(INSTRUCTIONS), width), np.int64)
    spans = np.zeros((len(INSTRUCTIONS), width), np.uint64)
    for number, (opcode, row) in enumerate(INSTRUCTIONS.items()):
        for place, field in enumerate(row.all_fields):
            low, high = _legal(opcode, field)
            lows[number, place], spans[number, place] = low, high - low
    return lows, spans


_SHAPES = {
    int(opcode): _Shape(number, len(row.all_fields), _floats(row.all_fields))
    for number, (opcode, row) in enumerate(INSTRUCTIONS.items())
}
_LOWS, _SPANS = _limits()
_FLOAT32S = [struct.Struct(f"<{count}f") for count in range(_LOWS.shape[1])]


def find_illegal_value(stream: Sequence[Instruction]) -> tuple[int, str] | None:
    """Return position and reason of the first instruction with an illegal value, or None.

    Illegal are an unknown opcode or code, a wrong number or type of values, a value out of range,
    and NaN.
    """
    rows = [instruction.values for instruction in stream]
    numbers = []
    for at, values in enumerate(rows):
        shape = _SHAPES.get(values[0]) if values and type(values[0]) is int else None
        if shape is None:
            return at, f"unknown opcode {values[0] if values else 'in an empty instruction'}"
        if len(values) != shape.count:
            counts = f"{len(values)} values for {shape.count} fields"
            return at, f"{counts}; build it with Instruction.make"
        if shape.floats is not None and not _fit(shape.floats(values)):
            reason = _reason(values)
            if reason is not None:  # infinities of both signs add up to NaN as well
                return at, reason
        numbers.append(shape.number)
    return _first_out_of_range(rows, numbers) if rows else None


def _fit(floats: Sequence[float]) -> bool:
    """Return True if all are surely FLOAT values: floats, no NaN, finite ones within float32."""
    if not _FLOAT.issuperset(map(type, floats)) or math.isnan(sum(floats)):
        return False
    try:
        _FLOAT32S[len(floats)].pack(*floats)
    except OverflowError:
        return False
    return True


def _first_out_of_range(
    rows: Sequence[tuple[int | float, ...]], numbers: list[int]
) -> tuple[int, str] | None:
    try:
        table = pack_table(rows)
    except struct.error:
        return next((at, reason) for at, row in enumerate(rows) if (reason := _reason(row)))
    width = table.shape[1]
    table -= _LOWS[:, :width].take(numbers, axis=0)
    fits = table.view(np.uint64) <= _SPANS[:, :width].take(numbers, axis=0)
    if fits.all():
        return None
    at = int(np.argmin(fits.all(axis=1)))
    reason = _reason(rows[at])
    assert reason is not None
    return at, reason


def _reason(values: Sequence[int | float]) -> str | None:
    """Return the reason why a value is illegal, None if all are legal."""
    opcode = Opcode(int(values[0]))
    for field, value in zip(INSTRUCTIONS[opcode].all_fields, values, strict=True):
        wanted = float if field.type is FieldType.FLOAT else int
        if type(value) is not wanted:
            return (
                f"{field.name} = {value!r} is {type(value).__name__}, not {wanted.__name__}; "
                "build it with Instruction.make"
            )
        if value != value:
            return f"{field.name} is NaN"
        if wanted is float:
            if FLOAT32_LIMIT < abs(value) < float("inf"):
                return f"{field.name} = {value} does not fit a float32"
        elif not field.low <= value <= field.high:
            return f"{field.name} = {value} is not in {field.low} to {field.high}"
        elif value == 0 and (opcode, field.name) in AT_LEAST_ONE:
            return AT_LEAST_ONE[opcode, field.name]
        elif value > _legal(opcode, field)[1]:
            if field in HEADER:
                return f"{opcode.name} waits for or signals a semaphore; use WAIT or SIGNAL"
            known = list(range(CODE_LIMITS[opcode, field.name][1] + 1))
            return f"{field.name} {value} is not one of {known}"
    return None

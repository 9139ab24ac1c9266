"""Text of one ``key=value``: ``read(write(values)) == values`` for every group and fitting
values."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import assert_never

import numpy as np

from autotune.isa.fields import NO_LEVEL, Field, FieldType
from autotune.isa.functions import StageKind
from autotune.isa.notation import STAGE_FUNCTIONS, FieldGroup, Syntax
from autotune.isa.scanner import Scanner


def write(group: FieldGroup, values: Sequence[int | float]) -> str | None:
    """Return ``key=value`` of the group's values, or None if all hold their defaults."""
    if not group.always and all(map(_is_default, group.fields, values)):
        return None
    return f"{group.key}={_text(group, values)}"


def _is_default(field: Field, value: int | float) -> bool:
    if field.type is FieldType.FLOAT:
        return value == field.default and math.copysign(1.0, value) > 0
    return value == field.default


def _text(group: FieldGroup, values: Sequence[int | float]) -> str:
    match group.syntax:
        case Syntax.NUMBER if group.fields[0].type is FieldType.FLOAT:
            return _real_text(values[0])
        case Syntax.NUMBER:
            return str(values[0])
        case Syntax.CODE:
            return _code_text(group.codes, int(values[0]))
        case Syntax.LEVEL:
            return _level_text(int(values[0]))
        case Syntax.LIST:
            shown = [str(value) for value in values]
            return _listed(shown, [str(field.default) for field in group.fields])
        case Syntax.ADDRESS:
            return _address_text([int(value) for value in values])
        case Syntax.POINT:
            whole = [int(value) for value in values]
            points = [_point_text(*whole[i : i + 3]) for i in range(0, len(whole), 3)]
            return _listed(points, ["0"] * len(points))
        case Syntax.STAGE:
            return _stage_text(*values)
    assert_never(group.syntax)


def _real_text(value: int | float) -> str:
    return str(np.float32(value))


def _code_text(codes: type[IntEnum] | None, value: int) -> str:
    known = codes is not None and value in codes._value2member_map_
    return codes(value).name.lower() if codes is not None and known else str(value)


def _stage_text(kind: int | float, fn: int | float, p0: int | float, p1: int | float) -> str:
    functions = _stage_functions(int(kind))
    items = [
        _code_text(StageKind, int(kind)),
        _code_text(functions, int(fn)),
        _real_text(p0),
        _real_text(p1),
    ]
    fn_default = "0" if functions is None else ""  # a function is always shown
    return _listed(items, ["", fn_default, "0.0", "0.0"])


def _stage_functions(kind: int) -> type[IntEnum] | None:
    """Return the functions of a stage's kind; None if it has none or is unknown."""
    return STAGE_FUNCTIONS[StageKind(kind)] if kind in StageKind._value2member_map_ else None


def _level_text(level: int) -> str:
    return "_" if level == NO_LEVEL else f"i{level}"


def _listed(items: list[str], defaults: list[str]) -> str:
    """Write a list without its trailing defaults."""
    count = len(items)
    while count > 1 and items[count - 1] == defaults[count - 1]:
        count -= 1
    return f"({', '.join(items[:count])})"


def _term(step: int, level: int) -> str:
    return f"{'-' if step < 0 else '+'} {abs(step)}*{_level_text(level)}"


def _point_text(coord: int, step: int, level: int) -> str:
    if (step, level) == (0, NO_LEVEL):
        return str(coord)
    if coord == 0:
        return f"{step}*{_level_text(level)}"
    return f"{coord} {_term(step, level)}"


def _address_text(values: list[int]) -> str:
    base, step0, level0, step1, level1, slot, turn = values
    parts = [str(base)]
    has_second = (step1, level1) != (0, NO_LEVEL)
    if has_second or (step0, level0) != (0, NO_LEVEL):
        parts.append(_term(step0, level0))
    if has_second:
        parts.append(_term(step1, level1))
    if (slot, turn) != (0, NO_LEVEL):
        parts.append(f"+ {slot}@{_level_text(turn)}")
    return f"[{' '.join(parts)}]"


def read(group: FieldGroup, scan: Scanner) -> list[int | float]:
    """Read the group's values from the text after ``key=``.

    Raises ``ProgramError`` with line and column for text that does not parse or fit its field.
    """
    match group.syntax:
        case Syntax.NUMBER if group.fields[0].type is FieldType.FLOAT:
            return [_real(group.fields[0], scan)]
        case Syntax.NUMBER:
            return [_whole(group.fields[0], scan)]
        case Syntax.CODE:
            return [_code(group.fields[0], group.codes, scan)]
        case Syntax.LEVEL:
            return [_level(scan)]
        case Syntax.LIST:
            return [*_list(group, scan)]
        case Syntax.ADDRESS:
            return [*_address(group, scan)]
        case Syntax.POINT:
            return [*_points(group, scan)]
        case Syntax.STAGE:
            return _stage(group, scan)
    assert_never(group.syntax)


def _fit(field: Field, value: int, scan: Scanner, column: int) -> int:
    if not field.low <= value <= field.high:
        raise scan.error(f"{field.name} = {value} is not in {field.low} to {field.high}", column)
    return value


def _whole(field: Field, scan: Scanner) -> int:
    column = scan.next.column
    return _fit(field, scan.integer(f"a whole number for {field.name}"), scan, column)


def _real(field: Field, scan: Scanner) -> float:
    column = scan.next.column
    value = scan.real(f"a number for {field.name}")
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        raise scan.error(f"{field.name} = {value} does not fit a float32", column) from None


def _code(field: Field, codes: type[IntEnum] | None, scan: Scanner) -> int:
    """Read a code by name or by number; without ``codes`` by number alone."""
    if codes is None or scan.next.kind == "number":
        return _whole(field, scan)
    column = scan.next.column
    names = {code.name.lower(): int(code) for code in codes}
    name = scan.word(f"a name for {field.name}")
    if name not in names:
        raise scan.error(f"{field.name} has no {name!r}; known: {', '.join(names)}", column)
    return names[name]


def _stage(group: FieldGroup, scan: Scanner) -> list[int | float]:
    kind, fn, *scalars = group.fields
    scan.expect("(")
    what = _code(kind, StageKind, scan)
    function = _code(fn, _stage_functions(what), scan) if scan.accept(",") else int(fn.default)
    parameters = [_real(s, scan) if scan.accept(",") else float(s.default) for s in scalars]
    scan.expect(")")
    return [what, function, *parameters]


def _level(scan: Scanner) -> int:
    column = scan.next.column
    name = scan.word("a loop (i0, i1, … or _)")
    if name == "_":
        return NO_LEVEL
    if not (name[0] == "i" and name[1:].isdecimal() and name[1:].isascii() and len(name) <= 3):
        raise scan.error(f"{name!r} is not a loop (i0, i1, … or _)", column)
    level = int(name[1:])
    if level >= NO_LEVEL:
        raise scan.error(f"loop {name} is above i{NO_LEVEL - 1}", column)
    return level


def _list(group: FieldGroup, scan: Scanner) -> list[int]:
    column = scan.next.column
    scan.expect("(")
    values = [_whole(group.fields[0], scan)]
    while scan.accept(","):
        if len(values) == len(group.fields):
            raise scan.error(f"{group.key} has more than {len(group.fields)} values", column)
        values.append(_whole(group.fields[len(values)], scan))
    scan.expect(")")
    return values + [int(field.default) for field in group.fields[len(values) :]]


def _address(group: FieldGroup, scan: Scanner) -> list[int]:
    base, step0, _, step1, _, slot, _ = group.fields
    scan.expect("[")
    values = [_whole(base, scan)]
    terms = [step0, step1]
    while not scan.accept("]"):
        if scan.next.text not in ("+", "-"):
            raise scan.error(f"expected '+', '-' or ']', found {scan.found()}")
        column = scan.next.column
        number = _signed(scan, f"a term of {group.key}")
        if scan.accept("@"):
            values += [0, NO_LEVEL] * len(terms)
            values += [_fit(slot, number, scan, column), _level(scan)]
            scan.expect("]")
            return values
        scan.expect("*")
        if not terms:
            raise scan.error(f"{group.key} has more than two loop terms", column)
        values += [_fit(terms.pop(0), number, scan, column), _level(scan)]
    return values + [0, NO_LEVEL] * (len(terms) + 1)


def _signed(scan: Scanner, what: str) -> int:
    """Read ``+ 8`` or ``- 8``."""
    if scan.accept("-"):
        return -scan.integer(what)
    scan.expect("+")
    return scan.integer(what)


def _points(group: FieldGroup, scan: Scanner) -> list[int]:
    column = scan.next.column
    scan.expect("(")
    values = _point(group.fields[:3], scan)
    while scan.accept(","):
        place = len(values)
        if place == len(group.fields):
            raise scan.error(f"{group.key} has more than {place // 3} coordinates", column)
        values += _point(group.fields[place : place + 3], scan)
    scan.expect(")")
    return values + [int(field.default) for field in group.fields[len(values) :]]


def _point(fields: Sequence[Field], scan: Scanner) -> list[int]:
    coord, step, _ = fields
    column = scan.next.column
    first = scan.integer("a coordinate")
    if scan.accept("*"):
        return [0, _fit(step, first, scan, column), _level(scan)]
    if scan.next.text not in ("+", "-"):
        return [_fit(coord, first, scan, column), 0, NO_LEVEL]
    second_column = scan.next.column
    second = _signed(scan, "a coordinate's step")
    scan.expect("*")
    return [
        _fit(coord, first, scan, column),
        _fit(step, second, scan, second_column),
        _level(scan),
    ]

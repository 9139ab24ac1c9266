"""One operator from plain shapes: operands by name, attributes by default, errors that tell both."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autotune.errors import InputError
from autotune.graph.builder import DEFAULTS, positive
from autotune.operators.families import FAMILIES, infer_shape
from autotune.operators.op import OPERATORS, Attrs, AttrValue, Op, OpKind, OpRow
from autotune.operators.tensor import TensorType

Shape = tuple[int, ...]


_LENGTHS = {"axes": 1, "kernel": 2, "strides": 2, "dilations": 2, "pads": 4}
"""Integers of the attributes that may be given as one number, for all of them."""


class Tensor(NamedTuple):
    """A tensor that an operator reads or makes."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Built:
    """An operator with the types of its tensors, result last, and those known before run time."""

    op: Op
    tensors: tuple[Tensor, ...]
    constants: frozenset[str]


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a question after the word that a misspelt one is most like; '' if none is."""
    from difflib import get_close_matches  # for errors only

    found = get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


def row_of(kind: OpKind | str) -> OpRow:
    """Return the row of an operator kind. Raises ``InputError`` for an unknown one."""
    try:
        return OPERATORS[OpKind(kind)]
    except ValueError:
        names = [known.value for known in OPERATORS]
        question = nearest(str(kind), names)
        raise InputError(
            f"no operator is named {kind!r}{question or '; there are'} {', '.join(names)}"
        ) from None


def arrange(
    row: OpRow, listed: Sequence[object], named: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the operands by name, in order, and the attributes of ``named``.

    ``listed`` are the first operands. Raises ``InputError`` for one too many, missing or named
    twice.
    """
    names = FAMILIES[row.family].operands.names[: row.arity[1]]
    if not names:
        names = tuple(f"x{number}" for number in range(len(listed)))
    if len(listed) > len(names):
        raise InputError(f"{_signature(row)}: got {len(listed)} operands")
    found = dict(zip(names, listed, strict=False))
    for name in names[len(listed) :]:
        if named.get(name) is not None:
            found[name] = named[name]
    for name in names[: row.arity[0]]:
        if name not in found:
            raise InputError(f"{_signature(row)}: operand {name} is missing")
    attributes = {name: value for name, value in named.items() if name not in names[len(listed) :]}
    return found, attributes


def build(
    row: OpRow,
    operands: Mapping[str, Tensor | Shape],
    attributes: Mapping[str, object],
    name: str = "",
    constants: Iterable[str] | None = None,
) -> Built:
    """Build an operator over tensors, and over new ones of given shapes.

    The result is called ``name``; without one, by kind and contents: equal calls make equal names.
    ``constants`` names operands known before run time (None: the family's weights). Raises
    ``InputError`` for attributes that do not fit, ``ModelError`` for shapes.
    """
    shapes = [x.type.shape if isinstance(x, Tensor) else x for x in operands.values()]
    attrs = _attributes(row, attributes, len(shapes[0]) if shapes else 0)
    output = name or _name_of(row.kind, operands.values(), attrs)
    tensors = [
        x if isinstance(x, Tensor) else Tensor(f"{output}.{label}", TensorType(x))
        for label, x in operands.items()
    ]
    op = Op(output, row.kind, tuple(x.name for x in tensors), output, attrs)
    weights = _weights(row, operands, constants)
    fresh = {f"{output}.{x}" for x in weights if not isinstance(operands[x], Tensor)}
    result = Tensor(output, TensorType(infer_shape(op, shapes)))
    return Built(op, (*tensors, result), frozenset(fresh))


def shape_of(value: object, where: str) -> Shape:
    """Return a shape. Raises ``InputError`` for what is no sequence of whole numbers above 0."""
    try:
        shape = tuple(operator.index(n) for n in value)  # type: ignore[attr-defined]
    except TypeError:
        raise InputError(
            f"{where} is a shape such as (1, 64, 56, 56) or the group that makes it, not "
            f"{type(value).__name__}: {value!r:.60}"
        ) from None
    if any(n < 1 for n in shape):
        raise InputError(f"{where} is {list(shape)}: extents must be ≥ 1")
    return shape


def _signature(row: OpRow) -> str:
    """Return how a kind is called: its operands and attributes by name."""
    names = FAMILIES[row.family].operands.names[: row.arity[1]]
    operands = ", ".join(
        name if number < row.arity[0] else f"{name} (optional)" for number, name in enumerate(names)
    )
    text = f"{row.kind} takes {operands or 'any number of operands'}"
    attributes = (*row.attrs, *row.flags)
    return f"{text} and {', '.join(attributes)}" if attributes else text


def _attributes(row: OpRow, given: Mapping[str, object], rank: int) -> Attrs:
    """Return the attributes of an operator whose first operand has ``rank`` dimensions."""
    known = (*row.attrs, *row.flags, *row.optional)
    for name in given:
        if name not in known:
            raise InputError(f"{_signature(row)}; not {name!r}{nearest(name, known)}")
    values: dict[str, AttrValue] = {x: DEFAULTS[x] for x in row.attrs if x in DEFAULTS}
    values |= {x: positive(x, _value(row, x, value), rank) for x, value in given.items()}
    for name in row.attrs:
        if name not in values:
            raise InputError(f"{_signature(row)}: {name} is missing")
    held = ((x, value) for x, value in values.items() if x not in row.flags or value != 0)
    return tuple(sorted(held))


def _value(row: OpRow, name: str, value: object) -> AttrValue:
    """Return an attribute's value: lists as tuples, one number as often as it stands for."""
    if isinstance(value, (bool, int)):
        return (int(value),) * _LENGTHS[name] if name in _LENGTHS else int(value)
    if isinstance(value, float):
        return value
    try:
        return tuple(operator.index(n) for n in value)  # type: ignore[attr-defined]
    except TypeError:
        raise InputError(
            f"{row.kind}: {name} is a number or a sequence of whole numbers, not {value!r:.60}"
        ) from None


def _weights(
    row: OpRow, operands: Mapping[str, object], constants: Iterable[str] | None
) -> frozenset[str]:
    """Return the operands known before run time. Raises ``InputError`` for an unknown name."""
    if constants is None:
        return FAMILIES[row.family].operands.weights & operands.keys()
    chosen = frozenset((constants,) if isinstance(constants, str) else constants)
    for name in sorted(chosen - operands.keys()):
        raise InputError(f"{row.kind} has no operand {name!r}: {', '.join(operands)}")
    return chosen


def _name_of(kind: OpKind, operands: Iterable[Tensor | Shape], attrs: Attrs) -> str:
    """Return a name that tells what is computed of what."""
    read = [x.name if isinstance(x, Tensor) else x for x in operands]
    return f"{kind}_{hashlib.sha256(repr((kind.value, read, attrs)).encode()).hexdigest()[:10]}"

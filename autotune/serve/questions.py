"""From documents to groups and schedules. What is wrong raises ``AutotuneError`` naming the layer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

from pydantic import TypeAdapter

from autotune.errors import AutotuneError, InputError
from autotune.fusion.group import Group, layer
from autotune.fusion.operands import Shape
from autotune.schedule.schedule import Schedule
from autotune.serve.documents import LayerDocument

RESERVED = frozenset(("name", "constants", "kind"))
"""Arguments of ``layer`` that are no attributes."""

KNOWN = 4096
"""Groups that are kept by their text: making one takes longer than predicting a schedule of it."""
_LAYERS = TypeAdapter(list[LayerDocument])


def text_of(layers: Sequence[LayerDocument]) -> bytes:
    """Return layers as one text, equal for equal ones."""
    return _LAYERS.dump_json(list(layers))


def groups_of(layers: Sequence[LayerDocument], most: int) -> list[Group]:
    """Return a group of one operator for each layer; results of earlier ones are read by number."""
    if len(layers) > most:
        raise InputError(f"{len(layers)} layers; a group has at most {most}")
    made: list[Group] = []
    for number, one in enumerate(layers):
        try:
            listed, named = _operands(one, made)
            made.append(layer(one.kind, *listed, name=f"l{number}", **named))
        except AutotuneError as error:
            raise InputError(f"layer {number}: {error}") from None
        except TypeError as error:
            raise InputError(f"layer {number} ({one.kind}): {error}") from None
    return made


@lru_cache(KNOWN)
def group_of(text: bytes, most: int) -> Group:
    """Return the one group of all layers, given as ``text_of`` them. Raises ``InputError``."""
    return fused(groups_of(_LAYERS.validate_json(text), most))


def fused(groups: Sequence[Group]) -> Group:
    """Return one group of all of them. Raises ``InputError`` where one reads nothing of those before."""
    return reduce(lambda producer, consumer: producer.fuse(consumer), groups)


def schedule_of(text: str | None) -> Schedule | None:
    """Return a schedule. Raises ``ScheduleError``."""
    return None if text is None else Schedule.from_json(text)


def _operands(
    one: LayerDocument, made: Sequence[Group]
) -> tuple[list[Group | Shape], dict[str, Any]]:
    """Return operands in order, and operands by name with attributes."""
    listed: list[Group | Shape] = []
    named: dict[str, Any] = {}
    if isinstance(one.operands, list):
        listed = [_operand(x, made) for x in one.operands]
    else:
        named = {name: _operand(x, made) for name, x in one.operands.items()}
    for name, value in one.attributes.items():
        if name in named or name in RESERVED:
            raise InputError(f"{name!r} is no attribute of {one.kind}")
        named[name] = tuple(value) if isinstance(value, list) else value
    return listed, named


def _operand(operand: list[int] | int, made: Sequence[Group]) -> Group | Shape:
    if isinstance(operand, list):
        return tuple(operand)
    if operand >= len(made):
        raise InputError(f"it reads layer {operand}; there are {len(made)} before it")
    return made[operand]

"""The queues of a core, and the codes of its instructions."""

from __future__ import annotations

from enum import IntEnum


class Unit(IntEnum):
    """The in-order queues of a core."""

    __hash__ = int.__hash__  # an Enum's own goes by name, in Python: too slow for lowering

    LOAD = 0
    STORE = 1
    MATRIX = 2
    VECTOR = 3
    CONTROL = 4


class Opcode(IntEnum):
    """Operation codes."""

    __hash__ = int.__hash__

    HALT = 0
    LOOP = 1
    END = 2
    WAIT = 3
    SIGNAL = 4
    MARK = 5
    CASE = 6
    LOAD = 8
    STORE = 9
    GATHER = 10
    LOOKUP = 11
    MATMUL = 16
    UNARY = 24
    BINARY = 25
    FMA = 26
    REDUCE = 27
    FILL = 28
    MASK = 29
    CHAIN = 30
    ONLINE = 31
    CONVERT = 32
    TRANSFORM = 33

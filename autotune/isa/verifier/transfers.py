"""Tensors, roles and ranks of one core's loads and stores."""

from __future__ import annotations

from collections.abc import Callable

from autotune.errors import ProgramError
from autotune.isa.fields import MAX_RANK
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Role, Values, field_index, fields_getter
from autotune.isa.verifier.rules import check_axes

_GATHER, _STORE, _LOOKUP = int(Opcode.GATHER), int(Opcode.STORE), int(Opcode.LOOKUP)
_MOVES = (Opcode.LOAD, Opcode.STORE, Opcode.GATHER, Opcode.LOOKUP)
_TENSOR = field_index(Opcode.LOAD)["tensor"]
assert all(field_index(opcode)["tensor"] == _TENSOR for opcode in _MOVES)
_ROWS = fields_getter(Opcode.LOOKUP, "coord0", "step0")


def _beyond(opcode: Opcode, rank: int) -> tuple[Callable[..., tuple[int, ...]], tuple[int, ...]]:
    """Return the getter and the required values of fields beyond a tensor's rank.

    The fields are coordinates and steps, and sizes except for GATHER.
    """
    dims = range(rank, MAX_RANK)
    wanted = {f"{part}{d}": 0 for part in ("coord", "step") for d in dims}
    if opcode is not Opcode.GATHER:
        wanted |= {f"size{d}": 1 for d in dims}
    return fields_getter(opcode, *wanted), tuple(wanted.values())


_BEYOND: list[dict[int | float, tuple[Callable[..., tuple[int, ...]], tuple[int, ...]]]] = [
    {int(opcode): _beyond(opcode, rank) for opcode in _MOVES} if 1 <= rank < MAX_RANK else {}
    for rank in range(MAX_RANK)
]
"""Fields beyond the rank, by rank and opcode."""


class Transfers:
    """Record of one core's stores in program order; raises ``ProgramError`` with the reason
    alone."""

    __slots__ = ("before", "stored", "tensors")

    def __init__(self, tensors: tuple[DramTensor, ...]) -> None:
        self.tensors = tensors
        self.stored: set[int] = set()
        self.before: list[set[int]] = []

    def enter_case(self) -> None:
        """Begin a CASE."""
        self.before.append(self.stored.copy())

    def leave_case(self) -> None:
        """End a CASE: its stores may not have run."""
        self.stored = self.before.pop()

    def check(self, values: Values) -> None:
        """Check a LOAD, STORE, GATHER or LOOKUP."""
        opcode, number = values[0], int(values[_TENSOR])
        if number >= len(self.tensors):
            raise ProgramError(f"tensor {number} of {len(self.tensors)}")
        tensor = self.tensors[number]
        rank = len(tensor.shape)
        if rank < MAX_RANK:
            self._check_rank(values, tensor, rank)
        if opcode == _LOOKUP:
            _check_rows(values, tensor)
        if opcode == _STORE:
            if tensor.role is not Role.OUTPUT:
                raise ProgramError(f"stores to {tensor.name!r}, which is {tensor.role}, not output")
            self.stored.add(number)
        elif tensor.role is Role.OUTPUT and number not in self.stored:
            raise ProgramError(f"loads output {tensor.name!r} before anything is stored to it")

    def _check_rank(self, values: Values, tensor: DramTensor, rank: int) -> None:
        beyond, nothing = _BEYOND[rank][values[0]]
        is_gather = values[0] == _GATHER
        if beyond(values) != nothing:
            raise ProgramError(
                f"tensor {tensor.name!r} has rank {rank}; dimensions from {rank} on must have "
                f"{'' if is_gather else 'size 1, '}coordinate 0 and step 0"
            )
        if is_gather:
            check_axes(values, rank)


def _check_rows(values: Values, tensor: DramTensor) -> None:
    """Check a LOOKUP: its rows are known at run time only, so none of them may be written."""
    if _ROWS(values) != (0, 0):
        raise ProgramError("chooses rows by numbers; coord0 and step0 must be 0")
    if tensor.role is Role.OUTPUT:
        raise ProgramError(f"looks up rows of output {tensor.name!r}; only what nothing stores to")

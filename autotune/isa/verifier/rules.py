"""Rules between the fields of one instruction.

Every rule takes ``Instruction.values`` whose single fields are legal, and raises ``ProgramError``
with the reason alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.errors import ProgramError
from autotune.isa.fields import CHAIN_STAGES, MAX_RANK, NO_LEVEL
from autotune.isa.formats import Format
from autotune.isa.functions import StageKind, UnaryFn, When
from autotune.isa.notation import STAGE_FUNCTIONS, STAGE_PARTS
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Values, fields_getter

Rule = Callable[[Values], None]

INTEGERS = frozenset((Format.INT8, Format.UINT8, Format.INT32))
"""Formats with a zero point."""
FACTORS = frozenset((Format.INT8, Format.UINT8))
"""Integer formats that the matrix unit multiplies, in any pair."""
INTEGER_EPILOGUES = (UnaryFn.COPY, UnaryFn.RELU)


_MATMUL_TIMES = fields_getter(Opcode.MATMUL, "accumulate", "epilogue", "k_level")
_MATMUL_FORMATS = fields_getter(
    Opcode.MATMUL, "a_format", "b_format", "a_zero", "b_zero", "forward"
)
_FP32_UNFORWARDED = (0, 0, 0, 0, 0)
_MATMUL_EPILOGUE = fields_getter(Opcode.MATMUL, "fn", "scale")


def _matmul(values: Values) -> None:
    accumulate, epilogue, k_level = _MATMUL_TIMES(values)
    if k_level == NO_LEVEL and When.BY_LEVEL in (accumulate, epilogue):
        raise ProgramError("accumulate or epilogue goes by k_level, which names no loop")
    formats = _MATMUL_FORMATS(values)
    if formats == _FP32_UNFORWARDED:
        return
    a, b, a_zero, b_zero, forward = formats
    if forward and not any(values[4:7]):
        raise ProgramError("forwards its first results, but signals no semaphore; give it one")
    if a in FACTORS and b in FACTORS:
        _integer_epilogue(*_MATMUL_EPILOGUE(values))
        return
    if a != b or a not in (Format.FP32, Format.BF16):
        raise ProgramError(
            f"multiplies {_name(a)} by {_name(b)}; it takes FP32 by FP32, BF16 by BF16, or INT8 "
            "and UINT8 in any pair: convert one of them"
        )
    for name, zero in (("a_zero", a_zero), ("b_zero", b_zero)):
        _check_zero(name, zero, a)


def _name(code: int) -> str:
    return Format(code).name


def _integer_epilogue(fn: int, scale: float) -> None:
    if fn not in INTEGER_EPILOGUES:
        names = " and ".join(code.name for code in INTEGER_EPILOGUES)
        raise ProgramError(f"fn {UnaryFn(fn).name} of integer sums; they know {names} alone")
    if scale != 1.0:
        raise ProgramError(f"scale {scale} of integer sums; it must be 1: scale them with CONVERT")


def _check_zero(name: str, zero: int, form: int) -> None:
    if zero and form not in INTEGERS:
        raise ProgramError(f"{name} {zero} with {_name(form)}; only integers have a zero point")


_ONLINE_TIMES = fields_getter(Opcode.ONLINE, "accumulate", "k_level")


def _online(values: Values) -> None:
    if _ONLINE_TIMES(values) == (When.BY_LEVEL, NO_LEVEL):
        raise ProgramError("accumulate goes by k_level, which names no loop")


_STAGES = tuple(
    fields_getter(Opcode.CHAIN, *(f"stage{i}_{part}" for part in STAGE_PARTS[:2]))
    for i in range(CHAIN_STAGES)
)
_STAGE_CODES: dict[int, Sequence[int]] = {
    int(kind): list(map(int, functions))
    for kind, functions in STAGE_FUNCTIONS.items()
    if functions is not None
}
"""Known function codes by kind; a stage without operation ignores its code."""


def _chain(values: Values) -> None:
    for number, stage in enumerate(_STAGES):
        kind, fn = stage(values)
        if kind and fn not in _STAGE_CODES[kind]:
            raise ProgramError(
                f"stage{number}_fn {fn} is not one of {_STAGE_CODES[kind]}, which "
                f"{StageKind(kind).name} knows"
            )


_ZEROS = tuple(
    (f"{side}_zero", fields_getter(Opcode.CONVERT, f"{side}_zero", f"{side}_format"))
    for side in ("src", "dst")
)


def _convert(values: Values) -> None:
    for name, zero_and_format in _ZEROS:
        _check_zero(name, *zero_and_format(values))


RULES: dict[Opcode, Rule] = {
    Opcode.MATMUL: _matmul,
    Opcode.CHAIN: _chain,
    Opcode.ONLINE: _online,
    Opcode.CONVERT: _convert,
}

_AXES = fields_getter(Opcode.GATHER, *(f"axis{d}" for d in range(MAX_RANK)))
_SIZES = fields_getter(Opcode.GATHER, *(f"size{d}" for d in range(MAX_RANK)))


def check_axes(values: Values, rank: int) -> None:
    """Check a GATHER: each dimension runs along an existing axis of its tensor, or has size 1."""
    for d, (axis, size) in enumerate(zip(_AXES(values), _SIZES(values), strict=True)):
        if axis >= rank and size > 1:
            raise ProgramError(
                f"dimension {d} of size {size} runs along dimension {axis} of a tensor of rank "
                f"{rank}; give it another axis{d} or size 1"
            )

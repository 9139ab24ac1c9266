"""Functions of the vector unit at NaN, infinities, signed zeros, ties and the ends of fp32: as numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.isa.functions import BinaryFn, ReduceFn, UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from tests.kernels.emulator.engine_case import output, outputs_of
from tests.oracle import REDUCE, unary
from tests.targets.machine_case import load, make, program, store, tensor

HALVES = [0.5, 1.5, 2.5, 0.49999997, 8388607.5, 8388609.0, 16777215.0]
ENDS = [0.0, 1.0, 3.0, 1e-45, 1.1754942e-38, 3.4028235e38, np.inf]
SPECIAL = np.float32([*(sign * x for x in (*HALVES, *ENDS) for sign in (1, -1)), np.nan])
COUNT = len(SPECIAL)
LATER = [fn for fn in UnaryFn if fn >= UnaryFn.FLOOR]
EXACT = (UnaryFn.FLOOR, UnaryFn.CEIL, UnaryFn.ROUND, UnaryFn.TRUNC, UnaryFn.SIGN)
ULPS = 4 * 2.0**-23
"""Of functions that are not exact, in numpy and here."""


def applied(opcode: Opcode, fn: int, *operands: np.ndarray, count: int, **fields: float) -> Program:
    """One instruction over rows that are loaded one behind the other."""
    n = operands[0].size
    names = ("src",) if len(operands) == 1 else ("lhs", "rhs")
    places = {f"{name}_base": i * n for i, name in enumerate(names)}
    strides = {f"{name}_stride4": 1 for name in names}
    given = {**places, **strides, "dst_base": 2 * n, "size4": n, "fn": int(fn), **fields}
    return program(
        load(0, 0, len(operands) * n),
        make(opcode, **given),
        store(1, 2 * n, count),
        tensors=(tensor("x", len(operands) * n), output("y", count)),
        elements=3 * n,
    )


def assert_same(found: np.ndarray, wanted: np.ndarray, rtol: float = 0.0) -> None:
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-44 if rtol else 0.0)


@pytest.mark.parametrize("fn", LATER, ids=lambda fn: fn.name.lower())
def test_functions_of_one(fn: UnaryFn) -> None:
    given = applied(Opcode.UNARY, fn, SPECIAL, count=COUNT, dst_stride4=1, p0=0.5, p1=2.0)
    found = outputs_of(given, x=SPECIAL)["y"]
    with np.errstate(all="ignore"):
        exact = unary(fn, SPECIAL.astype(np.float64), 0.5, 2.0).astype(np.float32)
    assert_same(found, exact, 0.0 if fn in EXACT else ULPS)
    if fn in EXACT and fn is not UnaryFn.SIGN:
        number = ~np.isnan(SPECIAL)
        assert (np.signbit(found) == np.signbit(exact))[number].all()


@pytest.mark.parametrize("fn", [fn for fn in BinaryFn if fn is not BinaryFn.POW], ids=str)
def test_functions_of_two_in_all_pairs(fn: BinaryFn) -> None:
    left, right = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(SPECIAL, SPECIAL))
    given = applied(Opcode.BINARY, fn, left, right, count=left.size, dst_stride4=1)
    found = outputs_of(given, x=np.concatenate([left, right]))["y"]
    with np.errstate(all="ignore"):
        exact = np.asarray(fn.row.reference(left, right), np.float32)
    assert_same(found, exact)
    if fn in (BinaryFn.KEEP_IF, BinaryFn.KEEP_UNLESS, BinaryFn.MOD, BinaryFn.FMOD):
        number = ~np.isnan(exact)
        assert (np.signbit(found) == np.signbit(exact))[number].all()


@pytest.mark.parametrize("fn", [ReduceFn.MAX, ReduceFn.MIN, ReduceFn.PROD], ids=str)
@pytest.mark.parametrize("place", [0, 15, 33, 39])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
def test_a_special_number_anywhere_in_a_row_is_reduced_as_it_should(
    fn: ReduceFn, place: int, value: float
) -> None:
    x = np.random.default_rng(3).uniform(0.5, 1.5, 40).astype(np.float32)
    x[place] = value
    found = outputs_of(applied(Opcode.REDUCE, fn, x, count=1), x=x)["y"]
    with np.errstate(all="ignore"):
        assert_same(found, REDUCE[fn].reduce(x, keepdims=True), 1e-6)

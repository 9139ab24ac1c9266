"""Vector maths against float64, in units of the last place, over the whole range of fp32."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from scipy.special import ndtr

from autotune.isa.functions import BinaryFn, ElementwiseFn, Origin, UnaryFn
from autotune.targets.native.codegen.maths import maths
from autotune.targets.native.codegen.vector.elementwise import elementwise
from autotune.targets.native.codegen.vector.vector_run import (
    Binary,
    Constant,
    Load,
    Node,
    Output,
    Unary,
    VectorRun,
)
from autotune.targets.native.cpu.vector_isa import VectorIsa
from tests.targets.native.codegen.generated_code import compiled, host_isas

ISAS = host_isas()
each_isa = pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
STEP = 4093
"""Every so many bit patterns: a million values, all exponents, both signs."""
EXACT = [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, np.inf, np.nan, 1e-45, 16777216.0, 16777215.0, 8388607.5]
LIMITS = [1.1754942e-38, 1.1754944e-38, 3.4028235e38, 0.99999994]
OF_EXP = [88.72283, 88.72284, 87.33654, 87.33655, 103.97208, 104.0, 10.12, 13.27]
SMALLEST_NORMAL = 2.0**-126
SPECIAL = np.array(EXACT + LIMITS + OF_EXP, np.float32)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])
Exact = Callable[[np.ndarray], np.ndarray]


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(x), -0.0, x * ndtr(x))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    steep = 2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return np.where(np.isneginf(x), -0.0, x / (1 + np.exp(-steep)))


P0, P1 = 0.25, 6.0
BOUNDS = {UnaryFn.EXP: 2.0, UnaryFn.LOG: 2.0, UnaryFn.RSQRT: 2.0}
SPECIAL_CASES: Mapping[UnaryFn, Exact] = {
    UnaryFn.GELU: _gelu,
    UnaryFn.GELU_TANH: _gelu_tanh,
    UnaryFn.RELU: lambda x: np.where(x < 0, 0.0, x),
    UnaryFn.CLIP: lambda x: np.where(np.isnan(x), x, np.minimum(np.maximum(x, P0), P1)),
}
"""Functions whose float64 reference loses digits, or has another zero."""


def _bound(fn: ElementwiseFn) -> float:
    """Largest error in units of the last place: half of one is what rounding leaves."""
    default = 4.0 if fn.row.origin is Origin.POLYNOMIAL else 0.5
    return BOUNDS.get(fn, default) if isinstance(fn, UnaryFn) else default


def _exact(fn: UnaryFn) -> Exact:
    scalars = (P0, P1)[: len(fn.row.parameters)]
    return SPECIAL_CASES.get(fn, lambda x: fn.row.reference(x, *scalars))


UNARY = {
    fn: (_bound(fn), _exact(fn))
    for fn in UnaryFn
    if fn.row.is_generated and fn is not UnaryFn.AFFINE
}
"""Largest error in units of the last place, and the function; AFFINE has a test of its own."""
FLUSHED = frozenset(
    (UnaryFn.EXP, UnaryFn.SIGMOID, UnaryFn.GELU, UnaryFn.GELU_TANH, UnaryFn.SOFTPLUS)
)
"""Functions whose result may be 0 of its sign where it would be subnormal."""


def flushed(exact: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The exact values, 0 of their sign where they are subnormal and were found to be that."""
    where = (np.abs(exact) < SMALLEST_NORMAL) & (found == 0)
    return np.where(where, np.copysign(0.0, exact), exact)


def run_of(arrays: list[np.ndarray], body: tuple[Node, ...], isa: VectorIsa) -> np.ndarray:
    out = np.empty_like(arrays[0])
    inputs = ((1,),) * len(arrays)
    size = min(len(out), 65536)
    run = VectorRun((size,), inputs, (Output((1,), len(body) - 1),), body)
    code = compiled(elementwise(run, isa), isa)
    for at in [*range(0, len(out) - size, size), len(out) - size]:
        code(*(array[at : at + size] for array in arrays), out[at : at + size])
    return out


def errors(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distances in units of fp32's last place at the exact value; infinite where one is NaN, or
    infinite when the other does not round to that."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        finite = np.where(np.isfinite(rounded), rounded, np.finfo(np.float32).max)
        last = np.spacing(np.abs(finite)).astype(np.float64)
        distance = np.abs(found.astype(np.float64) - exact) / last
    plain = np.isfinite(found) & np.isfinite(rounded)
    alike = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(plain, distance, np.where(alike, 0.0, np.inf))


def worst(found: np.ndarray, exact: np.ndarray, *given: np.ndarray) -> tuple[float, str]:
    error = errors(found, exact)
    at = int(error.argmax())
    where = ", ".join(str(array[at]) for array in given)
    return float(error[at]), f"at {where}: {found[at]} for {exact[at]}"


def arguments(step: int = STEP) -> np.ndarray:
    bits = np.arange(0, 2**32, step, np.uint64).astype(np.uint32).view(np.float32)
    rng = np.random.default_rng(3)
    ranges = [rng.uniform(-high, high, 2**17) for high in (1.0, 4.0, 15.0, 110.0)]
    near_one = rng.uniform(0.5, 1.5, 2**17)
    drawn = np.concatenate([*ranges, near_one]).astype(np.float32)
    return np.concatenate([SPECIAL, bits, drawn])


@each_isa
@pytest.mark.parametrize("fn", UNARY, ids=lambda fn: fn.name.lower())
def test_every_function_is_as_exact_as_claimed(fn: UnaryFn, isa: VectorIsa) -> None:
    x = arguments()
    limit, function = UNARY[fn]
    found = run_of([x], (Load(0), Unary(fn, 0, 0.25, 6.0)), isa)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
        error, where = worst(found, flushed(exact, found) if fn in FLUSHED else exact, x)
    assert error <= limit, where


@each_isa
def test_an_exponential_makes_no_subnormal_number(isa: VectorIsa) -> None:
    x = np.linspace(-200, 200, 1 << 16, dtype=np.float32)
    x = np.concatenate([x, [-np.inf, np.inf, -3.4e38, 3.4e38]]).astype(np.float32)
    for fn in (UnaryFn.EXP, UnaryFn.SIGMOID, UnaryFn.SOFTPLUS):
        found = np.abs(run_of([x], (Load(0), Unary(fn, 0)), isa))
        assert ((found == 0) | (found >= SMALLEST_NORMAL)).all()


@each_isa
def test_odd_functions_keep_the_sign_of_zero(isa: VectorIsa) -> None:
    zeros = np.array([0.0, -0.0] * 8, np.float32)
    odd = (UnaryFn.TANH, UnaryFn.ERF, UnaryFn.GELU, UnaryFn.GELU_TANH, UnaryFn.SQRT)
    for fn in (*odd, UnaryFn.FLOOR, UnaryFn.CEIL, UnaryFn.ROUND, UnaryFn.TRUNC, UnaryFn.SIGN):
        assert (
            np.signbit(run_of([zeros], (Load(0), Unary(fn, 0)), isa)) == np.signbit(zeros)
        ).all()


@each_isa
def test_affine_rounds_at_most_twice(isa: VectorIsa) -> None:
    x = arguments(STEP * 16)
    found = run_of([x], (Load(0), Unary(UnaryFn.AFFINE, 0, 0.25, 6.0)), isa)
    with np.errstate(all="ignore"):
        error, where = worst(found, 0.25 * x.astype(np.float64) + 6.0, x)
    assert error <= 1, where


@each_isa
def test_rounding_between_minus_one_and_zero_gives_minus_zero(isa: VectorIsa) -> None:
    x = np.full(16, -0.25, np.float32)
    for fn in (UnaryFn.CEIL, UnaryFn.ROUND, UnaryFn.TRUNC):
        assert np.signbit(run_of([x], (Load(0), Unary(fn, 0)), isa)).all()


def test_every_function_has_code_or_is_left_to_the_compiled_kernels() -> None:
    assert set(maths.UNARY) == {fn for fn in UnaryFn if fn.row.is_generated}
    assert set(maths.BINARY) == {fn for fn in BinaryFn if fn.row.is_generated}


def pairs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    left, right = (each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL))
    bits = rng.integers(0, 2**32, (2, 2**17), np.uint32).view(np.float32)
    bases, powers = rng.uniform(0, 10, 2**17), rng.uniform(-40, 40, 2**17)
    near_one, large = rng.uniform(0.9, 1.1, 2**17), rng.uniform(-900, 900, 2**17)
    below, whole = rng.uniform(-9, 0, 2**16), rng.integers(-40, 40, 2**16)
    x = np.concatenate([bases, bases, near_one, below]).astype(np.float32)
    y = np.concatenate([powers, -powers, large, whole]).astype(np.float32)
    return np.concatenate([left, bits[0], x]), np.concatenate([right, bits[1], y])


BINARY = {fn: (_bound(fn), fn.row.reference) for fn in BinaryFn if fn.row.is_generated}


@each_isa
@pytest.mark.parametrize("fn", BINARY, ids=lambda fn: fn.name.lower())
def test_functions_of_two_are_exact_with_all_special_values(fn: BinaryFn, isa: VectorIsa) -> None:
    x, y = pairs()
    limit, function = BINARY[fn]
    found = run_of([x, y], (Load(0), Load(1), Binary(fn, 0, 1)), isa)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64), y.astype(np.float64))
    error, where = worst(found, exact, x, y)
    assert error <= limit, where
    if fn in (BinaryFn.POW, BinaryFn.KEEP_IF, BinaryFn.KEEP_UNLESS):
        number = ~np.isnan(found)
        assert (np.signbit(found) == np.signbit(exact))[number].all()


@each_isa
@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 2.5])
def test_a_known_exponent_gives_the_same_power(exponent: float, isa: VectorIsa) -> None:
    x = arguments(STEP * 16)
    found = run_of([x], (Load(0), Constant(exponent), Binary(BinaryFn.POW, 0, 1)), isa)
    with np.errstate(all="ignore"):
        error, where = worst(found, np.power(x.astype(np.float64), np.full(len(x), exponent)), x)
    assert error <= 4, where


@pytest.mark.slow
@pytest.mark.parametrize("fn", [UnaryFn.EXP, UnaryFn.LOG], ids=lambda fn: fn.name.lower())
def test_a_dense_sweep_finds_no_larger_error(fn: UnaryFn) -> None:
    limit, function = UNARY[fn]
    for part in np.array_split(arguments(step=101), 32):
        found = run_of([part], (Load(0), Unary(fn, 0)), ISAS[0])
        with np.errstate(all="ignore"):
            exact = function(part.astype(np.float64))
            error, where = worst(found, flushed(exact, found) if fn in FLUSHED else exact, part)
        assert error <= limit, where

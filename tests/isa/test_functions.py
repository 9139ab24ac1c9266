"""Functions are rows: whatever is said of one elsewhere comes from its row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.isa.c_header import header
from autotune.isa.functions import BinaryFn, ElementwiseFn, UnaryFn
from autotune.operators.op import OPERATORS, Family

HEADER = Path(__file__).parents[2] / "kernels" / "maths" / "functions.h"
each_function = pytest.mark.parametrize("fn", [*UnaryFn, *BinaryFn], ids=lambda fn: fn.name.lower())
INSTRUCTIONS_ONLY = (UnaryFn.COPY, UnaryFn.RSQRT, UnaryFn.SQUARE, UnaryFn.AFFINE)
"""Functions that lowering emits for parts of operators."""


def test_the_header_is_the_generated_one() -> None:
    hint = "renew it: python -m autotune.isa.c_header > kernels/maths/functions.h"
    assert HEADER.read_text(encoding="utf-8") == header(), hint


@each_function
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_reference_keeps_its_numbers_type_and_bounds(fn: ElementwiseFn, dtype: type) -> None:
    numbers = np.linspace(-9, 9, 73).astype(dtype)
    operands = [numbers] if isinstance(fn, UnaryFn) else [numbers, numbers[::-1].copy()]
    with np.errstate(all="ignore"):
        values = fn.row.reference(*operands, *(0.25, 1.5)[: len(fn.row.parameters)])
    assert values.dtype == dtype and values.shape == numbers.shape
    low, high = fn.row.bounds
    values = values[~np.isnan(values)]
    assert np.all((values >= low) & (values <= high))


@each_function
def test_every_function_is_an_operators(fn: ElementwiseFn) -> None:
    users = [row for row in OPERATORS.values() if row.function is fn]
    assert len(users) == (not any(fn is one for one in INSTRUCTIONS_ONLY))


def test_every_element_wise_operator_names_its_function_and_every_fold_its_reduction() -> None:
    for row in OPERATORS.values():
        assert (row.function is not None) is (row.family in (Family.UNARY, Family.BINARY))
        folds = row.family in (Family.POOL, Family.SLIDE, Family.REDUCE)
        assert (row.reduction is not None) is folds

"""The tables of operators are whole: a family, kind or rule that is left out fails here."""

from __future__ import annotations

import pytest

from autotune.operators.elementwise import RULES
from autotune.operators.families import FAMILIES
from autotune.operators.family import no_operations
from autotune.operators.op import OPERATORS, Family, OpKind
from autotune.operators.reduction import KINDS


def test_every_kind_and_every_family_has_a_row() -> None:
    assert set(OPERATORS) == set(OpKind)
    assert set(FAMILIES) == set(Family) == {row.family for row in OPERATORS.values()}


def test_rules_by_kind_are_of_kinds_of_their_family() -> None:
    functions = {kind for kind, row in OPERATORS.items() if row.function is not None}
    assert set(RULES) <= functions
    assert set(KINDS) == {kind for kind, row in OPERATORS.items() if row.family is Family.REDUCE}


@pytest.mark.parametrize("family", Family)
def test_contractions_alone_have_multiply_adds(family: Family) -> None:
    contractions = {Family.CONV, Family.MATMUL, Family.WINOGRAD, Family.STRASSEN}
    assert (FAMILIES[family].multiply_adds is no_operations) is (family not in contractions)

"""Names that passes give to new tensors are new."""

from __future__ import annotations

from autotune.graph.passes.note import fresh


def test_a_fresh_name_is_its_stem_where_that_is_free() -> None:
    assert fresh("y.weight", {"y"}) == "y.weight"


def test_a_fresh_name_takes_the_first_free_number() -> None:
    taken = {"y.weight", "y.weight#2", "y.weight#4"}
    assert fresh("y.weight", taken) == "y.weight#3"

"""Queries, keys and values of one product are sliced before each is turned."""

from __future__ import annotations

import pytest

from autotune.graph.passes.unbound_axes import UnboundAxes
from tests.graph.passes.graph_text import becomes, stays

UNBOUND = """
    x: (2, 5, 3, 4, 6)
    t = transpose(x) perm=(2, 0, 3, 1, 4)
    a = slice(t) starts=(0, 0, 0, 0, 0) sizes=(1, 2, 4, 5, 6) steps=(1, 1, 1, 1, 1)
    q = reshape(a) shape=(2, 4, 5, 6)
    b = slice(t) starts=(2, 0, 0, 0, 0) sizes=(1, 2, 4, 5, 6) steps=(1, 1, 1, 1, 1)
    v = reshape(b) shape=(2, 4, 5, 6)
    y = mul(q, v)
    -> y
"""


def test_each_slice_is_turned_on_its_own() -> None:
    after = """
        t.joined = reshape(x) shape=(2, 5, 12, 6)
        a.part = slice(t.joined) sizes=(2, 5, 4, 6) starts=(0, 0, 0, 0) steps=(1, 1, 1, 1)
        q = transpose(a.part) perm=(0, 2, 1, 3)
        b.part = slice(t.joined) sizes=(2, 5, 4, 6) starts=(0, 0, 8, 0) steps=(1, 1, 1, 1)
        v = transpose(b.part) perm=(0, 2, 1, 3)
        y = mul(q, v)
    """
    becomes(UnboundAxes(), UNBOUND, after)


def test_an_inner_axis_of_the_result_is_sliced_too() -> None:
    before = """
        x: (3, 4, 5)
        t = transpose(x) perm=(2, 0, 1)
        a = slice(t) starts=(0, 1, 0) sizes=(5, 1, 4) steps=(1, 1, 1)
        y = reshape(a) shape=(5, 4)
        -> y
    """
    after = """
        t.joined = reshape(x) shape=(12, 5)
        a.part = slice(t.joined) sizes=(4, 5) starts=(4, 0) steps=(1, 1)
        y = transpose(a.part) perm=(1, 0)
    """
    becomes(UnboundAxes(), before, after)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("-> y", "-> y, t"),
        ("-> y", "-> y, a"),
        ("-> y", "n = relu(t)\n-> y, n"),
        ("-> y", "n = relu(a)\n-> y, n"),
        ("perm=(2, 0, 3, 1, 4)", "perm=(2, 0, 4, 1, 3)"),
        ("q = reshape(a) shape=(2, 4, 5, 6)", "q = reshape(a) shape=(1, 2, 4, 5, 6)"),
    ],
    ids=[
        "output",
        "slice is output",
        "read whole",
        "slice read twice",
        "other extents",
        "keeps the axis",
    ],
)
def test_others_stay(line: str, other: str) -> None:
    text = UNBOUND.replace(line, other)
    if "(2, 0, 4, 1, 3)" in other:  # the reshape then drops no axis, but joins others
        text = text.replace("(1, 2, 4, 5, 6)", "(1, 2, 6, 5, 4)")
    stays(UnboundAxes(), text)


def test_a_last_axis_has_none_behind_it_to_join() -> None:
    stays(
        UnboundAxes(),
        """
        x: (4, 5, 3)
        t = transpose(x) perm=(2, 0, 1)
        a = slice(t) starts=(1, 0, 0) sizes=(1, 4, 5) steps=(1, 1, 1)
        y = reshape(a) shape=(4, 5)
        -> y
        """,
    )

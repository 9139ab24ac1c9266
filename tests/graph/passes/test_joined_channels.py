"""Transposes for a concatenation along the last axis get an axis of its channels alone."""

from __future__ import annotations

import pytest

from autotune.graph.passes.joined_channels import JoinedChannels
from tests.graph.passes.graph_text import becomes, stays

INTERLEAVED = """
    x: (3, 4, 2, 10)
    z: (1, 6, 8, 5)
    t = transpose(x) perm=(0, 2, 1, 3)
    r = reshape(t) shape=(1, 6, 8, 5)
    a = relu(z)
    y = concat(a, r) axis=3
    -> y
"""


def test_interleaved_rows_of_pixels_are_cut_into_pixels() -> None:
    after = """
        t.cut = reshape(x) shape=(3, 4, 2, 2, 5)
        t = transpose(t.cut) perm=(0, 2, 1, 3, 4)
        r = reshape(t) shape=(1, 6, 8, 5)
        a = relu(z)
        y = concat(a, r) axis=3
    """
    becomes(JoinedChannels(), INTERLEAVED, after)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("-> y", "-> y, t"),
        ("-> y", "-> y, r"),
        ("-> y", "n = relu(r)\n-> y, n"),
        ("perm=(0, 2, 1, 3)", "perm=(0, 3, 1, 2)"),
        ("y = concat(a, r) axis=3", "y = concat(a, r) axis=1"),
        ("(3, 4, 2, 10)", "(3, 8, 2, 5)"),
    ],
    ids=["output", "view is output", "read elsewhere", "last axis moves", "other axis", "alone"],
)
def test_others_stay(line: str, other: str) -> None:
    stays(JoinedChannels(), INTERLEAVED.replace(line, other))


def test_no_transpose_has_more_axes_than_an_instruction_moves() -> None:
    stays(
        JoinedChannels(),
        """
        x: (3, 4, 2, 2, 10)
        z: (1, 12, 8, 5)
        t = transpose(x) perm=(1, 0, 3, 2, 4)
        r = reshape(t) shape=(1, 12, 8, 5)
        a = relu(z)
        y = concat(a, r) axis=3
        -> y
        """,
    )

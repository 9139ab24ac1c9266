"""The claims of the page of variants: emulated cycles are exact, so that they hold or the test fails."""

from __future__ import annotations

from collections import defaultdict

import pytest

from benchmarks import variants
from benchmarks.variant_cases import CONTESTS, Contest


@pytest.mark.parametrize(
    "contest", CONTESTS, ids=lambda c: f"{c.choice}, {c.case} on {c.target}".replace(" ", "_")
)
def test_the_variant_that_is_said_to_win_takes_the_fewest_cycles(contest: Contest) -> None:
    (fastest, least), (_, second), *_ = variants.ranked(variants.measured(contest))
    assert fastest == contest.winner
    assert least < second


def test_every_variant_wins_somewhere() -> None:
    forms, winners = defaultdict(set), defaultdict(set)
    for contest in CONTESTS:
        forms[contest.choice] |= {f.name for f in contest.forms() if not f.yardstick}
        winners[contest.choice].add(contest.winner)
    assert winners == forms


def test_the_page_names_the_winner_and_how_far_behind_the_next_one_is() -> None:
    contest = CONTESTS[0]
    table = variants.variants_table([(contest, {"direct": 300, "im2col": 200})])
    line = f"| convolution | {contest.case} | server | im2col | 200 | direct | 300 | 1.50 |"
    assert line in variants.markdown(table).splitlines()

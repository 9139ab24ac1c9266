"""Tries every case of its share and says what became of them; a crash is its parent's business."""

from __future__ import annotations

import traceback
from pathlib import Path

from tests.fuzz.cases import case
from tests.fuzz.judge import judge
from tests.fuzz.share import Note, Share, Tally, leave_tally
from tests.fuzz.shrink import shown, shrunk

FAILURES = 10
"""A worker stops at so many."""


def attempt(share: Share, number: int, tally: Tally) -> None:
    """Try one case and count it."""
    kind, subject, rng = case(share.seed, number, share.kind)
    try:
        verdict = judge(subject, rng)
    except Exception:  # noqa: BLE001 - no error of any kind may come out of a case
        traceback.print_exc()
        tally.outcomes[f"{kind} FAILED"] += 1
        tally.failures.append(number)
        return
    tally.outcomes[f"{kind} {verdict.outcome}"] += 1
    if verdict.rule:
        tally.rules[f"{kind} {verdict.outcome}: {verdict.rule}"] += 1


def run_share(share: Share, note: Note, report: Path) -> None:
    """Try a share; leaves the tally as JSON, also of a part of it."""
    tally = Tally()
    for done, number in enumerate(range(share.first, share.end, share.step)):
        if done % 1000 == 0:
            leave_tally(tally, report)
        note.write(number)
        attempt(share, number, tally)
        if len(tally.failures) == FAILURES:
            break
    leave_tally(tally, report)


def explain(share: Share, number: int) -> str:
    """A failing case, shrunk, for reading."""
    kind, subject, _ = case(share.seed, number, share.kind)
    seed = (share.seed, number, 1)
    return f"# kind {kind}, seed {share.seed}, case {number}\n{shown(shrunk(subject, seed))}"

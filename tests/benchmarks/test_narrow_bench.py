"""Rows of `make bench-narrow` that a file keeps: one network after the other, one row for each and its threads."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.cpu_figures import OURS, PEERS
from benchmarks.narrow import IN_BYTES, NETWORKS, Row, kept_rows, table, with_row


def row(network: str, threads: int, ours: float) -> Row:
    ms = {OURS: ours, **dict.fromkeys(PEERS, 2.0)}
    return Row(network, threads, ms, 0.0, 0.0, {})


def test_a_call_replaces_its_rows_and_keeps_the_others(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert kept_rows(None) == kept_rows(file) == []
    rows: list[Row] = []
    for one in (row(NETWORKS[2], 1, 1.0), row(NETWORKS[0], 2, 1.0), row(NETWORKS[0], 1, 1.0)):
        rows = with_row(rows, one)
    file.write_text(json.dumps([asdict(one) for one in rows]))
    assert kept_rows(file) == rows
    rows = with_row(kept_rows(file), row(NETWORKS[0], 1, 4.0))
    assert [(one.network, one.threads) for one in rows] == [
        (NETWORKS[0], 1), (NETWORKS[0], 2), (NETWORKS[2], 1),
    ]  # fmt: skip
    text = table(rows, 1, IN_BYTES).markdown()
    assert (
        "| geometric mean |  |  |  |  | 1.00 |" in text and "| least |  |  |  |  | 0.50 |" in text
    )

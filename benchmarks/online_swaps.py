"""The figures of `make bench-swap`: learning on live requests, and swaps under load, on this CPU.

    python -m benchmarks.online_swaps [--networks …] [--threads 1 2] [--starts …] [--seconds S] [--json FILE]

``--json`` keeps rows; rows that the file has already are not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from benchmarks.child import run_child
from benchmarks.cpu_networks import NAMES
from benchmarks.learning_picture import learning_picture
from benchmarks.machine import busy
from benchmarks.online_swaps_worker import TURN
from benchmarks.table import Table

SAMPLE = (
    "mlp", "transformer_block", "bert_small", "lstm", "gru_layer", "light_squeezenet", "mobilenet_v3",
)  # fmt: skip
STARTS = ("heuristic", "unfused")
LOADED = "bert_small"
"""Network of the load with swaps."""
PARTS = 4
"""Of the requests the first and the last part are told."""
SWAPS = 1000

Row = dict[str, Any]


def measure(rows: list[Row], orders: Sequence[tuple[str, Row]], kept: Path | None) -> None:
    """Have the workers do what is ordered and not known; keep each row as soon as it is there."""
    for worker, order in orders:
        if any(row["order"] == order for row in rows):
            continue
        found = run_child(Path(sys.executable), f"benchmarks.{worker}", [json.dumps(order)])
        rows.append({"order": order, **found})
        print(f"{worker} {order}: done", file=sys.stderr, flush=True)
        if kept is not None:
            kept.write_text(json.dumps(rows) + "\n")


def usual(row: Row, what: str = "ms") -> list[float]:
    """Return the times of the sessions that do not learn, by turn: the geometric means of both."""
    pairs = zip(row[f"fixed_{what}"], row[f"twin_{what}"], strict=True)
    return [(one * other) ** 0.5 for one, other in pairs]


def apart(row: Row) -> float:
    """Return the time of the first session that does not learn over that of the second one: the median over all turns."""
    return float(
        median(one / other for one, other in zip(row["fixed_ms"], row["twin_ms"], strict=True))
    )


def ratios(row: Row) -> tuple[float, float]:
    """Return the time of the sessions that do not learn over that of the one that does: first and last part."""
    found = [one / other for one, other in zip(usual(row), row["learning_ms"], strict=True)]
    part = max(1, len(found) // PARTS)
    return median(found[:part]), median(found[-part:])


def whole(row: Row) -> float:
    """Return the gain over all requests: the time of the sessions that do not learn, divided by the learning one's."""
    return sum(usual(row, "mean_ms")) / sum(row["learning_mean_ms"])


def learning(rows: Sequence[Row], start: str) -> list[Table]:
    """Return the table of networks opened with one kind of plan, and that of means."""
    here = [row for row in rows if row["order"].get("start") == start]
    if not here:
        return []
    cells = []
    for row in here:
        first, last = ratios(row)
        before, after = row["groups"]
        events = row["events"]
        cells.append(
            (
                row["order"]["network"],
                str(row["order"]["threads"]),
                f"{median(row['fixed_ms']):.3f}",
                f"{first:.3f}",
                f"{last:.3f}",
                f"{whole(row):.3f}",
                f"{apart(row):.3f}",
                "".join(f"{one:.2%}" for one in row["cost"]) or "0",
                f"{before} → {after}",
                str(events.get("proposed", 0)),
                str(events.get("swapped", 0)),
                str(events.get("split", 0)),
                "yes" if row["is_right"] else "NO",
            )
        )
    first = geometric_mean(ratios(row)[0] for row in here)
    last = geometric_mean(ratios(row)[1] for row in here)
    every = geometric_mean(map(whole, here))
    least = [min(ratios(row)[at] for row in here) for at in (0, 1)]
    columns = (
        "network", "threads", "fixed ms", "first", "last", "all", "twins", "trials cost", "groups", "trials", "swaps", "splits", "right",
    )  # fmt: skip
    worst = *(f"{one:.3f}" for one in least), f"{min(map(whole, here)):.3f}"
    means = (("mean", f"{first:.3f}", f"{last:.3f}", f"{every:.3f}"), ("worst", *worst))
    return [
        Table(f"Opened with the {start} plan", columns, tuple(cells)),
        Table(f"{start.capitalize()} plan: gain", ("", "first", "last", "all"), means),
    ]


def load(rows: Sequence[Row]) -> list[Table]:
    """Return the table of latency under load, with swaps and without."""
    cells = []
    for row in rows:
        if "load" not in row:
            continue
        none = row["load"]["none"]
        for kind, found in row["load"].items():
            over = (
                f"{found[x]:.3f} ({found[x] / none[x] - 1:+.1%})" for x in ("p50", "p99", "p99.9")
            )
            before = str(row["order"]["threads"]), kind, str(row["counts"][kind])
            cells.append((*before, str(found["count"]), *over, f"{found['most']:.3f}"))
        assert row["wrong"] == 0, "a swap changed an output"
    columns = ("threads", "load", "swaps", "requests", "p50 ms", "p99 ms", "p99.9 ms", "longest ms")
    return [Table(f"Four callers of {LOADED}", columns, tuple(cells))] if cells else []


def picture(rows: Sequence[Row]) -> str:
    """Return the picture of the session whose latency fell most."""
    row = max((row for row in rows if "start" in row["order"]), key=lambda row: ratios(row)[1])
    order = row["order"]
    threads = f"{order['threads']} thread{'s' * (order['threads'] > 1)}"
    title = f"{order['network']} on this CPU, {threads}, opened with the {order['start']} plan"
    return learning_picture(title, TURN, usual(row), row["learning_ms"], row["swaps"])


def markdown(rows: Sequence[Row], note: str) -> str:
    """Return the page."""
    tables = [table for start in STARTS for table in learning(rows, start)]
    parts = [
        "# Figures of learning on live requests",
        "Written by `make bench-swap`. Three sessions of one process serve a network on this CPU in turns of 20 requests, at half "
        "load: one learns (`online=True`, never calibrated), two do not. A network is served for two minutes unless told. *first* "
        "and *last* are the time of the sessions that do not learn, the mean of both, over that of the one that does, the median over the turns "
        "of the first and of the last quarter: above 1 learning pays. *twins* is the time of one session that does not learn over that of "
        "the other: where memory lies makes them differ. *all* is the same of the time of all requests, those on trial "
        "included, each counted as three medians of its turn at most. The first quarter holds most of the work of learning: "
        "profiling, compiling in another process, trials in bursts. *trials cost* is what the session books on its budget of 0.5 %, "
        "less than 0 where what it tried was faster. *unfused* sessions begin with every operator alone, as a plan without fusion "
        "gives. " + note,
        *(table.markdown() for table in tables),
        "What swaps cost under load is on [a page of its own](figures-swap-load.md).",
    ]
    return "\n\n".join(parts) + "\n"


def load_markdown(rows: Sequence[Row], note: str) -> str:
    """Return the page of swaps under load."""
    parts = [
        "# Figures of swaps under load",
        "Written by `make bench-swap`. Four callers serve one network at half load. *swaps* publishes one of two linked versions "
        "every 20 ms, *links* links a version anew before each swap, every 0.2 s, as learning does. Shares are over the same load "
        "without swaps (*none*), in turns of half a second; *again* is that load once more: what it differs by is noise. The "
        "longest 1 in 1,000 are some 35 requests. No output differed in any bit. " + note,
        *(table.markdown() for table in load(rows)),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", choices=NAMES, default=SAMPLE)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--starts", nargs="*", choices=STARTS, default=STARTS)
    parser.add_argument("--seconds", type=float, default=120.0, help="of each network")
    parser.add_argument("--swaps", type=int, default=SWAPS, help="of the load; 0 leaves it out")
    parser.add_argument("--json", type=Path, help="rows to go on from, and to keep")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--load-markdown", type=Path, help="page of swaps under load")
    parser.add_argument("--picture", type=Path, help="of the session whose latency fell most")
    parser.add_argument("--note", help="of the machine, in place of how busy it is now")
    given = parser.parse_args()
    note = busy() if given.note is None else given.note
    rows: list[Row] = []
    if given.json is not None and given.json.exists():
        rows = json.loads(given.json.read_text())
    orders: list[tuple[str, Row]] = [
        ("online_swaps_worker", {"network": x, "threads": t, "start": s, "seconds": given.seconds})
        for s in given.starts
        for t in given.threads
        for x in given.networks
    ]
    if given.swaps:
        orders += [
            ("swap_load_worker", {"network": LOADED, "threads": t, "swaps": given.swaps})
            for t in given.threads
        ]
    measure(rows, orders, given.json)
    for table in (*(x for start in STARTS for x in learning(rows, start)), *load(rows)):
        print(table.text() + "\n")
    if given.markdown is not None:
        given.markdown.write_text(markdown(rows, note))
    if given.load_markdown is not None:
        given.load_markdown.write_text(load_markdown(rows, note))
    if given.picture is not None:
        given.picture.write_text(picture(rows))


if __name__ == "__main__":
    main()

"""``autotune status``: the sessions of this user's processes, what they run and how fast."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from autotune.cli.console import print_json, print_table, say
from autotune.cli.options import JsonOption
from autotune.errors import InputError

Document = Mapping[str, Any]

WatchOption = Annotated[bool, typer.Option("--watch", help="Show it again and again until Ctrl-C.")]
IntervalOption = Annotated[
    float,
    typer.Option("--interval", min=0.1, max=3600.0, help="Seconds between two, with --watch."),
]
GroupsOption = Annotated[
    int, typer.Option("--groups", min=0, help="Groups to show, those that took most.")
]
PrometheusOption = Annotated[
    bool, typer.Option("--prometheus", help="Metrics in Prometheus's text format on stdout.")
]
_CLEAR = "\x1b[H\x1b[2J"


def status(
    watch: WatchOption = False,
    interval: IntervalOption = 2.0,
    groups: GroupsOption = 10,
    prometheus: PrometheusOption = False,
    json: JsonOption = False,
) -> None:
    """Show open sessions of all your processes: runs, latency, plans, cost models, and the groups that cost most."""
    if json and prometheus:
        raise InputError("--json and --prometheus: stdout holds one of them; leave one out")
    show = _show_json if json else _show_metrics if prometheus else _show_tables
    if not watch:
        show(_processes(), groups)
        return
    try:
        for processes in _every(interval):
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            show(processes, groups)
            sys.stdout.flush()
    except KeyboardInterrupt:  # the way to end it
        return


def _every(seconds: float) -> Iterator[list[dict[str, Any]]]:
    while True:
        yield _processes()
        time.sleep(seconds)


def _processes() -> list[dict[str, Any]]:
    from autotune.disk.home import status_folder
    from autotune.runtime.profile.status_file import read_statuses

    return read_statuses(status_folder(), time.time())


def _show_json(processes: Sequence[Document], groups: int) -> None:
    print_json({"processes": processes})


def _show_metrics(processes: Sequence[Document], groups: int) -> None:
    from autotune.report.exposition import exposition

    sys.stdout.write(exposition(processes))


def _show_tables(processes: Sequence[Document], groups: int) -> None:
    sessions = [(process, one) for process in processes for one in process["sessions"]]
    if not sessions:
        say("no session is open; one shows up 2 s after it was opened, while its process lives")
        return
    print_table(
        "sessions",
        ("process", "network", "target", "plan", "runs", "runs/s", "p50 ms", "p99 ms", "longest", "groups", "MB"),
        [_session_row(process, one) for process, one in sessions],
        texts=4,
    )  # fmt: skip
    _show_models(sessions)
    rows = sorted(
        ((one, row) for _, one in sessions for row in one["groups"]),
        key=lambda pair: -pair[1]["total_cycles"] / pair[0]["clock_hz"],
    )
    if groups and rows:
        total = sum(row["total_cycles"] / one["clock_hz"] for one, row in rows)
        print_table(
            f"groups ({min(groups, len(rows))} of {len(rows)})",
            ("group", "networks", "origin", "executions", "per s", "mean µs", "± µs", "predicted", "share"),
            [_group_row(one, row, total) for one, row in rows[:groups]],
            texts=3,
        )  # fmt: skip


def _session_row(process: Document, session: Document) -> tuple[str, ...]:
    plan = f"{session['planned_by']} {session['plan_version']}"
    held = session["memory"]["constant_bytes"] + session["memory"]["arena_bytes"]
    times = (_milliseconds(session[f"{x}_seconds"]) for x in ("p50", "p99", "longest"))
    return (
        str(process["pid"]),
        session["network"],
        session["target"],
        f"{plan}, learning" if session["online"] else plan,
        f"{session['runs']:,}",
        f"{session['runs_per_second']:,.1f}",
        *times,
        str(session["group_count"]),
        f"{held / 1e6:,.1f}",
    )


def _show_models(sessions: Sequence[tuple[Document, Document]]) -> None:
    """Show which cost model answers in each learning session, how far it errs, and how often it was trained again."""
    rows = [
        (
            str(process["pid"]),
            one["network"],
            one["model"]["kind"],
            f"{one['model']['held_out_error']:.1%}",
            str(one["model_version"]),
        )
        for process, one in sessions
        if one.get("model") is not None
    ]
    if rows:
        columns = ("process", "network", "model", "error on unseen networks", "trained again")
        print_table("cost models that learning began with", columns, rows, texts=3)


def _group_row(session: Document, row: Document, total_seconds: float) -> tuple[str, ...]:
    def micros(cycles: float | None) -> str:
        return "-" if cycles is None else f"{1e6 * cycles / session['clock_hz']:,.1f}"

    return (
        " ".join(row["operators"]),
        " ".join(row["networks"]),
        row["origin"],
        f"{row['executions']:,}",
        f"{row['per_second']:,.1f}",
        micros(row["mean_cycles"]),
        micros(row["deviation_cycles"]),
        micros(row["predicted_cycles"]),
        f"{row['total_cycles'] / session['clock_hz'] / total_seconds:.1%}",
    )


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:,.3g}"

"""What a search of precisions takes beside a plain search of the same network: a part of `make bench-precision`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.child import ROOT
from benchmarks.table import Table


def search_times(
    name: str, target: str, data: Path, folder: Path, limit: float, measure: int
) -> dict[str, float]:
    """Return CPU seconds of a plain search and of one within a limit of the loss."""
    plain = ("search", name, "--target", target, "--measure", str(measure))
    within = ("--max-loss", str(limit), "--data", str(data))
    return {
        "plain": _cpu_seconds((*plain, "--out", str(folder / "plain.plan")), folder / "plain"),
        "within": _cpu_seconds(
            (*plain, *within, "--out", str(folder / "net.plan")), folder / "net"
        ),
    }


def _cpu_seconds(arguments: Sequence[str], home: Path) -> float:
    """Return CPU seconds, user and system, of one command and its children, which keeps everything in ``home``."""
    child = subprocess.Popen(
        [sys.executable, "-m", "autotune", *arguments],
        cwd=ROOT,
        env={**os.environ, "AUTOTUNE_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with child:
        assert child.stderr is not None
        told = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(
            f"{' '.join(arguments)} ended with {child.returncode}:\n{told[-2000:]!r}"
        )
    return usage.ru_utime + usage.ru_stime


def times_table(times: Mapping[tuple[str, str], Mapping[str, float]]) -> Table:
    """Return the table of all machines and networks."""
    rows = [
        (
            target,
            name,
            f"{one['plain']:.1f}",
            f"{one['within']:.1f}",
            f"{one['within'] / one['plain']:.1f}",
        )
        for (name, target), one in times.items()
    ]
    columns = ("machine", "network", "plain s", "with --max-loss s", "of plain")
    return Table("", columns, tuple(rows))

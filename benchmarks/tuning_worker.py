"""Tunes an ONNX file with our search, or opens it by rule, or times either; for `tuning.py`.

Arguments: `rule`, `search`, `time-rule` or `time-search`, the folder of `task.onnx`, trials (ignored).
Prints one JSON object. Works in a home of its own in that folder, so that nothing is known from a task
before: of the user's home it takes the calibration (the store) and what this machine was measured to be.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import sys
import time
from pathlib import Path

import numpy as np

from autotune import Session, api
from autotune.disk.home import VARIABLE, cache_folder, store_file
from autotune.errors import AutotuneError

TARGET = "cpu:1"
PLAN = "task.plan"
SECONDS = 0.5
"""Of timed runs."""


def move_home(folder: Path) -> None:
    """Copy the calibration and the machine's figures to ``folder`` and live there, once a task."""
    known, machine = store_file(None), cache_folder() / "hosts"
    os.environ[VARIABLE] = str(folder)
    if folder.exists():
        return
    folder.mkdir()
    if machine.is_dir():
        shutil.copytree(machine, cache_folder() / "hosts")
    if known.is_file():
        with (
            contextlib.closing(sqlite3.connect(known)) as source,
            contextlib.closing(sqlite3.connect(store_file(None))) as copy,
        ):
            source.backup(copy)


def by_rule(folder: Path) -> Session:
    """A session without a plan, and with a store that knows nothing."""
    return Session(folder / "task.onnx", target=TARGET, store=folder / "empty.db", accuracy="exact")


def search(folder: Path) -> dict[str, float]:
    """Seconds of the search, from the file to the plan."""
    start = time.perf_counter()
    result = api.search(folder / "task.onnx", TARGET, out=folder / PLAN, accuracy="exact")
    return {"seconds": time.perf_counter() - start, "measurements": result.measurements}


def rule(folder: Path) -> dict[str, float]:
    """Seconds from the file to a session that can run."""
    start = time.perf_counter()
    by_rule(folder)
    return {"seconds": time.perf_counter() - start, "measurements": 0}


def timed(session: Session) -> dict[str, float]:
    """Seconds of the fastest run."""
    (name,) = session.graph.inputs
    shape = session.graph.shape(name)
    feeds = {name: np.random.default_rng(0).standard_normal(shape, dtype=np.float32)}
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        session.run(feeds)
        best = min(best, time.perf_counter() - start)
    return {"seconds": best}


def main() -> None:
    """Do what the first argument says."""
    mode, folder = sys.argv[1], Path(sys.argv[2])
    move_home(folder / "home")
    try:
        match mode:
            case "rule":
                found = rule(folder)
            case "search":
                found = search(folder)
            case "time-rule":
                found = timed(by_rule(folder))
            case _:
                found = timed(Session(folder / PLAN, target=TARGET))
    except AutotuneError as error:
        sys.exit(f"error: {error}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""A process to kill: calibrates or searches on a machine of somebody else's, and notes what it measures."""

import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from autotune.isa.program import Program
from autotune.runtime.session.opening import open_model
from autotune.store.store import Store
from autotune.targets.opening import target
from autotune.targets.protocol import Execution
from autotune.tuner import record_writer
from autotune.tuner.calibrate import calibrate
from autotune.tuner.fusion import search
from autotune.tuner.options import SearchOptions
from autotune.tuner.study_storage import open_storage
from tests.tuner.search_case import residual

BUDGET = 48
STUDIES = "studies.db"
"""File of the search's study, in SQLite."""


class Noting:
    """Costs what the edge machine costs, and writes a line for every program that it timed; the ``last`` takes for ever."""

    def __init__(self, log: Path, last: int | None = None) -> None:
        self._edge, self._log, self._left = target("edge"), log, last
        self.name, self.spec = "noting edge", self._edge.spec

    def time(self, program: Program, parameters: Any = None) -> Execution:
        """Time a program, then note it."""
        found = self._edge.time(program, parameters)
        with self._log.open("a") as log:
            log.write("timed\n")
        if self._left is not None:
            self._left -= 1
            if not self._left:
                time.sleep(3600)  # to be killed
        return found

    def run(self, program: Program, tensors: Any, parameters: Any = None) -> Any:
        """Nobody asks for numbers here."""
        raise NotImplementedError


def work(
    command: str, folder: Path, last: int | None = None
) -> tuple[int, frozenset[tuple[str, str]]]:
    """Calibrate or search with the store of a folder; return how much was measured, and what a search measured."""
    machine = Noting(folder / "log", last)
    each_at_once = patch.object(
        record_writer, "SAVE_SECONDS", 0.0
    )  # as where measurements take long
    with each_at_once, Store.open(folder / "store.db") as store:
        if command == "calibrate":
            done = calibrate(machine, budget=BUDGET * 2, store=store, workers=1)
            return done.measured, frozenset()
        model = open_model(store, machine).model
        options = SearchOptions(trials=6, measure=BUDGET, workers=1)
        studies = open_storage(folder / STUDIES)
        found = search(residual(1), machine, model, options, store=store, storage=studies)
        return len(found.records), frozenset((r.group_key, r.schedule_json) for r in found.records)


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

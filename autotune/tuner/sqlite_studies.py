"""Optuna's storage in a SQLite file, with cheap trials: parameters enter in one statement, commits wait for no disk.

Optuna reads the trial and an earlier one for every parameter: 0.15 s of CPU for a trial with 70 of them
(docs/decisions/0053-speed-of-search.md). Other tools open the file as any other study of Optuna's.
"""

from __future__ import annotations

import copy
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.distributions import distribution_to_json
from optuna.storages import RDBStorage
from optuna.storages._rdb.models import TrialParamModel
from sqlalchemy import insert

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

WAIT_SECONDS = 60
"""For the transaction of another process."""


class SqliteStudies(RDBStorage):
    """Studies in one SQLite file, in write-ahead mode: a killed process loses nothing, a power cut the last trials."""

    def __init__(self, path: Path) -> None:
        with _alone_in(path.parent):  # two processes that make the tables at once fail
            super().__init__(f"sqlite:///{path}", {"creator": partial(_connect, str(path))})

    def _get_prepared_new_trial(
        self, study_id: int, template_trial: FrozenTrial | None, session: Any
    ) -> Any:
        """Enter the parameters of a whole trial together. Our trials have equal distributions in all of a study."""
        bare = copy.copy(template_trial)
        if bare is not None:
            bare.params, bare.distributions = {}, {}
        trial = super()._get_prepared_new_trial(study_id, bare, session)
        if template_trial is not None:
            rows = parameter_rows(int(trial.trial_id), template_trial)
            if rows:
                session.execute(insert(TrialParamModel), rows)
        return trial


def parameter_rows(trial_id: int, template: FrozenTrial) -> list[dict[str, object]]:
    """Return the rows of the table of parameters. Equal distributions are one object in trials of ours."""
    written = {
        id(d): distribution_to_json(d)
        for d in {id(d): d for d in template.distributions.values()}.values()
    }
    return [
        {
            "trial_id": trial_id,
            "param_name": name,
            "param_value": distribution.to_internal_repr(template.params[name]),
            "distribution_json": written[id(distribution)],
        }
        for name, distribution in template.distributions.items()
    ]


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; a process that dies frees it."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_SECONDS, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection

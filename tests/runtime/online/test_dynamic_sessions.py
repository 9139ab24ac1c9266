"""Dynamic sessions learn online: every version from its own runs, and goes without losing what it learned."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.api import calibrate
from autotune.runtime.execution.event import EventKind
from autotune.runtime.online.drift import DriftRule
from autotune.runtime.online.learning import OnlineOptions
from autotune.runtime.session.control.version_table import VERSIONS_KEPT
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.opening import target
from tests.runtime.session.test_dynamic import LAYERS, agrees, drawn, saved

pytestmark = pytest.mark.slow

OPTIONS = OnlineOptions(rule=DriftRule(least_runs=3, confirm_runs=2), routine_runs=4, remeasure=8)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibrated") / "store.db"
    calibrate("edge", budget=64, models=(), store=path)
    return path


def stored_runs(path: Path) -> int:
    with Store.open(path) as store:
        return store.count(target("edge").spec.profile_id)


def test_versions_of_open_dimensions_learn_from_their_runs(
    calibrated: Path, tmp_path: Path
) -> None:
    path, before = saved(tmp_path, LAYERS), stored_runs(calibrated)
    with Session(path, "edge", calibrated, online=True, options=OPTIONS) as session:
        for turn in range(10):
            for batch, seq in ((1, 3), (2, 5)):
                agrees(session, path, drawn(batch, seq, seed=turn))
            # numpy answers until the shapes are compiled; and one look takes in all runs that wait
            session.wait_idle(120)
        kinds = {event.kind for event in session.events}
        assert EventKind.RETRAINED in kinds and EventKind.FAILED not in kinds
        assert len(session.parts) == 2
        assert all(part.events for part in session.parts.values())
    assert stored_runs(calibrated) > before


def test_a_version_that_goes_stops_learning_and_what_it_told_stays(
    calibrated: Path, tmp_path: Path
) -> None:
    path = saved(tmp_path, LAYERS)
    with Session(path, "edge", calibrated, online=True, options=OPTIONS) as session:
        for turn in range(10):
            agrees(session, path, drawn(1, 1, seed=turn))
            session.wait_idle(120)
        told = session.events
        assert told
        for seq in range(2, VERSIONS_KEPT + 2):
            agrees(session, path, drawn(1, seq))
            session.wait_idle(120)
        assert len(session.parts) == VERSIONS_KEPT
    assert all(event in session.events for event in told)

"""Trials entered together are the trials that were entered one by one."""

from datetime import datetime
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.tuner.bulk_trials import create_trials
from autotune.tuner.study_storage import open_storage

EITHER = CategoricalDistribution([False, True])
NOW = datetime(2026, 11, 26)


def trials() -> list[FrozenTrial]:
    """A complete, a pruned and a failed trial."""
    made = [
        create_trial(
            state=state,
            value=value,
            params={"fused": value is not None},
            distributions={"fused": EITHER},
            user_attrs={"strategy": "model", "turns": number},
        )
        for number, (state, value) in enumerate(
            [(TrialState.COMPLETE, 3.0), (TrialState.PRUNED, 9.5), (TrialState.FAIL, None)]
        )
    ]
    for one in made:
        one.datetime_start = one.datetime_complete = NOW
    return made


def told(trial: FrozenTrial) -> tuple[object, ...]:
    return (
        trial.number,
        trial.state,
        trial.values,
        trial.params,
        trial.user_attrs,
        trial.datetime_start,
    )


@pytest.mark.parametrize("name", ["studies.db", "studies.log"])
def test_they_are_as_those_entered_one_by_one_and_numbers_go_on(name: str, tmp_path: Path) -> None:
    storage = open_storage(tmp_path / name)
    assert storage is not None
    studies = [optuna.create_study(storage=storage, study_name=x) for x in ("together", "alone")]
    for _ in range(2):
        number = storage.get_study_id_from_name("together")
        create_trials(storage, number, trials())
        for one in trials():
            storage.create_new_trial(storage.get_study_id_from_name("alone"), one)
    together, alone = ([told(t) for t in study.get_trials()] for study in studies)
    assert together == alone
    assert [row[0] for row in together] == list(range(6))
    assert studies[0].best_value == 3.0


def test_nothing_to_enter_writes_nothing(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "studies.db")
    assert storage is not None
    study = optuna.create_study(storage=storage, study_name="empty")
    create_trials(storage, storage.get_study_id_from_name("empty"), [])
    assert not study.trials

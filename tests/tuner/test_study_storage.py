"""Studies of searches in every kind of place: what Optuna's own tools read, and what processes share."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.storages import InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import event

from autotune.errors import StoreError
from autotune.fusion.greedy import greedy, unfused
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.study_storage import open_storage
from tests.tuner.search_case import residual
from tests.tuner.sharing_script import PLANS, Unpriced, shared_study


def told(trial: FrozenTrial) -> tuple[object, ...]:
    """What a trial says, without its time and its process."""
    attributes = {k: v for k, v in trial.user_attrs.items() if k != "process"}
    return trial.number, trial.state, trial.values, trial.params, trial.distributions, attributes


def filled(storage: optuna.storages.BaseStorage | None) -> PlanStudy:
    """A study with a finished, a failed and a running plan."""
    problem = FusionProblem(residual(2), Unpriced())
    study = PlanStudy.open(problem, "stand-in", "latency", storage)
    plans = unfused(problem.graph), greedy(problem.graph, problem.fits)
    study.end(study.begin("random", plans[0], None, 3), 12.5)
    study.end(study.begin("model", plans[1], None, 2), None)
    study.begin("tpe", plans[1], study.decided(plans[0]), 1)
    return study


@pytest.mark.parametrize("name", ["studies.db", "studies.log"])
def test_a_file_holds_what_memory_holds(name: str, tmp_path: Path) -> None:
    expected = filled(None)
    place = tmp_path / name
    written = filled(open_storage(place))
    assert written.best_partitions() == expected.best_partitions()
    again = optuna.load_study(study_name=written.study.study_name, storage=open_storage(place))
    assert list(map(told, again.trials)) == list(map(told, expected.study.trials))
    assert again.best_value == 12.5


def test_optunas_own_storage_reads_and_goes_on_with_our_file(tmp_path: Path) -> None:
    ours = filled(open_storage(tmp_path / "studies.db"))
    theirs = RDBStorage(f"sqlite:///{tmp_path / 'studies.db'}")
    study = optuna.load_study(study_name=ours.study.study_name, storage=theirs)
    assert list(map(told, study.trials)) == list(map(told, filled(InMemoryStorage()).study.trials))
    (summary,) = optuna.get_all_study_summaries(theirs)
    assert summary.n_trials == 3 and summary.best_trial.value == 12.5
    asked = study.ask(ours.distributions)
    study.tell(asked, 3.0)
    assert ours.count == 4


def test_trials_are_a_table_of_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    study = filled(open_storage(tmp_path / "studies.db")).study
    table = study.trials_dataframe()
    assert table["user_attrs_strategy"].tolist() == ["random", "model", "tpe"]
    assert table["state"].tolist() == ["COMPLETE", "FAIL", "RUNNING"]


def statements(storage: RDBStorage, parameters: int) -> int:
    """The number of SQL statements that enter a trial of so many parameters."""
    names = [f"p{parameters} {i}" for i in range(parameters)]
    either = CategoricalDistribution([False, True])
    trial = create_trial(
        state=TrialState.RUNNING,
        params=dict.fromkeys(names, True),
        distributions=dict.fromkeys(names, either),
    )
    heard: list[str] = []
    event.listen(storage.engine, "before_cursor_execute", lambda *told: heard.append(told[2]))
    number = storage.create_new_trial(storage.get_study_id_from_name("drawn"), trial)
    storage.set_trial_state_values(number, TrialState.COMPLETE, [1.0])
    return len(heard)


def test_a_trial_of_many_decisions_takes_no_more_statements(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "studies.db")
    assert isinstance(storage, RDBStorage)
    study = optuna.create_study(storage=storage, study_name="drawn")
    assert statements(storage, 1) == statements(storage, 300)
    assert [len(trial.params) for trial in study.trials] == [1, 300]


@pytest.mark.parametrize("name", ["studies.db", "studies.log"])
@pytest.mark.slow  # starts processes
def test_two_processes_share_a_study(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tests.tuner.sharing_script", str(place)]
    both = [subprocess.Popen([*command, who], env=environment) for who in ("one", "two")]
    assert [process.wait(120) for process in both] == [0, 0]
    trials = shared_study(place).study.trials
    assert [trial.number for trial in trials] == list(range(2 * PLANS))
    assert all(trial.state is TrialState.COMPLETE for trial in trials)
    assert Counter(t.user_attrs["strategy"] for t in trials) == {"one": PLANS, "two": PLANS}
    assert len({tuple(t.user_attrs["process"]) for t in trials}) == 2


@pytest.mark.parametrize("name", ["studies.db", "studies.log"])
def test_a_file_of_something_else_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("this is no study\n" * 100)
    with pytest.raises(StoreError, match=f"{name}.*give another --storage"):
        filled(open_storage(tmp_path / name))

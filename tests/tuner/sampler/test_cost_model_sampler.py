"""The sampler in ordinary studies of Optuna's: any parameters, resumed, shared, either direction."""

import optuna
import pytest

import autotune
from autotune.errors import InputError
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.study_storage import open_storage
from tests.tuner.partitioners.test_climbing import Rule
from tests.tuner.search_case import residual

optuna.logging.set_verbosity(optuna.logging.WARNING)


def mixed(trial: optuna.Trial) -> float:
    """Every kind of parameter; least is 0 at kind b, n = 8, x = 0.1."""
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    n = trial.suggest_int("n", 1, 64, log=True)
    x = trial.suggest_float("x", 1e-3, 1.0, log=True)
    return {"a": 1.0, "b": 0.0, "c": 2.0}[kind] + abs(n - 8) / 8 + abs(x - 0.1)


def values(study: optuna.Study) -> list[float]:
    return [float(trial.value) for trial in study.trials if trial.value is not None]


def sampler(seed: int = 0) -> autotune.CostModelSampler:
    return autotune.CostModelSampler(seed=seed, startup=4, candidates=64)


def test_it_finds_more_than_its_random_start() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(mixed, n_trials=24)
    found = values(study)
    assert min(found[4:]) < min(found[:4])


def test_a_seed_repeats_a_study_and_the_direction_may_be_either() -> None:
    least, again, most = (
        optuna.create_study(sampler=sampler(), direction=way)
        for way in ("minimize", "minimize", "maximize")
    )
    for study in (least, again):
        study.optimize(mixed, n_trials=12)
    most.optimize(lambda trial: -mixed(trial), n_trials=24)
    assert values(least) == values(again)
    assert most.best_value > max(values(most)[:4])


def test_a_resumed_study_goes_on_as_if_it_had_not_stopped(tmp_path) -> None:
    whole = optuna.create_study(sampler=sampler())
    whole.optimize(mixed, n_trials=12)
    place = open_storage(tmp_path / "study.log")
    for _ in range(2):
        part = optuna.create_study(
            storage=place, study_name="s", load_if_exists=True, sampler=sampler()
        )
        part.optimize(mixed, n_trials=6)
    assert values(part) == values(whole)


def test_failed_and_pruned_trials_are_not_proposed_again() -> None:
    def failing(trial: optuna.Trial) -> float:
        n = trial.suggest_int("n", 0, 11)
        if n % 3 == 0:
            raise optuna.TrialPruned
        if n % 3 == 1:
            raise ValueError(n)
        return float(n)

    study = optuna.create_study(sampler=sampler())
    study.optimize(failing, n_trials=12, catch=ValueError)
    assert sorted(trial.params["n"] for trial in study.trials[4:])[-1] <= 11
    assert study.best_value == 2.0


def test_running_trials_are_not_proposed_again() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(mixed, n_trials=6)
    asked = [study.ask() for _ in range(3)]
    for trial in asked:
        mixed(trial)
    assert len({tuple(trial.params.items()) for trial in asked}) == 3


def test_a_prior_leads_from_the_first_trial_with_a_space() -> None:
    space = {"n": optuna.distributions.IntDistribution(0, 100)}
    lead = autotune.CostModelSampler(prior=lambda p: 1.0 + abs(p["n"] - 70), space=space, seed=0)
    study = optuna.create_study(sampler=lead)
    study.optimize(lambda trial: 1.0 + abs(trial.suggest_int("n", 0, 100) - 72), n_trials=12)
    assert study.trials[0].params["n"] == 70
    assert study.best_value <= 2.0


def test_bad_features_and_several_objectives_are_refused() -> None:
    wrong = autotune.CostModelSampler(features=lambda p: [float("nan")], seed=0, startup=1)
    study = optuna.create_study(sampler=wrong)
    with pytest.raises(InputError, match="finite numbers, always as many"):
        study.optimize(mixed, n_trials=3)
    two = optuna.create_study(directions=["minimize"] * 2, sampler=sampler())
    with pytest.raises(InputError, match="has 2 objectives"):
        two.optimize(lambda trial: (mixed(trial), 0.0), n_trials=1)


@pytest.mark.parametrize("name", ["plans.db", "plans.log"])
def test_a_plan_study_is_shared_and_what_a_killed_process_left_fails(tmp_path, name) -> None:
    graph = residual(1)
    problem = FusionProblem(graph, Rule())
    first = PlanStudy.open(problem, "edge", "latency", open_storage(tmp_path / name))
    whole = first.partition(dict.fromkeys(first.distributions, True))
    ended = first.begin("tpe", whole, None, 3)
    first.end(ended, 7.0)
    left = first.begin("random", whole, None, 2)
    again = PlanStudy.open(problem, "edge", "latency", open_storage(tmp_path / name))
    assert again.best_partitions() == (whole,)
    trials = {trial._trial_id: trial for trial in again.study.trials}
    assert trials[ended].user_attrs["strategy"] == "tpe" and trials[ended].value == 7.0
    assert trials[left].state is optuna.trial.TrialState.RUNNING
    kept = trials[left].user_attrs["process"]
    again.study._storage.set_trial_user_attr(left, "process", [kept[0], 2**22 + 1])
    PlanStudy.open(problem, "edge", "latency", open_storage(tmp_path / name))
    trials = {trial._trial_id: trial for trial in again.study.get_trials()}
    assert trials[left].state is optuna.trial.TrialState.FAIL

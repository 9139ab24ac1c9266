"""A model improves on a simpler one by its choices, or by its error where they choose alike."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from autotune.cost_model.choosing import last_improvement
from autotune.cost_model.held_out import FEWEST_CHOICES, SAME_REGRET, HeldOut
from autotune.cost_model.metrics import group_metrics
from autotune.cost_model.training import Ratios
from autotune.store.records import HALF_TRUST_ERROR, NOISY_TRUST

ROWS = 8


def costs(groups: int) -> SimpleNamespace:
    """Measured cycles of groups of eight schedules each, of which the first is the fastest."""
    keys = np.repeat([f"g{i}" for i in range(groups)], ROWS)
    return measured(np.tile(np.arange(100.0, 100.0 + ROWS), groups), keys)


def measured(cycles: np.ndarray, keys: np.ndarray, error: float = 0.0) -> SimpleNamespace:
    """Measurements of a machine to a relative standard ``error``, each group of a network of its own."""
    trust = np.full(len(cycles), 1.0 / (1.0 + (error / HALF_TRUST_ERROR) ** 2))
    return SimpleNamespace(cycles=cycles, keys=keys, networks=keys, trust=trust)


def predicting(cycles: np.ndarray) -> HeldOut:
    none = np.zeros(len(cycles))
    return HeldOut(cycles, none, none, none, none, none, none, none, none)


def wrong_in(data: SimpleNamespace, share: float, scale: float = 1.0) -> HeldOut:
    """Predictions that take the slowest schedule for the fastest in a share of the groups."""
    cycles = scale * data.cycles.copy()
    groups = len(cycles) // ROWS
    for group in range(round(share * groups)):
        cycles[group * ROWS + ROWS - 1] = scale * 99.0
    return predicting(cycles)


@pytest.mark.parametrize(
    ("share", "scale", "improves"),
    [
        (0.0, 1.0, True),  # better choices and a smaller error
        (0.0, 1.3, True),  # clearly better choices in spite of the error
        (0.5, 1.0, False),  # nothing is better
        (0.9, 1.0, False),  # worse choices
    ],
)
def test_choices_decide_first(share: float, scale: float, improves: bool) -> None:
    data = costs(40)
    assert wrong_in(data, share, scale).improves_on(wrong_in(data, 0.5), data) is improves


def test_a_lower_regret_within_the_noise_does_not_outweigh_a_larger_error() -> None:
    data = costs(40)
    assert not wrong_in(data, 0.0, 1.3).improves_on(wrong_in(data, 1 / 40), data)
    assert wrong_in(data, 0.0, 1.3).improves_on(wrong_in(data, 1 / 4), data)


@pytest.mark.parametrize("groups", [2, FEWEST_CHOICES - 1, FEWEST_CHOICES])
def test_worse_choices_are_refused_however_few_groups_tell(groups: int) -> None:
    data = costs(groups)
    assert not wrong_in(data, 0.5, 1.0).improves_on(wrong_in(data, 0.0, 1.3), data)
    assert wrong_in(data, 0.5, 1.0).improves_on(wrong_in(data, 0.5, 1.3), data)


@pytest.mark.parametrize(
    ("groups", "improves"), [(FEWEST_CHOICES - 1, False), (FEWEST_CHOICES, True)]
)
def test_better_choices_of_few_groups_do_not_outweigh_a_larger_error(
    groups: int, improves: bool
) -> None:
    data = costs(groups)
    assert wrong_in(data, 0.0, 1.3).improves_on(wrong_in(data, 0.9), data) is improves


@pytest.mark.parametrize(
    ("regret", "scale", "improves"),
    [
        (0.9, 2.0, True),  # half the error for a regret that nothing tells from none
        (1.1, 2.0, False),
        (0.9, 1.0001, False),  # alike in error: the regret decides
    ],
)
def test_a_regret_that_no_measurement_tells_does_not_outweigh_half_the_error(
    regret: float, scale: float, improves: bool
) -> None:
    keys = np.repeat([f"g{i}" for i in range(40)], 2)
    dearer = 100.0 * (1.0 + regret * SAME_REGRET)
    data = measured(np.tile([100.0, dearer], 40), keys)
    swapped = np.tile([100.0 * 1.0001, 100.0], 40)
    simpler = predicting(scale * data.cycles)
    assert predicting(swapped).improves_on(simpler, data) is improves


SPREAD = 0.03
"""Planted relative error of measurements."""


def planted(seed: int, dearer: float, share: float) -> bool:
    """Return True if a model with a smaller error improves on another whose choices take 100 cycles in 200 groups, where
    its own take ``dearer`` times as many in a ``share`` of the groups, and as many in the others: of what is measured
    with a planted spread."""
    rng = np.random.default_rng(seed)
    keys = np.repeat([f"g{i}" for i in range(200)], ROWS)
    true = np.tile(np.linspace(110.0, 140.0, ROWS), 200).reshape(200, ROWS)
    true[:, :2] = 100.0
    true[: round(share * 200), 1] *= dearer
    data = measured((true * np.exp(rng.normal(0.0, SPREAD, true.shape))).ravel(), keys, SPREAD)
    theirs, ours = 1.3 * true, 1.1 * true
    theirs[:, 0], ours[:, 1] = 1.3 * 99.0, 1.1 * 99.0
    return predicting(ours.ravel()).improves_on(predicting(theirs.ravel()), data)


def test_choices_as_good_are_not_refused_for_the_spread_of_measurements() -> None:
    """Half of them have a larger measured regret; two standard errors refuse one in forty."""
    verdicts = [planted(seed, 1.0, 0.0) for seed in range(100)]
    assert np.mean(verdicts) > 0.9


@pytest.mark.parametrize(("dearer", "share"), [(1.015, 1.0), (1.2, 0.1)])
def test_choices_that_are_worse_beyond_the_spread_are_refused(dearer: float, share: float) -> None:
    verdicts = [planted(seed, dearer, share) for seed in range(100)]
    assert np.mean(verdicts) < 0.05


@pytest.mark.parametrize(
    ("wrong", "by_formula"),
    [
        (40, True),  # every network errs less
        (1, False),  # in one network alone much less
    ],
)
def test_what_prices_better_but_chooses_worse_prices_the_formulas_choices(
    wrong: int, by_formula: bool
) -> None:
    data = costs(40)
    factor = np.where(np.arange(len(data.cycles)) < wrong * ROWS, 1.4, 1.1)
    formula = predicting(data.cycles * factor)
    guided = wrong_in(data, 0.5, 1.1)
    nothing = Ratios(None, None, None, np.empty(0))
    trees = Ratios(None, None, None, np.ones(1))
    held, ratios = last_improvement(((formula, nothing), (guided, trees)), data)
    assert (ratios is trees) is by_formula
    assert held.cycles is (guided if by_formula else formula).cycles
    keys = data.keys.tolist()
    regrets = [
        group_metrics(data.cycles, one, keys)["top1_regret"]
        for one in (held.choices, guided.cycles)
    ]
    assert regrets[0] == 0.0 < regrets[1]
    rows = np.arange(len(data.cycles)) < 16
    assert (held.take(rows).choices == formula.cycles[rows]).all()


def test_two_schedules_are_a_choice_as_in_the_regret_that_is_printed() -> None:
    keys = np.repeat(["a", "b"], 2)
    data = measured(np.array([100.0, 110.0, 100.0, 110.0]), keys)
    right, wrong = data.cycles * 1.3, np.array([100.0, 99.0, 100.0, 110.0])
    assert not predicting(wrong).improves_on(predicting(right), data)
    metrics = [group_metrics(data.cycles, one, keys.tolist()) for one in (wrong, right)]
    assert metrics[0]["top1_regret"] > metrics[1]["top1_regret"]


def test_without_a_choice_the_error_decides() -> None:
    data = measured(np.array([100.0, 110.0]), np.array(["a", "b"]))
    close, far = predicting(data.cycles * 1.1), predicting(data.cycles * 1.3)
    assert close.improves_on(far, data)
    assert not far.improves_on(close, data)


@pytest.mark.parametrize(
    ("better", "is_clear"),
    [
        (40, True),  # less in every network
        (22, False),  # about as often more as less
        (0, False),
    ],
)
def test_an_error_is_clearly_less_only_if_it_is_so_in_most_networks(
    better: int, is_clear: bool
) -> None:
    data = costs(40)
    data.networks = data.keys
    close = np.repeat(np.where(np.arange(40) < better, 1.01, 1.03), ROWS)
    ours, theirs = predicting(data.cycles * close), predicting(data.cycles * 1.02)
    assert ours.errs_clearly_less(theirs, data) is is_clear


def test_one_network_tells_nothing_clearly() -> None:
    data = costs(1)
    data.networks = data.keys
    assert not predicting(data.cycles).errs_clearly_less(predicting(data.cycles * 2.0), data)


def half_told(counted: bool) -> tuple[SimpleNamespace, HeldOut, HeldOut]:
    """Measurements of which one choice tells no standard error, the others 3 % unless they are ``counted``; a model
    with a smaller error whose choices are dearer by 0.5 %, and a simpler one."""
    keys = np.repeat([f"g{i}" for i in range(40)], 3)
    data = measured(np.tile([100.0, 100.5, 130.0], 40), keys, 0.0 if counted else SPREAD)
    data.trust[data.cycles < 130.0] = 1.0
    ours = predicting(np.tile([111.0, 110.0, 140.0], 40))
    return data, ours, predicting(1.3 * data.cycles)


@pytest.mark.parametrize("counted", [True, False])
def test_a_time_that_tells_no_spread_has_that_of_the_others(counted: bool) -> None:
    data, ours, simpler = half_told(counted)
    _, noise = ours.gains_on(simpler, data)
    expected = 0.0 if counted else SPREAD * np.hypot(1.0, 1.005)
    assert noise == pytest.approx(np.full(40, expected))
    assert ours.improves_on(simpler, data) is not counted


def test_times_known_to_be_noisy_say_nothing_about_the_others() -> None:
    data, ours, simpler = half_told(counted=True)
    data.trust[data.cycles == 130.0] = NOISY_TRUST
    assert not ours.improves_on(simpler, data)

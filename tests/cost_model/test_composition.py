"""Times of networks follow from those of their groups by closed forms, and fitted costs are found again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autotune.cost_model import composition
from autotune.cost_model.composition import (
    FEWEST_NETWORKS,
    RATES,
    Composed,
    Composition,
    NetworkLoad,
    Reserves,
    columns_of,
    fit_composition,
)
from autotune.cost_model.model import CostModel
from autotune.errors import StoreError
from autotune.fusion.group import Group, layer
from autotune.targets.opening import load_spec

RESERVES = Reserves(near=2e6, all=32e6)
RATE = 1e10
SPEC = load_spec("cpu")


def load(*rows: tuple[float, float, float]) -> NetworkLoad:
    """Rows of seconds alone, bytes of constants, bytes moved."""
    return NetworkLoad(*np.array(rows, np.float64).T)


def columns(*rows: tuple[float, float, float]) -> list[float]:
    return columns_of(load(*rows), RESERVES, RATE).tolist()


def test_weights_that_caches_hold_stay_there_from_run_to_run() -> None:
    assert columns((1e-3, 1e6, 1e5), (2e-3, 9e6, 1e5)) == pytest.approx([3e-3, 0.0, 2.0, 1.0])


def test_weights_that_caches_do_not_hold_come_at_the_rate_of_memory() -> None:
    found = columns((1e-3, 20e6, 1e5), (5e-3, 20e6, 1e5))
    assert found == pytest.approx([20e6 / RATE + 5e-3, 0.0, 2.0, 1.0]), "a longer group hides them"


def test_a_group_beyond_all_caches_moves_everything_and_drives_out_what_the_next_reads() -> None:
    found = columns((1e-4, 0.0, 40e6), (1e-4, 0.0, 5e6))
    assert found[0] == pytest.approx(40e6 / RATE + 5e6 / RATE)


def test_activations_come_from_farther_behind_a_group_that_a_core_does_not_hold() -> None:
    found = columns((1e-3, 0.0, 3e6), (1e-3, 0.0, 1e6), (1e-3, 0.0, 1e6))
    assert found == pytest.approx([3e-3, 1e6, 3.0, 1.0])


def test_of_a_table_the_rows_that_a_gather_takes_are_read() -> None:
    product = layer("matmul", a=(4, 8), b=(8, 16))
    constants, moved = (x[0] for x in _bytes(product, {product.inputs[1]}))
    assert (constants, moved) == (4 * 8 * 16, 4 * (4 * 8 + 4 * 16))
    gather = layer("gather", table=(1000, 8), numbers=(3,))
    constants, moved = (x[0] for x in _bytes(gather, {gather.inputs[0]}))
    assert (constants, moved) == (4 * 3 * 8, 4 * (3 + 3 * 8))


def _bytes(group: Group, constants: set[str]) -> tuple[list[float], list[float]]:
    found = NetworkLoad.of([group], [1.0], constants)
    return found.constants.tolist(), found.moved.tolist()


def drawn(rng: np.random.Generator) -> NetworkLoad:
    groups = int(rng.integers(1, 60))
    alone = rng.lognormal(-8, 2, groups)
    return NetworkLoad(alone, rng.lognormal(13, 2, groups), rng.lognormal(13, 2, groups))


def test_costs_of_networks_are_found_again_and_predict_those_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rate = SPEC.dram.bytes_per_cycle * SPEC.clock_hz * RATES[3]
    truth = Composition(rate, 3e-11, 4e-7, 6e-6, 0.1, 1.0)
    loads = [drawn(rng) for _ in range(24)]
    seconds = [truth.seconds(one, RESERVES) for one in loads]
    held = fit_composition(loads, seconds, SPEC, RESERVES)
    assert held is not None
    np.testing.assert_allclose(held.left_out, seconds, rtol=0.01)
    monkeypatch.setattr(composition, "HOLD", 1e-6)  # nothing draws to typical costs
    found = fit_composition(loads, seconds, SPEC, RESERVES)
    assert found is not None
    np.testing.assert_allclose(found.left_out, seconds, rtol=1e-6)
    for name, value in dataclasses.asdict(truth).items():
        assert getattr(found.composition, name) == pytest.approx(value, rel=1e-5), name


def test_the_interval_holds_the_networks_that_were_left_out() -> None:
    rng = np.random.default_rng(1)
    truth = Composition.typical(SPEC)
    loads = [drawn(rng) for _ in range(20)]
    seconds = [truth.seconds(x, RESERVES) * float(rng.lognormal(0, 0.1)) for x in loads]
    found = fit_composition(loads, seconds, SPEC, RESERVES)
    assert found is not None
    outside = np.abs(np.log(np.array(seconds) / found.left_out)) > np.log(found.composition.spread)
    assert outside.mean() <= 0.1
    assert 1.0 < found.composition.spread < 2.0


def test_few_networks_give_no_costs() -> None:
    loads = [drawn(np.random.default_rng(0))] * (FEWEST_NETWORKS - 1)
    assert fit_composition(loads, [1.0] * len(loads), SPEC, RESERVES) is None


def test_a_model_keeps_its_costs_of_networks_in_its_file() -> None:
    rng = np.random.default_rng(2)
    loads = [drawn(rng) for _ in range(FEWEST_NETWORKS)]
    seconds = np.array([Composition.typical(SPEC).seconds(x, RESERVES) for x in loads])
    plain = CostModel.typical(SPEC)
    assert CostModel.from_bytes(plain.to_bytes(), SPEC).composition is None
    model = plain.with_composition(fit_composition(loads, seconds, SPEC, RESERVES), seconds)
    again = CostModel.from_bytes(model.to_bytes(), SPEC)
    assert model.composition is not None and again.composition == model.composition
    assert again.metrics["whole_networks"] == FEWEST_NETWORKS
    assert again.metrics["whole_networks_mape"] == pytest.approx(0.0, abs=1e-6)
    assert again.metrics["whole_networks_within_10"] == 1.0
    left_out = seconds * np.linspace(0.8, 1.2, len(seconds))
    composed = Composed(Composition.typical(SPEC), left_out)
    figures = plain.with_composition(composed, seconds).metrics
    errors = np.abs(np.linspace(0.8, 1.2, len(seconds)) - 1)
    assert figures["whole_networks_mape"] == pytest.approx(errors.mean())
    assert figures["whole_networks_within_10"] == (errors <= 0.1).mean()


@pytest.mark.parametrize("blob", [b"", b"{", b'{"rate": 1}'])
def test_costs_of_another_version_are_refused(blob: bytes) -> None:
    with pytest.raises(StoreError, match="autotune calibrate"):
        Composition.from_bytes(blob)

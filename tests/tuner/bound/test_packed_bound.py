"""Lower bounds of products of 8-bit integers: no schedule is below them, at any rate of the array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.isa.formats import ALL_FORMATS
from autotune.targets.drawn import drawn_specs
from autotune.targets.spec import DATAFLOWS, HardwareSpec
from autotune.tuner.bound.bound import group_bound
from autotune.tuner.bound.operator_work import Product, product_cycles
from benchmarks.narrow_pairs import drawn_layers
from tests.tuner.bound.bound_case import EMULATED, measured_cycles, schedules, whole_group

RATES = (1, 3, 4, 16)


def with_rate(spec: HardwareSpec, rate: int) -> HardwareSpec:
    return replace(spec, matrix=replace(spec.matrix, int8_macs_per_cell=rate))


@pytest.mark.parametrize("rate", RATES)
def test_no_narrow_program_is_below_its_bound(rate: int) -> None:
    rng, checked = np.random.default_rng(rate), 0
    specs = [with_rate(spec, rate) for spec in (*EMULATED, *drawn_specs(4, rate))]
    for number, layer in enumerate(drawn_layers(rate, 8)):
        spec = specs[number % len(specs)]
        group = whole_group(layer.graph(ALL_FORMATS))
        assert any(op.zeros is not None for op in group.ops)
        least = group_bound(group, spec).cycles
        for schedule in schedules(group, spec, rng, 3):
            cycles = measured_cycles(group, schedule, spec)
            assert cycles is None or cycles >= least, (spec.name, layer, schedule)
            checked += cycles is not None
    assert checked >= 8


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("rate", RATES)
def test_a_packed_product_that_fills_the_array_takes_the_bound_of_its_packs(
    dataflow: str, rate: int
) -> None:
    matrix = replace(EMULATED[0].matrix, dataflow=dataflow)
    whole = Product(1, 2 * matrix.rows * matrix.cols, 3 * matrix.cols, 4 * matrix.rows)
    packed = replace(whole, depth=whole.depth * rate)
    assert product_cycles(packed, matrix, rate) == product_cycles(whole, matrix)

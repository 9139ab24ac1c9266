"""The space of machines: areas by the table, budgets that bind, energies that follow sizes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autotune.errors import InputError, SpecError
from autotune.targets.components import DEFAULT, read_components
from autotune.targets.derived import peak_watts
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.settings import Setting, with_settings
from autotune.tuner.machines.explored import Priced
from autotune.tuner.machines.proposals import all_designs, proposed
from autotune.tuner.machines.space import Budget, Design, Space, doubled

EDGE = load_spec("edge")
TABLE = read_components()
GRID = [
    Setting.parse(text)
    for text in (
        "matrix.rows,matrix.cols=8,16,32", "scratchpad.size_bytes=64Ki,256Ki", "cores=1,2",
        "vector.lanes=16", "dram.bytes_per_cycle=12.8", "matrix.dataflow=os",
    )
]  # fmt: skip


def space(budget: Budget | None = None) -> Space:
    return Space.around(EDGE, GRID, TABLE, budget or Budget())


def test_the_table_and_its_arithmetic_agree_with_their_sources() -> None:
    assert pytest.approx(4120 + 3 * 32 * 95.68 / 16, rel=1e-4) == TABLE.cell_um2
    assert pytest.approx(1_162_549 / 131_072, rel=1e-3) == TABLE.scratchpad_byte_um2
    assert TABLE.dram_gigabyte_um2 == pytest.approx(1.64e6 / 16 / 0.4, rel=1e-2)
    # Horowitz: 10 pJ from 8 KiB to 100 pJ from 1 MiB
    assert pytest.approx(math.log(10) / math.log(128), abs=0.03) == TABLE.scratchpad_energy_exponent
    # 24 MiB of a TPU take at most 96 mm² in 28 nm
    assert TABLE.scratchpad_byte_um2 == pytest.approx(96e6 / (24 << 20) * (45 / 28) ** 2, rel=0.12)
    assert len(TABLE.sources) >= 5


def test_narrow_multiply_adds_beyond_those_of_the_fp32_multiplier_take_area() -> None:
    def cell_um2(**rates: int) -> float:
        settings = {f"matrix.{name}_macs_per_cell": rate for name, rate in rates.items()}
        area = TABLE.core_mm2(with_settings(EDGE, settings))
        plain = TABLE.core_mm2(
            with_settings(EDGE, {f"matrix.{name}_macs_per_cell": 0 for name in rates})
        )
        return (area - plain) * 1e6 / (EDGE.matrix.rows * EDGE.matrix.cols)

    assert cell_um2(bf16=2, int8=4) == 0
    assert cell_um2(int8=16) == pytest.approx(12 * TABLE.int8_mac_um2)
    assert cell_um2(bf16=3, int8=5) == pytest.approx(TABLE.bf16_mac_um2 + TABLE.int8_mac_um2)
    assert pytest.approx(6351 / 16 + 278, rel=1e-3) == TABLE.int8_mac_um2
    assert pytest.approx(4120 / 4) == TABLE.bf16_mac_um2


def test_a_table_without_narrow_areas_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    lines = DEFAULT.read_text("utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(("bf16_mac", "int8_mac"))]
    file.write_text("\n".join(kept), "utf-8")
    assert read_components(file).int8_mac_um2 == 0


@pytest.mark.parametrize("name", spec_names())
def test_area_is_the_sum_of_the_parts_and_grows_with_each(name: str) -> None:
    spec = load_spec(name)
    area = TABLE.area_mm2(spec)
    for key, value in (
        ("cores", spec.cores + 1),
        ("vector.lanes", spec.vector.lanes * 2),
        ("scratchpad.size_bytes", spec.scratchpad.size_bytes * 2),
        ("dram.bytes_per_cycle", spec.dram.bytes_per_cycle * 2),
    ):
        assert TABLE.area_mm2(with_settings(spec, {key: value})) > area


def test_every_machine_is_within_the_budget_and_the_base_is_one_by_default() -> None:
    for budget in (None, Budget(area_mm2=6.5), Budget(watts=3.0)):
        chosen = Space.around(EDGE, GRID, TABLE, budget)
        designs = list(all_designs(chosen))
        assert designs
        for design in designs:
            assert design.area_mm2 <= chosen.budget.area_mm2
            assert design.watts <= chosen.budget.watts == pytest.approx(chosen.budget.watts)
            assert design.area_mm2 == TABLE.area_mm2(design.spec)
            assert design.watts == peak_watts(design.spec)
    own = Space.around(EDGE, GRID, TABLE)
    assert EDGE.profile_id in {design.spec.profile_id for design in all_designs(own)}


def test_the_settings_of_a_machine_make_it_again() -> None:
    for design in all_designs(space()):
        assert with_settings(EDGE, dict(design.settings)).profile_id == design.spec.profile_id


def test_energy_follows_the_sizes_of_parts() -> None:
    small, large = (
        space().design({"scratchpad.size_bytes": size}) for size in (64 << 10, 256 << 10)
    )
    assert small is not None and large is not None
    reads = [d.spec.energy.scratchpad_read_byte_fj for d in (small, large)]
    assert reads == [EDGE.energy.scratchpad_read_byte_fj // 2, EDGE.energy.scratchpad_read_byte_fj]
    assert small.spec.energy.static_cycle_fj < large.spec.energy.static_cycle_fj


def test_a_doubling_doubles_one_number_and_what_follows() -> None:
    base = space().base_design
    twice = doubled(base, space(), "scratchpad.size_bytes")
    assert twice is not None
    assert twice.spec.scratchpad.size_bytes == 2 * EDGE.scratchpad.size_bytes
    assert twice.spec.energy.scratchpad_read_byte_fj > EDGE.energy.scratchpad_read_byte_fj
    assert twice.spec.matrix == EDGE.matrix
    assert doubled(base, space(), "cores") is not None


def test_few_machines_are_all_proposed_and_many_are_sampled_without_repeating() -> None:
    everything = list(all_designs(space()))
    assert [d.spec.profile_id for d in proposed(space(), {}, 100, 0)] == [
        d.spec.profile_id for d in everything
    ]
    wide = Space.around(EDGE, [], TABLE)

    def sampled(seed: int) -> list[str]:
        known: dict[str, Priced] = {}
        for design in proposed(wide, known, 30, seed):
            assert design.spec.profile_id not in known
            known[design.spec.profile_id] = Priced(design, *fake_price(design))
        return list(known)

    first = sampled(0)
    assert first == sampled(0) != sampled(1)
    assert EDGE.profile_id == first[0] and len(first) >= 30


def fake_price(design: Design) -> tuple[float, float]:
    spec = design.spec
    return 1 / spec.peak_macs_per_cycle + 1 / spec.dram.bytes_per_cycle, float(spec.cores)


def test_bad_budgets_settings_and_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="area_mm2"):
        Budget(area_mm2=0)
    with pytest.raises(InputError, match="layout"):
        Space.around(EDGE, [Setting.parse("layout=channels_last")], TABLE)
    text, file = DEFAULT.read_text(), tmp_path / "parts.toml"
    for wrong, told in (
        (text.replace("lane_um2", "line_um2"), "line_um2: unknown key"),
        (text.replace("lane_um2 = 8814.0", ""), "lane_um2: missing"),
        (text.replace("8814.0", "-1.0"), "lane_um2: -1.0"),
        (text.replace("8814.0", '"x"'), "'x' is not a number"),
        ("][", "not valid TOML"),
    ):
        file.write_text(wrong)
        with pytest.raises(SpecError, match=told):
            read_components(file)
    with pytest.raises(SpecError, match="cannot be read"):
        read_components(tmp_path / "none.toml")

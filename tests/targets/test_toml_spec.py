"""Specs are data: the shipped ones are legal and sourced, a bad one costs one clear line."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from autotune.errors import SpecError
from autotune.isa.formats import FLOAT32_ONLY, Format, Formats
from autotune.operators.axes import Layout
from autotune.targets.opening import SPECS, load_spec, spec_names, target
from autotune.targets.physical import PhysicalSpec
from autotune.targets.spec import LAYOUTS, Memory

EDGE = (SPECS / "edge.toml").read_text("utf-8")


FP32_EDGE = re.sub(r"(\w+_macs_per_cell|converts_fp16).*\n", "", EDGE)
"""As specs were before they named narrow formats."""


def refusal(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "mine.toml" in message
    return message


def test_the_shipped_specs_are_different_machines_in_order_of_size() -> None:
    specs = [load_spec(name) for name in spec_names()]
    assert {"edge", "mobile", "server"} < set(spec_names())
    assert [s.peak_macs_per_cycle for s in specs] == sorted(s.peak_macs_per_cycle for s in specs)
    assert len({spec.profile_id for spec in specs}) == len(specs)


def test_our_own_machines_have_the_promised_sizes() -> None:
    edge, mobile, server = (load_spec(name) for name in ("edge", "mobile", "server"))
    assert (edge.matrix.rows, edge.scratchpad.size_bytes) == (16, 256 << 10)
    assert (mobile.matrix.rows, mobile.scratchpad.size_bytes) == (32, 1 << 20)
    assert (server.matrix.rows, server.scratchpad.size_bytes, server.cores) == (128, 16 << 20, 2)


@pytest.mark.parametrize("name", spec_names())
def test_every_number_says_where_it_comes_from(name: str) -> None:
    lines = (SPECS / f"{name}.toml").read_text("utf-8").splitlines()
    bare = [line for line in lines if re.match(r"\w+ *= *[\d.]", line) and "#" not in line]
    assert [line for line in bare if not line.startswith(("cores", "size_bytes"))] == []
    assert load_spec(name).sources


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rows = 16 ", "rows = 0 ", r"matrix\.rows: 0 is not in 1\.\.4096"),
        ("rows = 16 ", "rows = 99999 ", r"matrix\.rows: 99999 is not in"),
        ("rows = 16 ", "rows = 1.5 ", r"matrix\.rows: 1\.5 is not a whole number"),
        ("rows = 16 ", "rows = true ", r"matrix\.rows: True is not a whole number"),
        ("rows = 16 ", "rowz = 16 ", r"matrix\.rows: missing"),
        ("rows = 16 ", "rows = 16\nspeed = 3 ", r"matrix\.speed: unknown key; known: rows"),
        ('dataflow = "os"', 'dataflow = "xs"', r"matrix\.dataflow: 'xs' is not one of"),
        ("int8_macs_per_cell = 4 ", "int8_macs_per_cell = 65 ", r"matrix\.int8_macs_per_cell: 65 is not in 0\.\.64"),
        ("bf16_macs_per_cell = 2 ", "bf16_macs_per_cell = -1 ", r"matrix\.bf16_macs_per_cell: -1 is not in"),
        ("int8_macs_per_cell = 4 ", "int8_macs_per_cell = 0.5 ", r"matrix\.int8_macs_per_cell: 0\.5 is not a whole"),
        ("int8_macs_per_cell = 4 ", "int4_macs_per_cell = 4 ", r"matrix\.int4_macs_per_cell: unknown key; .*int8_macs_per_cell"),
        ("banks = 16 ", "banks = 12 ", r"scratchpad\.banks: 12 is not a power of two"),
        ("bytes_per_cycle = 12.8", "bytes_per_cycle = nan", r"dram\.bytes_per_cycle: nan is not in"),
        ("bytes_per_cycle = 12.8", 'bytes_per_cycle = "12"', r"dram\.bytes_per_cycle: '12' is not a number"),
        ("bytes_per_cycle = 12.8", "bytes_per_cycle = -1", r"dram\.bytes_per_cycle: -1\.0 is not in"),
        ("clock_hz = 1.0e9", "clock_hz = 1.0e30", r"clock_hz: 1e\+30 is not in"),
        ("cores = 1", "cores = 0", r"cores: 0 is not in 1\.\.64"),
        ("cores = 1", 'layout = "nhwc"\ncores = 1', r"layout: 'nhwc' is not one of: channels_first, "),
        ("cores = 1", "layout = 3\ncores = 1", r"layout: 3 is not a text"),
        ("cores = 1", 'memory = "cache"\ncores = 1', r"memory: 'cache' is not one of: scratchpad, cached"),
        ("cores = 1", "memory = 1\ncores = 1", r"memory: 1 is not one of: scratchpad, cached"),
        ("cores = 1", "tile_multiple = 0\ncores = 1", r"tile_multiple: 0 is not in 1\.\.4096"),
        ("[energy]", "[energies]", r"energy: missing"),
        ("queue_depth = 16", "queue_depth = ", r"not valid TOML.*line"),
        ("[control]", "[extra]\nx = 1\n[control]", r"extra: unknown key"),
        ("sources = [", "sources = [3,", r"sources: .* is not a list of texts"),
    ],
)  # fmt: skip
def test_a_bad_number_is_named_with_its_range(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in EDGE
    assert re.search(said, refusal(tmp_path, EDGE.replace(old, new, 1)))


def test_the_default_layout_is_no_part_of_the_profile_and_another_one_is(tmp_path: Path) -> None:
    def profile(layout: str) -> str:
        path = tmp_path / "edge.toml"
        path.write_text(f'layout = "{layout}"\n{EDGE}', "utf-8")
        return load_spec(path).profile_id

    edge = load_spec("edge").profile_id
    assert profile("channels_first") == edge != profile("channels_last")
    assert tuple(Layout) == LAYOUTS


def test_a_scratchpad_is_no_part_of_the_profile_and_a_cache_is(tmp_path: Path) -> None:
    path, edge = tmp_path / "edge.toml", load_spec("edge")
    path.write_text(f'memory = "scratchpad"\n{EDGE}', "utf-8")
    assert load_spec(path) == edge and load_spec(path).profile_id == edge.profile_id
    path.write_text(f'memory = "cached"\ntile_multiple = 16\n{FP32_EDGE}', "utf-8")
    cached = load_spec(path)
    assert (cached.memory, cached.max_buffers, cached.timed) == (Memory.CACHED, 1, True)
    assert cached.profile_id == "64fdd452e0b181b2"


def test_a_spec_that_names_no_narrow_format_multiplies_and_stores_fp32_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "edge.toml"
    path.write_text(FP32_EDGE, "utf-8")
    spec = load_spec(path)
    assert [one for one in Format if spec.multiplies(one)] == [Format.FP32]
    assert spec.formats == FLOAT32_ONLY
    assert spec.profile_id != load_spec("edge").profile_id
    zeros = "int8_macs_per_cell = 0\nbf16_macs_per_cell = 0\nsetup_cycles = 4 "
    path.write_text(FP32_EDGE.replace("setup_cycles = 4 ", zeros, 1), "utf-8")
    assert load_spec(path).profile_id == spec.profile_id
    assert load_spec(path) == spec


def test_shipped_machines_multiply_and_store_what_their_sources_say() -> None:
    narrow = {name: load_spec(name) for name in spec_names()}
    int8 = {name for name, spec in narrow.items() if spec.multiplies(Format.INT8)}
    bf16 = {name for name, spec in narrow.items() if spec.multiplies(Format.BF16)}
    fp16 = {name for name, spec in narrow.items() if spec.dram.converts_fp16}
    assert fp16 == {"edge", "mobile"}
    assert int8 == {"tpuv1-like", "gemmini-like", "edge", "mobile"}
    assert bf16 == {"server", "edge", "mobile"}
    for spec in narrow.values():
        bytes_ = {Format.INT8, Format.UINT8} if spec.name in int8 else set()
        halves = {Format.BF16} if spec.name in bf16 else set()
        formats = frozenset({Format.FP32} | bytes_ | halves)
        converted = frozenset({Format.FP16} if spec.name in fp16 else set())
        assert spec.formats == Formats(formats | converted, formats, converted=converted)
        assert spec.multiplies(Format.INT8) == spec.multiplies(Format.UINT8)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("throttle = 3", r"physical\.throttle: unknown key; known: ambient_celsius, "),
        ("noise = true", r"physical\.noise: True is not a number"),
        ("noise_seed = 1.5", r"physical\.noise_seed: 1\.5 is not a whole number"),
        ("noise = 2", r"physical\.noise: 2\.0 is not in 0\.\.1$"),
        ("throttle_clock = nan", r"physical\.throttle_clock: nan is not in 0\.001\.\.1$"),
        ("release_celsius = 101", r"physical\.release_celsius: 101\.0 is above throttle_celsius"),
    ],
)
def test_a_bad_physical_key_is_named(tmp_path: Path, keys: str, said: str) -> None:
    assert re.search(said, refusal(tmp_path, f"{EDGE}\n[physical]\n{keys}\n"))


def test_every_key_of_the_physical_section_is_optional(tmp_path: Path) -> None:
    path = tmp_path / "edge.toml"
    for field in fields(PhysicalSpec):
        path.write_text(f"{EDGE}\n[physical]\n{field.name} = {field.default}\n", "utf-8")
        assert load_spec(path) == load_spec("edge")
    path.write_text(f"{EDGE}\n[physical]\nnoise = 0.5\n", "utf-8")
    assert load_spec(path).physical == PhysicalSpec(noise=0.5)
    path.write_text(f"physical = 3\n{EDGE}", "utf-8")
    assert "physical: 3 is not a section" in refusal(tmp_path, path.read_text("utf-8"))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"mine\.toml: not a text file"):
        load_spec(path)


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(SpecError, match="no target is named 'egde'; shipped: ") as caught:
        target("egde")
    assert all(name in str(caught.value) for name in spec_names())
    with pytest.raises(SpecError, match=r"absent\.toml: cannot be read"):
        target("absent.toml")
    with pytest.raises(SpecError, match="no target is named"):
        target("../edge")


def test_a_copy_of_a_spec_is_the_same_machine(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(EDGE.replace("cores = 1", "cores = 1 "), "utf-8")
    assert load_spec(path).profile_id == load_spec("edge").profile_id
    assert load_spec(path).name == "other"
    assert target(path).name == str(path)

"""Every layer of SCALE-Sim's tables takes the emulated array as long as SCALE-Sim says."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InputError, SpecError
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import DATAFLOWS
from benchmarks.peers.scalesim_layers import (
    COLUMNS,
    EXTENT_LIMIT,
    RESIDENT_LIMIT_ELEMENTS,
    Layer,
    execute,
    layer_program,
    main,
    read_layers,
    systolic_machine,
)

REFERENCE = Path(__file__).parent / "reference" / "scalesim"
TABLES = {
    # file: rows and columns of the array, dataflow, layers
    "gemm_sweep_arr16_os.csv": (16, 16, "os", 24),
    "gemm_sweep_arr16_ws.csv": (16, 16, "ws", 24),
    "gemm_sweep_arr16_is.csv": (16, 16, "is", 24),
    "resnet50_arr32_os.csv": (32, 32, "os", 54),
}
GOOD = {"name": "a", "ifh": 8, "ifw": 8, "fh": 3, "fw": 3, "ch": 4, "nf": 5, "sh": 1, "sw": 1}
CYCLES = {"total_cycles": 100, "stall_cycles": 0}
OTHERS = [
    (name, *other)
    for name, own in TABLES.items()
    for other in ((16, 16, "os"), (16, 16, "ws"), (16, 16, "is"), (32, 32, "os"), (8, 32, "os"))
    if other != own[:3]
]


def target(rows: int, cols: int, dataflow: str) -> EmulatorTarget:
    return EmulatorTarget(systolic_machine(rows, cols, dataflow))


def write(path: Path, **changes: object) -> Path:
    row = {**GOOD, **CYCLES, **changes}
    row = {column: value for column, value in row.items() if value is not None}
    path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    return path


def bench(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    code = exit_info.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize("name", TABLES)
def test_every_layer_takes_as_long_as_in_scale_sim(name: str) -> None:
    rows, cols, dataflow, count = TABLES[name]
    array = target(rows, cols, dataflow)
    runs = [execute(layer, array) for layer in read_layers(REFERENCE / name)]
    assert len(runs) == count
    assert [run.last_cycle for run in runs] == [run.layer.last_cycle for run in runs]


@pytest.mark.parametrize("name", TABLES)
def test_work_and_utilisation_are_those_of_scale_sim(name: str) -> None:
    """Its percentage divides by the index of the last cycle, not by the number of cycles."""
    rows, cols, dataflow, _ = TABLES[name]
    array = target(rows, cols, dataflow)
    with (REFERENCE / name).open() as file:
        printed = list(csv.DictReader(file))
    for layer, row in zip(read_layers(REFERENCE / name), printed, strict=True):
        run = execute(layer, array)
        assert layer.m * layer.k * layer.n == int(row["macs"])
        percent = 100 * run.utilisation * (run.last_cycle + 1) / run.last_cycle
        assert percent == pytest.approx(float(row["util_pct"]), rel=1e-9)


@pytest.mark.parametrize(("name", "rows", "cols", "dataflow"), OTHERS)
def test_another_array_or_dataflow_does_not(name: str, rows: int, cols: int, dataflow: str) -> None:
    array = target(rows, cols, dataflow)
    assert not all(execute(layer, array).agrees for layer in read_layers(REFERENCE / name))


@given(st.sampled_from(DATAFLOWS), *[st.integers(1, 40)] * 3, *[st.integers(1, 9)] * 2)
def test_the_program_computes_the_product(
    dataflow: str, m: int, k: int, n: int, rows: int, cols: int
) -> None:
    spec = systolic_machine(rows, cols, dataflow)
    left = np.arange(m * k, dtype=np.float32).reshape(m, k) % 7 - 3
    right = np.arange(k * n, dtype=np.float32).reshape(k, n) % 5 - 2
    program = layer_program(Layer("case", m, k, n, 0), spec.matrix)
    _, found = EmulatorTarget(spec).run(program, {"left": left, "right": right})
    np.testing.assert_array_equal(found["product"], left @ right)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_blocks_of_the_held_operand_are_one_fold_each(dataflow: str) -> None:
    held = {"os": (50, 70), "ws": (30, 70), "is": (30, 50)}[dataflow]
    rows, cols = (4, 8)
    run = execute(Layer("case", 50, 30, 70, 0), target(rows, cols, dataflow))
    assert run.folds == -(-held[0] // rows) * -(-held[1] // cols)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_an_operand_too_large_to_be_resident_costs_what_a_small_one_does(dataflow: str) -> None:
    """Cycles are linear in the folds: 16 times the layer takes 16 times the cycles."""
    array = target(64, 64, dataflow)
    extents = {"os": (64, 20_000, 64), "ws": (20_000, 64, 64), "is": (64, 64, 20_000)}[dataflow]
    cut = {"os": "mn", "ws": "kn", "is": "mk"}[dataflow]
    small = dict(zip("mkn", extents, strict=True))
    large = {d: extent * 32 if d in cut else extent for d, extent in small.items()}
    m, k, n = (large[d] for d in "mkn")
    assert m * k + k * n + m * n > RESIDENT_LIMIT_ELEMENTS
    one, many = (execute(Layer("case", **sizes, last_cycle=0), array) for sizes in (small, large))
    assert many.last_cycle + 1 == 32 * 32 * (one.last_cycle + 1)


def test_the_command_prints_each_layer_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (REFERENCE / "gemm_sweep_arr16_ws.csv", "--rows", 16, "--cols", 16)
    assert bench(*arguments, "--dataflow", "ws") == 0
    printed = capsys.readouterr().out
    assert "g64x64x64" in printed
    assert "64×64×64" in printed
    assert "24 of 24" in printed


def test_the_command_exits_with_1_on_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (REFERENCE / "gemm_sweep_arr16_ws.csv", "--rows", 16, "--cols", 16)
    assert bench(*arguments, "--dataflow", "os", "--json") == 1
    layers = json.loads(capsys.readouterr().out)["layers"]
    first = layers[0]
    assert (first["name"], first["expected"], first["executed"]) == ("g16x16x16", 61, 45)
    assert (first["agrees"], first["folds"]) == (False, 1)
    assert len(layers) == 24


REFUSED = [
    ({"nf": None}, "line 1: no column nf"),
    ({"nf": "many"}, "line 2: nf: 'many' is not a whole number from 1 up"),
    ({"nf": "0"}, "line 2: nf: '0'"),
    ({"total_cycles": "1.5"}, "line 2: total_cycles: '1.5'"),
    ({"stall_cycles": 3}, "line 2: stall_cycles is 3; run SCALE-Sim with unlimited bandwidth"),
    ({"fh": 9}, "line 2: a 9×3 filter exceeds its 8×8 input"),
    (
        {"ifh": 3, "ifw": 3, "ch": 10_000},
        f"line 2: layer 'a': K = 90000 is not in 1..{EXTENT_LIMIT}",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_a_bad_table_is_refused_with_file_and_line(
    changes: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "layers.csv", **changes)
    assert bench(path, "--rows", 8, "--cols", 8, "--dataflow", "os") == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert f"layers.csv: {message}" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"", "line 1: no column name, ifh"),
        (",".join(COLUMNS).encode() + b"\n", "line 2: no layer follows the header"),
        (b"\xff\xfe\x00", "not a text file"),
        (",".join(COLUMNS).encode() + b"\na,8,8\n", "line 2: fh: '' is not a whole number"),
    ],
)
def test_a_file_without_layers_is_refused(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "layers.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as refusal:
        read_layers(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize(("rows", "dataflow"), [(0, "os"), (5000, "os"), (8, "rs")])
def test_an_array_that_no_machine_has_is_refused(rows: int, dataflow: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"matrix\."):
        systolic_machine(rows, 8, dataflow)
    path = write(tmp_path / "layers.csv")
    assert bench(path, "--rows", rows, "--cols", 8, "--dataflow", dataflow) == 2

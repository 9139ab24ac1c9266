"""``autotune run --check`` looks for races in the programs of the plan."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from autotune.cli.main import main
from autotune.cli.npz import read_inputs, write_outputs
from autotune.cli.run_check import OF_RANGE, Difference, check_outputs, compare, compare_arrays
from autotune.errors import AutotuneError, InputError
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.lowering import synchronisation
from autotune.operators.op import OpKind
from autotune.operators.tensor import NUMPY, DType
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.execution.random_inputs import draw_graph_inputs
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.session.network_session import NetworkSession
from tests.cli.plan_case import write_plan


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    """Exit code, stdout and stderr of ``autotune run``."""
    with pytest.raises(SystemExit) as exit_info:
        main(["run", *map(str, arguments)])
    captured = capsys.readouterr()
    return exit_info.value.code, captured.out, captured.err


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    return write_plan(tmp_path)


def test_a_plan_without_races_passes(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, plan, "--check")
    assert code == 0 and "races  none" in out
    code, out, _ = ran(capsys, plan, "--check", "--json")
    assert code == 0 and json.loads(out)["races"] == []


def test_races_are_listed_and_fail_the_check_though_the_numbers_are_right(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronisation, "_edges", lambda body, level: [])
    code, out, err = ran(capsys, plan, "--check")
    assert code == 1 and "DIFFERS" not in out
    lines = [line for line in err.splitlines() if " race on " in line]
    assert lines[0].startswith("relu+exp: RAW race on scratchpad, word 0: core 0, instruction 2 (")
    assert f"races  {len(lines)}" in out
    code, out, _ = ran(capsys, plan, "--check", "--json")
    assert code == 1 and json.loads(out)["races"] == lines
    assert ran(capsys, plan)[0] == 0


def test_inputs_drawn_for_a_network_have_its_element_types() -> None:
    builder = GraphBuilder("typed")
    for dtype in DType:
        builder.input(dtype.value, (2, 3), dtype)
    drawn = draw_graph_inputs(builder.build([DType.FLOAT32.value]), np.random.default_rng(1))
    for dtype in DType:
        assert drawn[dtype.value].dtype == NUMPY[dtype]
        if not dtype.is_float:
            assert set(np.unique(drawn[dtype.value].astype(int))) <= {0, 1}


def doubled(dtype: DType) -> Graph:
    """z = x + x."""
    builder = GraphBuilder("doubled")
    x = builder.input("x", (3,), dtype)
    builder.mean(builder.add(OpKind.ADD, x, x, output="z"), dtype)
    return builder.build(["z"])


NARROW = [DType.BFLOAT16, DType.FLOAT16, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2, DType.INT8]
NARROW += [DType.INT4, DType.UINT8]


@pytest.mark.parametrize("dtype", NARROW)
def test_a_run_that_is_right_passes_the_check_in_its_narrow_type(dtype: DType) -> None:
    graph = doubled(dtype)
    x = np.float32([1.1, 3, 7]) if dtype.is_float else np.int64([1, 3, dtype.limits[1]])
    feeds = {"x": x.astype(NUMPY[dtype])}
    adapter = IoAdapter(graph)
    outputs = adapter.from_float32(evaluate(graph, adapter.to_float32(feeds)))
    assert compare(ReferenceSession(graph).run(feeds), outputs) == {"z": Difference(0.0, True)}
    outputs["z"] = (outputs["z"].astype(np.float32) * 1.5 + 1).astype(NUMPY[dtype])
    assert not compare(ReferenceSession(graph).run(feeds), outputs)["z"].is_tolerable


def test_of_a_narrow_float_the_neighbour_passes_the_check_and_the_next_but_one_does_not() -> None:
    graph = doubled(DType.BFLOAT16)
    one = np.ones(3, NUMPY[DType.BFLOAT16])
    for steps, passes in ((0, True), (1, True), (2, False)):
        near = (np.float32(2) * (1 + steps * np.float32(2) ** -7)).astype(one.dtype)
        found = compare(ReferenceSession(graph).run({"x": one}), {"z": np.broadcast_to(near, 3)})
        assert found == {"z": Difference(steps * 2.0**-6, passes)}


def test_truth_values_and_equal_infinities_are_compared() -> None:
    builder = GraphBuilder("less")
    x, y = builder.input("x", (2,)), builder.input("y", (2,))
    builder.mean(builder.add(OpKind.LESS, x, y, output="z"), DType.BOOL)
    builder.add(OpKind.ADD, x, y, output="s")
    graph = builder.build(["z", "s"])
    feeds = {"x": np.float32([1, np.inf]), "y": np.float32([2, 1])}
    outputs = {"z": np.array([True, True]), "s": np.float32([3, np.inf])}
    assert compare(ReferenceSession(graph).run(feeds), outputs) == {
        "z": Difference(1.0, False),
        "s": Difference(0.0, True),
    }


@pytest.mark.parametrize("scale", [1e-6, 1.0, 29.0, 1e6])
@pytest.mark.parametrize(("share", "passes"), [(0.5, True), (2.0, False)])
def test_a_difference_is_judged_by_the_range_of_its_output(
    scale: float, share: float, passes: bool
) -> None:
    """A sum that cancels to 0 keeps the rounding of its terms, which have the size of the range."""
    reference = np.float32([-0.5, 0.0, 0.5]) * np.float32(scale)
    output = reference + np.float32([0, share * OF_RANGE * scale, 0])
    assert compare_arrays(output, reference).is_tolerable is passes


def test_u_nets_sums_in_another_order_pass_and_a_tenth_of_a_permille_does_not() -> None:
    """U-Net on `mobile`: outputs from -13 to 16, at most 3.6e-5 from the reference."""
    reference = np.linspace(-13, 16, 1001)
    near = np.argmin(np.abs(reference))
    for distance, passes in ((3.6e-5, True), (29e-4, False)):
        output = reference.copy()
        output[near] += distance
        assert compare_arrays(output, reference).is_tolerable is passes


def test_small_outputs_that_are_all_wrong_differ() -> None:
    reference = np.float32([1e-6, 2e-6, 5e-6])
    assert not compare_arrays(np.zeros(3, np.float32), reference).is_tolerable


def test_an_output_of_one_value_has_no_range_and_is_held_to_1() -> None:
    zeros = np.zeros(3, np.float32)
    assert compare_arrays(zeros + np.float32(5e-6), zeros).is_tolerable
    assert not compare_arrays(zeros + np.float32(5e-5), zeros).is_tolerable


def test_large_integers_differ_by_one_and_infinities_from_every_number() -> None:
    reference = np.int64([5000, 0])
    assert not compare_arrays(np.int64([5001, 0]), reference).is_tolerable
    assert not compare_arrays(np.float32([3, 1]), np.float32([np.inf, 1])).is_tolerable
    assert not compare_arrays(np.float32([np.nan, 1]), np.float32([2, 1])).is_tolerable


@pytest.mark.parametrize("dtype", [*DType])
def test_outputs_of_every_type_are_saved_so_that_they_can_be_fed_again(
    dtype: DType, tmp_path: Path
) -> None:
    value = np.asarray([0, 1, 1]).astype(NUMPY[dtype])
    write_outputs(tmp_path / "o.npz", {"x": value})
    graph = doubled(dtype)
    fed = IoAdapter(graph).to_float32(read_inputs(tmp_path / "o.npz"))
    np.testing.assert_array_equal(fed["x"], value.astype(np.float32))


def test_raw_bytes_of_a_file_are_of_the_inputs_type_and_wide_numbers_are_not() -> None:
    adapter = IoAdapter(doubled(DType.BFLOAT16))
    value = np.asarray([0.5, 3, -2]).astype(NUMPY[DType.BFLOAT16])
    fed = adapter.to_float32({"x": value.view("V2")})
    np.testing.assert_array_equal(fed["x"], value.astype(np.float32))
    with pytest.raises(InputError, match=r"'x' is float32, expected bfloat16"):
        adapter.to_float32({"x": np.float32([0.1, 0, 0])})


def tied(scale: float) -> Graph:
    """Softmax of 100 logits that are all the same, of the size of ``scale``."""
    b = GraphBuilder("tied")
    w = b.constant(np.full((500, 100), np.float32(scale / 500)), "w")
    b.add(OpKind.SOFTMAX, b.add(OpKind.MATMUL, b.input("x", (1, 500)), w), output="y", axis=1)
    return b.build(["y"])


def checked(graph: Graph, outputs: dict[str, object]) -> Difference:
    """The verdict on the outputs of a run on numbers around 1."""
    session = SimpleNamespace(
        name="tied", graph=graph, reference_outputs=ReferenceSession(graph).run, inputs=()
    )
    feeds = {"x": np.random.default_rng(0).uniform(0.5, 1.5, (1, 500)).astype(np.float32)}
    return check_outputs(cast(NetworkSession, session), feeds, outputs)["y"]


def shares(classes: int) -> np.ndarray:
    """So many classes of 100 share 1."""
    return np.array([[1 / classes] * classes + [0] * (100 - classes)], np.float32)


def test_ties_that_roundings_decide_pass_and_what_no_rounding_gives_differs() -> None:
    graph = tied(1e8)
    assert checked(graph, {"y": shares(32)}).is_tolerable
    assert checked(graph, {"y": shares(32)}).rounding > 0.1
    for wrong in (shares(32) * 4e3, shares(32) - 3, shares(32) * np.nan, shares(32)[:, :50]):
        assert not checked(graph, {"y": wrong}).is_tolerable


def test_ties_of_logits_that_roundings_hardly_move_must_be_found() -> None:
    graph = tied(10.0)
    assert checked(graph, {"y": shares(100)}).is_tolerable
    assert not checked(graph, {"y": shares(32)}).is_tolerable
    near = shares(100) * np.float32(1.002)
    found = checked(graph, {"y": near})
    assert not found.is_tolerable and 0 < found.rounding < 1e-5


def test_a_network_of_several_graphs_is_held_to_the_tolerance() -> None:
    class Several(SimpleNamespace):
        @property
        def graph(self) -> Graph:
            raise AutotuneError("several graphs")

    graph, feeds = tied(1e8), {"x": np.ones((1, 500), np.float32)}
    session = Several(name="tied", reference_outputs=ReferenceSession(graph).run, inputs=())
    found = check_outputs(cast(NetworkSession, session), feeds, {"y": shares(32)})["y"]
    assert not found.is_tolerable and found.rounding == 0.0

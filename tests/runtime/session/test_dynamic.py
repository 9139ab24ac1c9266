"""Sessions bind open dimensions run by run, and run control flow, on the emulator and on this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from autotune.errors import AutotuneError, InputError, ModelError
from autotune.runtime.execution.event import EventKind
from autotune.runtime.session.control.version_table import VERSIONS_KEPT
from autotune.runtime.session.control.versions import GraphVersion
from autotune.runtime.session.dynamic import NEW_SHAPES, DynamicSession
from autotune.runtime.session.graph_session import GraphSession
from autotune.runtime.session.session import Session
from tests.runtime.control_case import COUNTED, NESTED, model_of

LAYERS = """
layers (float[batch, seq, 8] x, float[batch, 1, 8] shift) => (float[batch, seq, 4] y)
<float[8, 4] w = {WEIGHTS}> {
    moved = Add (x, shift)
    h = MatMul (moved, w)
    y = Relu (h)
}
""".replace("WEIGHTS", ", ".join(f"{0.1 * ((7 * i) % 11) - 0.5:.1f}" for i in range(32)))


def saved(folder: Path, text: str) -> Path:
    path = folder / "network.onnx"
    onnx.save(model_of(text), path)
    return path


def drawn(batch: int, seq: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((batch, seq, 8)).astype(np.float32),
        "shift": rng.standard_normal((batch, 1, 8)).astype(np.float32),
    }


def wanted(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    model = onnx.load(path)
    made = ReferenceEvaluator(model).run(None, inputs)
    return {v.name: np.asarray(x) for v, x in zip(model.graph.output, made, strict=True)}


def agrees(session: Session, path: Path, inputs: dict[str, np.ndarray]) -> None:
    made = session.run(inputs)
    for name, expected in wanted(path, inputs).items():
        np.testing.assert_allclose(made[name], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", [pytest.param("edge", marks=pytest.mark.slow), "cpu:1"])
def test_open_dimensions_are_bound_by_the_arrays_of_a_run(tmp_path: Path, target: str) -> None:
    path = saved(tmp_path, LAYERS)
    with Session(path, target, store=tmp_path / "store.db") as session:
        assert isinstance(session._network, DynamicSession)
        for batch, seq in ((1, 3), (2, 5), (1, 3)):
            agrees(session, path, drawn(batch, seq))
        assert len(session.parts) == 2
        assert session.graph.shape("x") == (1, 3, 8)
        agrees(session, path, drawn(1, 3))
        assert session.last_run.cycles > 0


def test_dimensions_may_be_bound_at_opening_some_or_all(tmp_path: Path) -> None:
    path = saved(tmp_path, LAYERS)
    store = tmp_path / "store.db"
    with Session(path, "cpu:1", store, dims={"seq": 3}) as some:
        assert isinstance(some._network, DynamicSession)
        agrees(some, path, drawn(2, 3))
        with pytest.raises(
            InputError, match=r"input 'x' has shape \[2, 4, 8\], expected \['batch'"
        ):
            some.run(drawn(2, 4))
    with Session(path, "cpu:1", store, dims={"seq": 3, "batch": 2}) as all_bound:
        assert isinstance(all_bound._network, GraphSession)
        agrees(all_bound, path, drawn(2, 3))
    with pytest.raises(ModelError, match="no dynamic dimension 'len'"):
        Session(path, "cpu:1", store, dims={"len": 3})


def test_contradicting_arrays_are_refused_naming_input_dimension_and_values(tmp_path: Path) -> None:
    path = saved(tmp_path, LAYERS)
    inputs = {**drawn(2, 3), "shift": drawn(3, 3)["shift"]}
    with (
        Session(path, "cpu:1", tmp_path / "store.db") as session,
        pytest.raises(InputError) as refusal,
    ):
        session.run(inputs)
    assert str(refusal.value) == (
        "network: dimension 'batch' is 3 in input 'shift' (axis 0) and 2 in input 'x' (axis 0); feed "
        "equal extents"
    )


def test_versions_that_are_not_used_go_and_come_again(tmp_path: Path) -> None:
    path = saved(tmp_path, LAYERS)
    with Session(path, "cpu:1", tmp_path / "store.db") as session:
        assert isinstance(session._network, DynamicSession)
        for seq in (*range(1, VERSIONS_KEPT + 2), 1):
            session.traced_run(drawn(1, seq))
            agrees(session, path, drawn(1, seq))
        assert len(session.parts) == VERSIONS_KEPT


def test_threads_share_versions_while_others_are_made_and_go(tmp_path: Path) -> None:
    path = saved(tmp_path, LAYERS)
    expected = {seq: wanted(path, drawn(1, seq))["y"] for seq in range(1, VERSIONS_KEPT + 4)}
    with Session(path, "cpu:1", tmp_path / "store.db") as session, ThreadPoolExecutor(4) as pool:

        def run(number: int) -> None:
            seq = 1 + number % len(expected)
            made = session.run(drawn(1, seq))["y"]
            np.testing.assert_allclose(made, expected[seq], rtol=1e-5, atol=1e-5)

        list(pool.map(run, range(4 * len(expected))))


@pytest.mark.parametrize("text", [COUNTED, NESTED], ids=["counted", "nested"])
def test_control_flow_runs_as_programs_of_its_pieces(tmp_path: Path, text: str) -> None:
    path = saved(tmp_path, text)
    x = np.linspace(0.5, 1, 3, dtype=np.float32)
    inputs = {"trips": np.asarray(3), "x": x}
    if text is COUNTED:
        inputs |= {"go": np.asarray(True), "limit": np.asarray(9, np.float32)}
    with Session(path, "cpu:1", tmp_path / "store.db") as session:
        assert isinstance(session._network, DynamicSession)
        agrees(session, path, inputs)
        assert not isinstance(session._network.newest, GraphVersion)
        assert any("body" in name for name in session.parts)
        runs = len(session.traced_run(inputs)[1].groups)
        assert len(session.traced_run({**inputs, "trips": np.asarray(1)})[1].groups) < runs
        with pytest.raises(AutotuneError, match="is not one graph at these shapes"):
            _ = session.graph


def test_a_closed_session_and_one_that_has_not_run_say_so(tmp_path: Path) -> None:
    session = Session(saved(tmp_path, LAYERS), "cpu:1", tmp_path / "store.db")
    with pytest.raises(AutotuneError, match="nothing was run yet"):
        _ = session.last_run
    with pytest.raises(AutotuneError, match="no shapes are known yet"):
        _ = session.graph
    session.close()
    with pytest.raises(AutotuneError, match="the session is closed"):
        session.run(drawn(1, 1))


def test_nested_lists_are_arrays_where_the_input_is_a_tensor(tmp_path: Path) -> None:
    path = saved(tmp_path, LAYERS)
    inputs = drawn(2, 3)
    with Session(path) as session:
        expected = session.run(inputs)
        with pytest.raises(InputError, match=r"is float64, expected"):
            session.run({name: value.tolist() for name, value in inputs.items()})
        found = session.run({name: list(value) for name, value in inputs.items()})
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.slow
def test_shapes_that_keep_growing_stay_with_numpy_until_one_comes_again(tmp_path: Path) -> None:
    path = saved(tmp_path, LAYERS)

    def compiled(session: Session) -> int:
        session.wait_idle()
        return [event.kind for event in session.events].count(EventKind.COMPILED)

    with Session(path, "edge", store=tmp_path / "store.db") as session:
        for length in range(1, NEW_SHAPES + 4):
            agrees(session, path, drawn(1, length))
        assert compiled(session) == NEW_SHAPES
        agrees(session, path, drawn(1, NEW_SHAPES + 3))
        assert compiled(session) == NEW_SHAPES + 1
        agrees(session, path, drawn(1, NEW_SHAPES + 4))
        assert compiled(session) == NEW_SHAPES + 2, "shapes come again here: new ones are compiled"

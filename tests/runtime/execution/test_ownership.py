"""What a run hands out can be written to: no later run, and no input, sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from autotune.backend import prepare
from autotune.runtime.session.session import Session
from tests.runtime.control_case import HEAD

KNOWN = "known (float[N] x) => (int64[1] y, float[N] z) { y = Shape (x) z = Relu (x) }"
BOUND = """
bound (float[N] x, int64[1] s) => (int64[1] y, float[M] z) { y = Identity (s) z = Reshape (x, s) }
"""
PASSED = """
passed (bool pick, float[N] x) => (float[N] y, float[N] w, float[2] c)
<float[2] c = {1, 2}> {
    y, w = If (pick) <
        then_branch = first () => (float[N] a, float[N] a2) { a = Identity (x) a2 = Relu (x) },
        else_branch = second () => (float[N] b, float[N] b2) { b = Neg (x) b2 = Relu (x) }
    >
}
"""
NO_TRIP = """
none (int64 trips, float[N] x) => (float[N] y, float[N] z) {
    go = Constant <value = bool {1}> ()
    start = Constant <value = float[2] {1, 2}> ()
    y, z = Loop (trips, go, x, start) <
        body = step (int64 i, bool on, float[N] s, float[N] t)
            => (bool more, float[N] s2, float[N] t2) {
            more = Identity (on) s2 = Relu (s) t2 = Relu (t)
        }
    >
}
"""
MOVED = """
moved (float[N] x, seq(float[N]) list) => (seq(float[N]) more, float[N] first) {
    more = SequenceInsert (list, x)
    zero = Constant <value = int64 {0}> ()
    first = SequenceAt (more, zero)
}
"""
PICKED = """
picked (int64 trips, float[2] h) => (float[2] last)
<float[6] table = {1, 2, 3, 4, 5, 6}, int64[1] axis = {0}, int64[1] two = {2}, bool go = {1}> {
    last = Loop (trips, go, h) <
        body = step (int64 i, bool on, float[2] state) => (bool more, float[2] row) {
            more = Identity (on)
            SOURCE
            s = Unsqueeze (i, axis)
            e = Add (s, two)
            row = Slice (source, s, e, axis)
        }
    >
}
"""
Run = Callable[[dict[str, Any]], dict[str, Any]]
X = np.asarray([1, 2, 3, 4], np.float32)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "known at import": (KNOWN, {"x": X}),
    "bound input": (BOUND, {"x": X, "s": np.asarray([4])}),
    "input and constant": (PASSED, {"pick": np.asarray(True), "x": X}),
    "loop without a trip": (NO_TRIP, {"trips": np.asarray(0), "x": X[:2]}),
    "slice of a constant in a loop": (
        PICKED.replace("SOURCE", "").replace("(source", "(table"),
        {"trips": np.asarray(3), "h": X[:2]},
    ),
    "slice of an input in a loop": (
        PICKED.replace("h) =>", "h, float[6] x) =>").replace("SOURCE", "").replace("(source", "(x"),
        {"trips": np.asarray(2), "h": X[:2], "x": np.arange(6, dtype=np.float32)},
    ),
    "slice of a slice of a constant in a loop": (
        PICKED.replace(
            "SOURCE",
            "zero = Sub (two, two) all = Mul (i, zero) source = Slice (table, all, six, axis)",
        ).replace("two = {2},", "two = {2}, int64[1] six = {6},"),
        {"trips": np.asarray(3), "h": X[:2]},
    ),
    "sequence": (MOVED, {"x": X, "list": [X + 1, X + 2]}),
}


def copied(value: Any) -> Any:
    return [copied(x) for x in value] if isinstance(value, list) else value.copy()


def arrays(value: Any) -> list[np.ndarray]:
    return [x for item in value for x in arrays(item)] if isinstance(value, list) else [value]


def written(value: Any) -> None:
    for array in arrays(value):
        array.flat = 9
    if isinstance(value, list):
        value.clear()


@contextmanager
def opened(model: onnx.ModelProto, way: str, folder: Path) -> Iterator[Run]:
    """A model as a session, or as a prepared one of the backend."""
    if way == "backend":
        prepared = prepare(model, target="cpu:1")
        yield lambda feeds: dict(zip(prepared.outputs, prepared.run(feeds), strict=True))
        return
    onnx.save(model, folder / "net.onnx")
    with Session(folder / "net.onnx", "cpu:1", folder / "store.db") as session:
        yield session.run


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["session", "backend"])
def test_outputs_that_are_written_to_change_no_other_value(
    case: str, way: str, tmp_path: Path
) -> None:
    text, given = CASES[case]
    model = onnx.parser.parse_model(f"{HEAD} {text}")
    feeds = {name: copied(value) for name, value in given.items()}
    with opened(model, way, tmp_path) as run:
        made = run(feeds)
        first = {name: copied(value) for name, value in made.items()}
        for value in made.values():
            written(value)
        second = run(feeds)
    for name, value in given.items():
        for a, b in zip(arrays(feeds[name]), arrays(value), strict=True):
            np.testing.assert_array_equal(a, b)
    for name, value in first.items():
        for a, b in zip(arrays(second[name]), arrays(value), strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_input_that_is_written_to_after_a_run_changes_no_version(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(f"{HEAD} {BOUND}"), tmp_path / "net.onnx")
    with Session(tmp_path / "net.onnx", "cpu:1", tmp_path / "store.db") as session:
        target = np.asarray([4])
        session.run({"x": X, "s": target})
        target[0] = 7
        made = session.run({"x": X, "s": np.asarray([4])})
    np.testing.assert_array_equal(made["y"], [4])

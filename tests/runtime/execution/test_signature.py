"""Inputs and outputs of sessions, and the ways to give a run its arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.errors import InputError
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.runtime.execution.signature import TensorInfo
from autotune.runtime.session.session import Session
from tests.runtime import runtime_case as case
from tests.runtime.session.test_dynamic import LAYERS, drawn, saved

FLOAT = np.dtype(np.float32)


def two_inputs() -> Session:
    b = GraphBuilder("pair")
    a, c = b.input("a", (2, 3)), b.input("b", (2, 3))
    return Session(b.build([b.add(OpKind.SUB, a, c, name="less")]), threads=1)


def test_a_session_tells_its_inputs_and_outputs() -> None:
    with Session(case.network(), threads=1) as session:
        assert session.inputs == (TensorInfo("x", (4, 12), FLOAT),)
        assert [(y.shape, y.dtype) for y in session.outputs] == [((4, 3, 4), FLOAT)]
    assert str(session.inputs[0]) == "'x' [4, 12] float32"


def test_a_dynamic_session_names_open_dimensions(tmp_path: Path) -> None:
    arrays = drawn(2, 3)
    with Session(saved(tmp_path, LAYERS), threads=1) as session:
        x = next(info for info in session.inputs if info.name == "x")
        assert x.shape == ("batch", "seq", 8) and x.dtype == FLOAT
        assert {info.name for info in session.outputs} == {"y"}
        wanted = session.run(arrays)
        by_order = session.run(*(arrays[info.name] for info in session.inputs))
        by_name = session.run(**arrays)
    for name, value in wanted.items():
        np.testing.assert_array_equal(by_order[name], value)
        np.testing.assert_array_equal(by_name[name], value)


def test_arrays_come_by_mapping_by_order_or_by_keyword() -> None:
    a, b = np.ones((2, 3), FLOAT), np.full((2, 3), 3, FLOAT)
    with two_inputs() as session:
        name = session.outputs[0].name
        for outputs in (
            session.run({"a": a, "b": b}),
            session.run(a, b),
            session.run(a, b=b),
            session.run(b=b, a=a),
            session.run({"a": a}, b=b),
        ):
            np.testing.assert_array_equal(outputs[name], a - b)


def test_too_many_arrays_and_two_for_one_input_are_refused() -> None:
    a = np.ones((2, 3), FLOAT)
    with two_inputs() as session:
        with pytest.raises(InputError, match=r"takes 2 inputs \('a' \[2, 3\] float32, .* got 3"):
            session.run(a, a, a)
        with pytest.raises(InputError, match="input 'a' is given twice"):
            session.run(a, a=a)
        with pytest.raises(InputError, match="input 'b' is missing"):
            session.run(a)

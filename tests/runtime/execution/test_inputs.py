"""Arrays that do not fit the network are refused with the tensor, what was given, what is expected."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from autotune.errors import InputError
from autotune.runtime.execution.io_adapter import as_array, checked_inputs
from autotune.runtime.execution.signature import TensorInfo, arrays_by_name
from tests.runtime import runtime_case as case

GRAPH = case.network()
GOOD = np.zeros((4, 12), np.float32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, r"input 'x' is missing; the network takes 'x' \[4, 12\]"),
        ({"x": GOOD, "y": GOOD}, r"no input 'y'; the network takes 'x' \[4, 12\]"),
        ({"x": GOOD[:2]}, r"input 'x' has shape \[2, 12\], expected \[4, 12\]"),
        ({"x": GOOD.astype(np.float64)}, r"input 'x' is float64, expected float32"),
        ({"x": GOOD.astype(">f4")}, r"input 'x' is >f4, expected float32"),
        ({"x": None}, r"input 'x' is None; give an array"),
        ({"x": [[1.0], [2.0, 3.0]]}, r"input 'x' is no array"),
        ({"x": np.ma.masked_array(GOOD, GOOD == 0)}, r"input 'x' is a masked array.*\.filled"),
    ],
)
def test_a_wrong_input_is_named_with_the_way_out(
    arrays: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        checked_inputs(GRAPH, arrays)


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_input_is_taken_before_masked_arrays_are_imported_and_meanwhile(
    has_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "numpy.ma")
    monkeypatch.delattr(np, "ma")  # numpy imports it anew when it is asked for
    if has_begun:  # by another thread
        monkeypatch.setitem(sys.modules, "numpy.ma", ModuleType("numpy.ma"))
    assert as_array("net", "x", [[1]]).tolist() == [[1]]
    assert ("numpy.ma" in sys.modules) == has_begun


def test_a_list_of_arrays_is_refused_and_one_by_one_taken() -> None:
    info = TensorInfo("x", (4, 12), np.dtype(np.float32))
    with pytest.raises(InputError, match=r"got a list of arrays; .* run\(\*arrays\)"):
        arrays_by_name("net", [info], [[GOOD]], {})
    assert arrays_by_name("net", [info], [GOOD], {})["x"] is GOOD
    sequence = TensorInfo("x", None, None)
    assert arrays_by_name("net", [sequence], [[GOOD]], {}) == {"x": [GOOD]}


def test_any_memory_layout_becomes_contiguous() -> None:
    turned = np.asfortranarray(np.arange(48, dtype=np.float32).reshape(4, 12))
    fed = checked_inputs(GRAPH, {"x": turned})["x"]
    assert fed.flags.c_contiguous
    np.testing.assert_array_equal(fed, turned)

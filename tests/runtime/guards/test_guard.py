"""A guard passes inputs of its class, and never one outside of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.input_class import CHUNK, AllEqual, Between, Equal, InputClass, Padded
from autotune.operators.op import OpKind as K
from autotune.runtime.guards.assumptions import class_of_arrays
from autotune.runtime.guards.guard import Guard

NUMBERS = st.floats(width=32)
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
ARRAYS = arrays.arrays(np.float32, (3, 2), elements=NUMBERS)


def graph(*shape: int) -> Graph:
    b = GraphBuilder("one")
    return b.build([b.add(K.TANH, b.input("x", shape or (3, 2)))])


def passes(one: InputClass, value: np.ndarray) -> bool:
    return Guard.of(graph(*value.shape), {"x": one}).passes({"x": value})


def is_of(one: InputClass, value: np.ndarray) -> bool:
    """The definition of each class, element by element."""
    for place, element in np.ndenumerate(value):
        match one:
            case AllEqual(number):
                same = element == np.float32(number)
            case Equal(whole):
                same = element.tobytes() == whole[place].tobytes()
            case Between(low, high):
                same = low <= float(element) <= high
        if not same:
            return False
    return True


@given(ARRAYS, FINITE, FINITE, ARRAYS)
def test_a_guard_never_passes_what_is_outside_of_its_class(
    value: np.ndarray, first: float, second: float, other: np.ndarray
) -> None:
    low, high = sorted((first, second))
    for one in (AllEqual(first), Between(low, high), Equal(other)):
        for candidate in (value, np.full_like(value, first), other):
            if passes(one, candidate):
                assert is_of(one, candidate)


@given(st.data())
def test_a_guard_of_padded_masks_passes_those_alone(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 5))
    numbers = st.sampled_from([0.0, 1.0, -0.0, 0.5, 2.0, -1.0, np.nan, np.inf, 1.0, 0.0])
    value = data.draw(arrays.arrays(np.float32, (2, 6), elements=numbers))
    if data.draw(st.booleans()):
        for row in value:
            row[:] = 0
            row[: data.draw(st.integers(0, 6))] = 1
    right = all(
        row[0] == 1 and not any(row[length:]) and all(0 <= one <= 1 for one in row) for row in value
    )
    assert passes(Padded(length), value) == right


@given(ARRAYS, FINITE, FINITE)
def test_what_a_class_draws_passes_its_guard(
    value: np.ndarray, first: float, second: float
) -> None:
    low, high = sorted((first, second))
    numbers = np.nan_to_num(value)
    for one in (AllEqual(first), Between(low, high), Equal(numbers)):
        assert passes(one, np.ascontiguousarray(one.draw(numbers), np.float32))


@pytest.mark.parametrize("place", [0, CHUNK - 1, CHUNK, 2 * CHUNK + 4])
@pytest.mark.parametrize("element", [0.0, np.nan, np.inf, np.nextafter(np.float32(1), 0)])
def test_large_inputs_are_checked_to_their_last_element(place: int, element: float) -> None:
    value = np.ones(2 * CHUNK + 5, np.float32)
    classes = (AllEqual(1.0), Equal(value), Between(1.0, 1.0))
    assert all(passes(one, value) for one in classes)
    value = value.copy()
    value[place] = element
    assert not any(passes(one, value) for one in classes)


def test_a_negative_zero_is_not_the_zero_that_was_bound() -> None:
    value = np.array([0.0, -0.0], np.float32)
    assert not passes(AllEqual(0.0), value)
    assert not passes(Equal(np.zeros(2)), value)
    assert passes(Between(0.0, 0.0), value)


@given(st.lists(ARRAYS, min_size=1, max_size=3))
def test_an_inferred_class_holds_all_its_examples(values: list[np.ndarray]) -> None:
    one = class_of_arrays(values)
    if one is not None:
        assert all(passes(one, value) for value in values)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([np.ones(3, np.int64)], "all 1"),
        ([np.zeros(3), np.zeros(2)], "all 0"),
        ([np.array([0.25, 0.5])], "0 to 1"),
        ([np.array([0.25, 0.5]), np.array([-0.5, 0.5])], "-1 to 1"),
        ([np.array([0.25, 200.0])], "0 to 255"),
        ([np.array([0.25, 300.0])], "0 to inf"),
        ([np.array([True, True])], "all 1"),
    ],
)
def test_usual_classes_are_found(values: list[np.ndarray], text: str) -> None:
    found = class_of_arrays(values)
    assert found is not None
    assert found.text == text


@pytest.mark.parametrize(
    "value", [np.array([-5.0, 3.0]), np.array([1, 2]), np.array([np.nan, 0.5]), np.zeros((0,))]
)
def test_unusual_arrays_are_of_no_class(value: np.ndarray) -> None:
    assert class_of_arrays([value]) is None

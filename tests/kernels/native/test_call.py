"""A call runs a plan on arrays by name. It makes the outputs, and declines inputs that need conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from autotune.errors import InputError
from autotune.kernels.native.executor import Call, Plan, ThreadPool
from autotune.targets.native.running.run_memory import OneBlock
from tests.kernels.native.step_tables import Number, Operand, Tables

ONE = ThreadPool(1)
POINTERS = [(0, 0), *((i, 0) for i in range(4))]
"""The table that makes base b + 1 pointer b: the memory, inputs a and b, the output."""
SHAPES = {"a": (2, 3), "b": ()}


def logging_plan(bases: tuple[int, ...]) -> Plan:
    """A plan that writes to the memory where the tensors of these bases lie."""
    tables = Tables()
    tables.record([Operand(base, 0) for base in bases], [Number(7)])
    return Plan([([tables.stream()], POINTERS), ([tables.stream()], POINTERS)], ONE)


class Case:
    """A call whose memory is the log of what its kernels are given."""

    def __init__(self, maker: Callable[[], np.ndarray] | None = None) -> None:
        self.memory = np.zeros(512, np.float32)
        self.log = self.memory.view(np.int64)
        self.log[0] = 1
        outputs = [("out", (4, 2), maker)]
        self.call = Call(logging_plan((2, 3, 4)), OneBlock(self.memory), SHAPES.items(), outputs)

    @property
    def logged(self) -> list[int]:
        """What the kernels were given so far."""
        return [int(x) for x in self.log[1 : self.log[0]]]


def drawn() -> dict[str, np.ndarray]:
    return {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}


def test_kernels_find_the_inputs_and_a_new_output_of_the_right_shape() -> None:
    case, inputs = Case(), drawn()
    done = case.call.run(inputs)
    assert done is not None
    outputs, nanoseconds = done
    assert list(outputs) == ["out"]
    assert outputs["out"].shape == (4, 2) and outputs["out"].dtype == np.float32
    places = [inputs["a"].ctypes.data, inputs["b"].ctypes.data, outputs["out"].ctypes.data]
    assert case.logged == [*places, 7] * 2
    assert nanoseconds.dtype == np.int64 and nanoseconds.shape == (2,)
    assert (nanoseconds >= 0).all()


def test_a_maker_gives_the_output_and_the_order_of_inputs_does_not_matter() -> None:
    made = np.zeros((4, 2), np.float32)
    case, inputs = Case(lambda: made), drawn()
    done = case.call.run(dict(reversed(inputs.items())))
    assert done is not None and done[0]["out"] is made
    assert case.logged[:2] == [inputs["a"].ctypes.data, inputs["b"].ctypes.data]


class Derived(np.ndarray):
    """An array of another class, which may mean something else by its elements."""


OTHER_INPUTS: dict[str, Callable[[dict[str, np.ndarray]], object]] = {
    "no mapping": lambda given: list(given.values()),
    "missing": lambda given: {"a": given["a"]},
    "unknown": lambda given: {**given, "c": given["a"]},
    "misnamed": lambda given: {"a": given["a"], "c": given["b"]},
    "shape": lambda given: {**given, "a": np.ones((3, 2), np.float32)},
    "rank": lambda given: {**given, "a": np.ones(6, np.float32)},
    "scalar": lambda given: {**given, "b": np.ones(1, np.float32)},
    "float64": lambda given: {**given, "a": np.ones((2, 3))},
    "int32": lambda given: {**given, "a": np.ones((2, 3), np.int32)},
    "big-endian": lambda given: {**given, "a": np.ones((2, 3), ">f4")},
    "strided": lambda given: {**given, "a": np.ones((2, 6), np.float32)[:, ::2]},
    "transposed": lambda given: {**given, "a": np.ones((3, 2), np.float32).T},
    "derived": lambda given: {**given, "a": given["a"].view(Derived)},
    "masked": lambda given: {**given, "a": np.ma.masked_less(given["a"], 0)},
    "list": lambda given: {**given, "a": given["a"].tolist()},
    "None": lambda given: {**given, "a": None},
}


@pytest.mark.parametrize("kind", OTHER_INPUTS)
def test_inputs_that_need_conversion_or_an_error_run_nothing(kind: str) -> None:
    case = Case()
    assert case.call.run(OTHER_INPUTS[kind](drawn())) is None
    assert case.logged == []


def test_a_mapping_that_is_no_dict_is_left_to_others() -> None:
    class Lazy(dict[str, np.ndarray]):
        """Finds its values when they are asked for."""

    case, lazy = Case(), Lazy(drawn())
    assert isinstance(lazy, Mapping) and case.call.run(lazy) is None


def test_a_plan_with_more_pointers_than_tensors_is_refused() -> None:
    memory = np.zeros(64, np.float32)
    with pytest.raises(InputError, match="2 tensors are given; the plan has 4 pointers"):
        Call(logging_plan((2, 3, 4)), OneBlock(memory), [("a", (1,))], [])


def test_a_plan_that_dispatches_is_refused() -> None:
    tables = Tables()
    tables.case(3, 0, 4)
    tables.record([], [])
    tables.end()
    plan = Plan([([tables.stream()], POINTERS)], ONE)
    with pytest.raises(InputError, match="runtime parameters"):
        Call(plan, OneBlock(np.zeros(64, np.float32)), SHAPES.items(), [("out", (1,), None)])

"""A plan is tried on several recorded inputs: one that is right on some of them is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.operators.tensor import Array
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.runtime.online.trial import compare, distinct
from tests.runtime import runtime_case as case

POSITIVE = {"x": np.arange(1, 17, dtype=np.float32).reshape(4, 4)}
NEGATIVE = {"x": -POSITIVE["x"]}


def table(kind: OpKind) -> ProgramTable:
    b = GraphBuilder("bent")
    graph = b.build([b.add(kind, b.input("x", (4, 4)), name="bend", output="y")])
    return compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())


@pytest.mark.parametrize(
    ("cases", "runs", "agrees"),
    [([POSITIVE], 1, True), ([POSITIVE, NEGATIVE], 2, False), ([NEGATIVE, POSITIVE], 1, False)],
)
def test_numbers_are_compared_on_every_input_until_some_differ(
    cases: list[dict[str, Array]], runs: int, agrees: bool
) -> None:
    found = compare(table(OpKind.RELU), table(OpKind.ABS), case.InterpretedTarget(), cases)
    assert found.agrees == agrees and found.largest_difference == (0.0 if agrees else 16.0)
    assert len(found.current) == len(found.proposed) == runs
    assert all(trace.cycles > 0 for trace in (*found.current, *found.proposed))


def test_equal_inputs_are_run_once() -> None:
    copies = [{"x": POSITIVE["x"].copy()} for _ in range(3)]
    assert distinct([copies[0], NEGATIVE, *copies[1:]]) == [NEGATIVE, copies[2]]
    assert distinct([]) == []

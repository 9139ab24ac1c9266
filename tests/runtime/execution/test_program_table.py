"""Program tables compute what the reference computes, in a legal order, and forget what is dead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import PlanError, ScheduleError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.operators.op import OpKind
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import GroupStep, ViewStep, compile_table
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.tuner.choice import Choice
from tests.drawn_graphs import graphs
from tests.runtime import runtime_case as case


@settings(max_examples=40)
@given(st.data())
def test_any_partition_of_any_graph_equals_the_reference(data: st.DataObject) -> None:
    graph = DeadNodes().run(data.draw(graphs())).graph
    table = compile_table(graph, case.drawn_choices(graph, data), case.SPEC, ProgramCache())
    feeds = case.inputs(graph)
    outputs, trace = execute(table, case.InterpretedTarget(), feeds)
    for name, value in evaluate(graph, feeds).items():
        assert outputs[name].shape == value.shape
        scale = np.abs(value).max() + 1e-3
        np.testing.assert_allclose(outputs[name], value, rtol=1e-3, atol=1e-4 * scale)
    assert len(trace.groups) == len(table.group_steps)
    assert trace.cycles == sum(run.execution.cycles for run in trace.groups)


def test_groups_given_in_any_order_run_in_dependency_order() -> None:
    graph = case.network()
    table = compile_table(graph, case.choices(graph)[::-1], case.SPEC, ProgramCache())
    known = set(graph.inputs) | set(graph.constants)
    for step in table.steps:
        assert set(step.group.inputs) <= known
        known.update(step.group.outputs)


def test_every_intermediate_is_released_after_its_last_reader() -> None:
    graph = case.network()
    table = compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())
    released = [x for step in table.steps for x in step.releases]
    kept = set(graph.outputs) | set(graph.constants)
    assert sorted(released) == sorted({*graph.inputs, *(op.output for op in graph.ops)} - kept)
    for index, step in enumerate(table.steps):
        for later in table.steps[index + 1 :]:
            assert not set(step.releases) & set(later.group.inputs)


def test_reshapes_are_views_that_cost_nothing() -> None:
    graph = case.network()
    table = compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())
    views = [step for step in table.steps if isinstance(step, ViewStep)]
    assert [op.name for step in views for op in step.group.ops] == ["split"]
    _, trace = execute(table, case.InterpretedTarget(), case.inputs(graph))
    assert all("split" not in run.step.operators for run in trace.groups)


def twins() -> Graph:
    """The same operator on the same shapes, twice."""
    b = GraphBuilder("twins")
    y = b.add(OpKind.TANH, b.input("x", (8, 8)), name="one")
    return b.build([b.add(OpKind.TANH, y, name="two")])


def test_equal_groups_share_one_program() -> None:
    graph = twins()
    table = compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())
    one, two = table.group_steps
    assert one.program is two.program
    feeds = case.inputs(graph)
    outputs, _ = execute(table, case.InterpretedTarget(), feeds)
    np.testing.assert_allclose(*outputs.values(), np.tanh(np.tanh(feeds["x"])), rtol=1e-5)


def test_outputs_never_share_memory_with_inputs_or_constants() -> None:
    b = GraphBuilder("renamed")
    x = b.input("x", (4, 6))
    graph = b.build([b.add(OpKind.RESHAPE, x, shape=(24,)), b.add(OpKind.RELU, x)])
    table = compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())
    feeds = case.inputs(graph)
    outputs, _ = execute(table, case.InterpretedTarget(), feeds)
    assert not any(np.shares_memory(value, feeds["x"]) for value in outputs.values())
    np.testing.assert_array_equal(outputs[graph.outputs[0]], feeds["x"].ravel())


def test_a_partition_that_misses_or_repeats_operators_is_refused() -> None:
    graph = case.network()
    parts = case.choices(graph)
    with pytest.raises(PlanError, match="missing: product"):
        compile_table(graph, parts[1:], case.SPEC, ProgramCache())
    with pytest.raises(PlanError, match="product stands in two groups"):
        compile_table(graph, [*parts, parts[0]], case.SPEC, ProgramCache())


def test_groups_that_wait_for_each_other_are_refused() -> None:
    b = GraphBuilder("knot")
    x = b.input("x", (4, 4))
    one = b.add(OpKind.RELU, x, name="one")
    two = b.add(OpKind.TANH, one, name="two")
    graph = b.build([b.add(OpKind.ADD, one, two, name="three")])
    outer, inner = Group.from_graph(graph, ["one", "three"]), Group.from_graph(graph, ["two"])
    with pytest.raises(PlanError, match="circle"):
        compile_table(
            graph,
            [Choice(g, case.schedule_of(g)) for g in (outer, inner)],
            case.SPEC,
            ProgramCache(),
        )


def test_an_illegal_schedule_names_the_operators_and_the_limit() -> None:
    graph = twins()
    group = Group.from_graph(graph, ["one"])
    wrong = Choice(group, Schedule((NestSchedule((9, 8), (0, 1), ()),)))
    with pytest.raises(ScheduleError, match=r"one.*9 > extent 8"):
        compile_table(graph, [wrong, *case.choices(graph)[1:]], case.SPEC, ProgramCache())


def test_a_group_with_work_needs_a_schedule() -> None:
    with pytest.raises(PlanError, match="no schedule"):
        Choice(Group.from_graph(twins(), ["one"]), None)


def test_the_error_of_a_run_weighs_groups_by_their_cycles() -> None:
    graph = case.network()
    table = compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())
    target, feeds = case.InterpretedTarget(), case.inputs(graph)
    _, trace = execute(table, target, feeds)
    assert trace.error is None and table.predicted_cycles is None
    actual = {step.key: float(target.time(step.program).cycles) for step in table.group_steps}
    exact = table.with_predictions(actual, 1)
    assert execute(exact, target, feeds)[1].error == 0
    high = table.with_predictions({key: 1.5 * cycles for key, cycles in actual.items()}, 2)
    _, trace = execute(high, target, feeds)
    assert trace.error == pytest.approx(0.5)
    assert trace.model_version == 2
    assert all(isinstance(step, (GroupStep, ViewStep)) for step in high.steps)

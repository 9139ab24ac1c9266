"""Programs joined by dispatch compute what each of them does, on both engines, and are verified like any other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from autotune.errors import ProgramError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.isa.verifier.proof import verify
from autotune.lowering.dispatch import PARAMETER, Dispatching, join
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.targets.opening import target
from autotune.tuner.heuristic_plan import heuristic_schedule
from tests.lowering.lowering_case import block_program

TARGETS = ("edge", "server", "cpu:1")


def rows(tokens: int) -> Graph:
    """Two products and a softmax over some rows of a sequence."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("rows")
    x = b.input("x", (tokens, 24))
    y = b.add(K.MATMUL, x, b.constant(rng.standard_normal((24, 40)).astype(np.float32), name="w"))
    y = b.add(K.SOFTMAX, b.add(K.RELU, y), axis=-1)
    return b.build([y])


def program_of(graph: Graph, machine: str) -> tuple[Program, Mapping[str, np.ndarray]]:
    """A graph as one program, and arrays for its tensors."""
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = heuristic_schedule(group, target(machine).spec)
    assert schedule is not None
    program = lower(group, schedule, target(machine).spec)
    rng = np.random.default_rng(1)
    given = {
        one.name: rng.standard_normal(one.shape).astype(np.float32)
        for one in program.tensors
        if one.role is not Role.OUTPUT
    }
    return program, given


def fed(joined: Dispatching, place: int, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of one of the programs; zeros for the others' tensors."""
    arrays = {
        one.name: np.zeros(one.shape, np.float32)
        for one in joined.program.tensors
        if one.role is not Role.OUTPUT
    }
    return arrays | {joined.names[place][name]: value for name, value in given.items()}


@pytest.mark.parametrize("machine", TARGETS)
def test_each_value_of_the_parameter_runs_its_program(machine: str) -> None:
    engine = target(machine)
    parts = [program_of(rows(tokens), machine) for tokens in (32, 12, 5)]
    joined = join([program for program, _ in parts])
    verify(joined.program, engine.spec.scratchpad_elements)
    for place, (program, given) in enumerate(parts):
        wanted = engine.run(program, given)[1]
        cost, made = engine.run(joined.program, fed(joined, place, given), {PARAMETER: place})
        for name, value in wanted.items():
            np.testing.assert_array_equal(made[joined.names[place][name]], value)
        assert cost.cycles > 0


@pytest.mark.parametrize("machine", ["edge", "server"])
def test_dispatch_costs_next_to_nothing(machine: str) -> None:
    engine = target(machine)
    parts = [program_of(rows(tokens), machine) for tokens in (32, 12)]
    joined = join([program for program, _ in parts])
    for place, (program, _) in enumerate(parts):
        alone = engine.time(program).cycles
        assert alone <= engine.time(joined.program, {PARAMETER: place}).cycles <= alone + 32


def test_a_value_that_no_program_has_runs_none() -> None:
    engine = target("edge")
    program, given = program_of(rows(8), "edge")
    joined = join([program, program])
    made = engine.run(joined.program, fed(joined, 0, given), {PARAMETER: 7})[1]
    assert all(np.isnan(value).all() for value in made.values())


def test_equal_tensors_are_shared_and_others_renamed() -> None:
    (long, _), (short, _) = (program_of(rows(tokens), "edge") for tokens in (32, 12))
    joined = join([long, short])
    assert len(joined.program.tensors) < len(long.tensors) + len(short.tensors)
    shapes = {one.name: one.shape for one in joined.program.tensors}
    for names, program in zip(joined.names, (long, short), strict=True):
        assert {shapes[names[one.name]] for one in program.tensors} == {
            one.shape for one in program.tensors
        }


def test_several_cores_dispatch_each_for_itself() -> None:
    program = block_program()
    joined = join([program, program]).program
    assert len(joined.streams) == len(program.streams)
    for stream in joined.streams:
        assert sum(one.opcode is Opcode.CASE for one in stream) == 2
        assert stream[-1].opcode is Opcode.HALT


def test_more_semaphores_than_there_are_is_refused() -> None:
    program, _ = program_of(rows(32), "edge")
    used = max(one.get("wait0") for stream in program.streams for one in stream)
    with pytest.raises(ProgramError, match="semaphores together"):
        join([program] * (256 // max(1, used) + 1))

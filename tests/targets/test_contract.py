"""The contract that every target keeps: numbers, costs, and what it refuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autotune.errors import AutotuneError, ProgramError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.targets.opening import target
from autotune.targets.protocol import Target
from autotune.tuner.heuristic_plan import heuristic_schedule
from tests.drawn_graphs import array

TARGETS = ("edge", "server", "tpuv1-like", "cpu:1", "cpu:2")


def network() -> Graph:
    b = GraphBuilder("dense")
    product = b.add(K.MATMUL, b.input("x", (8, 16)), b.constant(array(16, 24)))
    return b.build([b.add(K.RELU, b.add(K.ADD, product, b.constant(array(24))))])


GRAPH = network()
X = np.random.default_rng(2).standard_normal((8, 16)).astype(np.float32)
FED = {"x": X, **GRAPH.constants}


def program_for(machine: Target) -> Program:
    group = Group.from_graph(GRAPH, [op.name for op in GRAPH.ops])
    schedule = heuristic_schedule(group, machine.spec)
    assert schedule is not None
    return lower(group, schedule, machine.spec)


@pytest.fixture(scope="module", params=TARGETS)
def machine(request: pytest.FixtureRequest) -> Target:
    return target(request.param)


class TestContract:
    def test_it_computes_what_the_reference_computes(self, machine: Target) -> None:
        _, found = machine.run(program_for(machine), FED)
        (wanted,) = evaluate(GRAPH, {"x": X}).values()
        np.testing.assert_allclose(found[GRAPH.outputs[0]], wanted, rtol=1e-4, atol=1e-5)

    def test_timing_gives_a_positive_cost_with_the_counters_of_a_run(self, machine: Target) -> None:
        program = program_for(machine)
        timed, (run, _) = machine.time(program), machine.run(program, FED)
        assert timed.cycles > 0 and timed.energy_fj >= 0 and timed.dram_bytes >= 0
        assert all(type(value) is int for value in timed.counters.values())
        assert run.cycles > 0 and set(run.counters) <= set(timed.counters)

    def test_an_illegal_program_never_runs(self, machine: Target) -> None:
        program = program_for(machine)
        endless = Program(
            "endless", program.tensors, ((Instruction.make(Opcode.WAIT),),), ((),), 64
        )
        for call in (lambda: machine.time(endless), lambda: machine.run(endless, FED)):
            with pytest.raises(ProgramError):
                call()

    def test_a_missing_tensor_is_named(self, machine: Target) -> None:
        given = {name: array for name, array in FED.items() if name != "x"}
        with pytest.raises(AutotuneError, match="x"):
            machine.run(program_for(machine), given)

    def test_it_is_named_as_it_is_opened_and_knows_its_machine(self, machine: Target) -> None:
        assert target(machine.name).spec.profile_id == machine.spec.profile_id

    def test_threads_may_share_it(self, machine: Target) -> None:
        program = program_for(machine)
        _, alone = machine.run(program, FED)
        with ThreadPoolExecutor(4) as pool:
            outputs = [done for _, done in pool.map(lambda _: machine.run(program, FED), range(8))]
        for output in outputs:
            np.testing.assert_array_equal(output[GRAPH.outputs[0]], alone[GRAPH.outputs[0]])

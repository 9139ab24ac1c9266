"""Plans built on one core and on several are equal; killed builds go on; groups that exceed limits are split."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from autotune.api import search
from autotune.errors import AutotuneError, InputError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.codec import encode
from autotune.isa.program import Program
from autotune.lowering import lower as lowering
from autotune.operators.op import OpKind
from autotune.runtime.builder import limits as limits_module
from autotune.runtime.builder import plan_build
from autotune.runtime.builder.criteria import fusion_criteria
from autotune.runtime.builder.limits import BuildLimits, MemoryExceeded
from autotune.runtime.builder.plan_build import Built, build_plan
from autotune.runtime.builder.program_binding import bind_programs
from autotune.runtime.builder.scheduler import Scheduler
from autotune.runtime.builder.task import Load, Stage
from autotune.runtime.caches import table_cache
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.session.session import Session
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_on
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.opening import target
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.runtime import runtime_case as case

GRAPH = case.network()
LOWER = lowering.lower


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(limits_module, "core_count", lambda: 4)
    return tmp_path / "home"


def joined() -> Graph:
    """Two branches that meet in a concatenation, which the native engine aliases."""
    rng = np.random.default_rng(3)
    b = GraphBuilder("joined")
    x = b.input("x", (8, 16))
    branches = []
    for width in (16, 32):
        weights = b.constant(rng.standard_normal((16, width)).astype(np.float32))
        branches.append(b.add(OpKind.TANH, b.add(OpKind.MATMUL, x, weights)))
    return b.build([b.add(OpKind.EXP, b.add(OpKind.CONCAT, *branches, axis=1))])


def built(graph: Graph, machine: Target, cores: int, memory: int | None = None) -> Built:
    choices = heuristic_choices(graph, machine.spec)
    limits = BuildLimits(cores, memory)
    return build_plan(graph, choices, machine, ProgramCache(), limits)


@pytest.mark.parametrize("graph", [GRAPH, joined()], ids=lambda g: g.name)
@pytest.mark.parametrize("machine", ["cpu:1", "edge"])
def test_one_core_and_four_build_the_same(graph: Graph, machine: str) -> None:
    on = target(machine)
    one, four = built(graph, on, 1), built(graph, on, 4)
    fed = case.inputs(graph)
    wanted = execute(one.table, on, fed)[0]
    for name, value in execute(four.table, on, fed)[0].items():
        np.testing.assert_array_equal(value, wanted[name])
        np.testing.assert_allclose(value, evaluate(graph, fed)[name], rtol=1e-3, atol=1e-5)
    codes = [[encode(s.program) for s in x.table.group_steps] for x in (one, four)]
    assert codes[0] == codes[1]
    if machine == "cpu:1":
        kept = [table_cache._read(table_cache._written(x.draft)) for x in (one, four) if x.draft]
        assert kept[0] == kept[1] and kept[0] is not None


def test_groups_are_lowered_by_what_they_pay() -> None:
    machine = target("edge")
    found = built(GRAPH, machine, 1)
    pays = [run.payoff_seconds for run in found.trace.lowered]
    assert pays == sorted(pays, reverse=True) and pays[0] > 0
    told = fusion_criteria(found.table, machine.spec, found.trace)
    assert told[0].order == 0 and told[0].payoff.seconds == pays[0]
    for one in told:
        assert len(one.operators) > 1 and one.payoff.saved_bytes > 0
        assert one.payoff.overlap_seconds >= 0 and one.beside < len(found.table.group_steps)


def test_independent_branches_are_told_as_parallelism_left() -> None:
    machine = target("edge")
    found = built(joined(), machine, 1)
    beside = [one.beside for one in fusion_criteria(found.table, machine.spec, found.trace)]
    assert sorted(beside)[-2:] == [1, 1], "either branch may run beside the other"


@pytest.mark.parametrize("machine", ["cpu:1", "edge"])
def test_a_group_that_fails_is_split_while_the_others_go_on(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = list[str]()

    def lower(group: Group, schedule: Schedule, spec: HardwareSpec) -> Program:
        if len(group.ops) > 1 and (not failed or group.key == failed[0]):
            failed.append(group.key)
            raise AutotuneError("scratchpad: 2048 of 1024 bytes")
        return LOWER(group, schedule, spec)

    monkeypatch.setattr(lowering, "lower", lower)
    on = target(machine)
    found = built(GRAPH, on, 2)
    assert len(found.table.split) == 1 and "2048 of 1024" in found.table.split[0].reason
    lowered = [run.name for run in found.trace.lowered]
    assert len(lowered) == len(set(lowered)), "no group is built anew"
    for name, value in execute(found.table, on, case.inputs(GRAPH))[0].items():
        wanted = evaluate(GRAPH, case.inputs(GRAPH))[name]
        np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-5)


def slowest(choice: Choice, machine: Target) -> Choice:
    """The group by the slowest of some schedules."""
    nests = analyse(choice.group)
    assert not isinstance(nests, Rejection) and len(nests) == 1
    drawn = enumerate_on(nests[0], machine.spec, 64, np.random.default_rng(0))
    schedules = [Schedule((drawn.row(at),)) for at in range(len(drawn))]
    times = [machine.time(LOWER(choice.group, one, machine.spec)).cycles for one in schedules]
    return replace(choice, schedule=schedules[int(np.argmax(times))])


@pytest.mark.parametrize("cores", [1, 4])
def test_a_fusion_that_is_measured_not_to_pay_is_split_while_the_plan_is_built(cores: int) -> None:
    """One group gets a bad schedule: it alone goes, and what is measured is what its programs take."""
    on = target("edge")
    plan = heuristic_choices(GRAPH, on.spec)
    plain = build_plan(GRAPH, plan, on, ProgramCache(), BuildLimits(cores), tries=True)
    fused = [choice for choice in plan if len(choice.group.ops) > 1]
    assert not plain.table.split and len(plain.trials) == len({c.group.key for c in fused})
    bad = slowest(fused[0], on)
    given = [bad if choice is fused[0] else choice for choice in plan]
    found = build_plan(GRAPH, given, on, ProgramCache(), BuildLimits(cores), tries=True)
    trial = found.trials[bad.group.key, bad.schedule]
    assert trial.fused_cycles > trial.apart_cycles
    assert [one.operators for one in found.table.split] == [tuple(op.name for op in bad.group.ops)]
    assert found.table.split[0].reason == trial.reason

    def cycles(one: Built, names: Iterable[str]) -> int:
        steps = [s for s in one.table.group_steps if set(s.operators) <= set(names)]
        return sum(on.time(step.program).cycles for step in steps)

    assert cycles(found, [op.name for op in bad.group.ops]) == trial.apart_cycles
    others = {name for s in plain.table.group_steps for name in s.operators}
    others -= {op.name for op in bad.group.ops}
    assert cycles(found, others) == cycles(plain, others)
    stages = found.trace.stages
    assert stages[Stage.MEASURE].tasks == stages[Stage.LOWER].tasks
    assert Stage.MEASURE.load is Load.COMPUTE
    outputs = execute(found.table, on, case.inputs(GRAPH))[0]
    for name, value in evaluate(GRAPH, case.inputs(GRAPH)).items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-3, atol=1e-5)


def test_trials_go_on_where_a_group_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(group: Group, schedule: Schedule, spec: HardwareSpec) -> Program:
        if len(group.ops) > 1:
            raise AutotuneError("scratchpad: 2048 of 1024 bytes")
        return LOWER(group, schedule, spec)

    monkeypatch.setattr(lowering, "lower", lower)
    on = target("edge")
    plan = heuristic_choices(GRAPH, on.spec)
    found = build_plan(GRAPH, plan, on, ProgramCache(), BuildLimits(2), tries=True)
    assert len(found.table.split) == sum(len(choice.group.ops) > 1 for choice in plan)
    assert not found.trials


def test_a_timed_machine_refuses_trials_in_one_line() -> None:
    on = target("cpu:1")
    with pytest.raises(InputError, match="'autotune run PLAN --profile' times its groups"):
        build_plan(GRAPH, heuristic_choices(GRAPH, on.spec), on, ProgramCache(), tries=True)


def test_a_group_that_exceeds_the_memory_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    on = target("edge")
    plan = heuristic_choices(GRAPH, on.spec)
    most = max(len(choice.group.ops) for choice in plan)
    alone = partial(Scheduler, resident=lambda: 0)
    monkeypatch.setattr(plan_build, "Scheduler", alone)
    memory = plan_build.OPERATOR_BYTES * (most - 1)
    found = build_plan(GRAPH, plan, on, ProgramCache(), BuildLimits(2, memory))
    assert found.trace.divided and found.trace.reserved_bytes <= memory
    assert found.table.split and "needs" in found.table.split[0].reason
    for name, value in execute(found.table, on, case.inputs(GRAPH))[0].items():
        wanted = evaluate(GRAPH, case.inputs(GRAPH))[name]
        np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-5)


def test_a_session_tells_its_build_and_refuses_one_beyond_its_memory() -> None:
    with Session(GRAPH, "cpu:1", cores=1) as session:
        (build,) = session.status().builds
        assert build.threads == 1 and build.stages[Stage.LOWER].tasks
        json.dumps(session.status().to_json())
    with pytest.raises(AutotuneError, match="allow at least"):
        Session(GRAPH, "cpu:1", memory="1MB")


def test_an_error_in_a_kernel_is_the_error_of_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: NativeTarget, kernel: object) -> None:
        raise RuntimeError("LLVM is out of order")

    def missing(self: NativeTarget, program: object) -> Iterable[object]:
        return program.sources  # type: ignore[attr-defined]

    monkeypatch.setattr(NativeTarget, "generate", broken)
    monkeypatch.setattr(NativeTarget, "missing_code", missing)
    with pytest.raises(RuntimeError, match="out of order"):
        Session(GRAPH, "cpu:1", cores=4)


CHILD = """
import json, os, signal, sys
from autotune.targets.native.compiling.compiler import Compiler
from autotune.runtime.session.session import Session
from tests.runtime import runtime_case as case

left, generate = int(sys.argv[1]), Compiler.generate

def counted(self, kernel):
    global left
    generate(self, kernel)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

Compiler.generate = counted
graph = case.network()
with Session(graph, "cpu:1", cores=2) as session:
    outputs = session.run(case.inputs(graph))
    told = session.status()
    kernels = told.builds[0].stages.get("generate")
    from autotune.runtime.caches.program_files import shared_programs
    print(json.dumps({
        "kernels": kernels.tasks if kernels else 0,
        "programs": shared_programs().figures.loads,
        "sums": {name: value.tobytes().hex() for name, value in outputs.items()},
    }))
"""


def child(kill_after: int) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", CHILD, str(kill_after)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_build_that_was_killed_goes_on_where_it_stood(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = child(2)
    assert killed.returncode == -9, killed.stderr
    resumed = json.loads(child(0).stdout)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "cold"))
    whole = json.loads(child(0).stdout)
    assert resumed["kernels"] <= whole["kernels"] - 2
    assert resumed["programs"] > 0 and whole["programs"] == 0
    assert resumed["sums"] == whole["sums"]


def test_programs_of_a_search_are_bound_as_one_by_one() -> None:
    machine = target("cpu", 1)
    assert isinstance(machine, NativeTarget)
    choices = heuristic_choices(joined(), machine.spec)
    programs = [LOWER(c.group, c.schedule, machine.spec) for c in choices if c.schedule]
    wanted = [machine.bound(program) for program in programs]
    assert list(bind_programs(machine, BuildLimits(4), programs)) == wanted
    assert not [x for one in wanted for x in machine.missing_code(one)]
    with pytest.raises(MemoryExceeded, match="allow at least"):
        bind_programs(machine, BuildLimits(1, 1 << 20), programs)


def test_a_search_of_an_emulated_machine_takes_no_limits_of_builds() -> None:
    with pytest.raises(InputError, match="leave them out"):
        search("mlp", "edge", cores=1)

"""One arena holds a plan's intermediates, within 5 % of what lives at once, on every network."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import api
from autotune.datasets import NETWORKS
from autotune.datasets.decoder import gpt2_step
from autotune.frontend.importing import translate
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.passes import simplify
from autotune.operators.op import OpKind as K
from autotune.runtime.execution.memory_plan import MemoryPlan, memory_plan
from autotune.runtime.execution.native_table import link_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.runtime.online.program_room import arenas_bytes
from autotune.runtime.session.session import Session
from autotune.targets.native.running.run_memory import OneBlock
from autotune.targets.opening import target as open_target
from autotune.tuner.heuristic_plan import heuristic_choices

SPEC = open_target("server").spec
QUICK = (
    "light_squeezenet",
    "light_shufflenet",
    "transformer_block",
    "mlp",
    "lstm",
    "gru",
    "yolo_head",
)
HUGE = "gpt2_step"
"""Half a gigabyte of weights; its layers are all alike, and a few stand for them."""


def ruled(graph) -> ProgramTable:
    return compile_table(graph, heuristic_choices(graph, SPEC), SPEC, ProgramCache())


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS if n != HUGE],
)
def test_the_arena_is_within_5_percent_of_what_lives_at_once(name: str) -> None:
    plan = memory_plan(ruled(api.load_network(name, layout=SPEC.layout)))
    assert 0 <= plan.excess <= 0.05
    assert plan.bound_bytes <= plan.arena_bytes <= max(plan.intermediate_bytes, 1)


@pytest.mark.slow
def test_a_decoder_steps_arena_is_within_5_percent_of_what_lives_at_once() -> None:
    graph = simplify(translate(gpt2_step(layers=2, vocabulary=1000), HUGE, {})).graph
    assert 0 <= memory_plan(ruled(graph)).excess <= 0.05


def chain(length: int) -> ProgramTable:
    """Operators that no group takes together: every second one wants other rows whole."""
    b = GraphBuilder("chain")
    x = b.input("x", (64, 64))
    for index in range(length):
        x = b.add(K.SOFTMAX, x, axis=index % 2)
    return ruled(b.build([x]))


def test_a_chain_of_programs_takes_the_place_of_two_tensors() -> None:
    table = chain(9)
    assert len(table.group_steps) == 9
    plan = memory_plan(table)
    assert plan == MemoryPlan(0, 16384, 16384, 2 * 16384, 2 * 16384, 8 * 16384)


def test_the_native_engine_runs_in_the_arena_that_is_reported() -> None:
    target = open_target("cpu")
    graph = api.load_network("transformer_block", layout=target.spec.layout)
    choices = heuristic_choices(graph, target.spec)
    native = link_table(compile_table(graph, choices, target.spec, ProgramCache()), target)
    assert native.executable is not None
    memory = native.executable._memory.take()
    memory.fill(np.nan)
    native.executable._memory.give(memory)
    rng = np.random.default_rng(0)
    feeds = {x: rng.standard_normal(graph.shape(x), dtype=np.float32) for x in graph.inputs}
    got = native.executable.run(feeds)
    for name, wanted in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-4, atol=1e-5)
    (used,) = np.nonzero(~np.isnan(memory))
    reach = 4 * (used[-1] - used[0] + 1)
    assert 0.8 * memory_plan(native).arena_bytes < reach <= memory_plan(native).arena_bytes


def test_a_session_tells_an_arena_for_each_run_at_once() -> None:
    """Blocks of callers who met stay, and count."""
    session = Session("mlp", target="cpu:1")
    executable = session.table.executable
    assert executable is not None
    one, before = session.status().memory.arena_bytes, arenas_bytes(session.table)
    assert one == memory_plan(session.table).arena_bytes == executable.memory_bytes > 0
    memory = executable._memory
    if isinstance(memory, OneBlock):
        pytest.skip("a machine of one core runs one caller at a time")
    blocks = [memory.take(), memory.take()]
    for block in blocks:
        memory.give(block)
    assert session.status().memory.arena_bytes == 2 * one
    assert arenas_bytes(session.table) == before + one

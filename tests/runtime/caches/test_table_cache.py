"""Tables that are kept run as those that were compiled, and none of another network, plan or machine
is taken."""

from __future__ import annotations

import os
import pickle
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from autotune.disk.source_version import PACKAGE_FOLDER, source_files
from autotune.graph.graph import Graph
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.runtime.caches import table_cache
from autotune.runtime.caches.table_cache import (
    ABOVE,
    DECIDING,
    TYPES,
    cached_table,
    table_key,
)
from autotune.runtime.execution.native_table import Draft, draft_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.targets.native.linking.linking import CodeGone, KeptCode
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.opening import target
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.drawn_graphs import graphs
from tests.runtime import runtime_case as case


def host(threads: int = 1) -> NativeTarget:
    found = target("cpu", threads)
    assert isinstance(found, NativeTarget)
    return found


def compiled(graph: Graph, machine: NativeTarget) -> ProgramTable:
    choices = heuristic_choices(graph, machine.spec)
    return compile_table(graph, choices, machine.spec, ProgramCache())


def made(graph: Graph, machine: NativeTarget) -> tuple[Draft, ProgramTable]:
    draft = draft_table(compiled(graph, machine), machine)
    return draft, draft.table(graph, machine)


def never() -> tuple[Draft, ProgramTable]:
    raise AssertionError("a table that is kept is not compiled")


def feeds_of(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


def outputs_of(table: ProgramTable) -> dict[str, np.ndarray]:
    assert table.executable is not None
    return table.executable.run(feeds_of(table.graph))


@given(graphs())
def test_a_kept_table_gives_the_same_bits_by_the_same_programs(graph: Graph) -> None:
    graph, machine = DeadNodes().run(graph).graph, host()
    made = draft_table(compiled(graph, machine), machine)
    content, first = table_cache._written(made), made.table(graph, machine)
    draft = table_cache._read(content)
    assert draft is not None
    again = draft.table(graph, host())
    assert again.choices == first.choices
    assert [s.program for s in again.group_steps] == [s.program for s in first.group_steps]
    assert again.altered == first.altered
    for name, value in outputs_of(first).items():
        np.testing.assert_array_equal(outputs_of(again)[name], value)


def test_what_is_kept_is_not_compiled_again(tmp_path: Path) -> None:
    graph, machine = case.network(), host()
    key = table_key(graph, None, machine.spec)
    first = cached_table(key, graph, machine, lambda: made(graph, machine), tmp_path)
    again = cached_table(key, graph, host(), never, tmp_path)
    for name, value in outputs_of(first).items():
        np.testing.assert_array_equal(outputs_of(again)[name], value)


def test_other_networks_plans_and_machines_have_other_tables() -> None:
    graph, machine = case.network(), host()
    base = table_key(graph, None, machine.spec)
    renamed = Graph("net", graph.ops, graph.types, graph.inputs, graph.outputs, graph.constants)
    op = graph.ops[0]
    other = Graph(
        graph.name,
        [replace(op, name="another"), *graph.ops[1:]],
        graph.types,
        graph.inputs,
        graph.outputs,
        graph.constants,
    )
    assert table_key(renamed, None, machine.spec) == base
    assert table_key(other, None, machine.spec) != base
    assert table_key(graph, None, replace(machine.spec, cores=64)) != base
    assert table_key(graph, None, replace(machine.spec, identity="another")) != base
    assert table_key(graph, None, replace(machine.spec, clock_hz=1e9)) == base, "figures drift"


def test_code_that_is_gone_is_bound_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, machine = case.network(), host()
    key = table_key(graph, None, machine.spec)
    first = cached_table(key, graph, machine, lambda: made(graph, machine), tmp_path)
    draft = table_cache._read(table_cache._written(draft_table(first, machine)))
    assert draft is not None

    def gone(*_: object) -> None:
        raise CodeGone("no code")

    anew = []

    def make() -> tuple[Draft, ProgramTable]:
        anew.append(graph)
        return made(graph, machine)

    with monkeypatch.context() as patched:
        patched.setattr(type(draft), "table", gone)
        with pytest.raises(CodeGone):
            cached_table(key, graph, machine, make, tmp_path)
    assert anew
    again = cached_table(key, graph, machine, never, tmp_path)
    for name, value in outputs_of(first).items():
        np.testing.assert_array_equal(outputs_of(again)[name], value)


def test_names_of_kept_code_say_nothing_that_could_be_compiled() -> None:
    with pytest.raises(CodeGone, match="bind its program again"):
        KeptCode("0" * 32).written()


class Foreign:
    """What somebody might put into a file instead of a table."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.getpid, ()


def test_nothing_but_parts_of_tables_is_made_of_a_file() -> None:
    assert table_cache._read(pickle.dumps(Foreign())) is None
    assert table_cache._read(pickle.dumps(case.network().ops)) is None  # parts, and no table
    assert all(isinstance(one, type) for one in TYPES)


def test_only_packages_above_sessions_decide_no_table() -> None:
    pyproject = tomllib.loads((PACKAGE_FOLDER.parent / "pyproject.toml").read_text())
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    (flow,) = (one for one in contracts if one["name"] == "imports follow the flow")
    layers = flow["layers"]
    above = {x for row in layers[: layers.index("runtime")] for x in row.split(" | ")}
    assert {name.removesuffix(".py") for name in ABOVE} == above


def test_tables_are_kept_under_the_sources_of_every_module_below_sessions() -> None:
    found = set(source_files(DECIDING))
    above = tuple(f"autotune.{name.removesuffix('.py')}" for name in ABOVE)
    loaded = {
        str(module.__file__)
        for name, module in sys.modules.items()
        if name.startswith("autotune.")
        and not name.startswith(above)
        and not name.startswith("autotune.datasets")  # networks, which have keys of their own
        and str(getattr(module, "__file__", "")).endswith(".py")
    }
    assert {Path(path).resolve() for path in loaded} <= {Path(path).resolve() for path in found}
    assert len(loaded) > 100

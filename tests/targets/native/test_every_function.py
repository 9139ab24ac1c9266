"""Every element-wise and reducing operator, alone in a program: emulator and CPU equal the reference."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.lowering.lower import lower
from autotune.operators.op import OPERATORS, Family, OpKind
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available
from autotune.targets.opening import load_spec
from autotune.tuner.heuristic_plan import heuristic_schedule
from tests.targets.native.native_case import executed

SPEC = load_spec("edge")
KINDS = [
    kind
    for kind, row in OPERATORS.items()
    if row.family in (Family.UNARY, Family.BINARY, Family.REDUCE)
]
SCALARS = {"alpha": 0.25, "scale": 1.5, "min": -0.5, "max": 0.75}
SHAPE = (3, 5, 37)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def one(kind: OpKind) -> Graph:
    """The operator over whole inputs, or over one of them and a row."""
    row, builder = OPERATORS[kind], GraphBuilder(kind.value)
    inputs = [builder.input("x", SHAPE)]
    if row.family is Family.BINARY:
        inputs.append(builder.input("y", SHAPE[-1:]))
    attrs = {name: SCALARS[name] for name in row.attrs if name in SCALARS}
    axes = {"axes": (0, 2)} if "axes" in row.attrs else {}
    return builder.build([builder.add(kind, *inputs, **attrs, **axes)])


def feeds_of(graph: Graph) -> dict[str, np.ndarray]:
    """Numbers of both signs, whole ones and zeros among them, on which comparisons often agree."""
    rng = np.random.default_rng(9)
    mixed = {x: rng.standard_normal(graph.shape(x)) for x in graph.inputs}
    return {
        x: np.where(rng.random(v.shape) < 0.5, np.round(v), v).astype(np.float32)
        for x, v in mixed.items()
    }


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_engines_equal_the_reference(kind: OpKind, compiler: Compiler) -> None:
    graph = one(kind)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = heuristic_schedule(group, SPEC)
    assert schedule is not None
    program, feeds = lower(group, schedule, SPEC), feeds_of(graph)
    (wanted,) = evaluate(graph, feeds).values()
    found = [EmulatorTarget(SPEC).run(program, feeds)[1], executed(program, feeds, None)]
    if available():
        found.append(executed(program, feeds, compiler))
    for outputs in found:
        (value,) = outputs.values()
        np.testing.assert_allclose(value.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)

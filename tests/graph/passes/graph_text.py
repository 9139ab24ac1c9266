"""Graphs as text, one line per tensor: what the tests of passes read before and after one.

x: (2, 3)                  an input
w = normal(3, 4)           a constant: numbers of that shape, drawn by its name
half = 0.5                 a constant of one number
y = matmul(x, w) trans_b=1 an operator; attributes at their defaults are left out
-> y                       the outputs
"""

from __future__ import annotations

import ast
import re
import textwrap
import zlib

import numpy as np

from autotune.graph.builder import DEFAULTS, GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes import Pass
from autotune.operators.op import OpKind
from tests.graph.graph_cases import assert_equivalent

CALL = re.compile(r"(\S+) = (\w+)\(([^)]*)\)(.*)")
ATTRIBUTE = re.compile(r"(\w+)=(\([^)]*\)|\S+)")


def parsed(text: str) -> Graph:
    """The graph of a text."""
    b, outputs = GraphBuilder("g"), []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("->"):
            outputs = re.split(r", *", line[2:].strip())
        elif found := CALL.fullmatch(line):
            _add(b, *found.groups())
        elif ": " in line:
            name, shape = line.split(": ")
            b.input(name, ast.literal_eval(shape))
        else:
            name, value = line.split(" = ")
            b.constant(ast.literal_eval(value), name)
    return b.build(outputs)


def _add(b: GraphBuilder, name: str, kind: str, inside: str, rest: str) -> None:
    if kind in DRAWN:
        shape = ast.literal_eval(f"({inside},)") if inside else ()
        b.constant(DRAWN[kind](drawn(name, shape)), name)
        return
    attrs = {k: ast.literal_eval(v) for k, v in ATTRIBUTE.findall(rest)}
    b.add(OpKind(kind), *re.split(r", *", inside), name=name, output=name, **attrs)


def drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.standard_normal(shape).astype(np.float32)


DRAWN = {"normal": lambda v: v, "positive": lambda v: np.abs(v) + np.float32(0.5)}


def written(graph: Graph) -> str:
    """The operators of a graph, as a text has them."""
    lines = []
    for op in graph.ops:
        attrs = [f" {k}={v!r}" for k, v in op.attrs if k not in DEFAULTS or v != DEFAULTS[k]]
        lines.append(f"{op.output} = {op.kind}({', '.join(op.inputs)}){''.join(attrs)}")
    return "\n".join(lines)


def becomes(
    passes: Pass | tuple[Pass, ...], before: str, after: str, tolerance: float = 1e-4
) -> Graph:
    """Check that passes, one behind the other, make one text of another, that every change has a
    reason, and that both graphs compute the same, and again that nothing is left to do."""
    graph = first = parsed(before)
    for one in passes if isinstance(passes, tuple) else (passes,):
        result = one.run(graph)
        assert result.notes, f"{one.name} changed nothing"
        assert all(n.pass_name == one.name and n.removed and n.reason for n in result.notes)
        assert one.run(result.graph).notes == (), f"{one.name} does not settle"
        graph = result.graph
    assert written(graph) == textwrap.dedent(after).strip()
    assert_equivalent(first, graph, rtol=tolerance, atol=tolerance / 10)
    return graph


def stays(one: Pass, text: str) -> None:
    """Check that a pass leaves a graph alone."""
    graph = parsed(text)
    result = one.run(graph)
    assert result.notes == () and result.graph is graph

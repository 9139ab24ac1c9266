"""Hypothesis strategies: small graphs of many shapes, whose operators all touch equal tensors."""

from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind


@st.composite
def networks(draw: st.DrawFn, most: int = 7) -> Graph:
    """Graphs of 1 to ``most`` operators with one or two operands each, and any number of outputs."""
    b = GraphBuilder("drawn")
    tensors = [b.input("x", (4, 8))]
    for _ in range(draw(st.integers(1, most))):
        first = draw(st.sampled_from(tensors))
        if draw(st.booleans()):
            tensors.append(b.add(OpKind.RELU, first))
        else:
            tensors.append(b.add(OpKind.ADD, first, draw(st.sampled_from(tensors))))
    graph = b.build([tensors[-1]])
    kept = [x for x in tensors[1:] if not graph.consumers.get(x)]
    return b.build(kept)

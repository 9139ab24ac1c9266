"""Hypothesis strategy: ONNX models of up to twelve operators of every kind."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from tests.drawn_operators import any_operator
from tests.growing_models import MOST_OPERATORS, DrawnModel, Growth

SHAPES = (
    (2, 4, 6, 5),
    (2, 3, 5, 4),
    (3, 4, 7, 6),
    (1, 6, 8, 4),
    (1, 8, 9, 9),
    (2, 5, 4),
    (1, 4, 11),
    (7, 6),
    (3, 16),
    (2, 2, 3, 4, 3),
)


@st.composite
def models(draw: st.DrawFn, most: int = MOST_OPERATORS) -> DrawnModel:
    """A model of up to ``most`` operators over one to three inputs; tensors that are made may be
    outputs, read once or by many, or not at all."""
    growth = Growth(draw)
    shape = draw(st.sampled_from(SHAPES))
    growth.input(shape)
    for _ in range(draw(st.integers(0, 2))):
        growth.input(draw(st.sampled_from([shape, *SHAPES])))
    wanted = draw(st.integers(1, most))
    for _ in range(2 * wanted):  # some results are no good, and not taken
        if len(growth.nodes) < wanted:
            any_operator(growth)
    assume(growth.made)
    extra = draw(st.sets(st.sampled_from(growth.made), max_size=2))
    read = {x for node in growth.nodes for x in node.input}
    return growth.finished([x for x in growth.made if x in extra or x not in read])

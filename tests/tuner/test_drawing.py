"""Drawing by the workers of a cluster: the candidates that one process draws, whoever is lost, late or other code."""

from __future__ import annotations

from itertools import islice

import pytest

from autotune.graph.accuracy import Accuracy
from autotune.tuner import drawing
from autotune.tuner.drawing import Block, draw, drawn_candidates
from autotune.tuner.sampling import BLOCK, laid_graphs, sample_block, sample_candidates
from tests.tuner.search_case import EDGE, residual

pytest.importorskip("distributed")

from tests.measure.cluster.stand_in import KILLED, REMAINS, StandIn

COUNT = 3 * BLOCK
SEED = 3


@pytest.fixture(scope="module")
def alone() -> list[tuple[tuple[str, str], str]]:
    """Keys and networks of the candidates that one process draws."""
    drawn = sample_candidates((residual(),), EDGE.spec, SEED)
    return [(one.key, one.network) for one in islice(drawn, COUNT)]


def by(cluster: StandIn) -> list[tuple[tuple[str, str], str]]:
    """Keys and networks of the candidates that a cluster draws."""
    drawn = drawn_candidates((residual(),), EDGE, SEED, Accuracy.EXACT, cluster)
    found = [(one.key, one.network) for one in islice(drawn, COUNT)]
    drawn.close()
    return found


@pytest.mark.parametrize("fates", [{}, {0: KILLED}, {1: REMAINS, 2: KILLED}])
def test_workers_draw_what_one_process_does(
    alone: list[tuple[tuple[str, str], str]], fates: dict[int, str]
) -> None:
    """The networks travel without the numbers of their constants; lost and late blocks are drawn here."""
    cluster = StandIn(fates)
    assert by(cluster) == alone
    assert len(cluster.cancelled) == len(cluster.runs), "nothing is left with the scheduler"


def test_workers_with_other_sources_draw_nothing(
    alone: list[tuple[tuple[str, str], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    block = Block("[]", EDGE.spec, 0, 0, Accuracy.EXACT, "other")
    assert draw(block) is None
    monkeypatch.setattr(drawing, "draw", lambda _: None)
    assert by(StandIn()) == alone


def test_blocks_differ_and_need_none_before_them() -> None:
    laid = laid_graphs((residual(),), EDGE.spec, Accuracy.EXACT)
    blocks = [
        [c.key for c in sample_block(laid, EDGE.spec, SEED, number, Accuracy.EXACT)]
        for number in (0, 1, 2)
    ]
    assert all(len(one) == BLOCK for one in blocks)
    assert len({key for one in blocks for key in one}) > 2.5 * BLOCK
    names = [
        {c.network for c in sample_block(laid, EDGE.spec, SEED, n, Accuracy.EXACT)} - {"residual"}
        for n in (0, 1)
    ]
    assert not names[0] & names[1], "generated networks of two blocks have names of their own"

"""Versions are closed once, by whoever is last, whatever others raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.frontend.control.cutting import tree_of
from autotune.frontend.source_model import SourceModel
from autotune.graph.graph import Graph
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.session.control.tree_runner import TreeRunner
from autotune.runtime.session.control.version_table import VERSIONS_KEPT, VersionTable
from autotune.runtime.session.control.versions import Versions
from tests.runtime.control_case import model_of

RELU = "relu (float[N] x) => (float[N] y) { y = Relu (x) }"
BRANCHED = """
branched (bool pick, float[N] x) => (float[N] y) {
    y = If (pick) <
        then_branch = first () => (float[N] a) { a = Relu (x) },
        else_branch = second () => (float[N] b) { b = Neg (x) }
    >
}
"""


class Closing(ReferenceSession):
    """Counts its closing, which fails where that is asked for."""

    def __init__(self, graph: Graph, closed: list[str], failing: bool = False) -> None:
        super().__init__(graph)
        self.closed, self.failing = closed, failing

    def close(self) -> None:
        self.closed.append(self.graph.name)
        if self.failing:
            raise AutotuneError(f"learning failed in version {len(self.closed)}")


def inputs(size: int) -> Mapping[str, np.ndarray]:
    return {"x": np.ones(size, np.float32)}


def versions_of(
    closed: list[str], failing: bool = False, opening: Callable[[], None] | None = None
) -> Versions:
    def opened(graph: Graph) -> Closing:
        if opening is not None:
            opening()
        return Closing(graph, closed, failing)

    return Versions(SourceModel(model_of(RELU)), opened, "relu", TreeRunner)


def test_a_version_that_is_made_while_the_table_closes_is_closed_and_its_run_refused() -> None:
    closed: list[str] = []
    made: list[Versions] = []

    def opening() -> None:  # another thread closes what is being opened
        made[0].close()

    versions = versions_of(closed, opening=opening)
    made.append(versions)
    with pytest.raises(AutotuneError, match="relu: was closed; open another"):
        versions.run(inputs(1))
    assert closed == ["relu"] and not versions.held
    with pytest.raises(AutotuneError, match="was closed"):
        versions.run(inputs(1))
    assert closed == ["relu"]


def test_all_versions_are_closed_though_the_closing_of_each_fails() -> None:
    closed: list[str] = []
    versions = versions_of(closed, failing=True)
    for size in (1, 2, 3):
        versions.run(inputs(size))
    with pytest.raises(AutotuneError, match="learning failed"):
        versions.close()
    assert len(closed) == 3
    versions.close()


def test_all_pieces_of_a_tree_are_closed_though_the_closing_of_each_fails() -> None:
    closed: list[str] = []
    tree = TreeRunner(
        tree_of(SourceModel(model_of(BRANCHED))), lambda g: Closing(g, closed, failing=True), "tree"
    )
    for pick in (True, False):
        tree.run({"pick": np.asarray(pick), **inputs(2)})
    with pytest.raises(AutotuneError, match="learning failed"):
        tree.close()
    assert len(closed) == 2


def test_what_the_closing_of_an_evicted_version_raises_is_said_when_all_are_closed() -> None:
    closed: list[str] = []
    versions = versions_of(closed, failing=True)
    for size in range(1, VERSIONS_KEPT + 2):
        assert versions.run(inputs(size))["y"].shape == (size,)
    assert len(closed) == 1
    with pytest.raises(AutotuneError) as failure:
        versions.close()
    assert len(closed) == VERSIONS_KEPT + 1
    told = []
    error: BaseException | None = failure.value
    while error is not None:
        told.append(str(error))
        error = error.__context__
    assert "learning failed in version 1" in told


def test_a_version_in_use_is_closed_by_the_last_run_that_leaves_it() -> None:
    closed: list[str] = []
    versions = versions_of(closed)
    versions.run(inputs(1))
    table = VersionTable("table")
    entry = table.keep("key", versions.held[0])
    assert table.find("key") is entry
    table.close()
    table.leave(entry)
    assert not closed
    table.leave(entry)
    assert closed == ["relu"]

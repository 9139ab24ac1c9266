"""A swap leaves nothing to requests: the version is ready, and the thread that swaps frees the one before."""

from __future__ import annotations

import threading
import weakref

import pytest

from autotune.runtime.execution import program_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable, compile_table
from tests.runtime import runtime_case as case

GRAPH = case.network()


def table() -> ProgramTable:
    return compile_table(GRAPH, case.choices(GRAPH), case.SPEC, ProgramCache())


def test_a_published_version_has_its_layout() -> None:
    current = CurrentTable(table())
    for _ in range(2):
        swapped = current.swap(table())
        assert swapped is current.current
        assert "layout" in vars(swapped), "the first request would make it"


def test_the_thread_that_swaps_frees_the_version_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_table, "LEAVING_SECONDS", 60.0)
    current = CurrentTable(table())
    freed_by: list[int] = []
    weakref.finalize(current.current, lambda: freed_by.append(threading.get_ident()))
    has_begun, may_end = threading.Event(), threading.Event()

    def request() -> None:
        taken = current.current
        has_begun.set()
        assert may_end.wait(60)
        assert taken.graph is GRAPH

    thread = threading.Thread(target=request)
    thread.start()
    assert has_begun.wait(60)
    threading.Timer(0.02, may_end.set).start()
    current.swap(table())
    thread.join()
    assert freed_by == [threading.get_ident()]


def test_a_swap_does_not_wait_for_ever_for_a_version_that_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program_table, "LEAVING_SECONDS", 0.01)
    current = CurrentTable(table())
    kept = current.current
    assert current.swap(table()).plan_version == kept.plan_version + 1

"""Builds run the best ready task, stay within memory and threads, and end at the first error."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.runtime.builder import limits as limits_module
from autotune.runtime.builder.estimates import Estimates
from autotune.runtime.builder.limits import BuildLimits, MemoryExceeded, limits_of
from autotune.runtime.builder.scheduler import Scheduler, choose
from autotune.runtime.builder.task import Load, Stage, Task
from autotune.runtime.builder.trace import BuildTrace, paired_seconds

MIB = 1 << 20
STAGES = (Stage.LOWER, Stage.GENERATE, Stage.PACK)


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "core_count", lambda: 4)


def nothing() -> Iterable[Task]:
    return ()


def noting(began: list[str]) -> Callable[[], Iterable[Task]]:
    def work() -> Iterable[Task]:
        began.append("x")
        return ()

    return work


def task(name: str, stage: Stage = Stage.LOWER, units: float = 1.0, **more: Any) -> Task:
    return Task(name, stage, nothing, units, **more)


def names(trace: BuildTrace) -> list[str]:
    return [run.name for run in trace.runs]


def run(tasks: Iterable[Task], cores: int = 1, memory: int | None = None) -> BuildTrace:
    return Scheduler(BuildLimits(cores, memory), resident=lambda: 0).run(tasks)


def test_the_best_paying_group_is_built_first() -> None:
    tasks = [task(f"g{i}", payoff_seconds=pays) for i, pays in enumerate((1.0, 3.0, 0.0, 2.0))]
    assert names(run(tasks)) == ["g1", "g3", "g0", "g2"]


def test_a_task_runs_after_those_it_comes_after_and_those_it_finds_run_too() -> None:
    found = Task("b", Stage.LOWER, lambda: [task("c"), task("d", after=("c",))])
    trace = run([task("last", after=("b",)), found])
    assert names(trace)[0] == "b" and sorted(names(trace)) == ["b", "c", "d", "last"]
    assert names(trace).index("c") < names(trace).index("d")


def test_a_task_beside_others_is_of_another_load_and_only_one_holds_the_interpreter() -> None:
    ready = [
        task("python", Stage.BIND),
        task("llvm", Stage.GENERATE),
        task("copy", Stage.PACK, 1e8),
    ]
    estimates = Estimates()
    assert choose(ready, [], estimates) is ready[0]
    assert choose(ready, [ready[0]], estimates) is ready[2]  # the longer of two that pair
    assert choose(ready, [ready[0], ready[2]], estimates) is ready[1]
    assert choose(ready[:1], [ready[0]], estimates) is None
    other = task("copy too", Stage.PACK, 1e9)
    assert choose([ready[1], other], [ready[2]], estimates) is ready[1]  # compute beside memory


def test_predictions_follow_what_tasks_took() -> None:
    estimates = Estimates()
    one = task("a", Stage.GENERATE)
    before = estimates.seconds(one)
    for _ in range(50):
        estimates.learn(one, 10 * before)
    assert estimates.seconds(one) == pytest.approx(10 * before, rel=0.1)


@st.composite
def drawn_tasks(draw: st.DrawFn) -> tuple[list[Task], int]:
    count = draw(st.integers(1, 12))
    tasks: list[Task] = []
    for i in range(count):
        memory = draw(st.integers(0, 8)) * MIB
        kept = draw(st.integers(0, memory // MIB)) * MIB
        stage = draw(st.sampled_from(STAGES))
        before = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        after = tuple(f"t{k}" for k in sorted(before))
        parts = draw(st.integers(0, 2))
        found = [
            task(f"t{i}.{k}", draw(st.sampled_from(STAGES)), memory_bytes=MIB) for k in range(parts)
        ]
        tasks.append(Task(f"t{i}", stage, lambda found=found: found, 1.0, memory, kept, 0.0, after))
    return tasks, draw(st.integers(1, 40)) * MIB


@given(drawn=drawn_tasks(), cores=st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_the_memory_holds_and_every_task_runs_once_or_the_build_is_refused(
    drawn: tuple[list[Task], int], cores: int
) -> None:
    tasks, limit = drawn
    try:
        trace = run(tasks, cores, limit)
    except MemoryExceeded as error:
        assert "allow at least" in str(error)
        most = sum(one.memory_bytes for one in tasks) + MIB * 2 * len(tasks)
        assert most > limit
        return
    assert trace.reserved_bytes <= limit
    wanted = [x.name for one in tasks for x in (one, *one.work())]
    assert sorted(names(trace)) == sorted(wanted)
    by_name = {one.name: one for one in trace.runs}
    for one in tasks:
        for before in one.after:
            assert by_name[before].end_seconds <= by_name[one.name].begin_seconds
    python = sorted((r.begin_seconds, r.end_seconds) for r in trace.runs if r.stage is Stage.LOWER)
    for (_, end), (begin, _) in itertools.pairwise(python):
        assert end <= begin, "the interpreter was held twice"
    assert {one.lane for one in trace.runs} <= set(range(cores))


def test_the_memory_of_the_process_counts() -> None:
    scheduler = Scheduler(BuildLimits(1, 10 * MIB), resident=lambda: 8 * MIB)
    with pytest.raises(MemoryExceeded, match=r"8\.0 MiB of the 10\.0 MiB"):
        scheduler.run([task("large", memory_bytes=3 * MIB)])


def test_a_task_that_exceeds_the_memory_is_split_and_followers_wait_for_its_parts() -> None:
    def parts(reason: str) -> list[Task]:
        assert "needs 8.0 MiB" in reason
        return [task("left", memory_bytes=4 * MIB), task("right", memory_bytes=4 * MIB)]

    whole = task("whole", memory_bytes=8 * MIB, split=parts)
    late = Task("middle", Stage.LOWER, lambda: [task("late", after=("whole",))], after=("whole",))
    trace = run([whole, task("after", after=("whole",)), late], memory=5 * MIB)
    assert names(trace)[:2] == ["left", "right"] and "whole" not in names(trace)
    assert {"after", "middle", "late"} <= set(names(trace)) and trace.divided == 1


def test_a_task_waits_until_others_give_their_memory_back() -> None:
    tasks = [task(f"k{i}", Stage.GENERATE, memory_bytes=3 * MIB) for i in range(6)]
    trace = run(tasks, cores=4, memory=4 * MIB)
    assert trace.reserved_bytes == 3 * MIB and trace.waited


@pytest.mark.parametrize("error", [ValueError("one clear error"), KeyboardInterrupt()])
def test_an_error_ends_the_build_once_and_cancels_the_rest(error: BaseException) -> None:
    began: list[str] = []

    def fails() -> Iterable[Task]:
        began.append("bad")
        raise error

    later = [Task(f"x{i}", Stage.LOWER, noting(began)) for i in range(5)]
    with pytest.raises(type(error)) as told:
        run([Task("bad", Stage.LOWER, fails, payoff_seconds=1.0), *later])
    assert told.value is error and began == ["bad"]


@pytest.mark.parametrize("error", [ValueError("in a helper"), KeyboardInterrupt()])
def test_an_error_beside_running_tasks_waits_for_them_alone(error: BaseException) -> None:
    both, began = threading.Barrier(2, timeout=60), list[str]()
    ended = threading.Event()

    def fails() -> Iterable[Task]:
        both.wait()
        raise error

    def runs() -> Iterable[Task]:
        both.wait()
        ended.set()
        return ()

    tasks = [Task("good", Stage.GENERATE, runs, 2.0), Task("bad", Stage.GENERATE, fails, 1.0)]
    rest = Task("rest", Stage.LOWER, noting(began), after=("bad",))
    with pytest.raises(type(error)):
        run([*tasks, rest], cores=2)
    assert ended.is_set() and not began
    assert not [x for x in threading.enumerate() if x.name.startswith("autotune-build")]


def test_short_work_stays_on_one_thread() -> None:
    tasks = [task(f"k{i}", Stage.PACK, 1.0) for i in range(8)]
    assert {one.lane for one in run(tasks, cores=4).runs} == {0}


def test_time_in_which_unlike_tasks_ran_side_by_side_is_told() -> None:
    spans = [(Load.COMPUTE, 0.0, 4.0), (Load.COMPUTE, 1.0, 3.0), (Load.MEMORY, 2.0, 6.0)]
    assert paired_seconds(spans) == 2.0


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("4GiB", 4 << 30), ("500MB", 500_000_000), (" 1.5 k", 1536), ("7", 7), (9, 9)],
)
def test_sizes_are_read(text: object, wanted: int) -> None:
    assert limits_of(None, text).memory_bytes == wanted


@pytest.mark.parametrize("wrong", ["lots", "4 GiBs", "-1", True, 1.5, 0])
def test_wrong_sizes_are_refused_in_one_line(wrong: object) -> None:
    with pytest.raises(InputError, match="memory="):
        limits_of(None, wrong)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_wrong_cores_are_refused_in_one_line(wrong: object) -> None:
    with pytest.raises(InputError, match="cores="):
        limits_of(wrong)

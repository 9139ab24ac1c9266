"""The native executor walks step tables as docs/isa.md says, on one thread and on several."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InputError, ProgramError
from autotune.isa.fields import PARAMETERS
from autotune.kernels.native import executor
from autotune.kernels.native.executor import (
    CASE,
    END,
    LEVELS,
    LOOP,
    RUN,
    SAMPLE_KERNELS,
    Plan,
    Stream,
    ThreadPool,
)
from tests.kernels.native.step_tables import NULL, Number, Operand, Tables

ONE = ThreadPool(1)
TWO = ThreadPool(2)
FOUR = ThreadPool(4)
"""More threads than this machine may have cores: they must take turns then."""

TASKS = Path("/proc/self/task")

POINTERS = [(0, 0), *((i, 0) for i in range(8))]
"""The table that makes base b + 1 pointer b."""


def addresses(*arrays: np.ndarray) -> np.ndarray:
    return np.array([array.ctypes.data for array in arrays], np.int64)


def logged(
    tables: Tables, parameters: np.ndarray | None = None, pool: ThreadPool = ONE
) -> list[int]:
    """What the executor logs; base 1 is the log, base 2 address 10⁶."""
    log = np.zeros(1 << 16, np.int64)
    log[0] = 1
    plan = Plan([([tables.stream()], [(0, 0), (0, 0), (-1, 1_000_000)])], pool)
    plan.run(addresses(log), parameters)
    return log[1 : log[0]].tolist()


BASES = [0, 0, 1_000_000]


def test_straight_lines_call_kernels_in_order_with_their_operands_and_numbers() -> None:
    tables = Tables()
    tables.record([Operand(2, 8), NULL], [Number(7)])
    tables.record([], [])
    tables.record([Operand(2, -8)], [Number(-1), Number(1 << 62)])
    assert logged(tables) == [1_000_008, 0, 7, 999_992, -1, 1 << 62]


def test_nested_loops_move_operands_by_every_term() -> None:
    tables = Tables()
    tables.loop(2)
    tables.loop(3)
    tables.record([Operand(2, 0, ((100, 0), (10, 1), (1, 1)))], [Number(5, ((1, 0), (-1, 1)))])
    tables.end()
    tables.end()
    moved = [1_000_000 + 100 * i + 11 * j for i in range(2) for j in range(3)]
    numbers = [5 + i - j for i in range(2) for j in range(3)]
    assert logged(tables) == [x for pair in zip(moved, numbers, strict=True) for x in pair]


def test_double_buffers_keep_alternating_when_a_loop_is_entered_again() -> None:
    tables = Tables()
    tables.loop(2)
    tables.loop(3)
    tables.record([Operand(2, 0, (), ((64, 1),))], [])
    tables.end()
    tables.end()
    assert [a - 1_000_000 for a in logged(tables)] == [0, 64, 0, 64, 0, 64]


def test_every_run_of_a_plan_begins_with_the_first_buffers() -> None:
    tables = Tables()
    tables.loop(3)
    tables.record([Operand(2, 0, (), ((64, 0),))], [])
    tables.end()
    log = np.zeros(64, np.int64)
    log[0] = 1
    plan = Plan([([tables.stream()], [(0, 0), (0, 0), (-1, 0)])], ONE)
    for _ in range(2):
        plan.run(addresses(log))
    assert log[1 : log[0]].tolist() == [0, 64, 0] * 2


def test_a_case_runs_its_body_once_where_its_parameter_lies_within() -> None:
    tables = Tables()
    for low, high in ((0, 4), (5, 5), (6, 9), (-9, 5)):
        tables.case(3, low, high)
        tables.record([], [Number(low)])
        tables.end()
    parameters = np.zeros(PARAMETERS, np.int64)
    parameters[3] = 5
    assert logged(tables, parameters) == [5, -9]


def test_loops_without_trips_are_left_out() -> None:
    tables = Tables()
    tables.loop(2)
    tables.loop(0)
    tables.record([], [Number(1)])
    tables.end()
    tables.record([], [Number(2)])
    tables.end()
    assert logged(tables) == [2, 2]


@st.composite
def drawn_tables(draw: st.DrawFn) -> Tables:
    """Random nests with affine addresses, double buffers and cases."""
    tables = Tables()
    small = st.integers(-1000, 1000)

    def pairs(depth: int) -> tuple[tuple[int, int], ...]:
        if depth == 0:
            return ()
        return tuple(draw(st.lists(st.tuples(small, st.integers(0, depth - 1)), max_size=4)))

    def body(depth: int) -> None:
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from((RUN, RUN, LOOP, CASE))) if depth < 5 else RUN
            if kind == RUN:
                operands = [
                    draw(st.just(NULL)) if draw(st.integers(0, 9)) == 0
                    else Operand(2, draw(small), pairs(depth), pairs(depth))
                    for _ in range(draw(st.integers(0, 3)))
                ]  # fmt: skip
                numbers = [
                    Number(draw(small), pairs(depth)) for _ in range(draw(st.integers(0, 2)))
                ]
                tables.record(operands, numbers)
                continue
            if kind == LOOP:
                tables.loop(draw(st.integers(0, 3)))
            else:
                tables.case(
                    draw(st.integers(0, 1)), draw(st.integers(-1, 1)), draw(st.integers(0, 2))
                )
            body(depth + 1)
            tables.end()

    body(0)
    return tables


@given(drawn_tables(), st.integers(-1, 2), st.integers(-1, 2))
def test_drawn_nests_run_as_the_definition_says(tables: Tables, first: int, second: int) -> None:
    parameters = np.zeros(PARAMETERS, np.int64)
    parameters[:2] = first, second
    assert logged(tables, parameters) == tables.expected(BASES, parameters)


def test_the_deepest_nest_runs() -> None:
    tables = Tables()
    for _ in range(LEVELS):
        tables.loop(2)
    tables.record([], [Number(0, tuple((1 << level, level) for level in range(LEVELS)))])
    for _ in range(LEVELS):
        tables.end()
    parameters = np.zeros(PARAMETERS, np.int64)
    assert logged(tables) == tables.expected(BASES, parameters)


KERNEL = SAMPLE_KERNELS["nothing"]
RUN_ONE = (RUN, KERNEL, 0, 1, 0, 0)
ILLEGAL = {
    "kind": {"steps": [(4, 0, 0, 0, 0, 0)]},
    "kernel": {"steps": [(RUN, 0, 0, 0, 0, 0)]},
    "operands beyond": {"steps": [(RUN, KERNEL, 0, 2, 0, 0)], "operands": [(1, 0, 0, 0, 0, 0)]},
    "operands before": {"steps": [(RUN, KERNEL, -1, 1, 0, 0)], "operands": [(1, 0, 0, 0, 0, 0)]},
    "operands overflow": {"steps": [(RUN, KERNEL, 1, (1 << 63) - 1, 0, 0)]},
    "numbers beyond": {"steps": [(RUN, KERNEL, 0, 0, 0, 1)]},
    "terms beyond": {"steps": [], "operands": [(1, 0, 0, 1, 0, 0)]},
    "turns beyond": {"steps": [], "operands": [(1, 0, 0, 0, 0, 1)]},
    "terms of a number": {"steps": [], "numbers": [(1, 0, 1)]},
    "base": {"steps": [], "operands": [(-2, 0, 0, 0, 0, 0)]},
    "level of a term": {"steps": [RUN_ONE], "operands": [(1, 0, 0, 1, 0, 0)], "terms": [(1, 0)]},
    "level of a turn": {"steps": [RUN_ONE], "operands": [(1, 0, 0, 0, 0, 1)], "turns": [(1, 0)]},
    "open end": {"steps": [(LOOP, 1, 0, 0, 0, 0)]},
    "end alone": {"steps": [(END, 0, 0, 0, 0, 0)]},
    "level of a loop": {"steps": [(LOOP, 1, 1, 0, 0, 0), (END, 1, 0, 0, 0, 0)]},
    "level of an end": {"steps": [(LOOP, 1, 0, 0, 0, 0), (END, 1, 0, 0, 0, 0)]},
    "trips": {"steps": [(LOOP, -1, 0, 0, 0, 0), (END, 0, 0, 0, 0, 0)]},
    "parameter": {"steps": [(CASE, PARAMETERS, 0, 0, 0, 1), (END, 0, 0, 0, 0, 0)]},
    "end of a case": {"steps": [(CASE, 0, 0, 0, 0, 0), (END, 0, 0, 0, 0, 0)]},
    "depth": {
        "steps": [(LOOP, 1, level, 0, 0, 0) for level in range(15)]
        + [(END, level, 0, 0, 0, 0) for level in reversed(range(15))]
    },
    "columns": {"steps": [(RUN, KERNEL)]},
    "scratchpad": {"steps": [], "scratchpad_bytes": -1},
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_streams_that_do_not_hold_together_are_refused(name: str) -> None:
    empty = {"operands": [], "terms": [], "turns": [], "numbers": []}
    with pytest.raises(ProgramError):
        Stream(**{**empty, **ILLEGAL[name]})


def counting(amount: int, base: int = 1, byte: int = 0, times: int = 1) -> Stream:
    tables = Tables()
    tables.loop(times)
    tables.run("count", [Operand(base, byte)], [Number(amount)])
    tables.end()
    return tables.stream()


def test_plans_refuse_what_their_pool_or_table_lacks() -> None:
    with pytest.raises(ProgramError, match="streams"):
        Plan([([], POINTERS)], ONE)
    with pytest.raises(ProgramError, match="streams"):
        Plan([([counting(1)] * 65_536, POINTERS)], ONE)
    with pytest.raises(ProgramError, match="rows"):
        Plan([([counting(1, base=2)], [(0, 0), (0, 0)])], ONE)
    with pytest.raises(ProgramError, match="pointer"):
        Plan([([counting(1)], [(0, 0), (-2, 0)])], ONE)
    with pytest.raises(InputError, match="threads"):
        ThreadPool(0)


def test_runs_refuse_missing_pointers_and_parameters() -> None:
    plan = Plan([([counting(1)], POINTERS)], ONE)
    with pytest.raises(InputError, match="pointers"):
        plan.run(np.zeros(0, np.int64))
    with pytest.raises(InputError, match="is 0"):
        plan.run(np.zeros(1, np.int64))
    with pytest.raises(InputError, match="int64"):
        plan.run(np.ones(1, np.float64))
    with pytest.raises(InputError, match="int64"):
        plan.run(np.ones(4, np.int64)[::2])
    with pytest.raises(InputError, match="int64"):
        plan.run([1])
    tables = Tables()
    tables.case(0, 0, 0)
    tables.end()
    cases = Plan([([tables.stream()], POINTERS)], ONE)
    with pytest.raises(InputError, match="parameters"):
        cases.run(np.zeros(0, np.int64))


def test_what_was_refused_cannot_be_used() -> None:
    """Python can keep an object whose making failed."""
    stream, plan = Stream.__new__(Stream), Plan.__new__(Plan)
    with pytest.raises(ProgramError):
        stream.__init__([(END, 0, 0, 0, 0, 0)], [], [], [], [])
    with pytest.raises(ProgramError, match="never made"):
        plan.__init__([([stream], POINTERS)], ONE)
    with pytest.raises(InputError, match="never made"):
        plan.run(np.zeros(0, np.int64))
    with pytest.raises(ProgramError, match="once"):
        counting(1).__init__([], [], [], [], [])


def test_tables_place_bases_at_pointers_plus_bytes() -> None:
    total = np.zeros(4, np.int64)
    Plan([([counting(3), counting(4, byte=8)], [(0, 0), (1, 16)])], TWO).run(
        np.array([0, total.ctypes.data], np.int64)
    )
    assert total.tolist() == [0, 0, 3, 4]


def test_scratchpads_belong_to_one_thread_and_are_aligned() -> None:
    """Both threads count at the same place behind base 0, and store it at places of their own."""
    out = np.zeros(2, np.int64)
    zeros = np.zeros(1, np.int64)

    def stream(thread: int) -> Stream:
        tables = Tables()
        last = (3 << 20) - 8
        tables.run("add", [Operand(0, last), Operand(2), Operand(2)], [Number(1)])
        tables.loop(1000 * (thread + 1))
        tables.run("count", [Operand(0, last)], [Number(1)])
        tables.end()
        tables.run("add", [Operand(1, 8 * thread), Operand(0, last), Operand(2)], [Number(1)])
        return tables.stream(3 << 20)

    Plan([([stream(0), stream(1)], POINTERS)], TWO).run(addresses(out, zeros))
    assert out.tolist() == [1000, 2000]
    tables = Tables()
    tables.record([Operand(0)], [])
    log = np.ones(4, np.int64)
    Plan([([tables.stream(100)], POINTERS)], ThreadPool(1)).run(addresses(log))
    assert log[1] % 64 == 0 and log[1] != 0


def pipeline(widths: list[int], length: int) -> tuple[list[tuple[list[Stream], list]], int]:
    """Programs that each sum the whole of what the one before wrote, split over ``width`` streams:
    element i of program p's array is element (length − 1 − i) of the one before, plus itself."""
    programs = []
    for p, width in enumerate(widths):
        streams = []
        for t in range(width):
            tables = Tables()
            tables.loop(length // width)
            first = t * (length // width)
            here = 8 * (p * length + length + first)
            mirrored = 8 * (p * length + length - 1 - first)
            tables.run(
                "add",
                [
                    Operand(1, here, ((8, 0),)),
                    Operand(1, mirrored, ((-8, 0),)),
                    Operand(1, mirrored, ((-8, 0),)),
                ],
                [Number(1)],
            )
            tables.end()
            streams.append(tables.stream())
        programs.append((streams, POINTERS))
    return programs, length


@pytest.mark.parametrize(
    ("pool", "widths"),
    [
        (ONE, [4, 1, 16]),
        (TWO, [2] * 8),
        (TWO, [1, 2, 1, 1, 2, 2, 1]),
        (TWO, [16, 1, 8, 8, 2, 1, 1, 16, 4]),
        (FOUR, [4, 1, 2, 4, 4, 1, 1, 2]),
        (FOUR, [16, 2, 8, 1]),
    ],
    ids=["one", "two", "mixed", "two-parts", "four", "four-parts"],
)
def test_a_program_reads_what_all_threads_of_the_one_before_wrote(
    pool: ThreadPool, widths: list[int]
) -> None:
    programs, length = pipeline(widths, 16)
    plan = Plan(programs, pool)
    arena = np.zeros((len(widths) + 1) * length, np.int64)
    pointers = addresses(arena)
    for run in range(1000 if pool is TWO else 100):
        arena[:] = -1
        arena[:length] = np.arange(length) + run
        plan.run(pointers)
        last = arena[:length] * 2 ** len(widths)
        assert (arena[-length:] == (last if len(widths) % 2 == 0 else last[::-1])).all(), run


@pytest.mark.parametrize("pool", [ONE, TWO, FOUR], ids=["one", "two", "four"])
def test_every_part_runs_exactly_once_however_uneven_they_are(pool: ThreadPool) -> None:
    """The first share is a hundred times the others, so that parts of it are taken over."""
    parts = 64
    total = np.zeros(parts, np.int64)
    times = [2000 if part < parts // 4 else 20 for part in range(parts)]
    streams = [counting(1, byte=8 * part, times=n) for part, n in enumerate(times)]
    plan = Plan([(streams, POINTERS)] * 5, pool)
    for _ in range(20):
        plan.run(addresses(total))
    assert total.tolist() == [100 * n for n in times]


def test_what_comes_before_parts_runs_once_for_those_that_follow_each_other() -> None:
    """Three beginnings on one thread: of the first two parts, of the fourth, and of the next run."""
    log = np.zeros(1 << 10, np.int64)
    log[0] = 1

    def recording(number: int, before: Stream | None = None) -> Stream:
        tables = Tables()
        tables.record([], [Number(number)])
        return tables.stream(before=before)

    first, second = recording(100), recording(200)
    parts = [
        recording(1, first),
        recording(2, first),
        recording(3),
        recording(4, first),
        recording(5, second),
    ]
    plan = Plan([(parts, [(0, 0), (0, 0)]), ([recording(6, first)], [(0, 0), (0, 0)])], ONE)
    once = [100, 1, 2, 3, 100, 4, 200, 5, 100, 6]
    for _ in range(2):
        plan.run(addresses(log))
    assert log[1 : log[0]].tolist() == 2 * once


@pytest.mark.parametrize("pool", [ONE, TWO, FOUR], ids=["one", "two", "four"])
def test_every_thread_has_its_own_of_what_comes_before_parts(pool: ThreadPool) -> None:
    """It sets a number in the thread's scratchpad, another in each run; parts add it to their totals."""
    parts, times, runs = 32, 50, 20
    total, number, zero = np.zeros(parts, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    beginning = Tables()
    beginning.run("add", [Operand(0), Operand(2), Operand(3)], [Number(1)])
    before = beginning.stream(1 << 12)

    def part(place: int) -> Stream:
        tables = Tables()
        tables.loop(times)
        tables.run("add", [Operand(1, 8 * place), Operand(0), Operand(1, 8 * place)], [Number(1)])
        tables.end()
        return tables.stream(1 << 12, before)

    plan = Plan([([part(place) for place in range(parts)], POINTERS)], pool)
    for run in range(runs):
        number[0] = run
        plan.run(addresses(total, number, zero))
    assert total.tolist() == [times * sum(range(runs))] * parts


def test_what_comes_before_a_stream_has_nothing_before_it() -> None:
    first = counting(1)
    second = Stream([], [], [], [], [], 0, first)
    with pytest.raises(ProgramError, match="nothing before it"):
        Stream([], [], [], [], [], 0, second)


def test_calls_from_many_threads_are_served_one_after_the_other() -> None:
    """Three plans on one pool, one of them called by two threads; a lost update would show."""
    total = np.zeros(2, np.int64)
    pointers = addresses(total)
    streams = [counting(1, times=50), counting(1, byte=8, times=50)]
    plans = [Plan([(streams, POINTERS)] * n, TWO) for n in (1, 2, 3)]

    def call(plan: Plan) -> None:
        for _ in range(100):
            plan.run(pointers)

    threads = [threading.Thread(target=call, args=(plan,)) for plan in (*plans, plans[0])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.tolist() == [100 * 50 * (1 + 2 + 3 + 1)] * 2


def test_times_are_given_for_every_program() -> None:
    total = np.zeros(1, np.int64)
    long = 200_000
    plan = Plan([([counting(1, times=n)], POINTERS) for n in (1, long, 1)], ONE)
    nanoseconds = np.full(4, -1, np.int64)
    plan.run(addresses(total), nanoseconds=nanoseconds)
    assert total[0] == long + 2
    assert (nanoseconds[:3] >= 0).all() and nanoseconds[3] == -1
    assert nanoseconds[1] == nanoseconds[:3].max()


def test_own_time_is_the_threads_and_of_one_thread_alone() -> None:
    total = np.zeros(2, np.int64)
    plan = Plan([([counting(1, times=200_000)], POINTERS)], ONE)
    nanoseconds = np.zeros(1, np.int64)
    before = time.thread_time_ns()
    plan.run(addresses(total), nanoseconds=nanoseconds, own_time=True)
    assert 0 < nanoseconds[0] <= time.thread_time_ns() - before
    shared = Plan([([counting(1), counting(1, byte=8)], POINTERS)], TWO)
    with pytest.raises(InputError, match="own time of 2 threads"):
        shared.run(addresses(total), nanoseconds=nanoseconds, own_time=True)


def test_workers_wake_after_they_have_slept() -> None:
    total = np.zeros(2, np.int64)
    plan = Plan([([counting(1), counting(1, byte=8)], POINTERS)], TWO)
    pause = threading.Event()
    for _ in range(20):
        plan.run(addresses(total))
        pause.wait(0.002)
    assert total.tolist() == [20, 20]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_goes_on_with_threads_of_its_own() -> None:
    total = np.zeros(2, np.int64)
    plan = Plan([([counting(1), counting(1, byte=8)], POINTERS)], TWO)
    plan.run(addresses(total))
    child = os.fork()
    if child == 0:
        plan.run(addresses(total))
        os._exit(0 if total.tolist() == [2, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    plan.run(addresses(total))
    assert total.tolist() == [2, 2]


def test_a_process_ends_with_a_pool_that_sleeps() -> None:
    script = (
        "import numpy as np; from autotune.kernels.native.executor import *;"
        "s = Stream([], [], [], [], []); pool = ThreadPool(3);"
        "plan = Plan([([s, s, s], [])], pool); plan.run(np.zeros(0, np.int64)); print('ran')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"ran\n"), done.stderr


@pytest.mark.skipif(not TASKS.exists(), reason="the system does not list its threads")
def test_pools_end_with_their_last_plan() -> None:
    plan = Plan([([Stream([], [], [], [], [])] * 3, [])], ThreadPool(3))
    before = len(list(TASKS.iterdir()))
    plan.run(np.zeros(0, np.int64))
    assert len(list(TASKS.iterdir())) == before + 2
    del plan
    pause = threading.Event()
    for _ in range(1000):  # the system lists a thread a moment longer than it runs
        if len(list(TASKS.iterdir())) == before:
            return
        pause.wait(0.01)
    pytest.fail("the pool's threads still run")


@pytest.mark.skipif(
    not TASKS.exists() or len(os.sched_getaffinity(0)) < 2, reason="one core, or none that is told"
)
def test_workers_of_a_caller_on_one_core_have_all_cores() -> None:
    """A program on two threads is timed by a caller that holds itself to a core: its workers began there, and stayed."""
    cores = os.sched_getaffinity(0)
    plan = Plan([([Stream([], [], [], [], [])] * 3, [])], ThreadPool(3))
    before = {int(task.name) for task in TASKS.iterdir()}
    os.sched_setaffinity(0, {min(cores)})
    try:
        plan.run(np.zeros(0, np.int64))
    finally:
        os.sched_setaffinity(0, cores)
    begun = {int(task.name) for task in TASKS.iterdir()} - before
    assert [settled(one, cores) for one in begun] == [cores] * 2


def settled(thread: int, cores: set[int]) -> set[int]:
    """The cores that a thread has, once they are those expected or some seconds are over: it takes them once it runs."""
    pause = threading.Event()
    for _ in range(1000):
        if os.sched_getaffinity(thread) == cores:
            break
        pause.wait(0.01)
    return os.sched_getaffinity(thread)


@pytest.mark.skipif(
    not TASKS.exists() or len(os.sched_getaffinity(0)) < 2, reason="one core, or none that is told"
)
def test_a_worker_keeps_off_the_core_of_each_caller() -> None:
    """Behind one of several it would wait for a tick; behind a caller alone it is well placed."""
    cores = os.sched_getaffinity(0)
    before = {int(task.name) for task in TASKS.iterdir()}
    plan = Plan([([Stream([], [], [], [], [])] * 2, [])], ThreadPool(2))
    plan.run(np.zeros(0, np.int64))
    (worker,) = {int(task.name) for task in TASKS.iterdir()} - before
    assert settled(worker, cores) == cores, "a caller alone"

    def call(core: int) -> None:
        os.sched_setaffinity(0, {core})
        plan.run(np.zeros(0, np.int64))

    for core in sorted(cores) * 2:
        another = threading.Thread(target=call, args=(core,))
        another.start()
        another.join()
        assert settled(worker, cores - {core}) == cores - {core}
        plan.run(np.zeros(0, np.int64))
    for _ in range(64):
        plan.run(np.zeros(0, np.int64))
    assert settled(worker, cores) == cores, "alone again"


@pytest.mark.skipif(
    not TASKS.exists() or len(os.sched_getaffinity(0)) < 2, reason="one core, or none that is told"
)
def test_threads_apart_have_a_core_each_until_they_need_not() -> None:
    cores = sorted(os.sched_getaffinity(0))
    before = {int(task.name) for task in TASKS.iterdir()}
    pool = ThreadPool(2)
    plan = Plan([([Stream([], [], [], [], [])] * 2, [])], pool)
    plan.run(np.zeros(0, np.int64))
    (worker,) = {int(task.name) for task in TASKS.iterdir()} - before
    pool.set_apart(True)
    assert os.sched_getaffinity(worker) == {cores[1]}
    assert os.sched_getaffinity(0) == set(cores), "the caller holds itself"
    pool.set_apart(False)
    assert os.sched_getaffinity(worker) == set(cores)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_a_hop_between_cores_takes_nanoseconds_and_plans_run_after_it() -> None:
    pool = ThreadPool(2)
    hops = [pool.hop_nanoseconds(2, 50) for _ in range(200)]
    told = sorted(hop for hop in hops if hop)
    assert told, "no thread came within a millisecond, two hundred times"
    assert 5.0 < told[len(told) // 2] < 10_000.0
    tables = Tables()
    tables.record([], [Number(7)])
    assert logged(tables, pool=pool) == [7]


def test_no_hop_is_told_where_threads_cannot_all_wait_awake() -> None:
    assert ThreadPool(len(os.sched_getaffinity(0)) + 1).hop_nanoseconds(2, 50) == 0.0


@pytest.mark.parametrize(("threads", "rounds"), [(1, 50), (3, 50), (2, 1), (2, (1 << 20) + 1)])
def test_a_ring_of_too_few_or_too_many_is_an_error(threads: int, rounds: int) -> None:
    with pytest.raises(InputError, match="a number goes round"):
        TWO.hop_nanoseconds(threads, rounds)


def test_addresses_are_those_that_numpy_tells() -> None:
    arrays: list[np.ndarray] = [
        np.zeros((3, 5), np.float32),
        np.zeros(7, np.int64)[2:],
        np.zeros(0, np.float32),
    ]
    assert executor.addresses(arrays).tolist() == [array.ctypes.data for array in arrays]
    assert executor.addresses([]).dtype == np.int64
    with pytest.raises(InputError, match="array 1 is a list"):
        executor.addresses([arrays[0], [1.0]])


LONG = 40_000_000
"""Additions that take a fifth of a second or so."""


@pytest.mark.parametrize("many", [True, False])
def test_a_plan_for_many_callers_runs_beside_another_run(many: bool) -> None:
    pool = ThreadPool(1)
    if pool.lanes == 1:
        pytest.skip("one core")
    long = Plan([([counting(1, times=LONG)], POINTERS)], pool, many=True)
    short = Plan([([counting(1)], POINTERS)], pool, many=many)
    theirs, mine = np.zeros(1, np.int64), np.zeros(1, np.int64)
    other = threading.Thread(target=long.run, args=(addresses(theirs),))
    other.start()
    while not theirs[0]:  # until it has begun
        pass
    short.run(addresses(mine))
    assert mine[0] == 1 and (theirs[0] < LONG) == many
    other.join()
    assert theirs[0] == LONG


def test_more_callers_than_lanes_get_right_results() -> None:
    pool, callers, runs = ThreadPool(2), 5, 200
    plan = Plan([([counting(1), counting(1, byte=8)], [(0, 0), (0, 0)])], pool, many=True)
    totals = [np.zeros(2, np.int64) for _ in range(callers)]

    def call(total: np.ndarray) -> None:
        for _ in range(runs):
            plan.run(addresses(total))

    threads = [threading.Thread(target=call, args=(total,)) for total in totals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [total.tolist() for total in totals] == [[runs, runs]] * callers


def test_a_caller_waits_for_few_runs_of_another_one() -> None:
    """Who ended a run began the next one before others woke: on two cores they waited for seconds."""
    plan = Plan([([counting(1, times=500_000)], POINTERS)], ThreadPool(1))
    over, begun = threading.Event(), [0]

    def call() -> None:
        total = np.zeros(1, np.int64)
        while not over.is_set():
            plan.run(addresses(total))
            begun[0] += 1

    other = threading.Thread(target=call)
    other.start()
    total, waited, pause = np.zeros(1, np.int64), [], threading.Event()
    try:
        for _ in range(15):
            pause.wait(0.005)
            before = begun[0]
            plan.run(addresses(total))
            waited.append(begun[0] - before)
    finally:
        over.set()
        other.join()
    assert sorted(waited)[len(waited) // 2] <= 3


def test_a_caller_takes_whichever_lane_is_left_first() -> None:
    """A long run on one lane holds up nobody who could have the other one."""
    pool = ThreadPool(1)
    if pool.lanes != 2:
        pytest.skip("other than two cores")
    long, short = (
        Plan([([counting(1, times=n)], POINTERS)], pool, many=True) for n in (LONG, 400_000)
    )
    theirs, over = np.zeros(1, np.int64), threading.Event()
    other = threading.Thread(target=long.run, args=(addresses(theirs),))
    other.start()
    while not theirs[0]:
        pass
    counts = [0, 0]

    def call(place: int) -> None:
        total = np.zeros(1, np.int64)
        while not over.is_set():
            short.run(addresses(total))
            counts[place] += theirs[0] < LONG

    callers = [threading.Thread(target=call, args=(place,)) for place in range(2)]
    for thread in callers:
        thread.start()
    other.join()
    over.set()
    for thread in callers:
        thread.join()
    assert min(counts) >= 3, "both ran again and again beside it"

"""The cache of programs stays within its bytes, and keeps what is dear, small and often used."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.fusion.group import Group
from autotune.isa.program import Program
from autotune.lowering import lower as lowering
from autotune.runtime.caches.program_files import shared_programs
from autotune.runtime.execution.compilation import ProgramSource
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.resources import GroupResources, program_bytes
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from tests.runtime import runtime_case as case

GRAPH = case.network()
PARTS = [
    choice
    for fused in ((), (("product", "squash"),), (("weigh", "flip"),))
    for choice in case.choices(GRAPH, *fused)
    if choice.schedule is not None
]
KEYS = sorted({(c.group.key, c.schedule) for c in PARTS}, key=str)
DISTINCT = [next(c for c in PARTS if (c.group.key, c.schedule) == key) for key in KEYS]
ALL = 1 << 30


def test_equal_groups_share_a_program_and_a_second_machine_gets_its_own() -> None:
    cache, choice = ProgramCache(), DISTINCT[0]
    again = Choice(Group.from_json(choice.group.to_json()), choice.schedule)
    first, second = cache.lowered(choice, case.SPEC), cache.lowered(again, case.SPEC)
    other = cache.lowered(choice, load_spec("mobile"))
    assert first.program is second.program is not other.program
    assert first.compilation.source is ProgramSource.LOWERED
    assert second.compilation.source is ProgramSource.MEMORY
    figures = cache.figures
    assert (figures.programs, figures.hits, figures.misses) == (2, 1, 2)
    assert figures.size_bytes == sum(program_bytes(x.program) for x in (first, other))


class Machine:
    """Lowers in given seconds by a clock of its own, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[Group], float]) -> None:
        self.now, self.made = 0.0, Counter[str]()
        lower = lowering.lower

        def timed(group: Group, schedule: Schedule, spec: HardwareSpec) -> Program:
            self.now += seconds(group)
            self.made[group.key] += 1
            return lower(group, schedule, spec)

        monkeypatch.setattr(lowering, "lower", timed)

    def cache(self, limit_bytes: int) -> ProgramCache:
        return ProgramCache(limit_bytes, lambda: self.now)


def sizes() -> list[int]:
    cache = ProgramCache()
    return [program_bytes(cache.lowered(c, case.SPEC).program) for c in DISTINCT]


def test_what_is_dear_and_often_used_outlives_a_stream_of_cheap_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room, dear = 2 * max(sizes()), DISTINCT[0]
    machine = Machine(monkeypatch, lambda group: 1000.0 if group.key == dear.group.key else 1.0)
    cache = machine.cache(room)
    cache.lowered(dear, case.SPEC)
    for choice in itertools.islice(itertools.cycle(DISTINCT[1:]), 30):
        cache.lowered(choice, case.SPEC)
        assert cache.figures.size_bytes <= room
    cache.lowered(dear, case.SPEC)
    assert machine.made[dear.group.key] == 1
    assert cache.figures.evictions > 0


def test_what_nobody_uses_ages_however_dear_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    room, dear = 2 * max(sizes()), DISTINCT[0]
    machine = Machine(monkeypatch, lambda group: 20.0 if group.key == dear.group.key else 1.0)
    cache = machine.cache(room)
    cache.lowered(dear, case.SPEC)
    for choice in itertools.islice(itertools.cycle(DISTINCT[1:]), 200):
        cache.lowered(choice, case.SPEC)
    cache.lowered(dear, case.SPEC)
    assert machine.made[dear.group.key] == 2


@given(st.lists(st.integers(0, len(DISTINCT) - 1), max_size=60), st.integers(0, 6))
def test_bytes_and_counts_are_those_of_what_is_held(uses: list[int], room: int) -> None:
    sized = sizes()
    limit = room * max(sized)
    cache = ProgramCache(limit)
    for use in uses:
        found = cache.lowered(DISTINCT[use], case.SPEC)
        assert found.bindings.keys() >= {tensor.name for tensor in found.program.tensors}
        held = [entry.size_bytes for entry in cache._entries.values()]
        figures = cache.figures
        assert figures.size_bytes == sum(held) <= limit
        assert figures.programs == len(held) == figures.misses - figures.evictions
    assert cache.figures.hits + cache.figures.misses == len(uses)


def test_threads_share_one_program() -> None:
    cache, found = ProgramCache(), []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        found.append(cache.lowered(DISTINCT[0], case.SPEC).program)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(program) for program in found}) == 1
    assert cache.figures.size_bytes == program_bytes(found[0])


def test_sessions_of_one_process_share_programs() -> None:
    assert shared_programs() is shared_programs()


def test_resources_are_those_of_the_program() -> None:
    choice = next(c for c in DISTINCT if [op.name for op in c.group.ops] == ["product"])
    program = ProgramCache().lowered(choice, case.SPEC).program
    found = GroupResources.of(program)
    assert (found.input_bytes, found.constant_bytes, found.output_bytes) == (
        4 * 4 * 12,
        4 * 12 * 12,
        4 * 4 * 12,
    )
    assert found.scratchpad_bytes == 4 * program.scratchpad_elements
    assert found.threads == len(program.streams)

"""Hypothesis strategy: costed graphs with inputs and outputs in one device's memory."""

from __future__ import annotations

from hypothesis import strategies as st

from autotune.targets.link_spec import LinkSpec
from autotune.tuner.placement.costed_graph import CostedGraph, Memory, Placement, Read, Task

SECONDS = st.integers(0, 50).map(lambda n: n * 1e-6)


@st.composite
def costed_graphs(draw: st.DrawFn, most_tasks: int = 8, shares: bool = False) -> CostedGraph:
    """Up to ``most_tasks`` tasks on two or three devices, between an input and an output task on one of them."""
    count = draw(st.integers(2, 3))
    names = tuple(f"d{n}" for n in range(count))
    host = draw(st.integers(0, count - 1))
    here = tuple(0.0 if n == host else None for n in range(count))
    tasks = [Task("inputs", here, ())]
    for number in range(draw(st.integers(1, most_tasks))):
        able = draw(st.sets(st.integers(0, count - 1), min_size=1))
        seconds = tuple(draw(SECONDS) if n in able else None for n in range(count))
        producers = draw(st.sets(st.integers(0, number), min_size=1, max_size=3))
        moved = tuple(draw(st.integers(0, 500_000)) for _ in names) if shares else ()
        reads = tuple(_read(p) for p in sorted(producers))
        tasks.append(Task(f"t{number}", seconds, reads, dram_bytes=moved))
    tasks.append(Task("outputs", here, (_read(len(tasks) - 1),)))
    link = LinkSpec(draw(st.sampled_from([1e8, 1e9, 1e10])), draw(st.sampled_from([0.0, 1e-6])))
    links = tuple(tuple(None if a == b else link for b in range(count)) for a in range(count))
    bandwidth = draw(st.sampled_from([1e9, 1e10]))
    memories = (Memory(frozenset(range(count)), bandwidth),) if shares else ()
    return CostedGraph(names, links, tuple(tasks), memories)


@st.composite
def placed_graphs(draw: st.DrawFn, shares: bool = False) -> tuple[CostedGraph, Placement]:
    """A graph and any placement of it; its devices may share one DRAM channel."""
    graph = draw(costed_graphs(shares=shares))
    return graph, tuple(draw(st.sampled_from(task.places)) for task in graph.tasks)


def _read(producer: int) -> Read:
    return Read(producer, f"x{producer}", 1_000 * (producer + 1))

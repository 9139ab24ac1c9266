"""Worker of `online_swaps.py`: one network served by a session that learns and by two that do not, in turns.

    python -m benchmarks.online_swaps_worker '{"network": …, "threads": …, "start": …, "seconds": …}'

The sessions live in one process and take turns of some requests, so that what the machine does meanwhile strikes all. Sessions that do
not learn differ too, by where their memory lies: two of them show by how much.
A pause as long as the request follows each: a server at half its load.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from autotune.fusion.greedy import unfused
from autotune.fusion.group import Group
from autotune.runtime.execution.event import EventKind
from autotune.runtime.session.defaults import choose_accuracy
from autotune.runtime.session.session import Session
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.targets.opening import target as open_target
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.plan import Plan
from benchmarks.child import raise_priority
from benchmarks.cpu_networks import make_case

TURN = 20
"""Requests of one session before it is the other's turn."""
MOST = 3.0
"""Times of requests count as so many medians of their turn at most in the mean: more is another process's doing."""
WARM_UP = 3
"""First requests of a turn that count nothing: the caches hold the other session's data."""


def unfused_plan(session: Session) -> Plan:
    """Return the plan that runs every operator alone, by heuristic schedules."""
    graph, spec = session.graph, session.target.spec
    scheduled = HeuristicSchedules(spec)
    groups = [Group.from_graph(graph, names) for names in unfused(graph).groups]
    rows = tuple(
        PlannedGroup(
            tuple(op.name for op in group.ops),
            group.outputs,
            None if group.is_view else scheduled(group),
            0.0,
            None,
            None,
            None,
        )
        for group in groups
    )
    plan = GraphPlan(graph.name, graph.fingerprint, rows)
    return Plan(
        (plan,),
        None,
        session.target.name,
        spec.profile_id,
        Objective.LATENCY,
        choose_accuracy(None, spec),
        macs_per_byte=spec.formats.macs_per_byte,
    )


def serve(order: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Serve the network by the sessions in turns; return figures."""
    case = make_case(order["network"], folder)
    target = open_target("cpu", order["threads"])
    with np.load(case.inputs) as file:
        inputs = dict(file)
    with Session(case.network, target) as opened:
        plan = unfused_plan(opened) if order["start"] == "unfused" else None
    store = folder / "store.db"
    with (
        Session(case.network, target, store, plan=plan) as fixed,
        Session(case.network, target, store, plan=plan) as twin,
        Session(case.network, target, store, plan=plan, online=True) as learning,
    ):
        taken = _in_turns(
            {"fixed": fixed, "learning": learning, "twin": twin}, inputs, order["seconds"]
        )
        events = learning.events
        groups = len(fixed.table.group_steps), len(learning.table.group_steps)
        expected, outputs = fixed.run(inputs), learning.run(inputs)
        is_right = all(np.allclose(outputs[x], expected[x], 1e-3, 1e-5) for x in expected)
    return {
        **taken,
        "cost": [event.figures["cost"] for event in events if "cost" in event.figures][-1:],
        "groups": groups,
        "is_right": is_right,
        "events": dict(Counter(event.kind.value for event in events)),
        "swaps": [event.run for event in events if event.kind is EventKind.SWAPPED],
        "texts": [f"run {event.run}: {event.kind.value}: {event.text}" for event in events],
    }


def _in_turns(
    sessions: dict[str, Session], inputs: dict[str, Any], seconds: float
) -> dict[str, list[float]]:
    """Return the median and the mean milliseconds of each turn, of all sessions."""
    found: dict[str, list[float]] = {
        f"{name}_{what}": [] for name in sessions for what in ("ms", "mean_ms")
    }
    end = time.perf_counter() + seconds
    for turn in itertools.count():
        if time.perf_counter() > end:
            break
        order = list(sessions.items())
        order = order[turn % len(order) :] + order[: turn % len(order)]
        for name, session in order if turn % 2 else order[::-1]:
            taken = []
            for _ in range(TURN):
                begin = time.perf_counter()
                session.run(inputs)
                taken.append(time.perf_counter() - begin)
                time.sleep(taken[-1])
            counted = taken[WARM_UP:]
            usual = statistics.median(counted)
            found[f"{name}_ms"].append(1e3 * usual)
            mean = statistics.fmean(min(one, MOST * usual) for one in counted)
            found[f"{name}_mean_ms"].append(1e3 * mean)
    return found


def main() -> None:
    """Serve as ordered, and print figures."""
    raise_priority()
    order = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(serve(order, Path(folder))))


if __name__ == "__main__":
    main()

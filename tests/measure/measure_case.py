"""Targets and lowerings that worker processes can load: cheap ones, and ones that misbehave."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from autotune.errors import ScheduleError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.protocol import Execution

SPEC = load_spec("edge")


def _group() -> Group:
    b = GraphBuilder("relu")
    graph = b.build([b.add(OpKind.RELU, b.input("x", (8,)))])
    return Group.from_graph(graph, [op.name for op in graph.ops])


GROUP = _group()


def candidate(index: int) -> Candidate:
    """A candidate that ``number`` lowers to its index."""
    return Candidate(GROUP, Schedule((NestSchedule((index + 1,), (0,), ()),)), "net")


def number(group: Group, schedule: Schedule, spec: object) -> int:
    """In place of lowering: the candidate's index."""
    return schedule.nests[0].tile[0] - 1


def refusing(group: Group, schedule: Schedule, spec: object) -> int:
    """Refuses every third candidate as illegal and breaks on every fifth."""
    index = number(group, schedule, spec)
    if index % 3 == 0:
        raise ScheduleError(f"candidate {index}\nis not legal")
    return [index][index % 5 == 0]


class Counting:
    """A target that answers with the index, and in the counters with the process that ran it.

    ``fates`` tells by index what else to do: a signal to die of, an exit code as text, or seconds
    to sleep."""

    def __init__(self, fates: Mapping[int, signal.Signals | str | float] | None = None) -> None:
        self.name = "counting"
        self.spec = SPEC
        self.fates = dict(fates or {})
        self.factor = 1

    def time(self, program: Any) -> Execution:
        """Cost of a candidate's index."""
        match self.fates.get(program):
            case signal.Signals() as fate:
                os.kill(os.getpid(), fate)
                time.sleep(10)
            case str() as code:
                os._exit(int(code))
            case float() as seconds:
                time.sleep(seconds)
        counters = MappingProxyType({"pid": os.getpid()})
        return Execution(self.factor * program, 0, 0, counters)

    def run(self, program: Any, tensors: Mapping[str, np.ndarray]) -> Any:
        """These targets have no numbers."""
        raise NotImplementedError


class Emulating(Counting, EmulatorTarget):
    """Counts as well, and is known to end."""

    name, spec = "counting", SPEC

    def __init__(self, fates: Mapping[int, signal.Signals | str | float] | None = None) -> None:
        EmulatorTarget.__init__(self, SPEC)
        self.fates = dict(fates or {})
        self.factor = 1


class Locked(Counting):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


CTRL_C = """
import signal

# shells that start tests in the background let them ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)

from itertools import count
from autotune.measure.runner import Runner
from tests.measure.measure_case import Counting, candidate, number

target = Counting(dict.fromkeys(range(20, 10_000), 30.0))
try:
    for result in Runner(target, 2, lower=number).measure(candidate(i) for i in count()):
        print(result.execution.cycles, *result.execution.counters.values(), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
"""A script without a main guard: measures 20 quick candidates, then ones that take for ever."""

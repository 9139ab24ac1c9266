"""Runs of a network on several devices: each group on its own, elsewhere when that device fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autotune.errors import TargetError
from autotune.operators.tensor import Array
from autotune.runtime.devices.device_worker import DeviceFailure, DeviceWorker, Wait
from autotune.runtime.devices.placed_table import moved, placed_table, timeline_of
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.execution import GroupRun, RunTrace, renamed, run_group
from autotune.runtime.execution.ownership import shared
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable, GroupStep, ProgramTable
from autotune.targets.device_set import DeviceSet


class PlacedRuns:
    """Runs a session's table on its devices, the groups of one request one after the other, so that none slows another
    that is timed by a clock.

    What devices do at the same time is in the timeline of each run. Requests of several threads are under way at the
    same time, as in a pipeline: each device takes one group at a time. A device that raises, or that hangs, is used no
    more: ``heirs`` in their order take its groups, and the runs that wanted it begin again.
    """

    def __init__(
        self,
        published: CurrentTable,
        devices: DeviceSet,
        heirs: Sequence[str],
        cache: ProgramCache,
        wait: Wait = threading.Event.wait,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._published, self._devices, self._cache, self._clock = published, devices, cache, clock
        self._heirs = list(heirs)
        self._workers = {
            name: DeviceWorker(name, devices.time_limit_seconds, wait) for name in self._heirs
        }
        self._losing = threading.Lock()
        self._counting = threading.Lock()
        self._events: tuple[Event, ...] = ()
        self._runs = 0

    @property
    def events(self) -> tuple[Event, ...]:
        """Devices that failed, oldest first."""
        return self._events

    def run(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], RunTrace]:
        """Run once on checked float32 arrays; return the outputs, and the cost of every group in nanoseconds.

        Raises ``TargetError`` when the last device has failed, or no other can run some group.
        """
        while True:
            table = self._published.current
            try:
                outputs, trace = self._attempt(table, inputs)
            except DeviceFailure as failure:
                with self._losing:
                    self._lose(failure)
                continue
            with self._counting:
                self._runs += 1
            return outputs, trace

    def _attempt(
        self, table: ProgramTable, inputs: Mapping[str, Array]
    ) -> tuple[dict[str, Array], RunTrace]:
        values: dict[str, Array] = {**table.constants, **inputs}
        runs: list[GroupRun] = []
        for step in table.steps:
            if isinstance(step, GroupStep):
                runs.append(self._run_step(step, values))
            else:
                values.update(renamed(step.group, values))
            for x in step.releases:
                del values[x]
        given = (*table.constants.values(), *inputs.values())
        made = {x: values[x].reshape(table.graph.shape(x)) for x in table.graph.outputs}
        outputs = {x: y.copy() if shared(y, given) else y for x, y in made.items()}
        timeline = timeline_of(table, self._devices, runs)
        versions = table.plan_version, table.model_version
        return outputs, RunTrace(tuple(runs), *versions, table.layout, timeline)

    def _run_step(self, step: GroupStep, values: dict[str, Array]) -> GroupRun:
        """Run a group on its device. What an abandoned device still writes goes nowhere."""
        device = self._devices.by_name[step.device]
        own = dict(values)
        execution = self._workers[step.device].call(lambda: run_group(step, device, own))
        values.update(own)
        cycles = max(1, round(self._devices.nanoseconds(step.device, execution.cycles)))
        return GroupRun(step, replace(execution, cycles=cycles))

    def _lose(self, failure: DeviceFailure) -> None:
        """Move the groups of a failed device to the others, and say so; once, however many runs wanted it."""
        lost, table = failure.device, self._published.current
        if lost in self._heirs:
            self._heirs.remove(lost)
            self._workers[lost].stop()
        if not self._heirs:
            raise TargetError(f"{table.graph.name}: {failure}; no device is left") from failure
        if all(choice.device != lost for choice in table.choices):
            return  # another run has moved its groups meanwhile
        choices = moved(table.graph, table.choices, self._devices, lost, self._heirs)
        fresh = placed_table(table.graph, choices, self._devices, self._cache)
        self._published.update(lambda _: fresh)
        orphans = {c.group.outputs for c in table.choices if c.device == lost}
        to = dict.fromkeys(c.device for c in choices if c not in table.choices)
        text = f"{failure}; its {len(orphans)} groups run on {', '.join(to)}"
        figures = {"groups": float(len(orphans)), "devices_left": float(len(self._heirs))}
        self._events += (Event(EventKind.LOST, self._runs, self._clock(), text, figures),)

    def close(self) -> None:
        """End the threads of the devices."""
        for name in self._heirs:
            self._workers[name].stop()

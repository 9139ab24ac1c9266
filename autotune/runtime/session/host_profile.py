"""A session's profile on this machine: what each group takes, its roofline, and what keeps it from it.

Times are the engine's own, which reads the clock between groups: on one thread that of the thread, to
which other work of the machine adds nothing. Energy and DRAM traffic are not known: no instruction
tells a process of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError
from autotune.isa.functions import CostClass
from autotune.operators.op import OPERATORS, Family
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.execution.native_table import network_of
from autotune.runtime.execution.program_table import GroupStep
from autotune.runtime.session.network_session import NetworkSession
from autotune.runtime.session.roofline import Limit, Roofs, Work, works
from autotune.runtime.session.shortfall import Evidence, reason
from autotune.targets.native.linking.step_kinds import StepKind
from autotune.targets.native.linking.step_profile import ProgramProfile
from autotune.targets.native.running.executable import Executable
from autotune.targets.native.running.target import NativeTarget

LEAST_RUNS, MOST_RUNS, SECONDS = 5, 200, 1.0
"""Runs that are timed: as many as fit into the seconds, within bounds."""

LEAST_CLOCKED, MOST_CLOCKED = 3, 20
"""Runs with clocks between steps, in as much time."""

"""Per element, from which on an operator counts as a transcendental function (``OpRow``)."""


@dataclass(frozen=True, slots=True)
class HostGroup:
    """One group. ``seconds`` are the fastest run's, ``share`` that of all groups' seconds,
    ``bound_seconds`` the least that the machine can take for ``work``, by its ``limit``; ``steps``
    are shares of its time by kind of step. ``reason`` is empty near the bound."""

    operators: tuple[str, ...]
    kinds: tuple[str, ...]
    seconds: float
    share: float
    work: Work
    bound_seconds: float
    limit: Limit
    steps: Mapping[StepKind, float]
    parts: int
    reason: str

    @property
    def fraction(self) -> float:
        """Share of its time that the bound explains; 1 is as fast as the machine allows."""
        return self.bound_seconds / self.seconds

    @property
    def lost_seconds(self) -> float:
        """Time beyond the bound."""
        return self.seconds - self.bound_seconds


@dataclass(frozen=True, slots=True)
class HostProfile:
    """All groups in order of execution, and what the machine gives. ``run_seconds`` is the
    wall-clock time of the fastest of ``runs`` runs, from the caller's arrays to the outputs;
    ``waiting_seconds`` the part of it in which other programs held the core (0 on several threads,
    where it is not known). Groups, overhead and waiting add up to the run."""

    groups: tuple[HostGroup, ...]
    roofs: Roofs
    runs: int
    run_seconds: float
    waiting_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Sum of the groups' times, each the least over the runs."""
        return sum(group.seconds for group in self.groups)

    @property
    def overhead_seconds(self) -> float:
        """Time of the fastest run beyond the groups' least times: inputs and outputs, dispatch, and
        variation between runs."""
        return max(0.0, self.run_seconds - self.waiting_seconds - self.seconds)

    @property
    def peak_fraction(self) -> float:
        """Operations of the network over those that the machine could do in its time."""
        return sum(g.work.flops for g in self.groups) / self.roofs.flops / self.seconds

    @property
    def bound_fraction(self) -> float:
        """Sum of the groups' bounds over their time."""
        return sum(group.bound_seconds for group in self.groups) / self.seconds

    @property
    def steps(self) -> Mapping[StepKind, float]:
        """Shares of the time by kind of step."""
        found: dict[StepKind, float] = {}
        for group in self.groups:
            for kind, share in group.steps.items():
                found[kind] = found.get(kind, 0.0) + share * group.share
        return found

    def worst(self, count: int) -> tuple[HostGroup, ...]:
        """Return the groups that lose most time beyond their bounds, without groups near their bounds."""
        short = (group for group in self.groups if group.reason)
        return tuple(sorted(short, key=lambda group: -group.lost_seconds)[:count])


def host_profiles(
    session: NetworkSession, inputs: Mapping[str, npt.NDArray[np.generic]], seconds: float = SECONDS
) -> Mapping[str, HostProfile]:
    """Profile every part of a network that a run on these inputs reaches, for about ``seconds`` in
    all, by its name: an ordinary network is one.

    Raises ``InputError`` for a session that is not on this machine.
    """
    _check_here(session)
    fed, parts = session.part_inputs(inputs), session.parts
    working = [name for name in fed if parts[name].table.group_steps]  # others are views alone
    return {name: host_profile(parts[name], fed[name], seconds / len(working)) for name in working}


def host_profile(
    session: NetworkSession, inputs: Mapping[str, npt.NDArray[np.generic]], seconds: float = SECONDS
) -> HostProfile:
    """Run a session's network for about ``seconds`` and say where its time goes.

    Raises ``InputError`` for a session that is not on this machine.
    """
    target, table = _check_here(session), session.table
    assert table.executable is not None, "tables of this machine run by one call"
    adapter = IoAdapter(table.graph)
    fed = adapter.to_float32(inputs)
    times, fastest, runs = _timed(table.executable, adapter, inputs, seconds)
    steps, network, roofs = table.group_steps, network_of(table), Roofs.of(target.spec)
    found = works(table.graph, steps, network, table.executable.arena.size_bytes, roofs)
    total = sum(times)
    clocked = min(MOST_CLOCKED, max(LEAST_CLOCKED, round(seconds / total)))
    profiles = target.profile(network, fed, clocked)
    rows = (
        _group(step, took, took / total, work, roofs, profile, target.threads)
        for step, took, work, profile in zip(steps, times, found, profiles, strict=True)
    )
    return HostProfile(tuple(rows), roofs, runs, *fastest)


def _check_here(session: NetworkSession) -> NativeTarget:
    target = session.target
    if not isinstance(target, NativeTarget):
        raise InputError(f"{target.name} is not this machine; open the session with target='cpu'")
    return target


def _timed(
    executable: Executable,
    adapter: IoAdapter,
    inputs: Mapping[str, npt.NDArray[np.generic]],
    seconds: float,
) -> tuple[Sequence[float], tuple[float, float], int]:
    """Return the least seconds of every group, the fastest run with its seconds of waiting, and the
    number of runs."""
    alone = executable.threads == 1
    executable.run(adapter.to_float32(inputs))  # tensors and code come into memory
    begin = time.perf_counter()
    groups: list[npt.NDArray[np.int64]] = []
    runs: list[tuple[float, float]] = []
    while len(runs) < LEAST_RUNS or (
        len(runs) < MOST_RUNS and time.perf_counter() - begin < seconds
    ):
        nanoseconds = np.zeros(executable.part_count, np.int64)
        start, own_start = time.perf_counter(), time.thread_time()
        adapter.from_float32(
            executable.run(adapter.to_float32(inputs), nanoseconds, own_time=alone)
        )
        own_seconds, took = time.thread_time() - own_start, time.perf_counter() - start
        runs.append((took, max(0.0, took - own_seconds) if alone else 0.0))
        groups.append(nanoseconds)
    least = [max(1, ns) * 1e-9 for ns in np.min(groups, axis=0).tolist()]
    return least, min(runs), len(runs)


def _group(
    step: GroupStep,
    seconds: float,
    share: float,
    work: Work,
    roofs: Roofs,
    profile: ProgramProfile,
    threads: int,
) -> HostGroup:
    bounds = work.bounds(roofs)
    limit = max(bounds, key=lambda resource: bounds[resource])
    functions = any(
        op.family is Family.SOFTMAX or (fn is not None and fn.row.cost is CostClass.TRANSCENDENTAL)
        for op in step.group.ops
        for fn in (OPERATORS[op.kind].function,)
    )
    evidence = Evidence(seconds, bounds[limit] / seconds, limit, profile, threads, functions)
    return HostGroup(
        step.operators,
        tuple(op.kind.value for op in step.group.ops),
        seconds,
        share,
        work,
        bounds[limit],
        limit,
        profile.steps,
        profile.parts,
        reason(evidence),
    )

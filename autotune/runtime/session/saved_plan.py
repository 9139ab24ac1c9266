"""The plan that a session runs now, as a plan file holds it: with all that merges, swaps and splits have made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from autotune.disk.file_stamp import FileStamp
from autotune.errors import AutotuneError, InputError, PlanError
from autotune.runtime.execution.program_table import GroupStep, ProgramTable
from autotune.runtime.profile.group_profile import GroupProfile
from autotune.runtime.session.request import OpenRequest
from autotune.targets.device_set import DeviceSet
from autotune.targets.spec import HardwareSpec
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.plan import NetworkFile, Plan


def plan_of(request: OpenRequest, graphs: Iterable[GraphPlan], name: str) -> Plan:
    """Return the plan of a session that was opened by ``request`` and runs ``graphs`` now.

    Graphs of the plan that it was opened with, but that it does not hold now, stay in it. Raises ``AutotuneError``
    before there is a graph, ``PlanError`` for a network file that has changed since, ``InputError`` for several devices.
    """
    if isinstance(request.target, DeviceSet):
        raise InputError(
            f"{name}: a session of several devices does not learn; the plan that it runs is its plan file"
        )
    before, spec = request.plan, request.target.spec
    found = {one.fingerprint: one for one in (() if before is None else before.graphs)}
    found |= {one.fingerprint: one for one in graphs}
    if not found:
        raise AutotuneError(f"{name}: no shapes are known yet; call run() first")
    return Plan(
        tuple(found.values()),
        _network_file(request),
        request.target.name,
        spec.profile_id,
        Objective.LATENCY if before is None else before.objective,
        request.accuracy if before is None else before.accuracy,
        tuple(request.dims.items()),
        tuple((x, (float(low), float(high))) for x, (low, high) in request.ranges.items()),
        macs_per_byte=spec.formats.macs_per_byte if before is None else before.macs_per_byte,
    )


def _network_file(request: OpenRequest) -> NetworkFile | None:
    """Return the file that the session was opened from; None for a graph."""
    if not isinstance(request.source, Path):
        return None
    if FileStamp.of(request.source) != request.stamp:
        raise PlanError(
            f"{request.source}: has changed since the session was opened; the plan is for the file as it was"
        )
    return NetworkFile.of(request.source)


def graph_plan(table: ProgramTable, rows: Sequence[GroupProfile], spec: HardwareSpec) -> GraphPlan:
    """Return the groups of a table with what their runs took in the mean, by the ``rows`` of a profile."""
    known = {row.key: row for row in rows if not row.is_altered}  # equal groups share a row
    groups = (
        _measured(step, known.get(step.key), spec)
        if isinstance(step, GroupStep)
        else PlannedGroup(
            tuple(op.name for op in step.group.ops), step.group.outputs, None, 0.0, 0, 0, 0
        )
        for step in table.steps
    )
    return GraphPlan(table.graph.name, table.graph.fingerprint, tuple(groups))


def _measured(step: GroupStep, row: GroupProfile | None, spec: HardwareSpec) -> PlannedGroup:
    counted = None if row is None or not spec.energy.known else row  # a clock tells no energy
    return PlannedGroup(
        step.operators,
        step.group.outputs,
        step.schedule,
        _predicted(step, spec),
        None if row is None else max(1, round(row.mean_cycles)),
        None if counted is None else round(counted.mean_energy_fj),
        None if counted is None else round(counted.mean_dram_bytes),
    )


def _predicted(step: GroupStep, spec: HardwareSpec) -> float:
    """Return the cycles that the session predicts; without a model those of one that knows nothing of this machine."""
    if step.predicted_cycles is not None:
        return step.predicted_cycles
    from autotune.cost_model.shipped import untrained_model  # a session that only runs does without

    return untrained_model(spec).predict(step.group, step.schedule)

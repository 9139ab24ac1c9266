"""From a search result, and a profile on this machine, to the view of its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cost_model.features import bound
from autotune.fusion.analysis import analyse
from autotune.fusion.nest import Rejection
from autotune.operators.op import Family, Op
from autotune.report.axis import short
from autotune.report.document import write_view
from autotune.report.measured_curve import measured_curves
from autotune.report.read_costs import with_read_costs
from autotune.report.view import (
    FailureRow,
    FrontRow,
    GroupRow,
    PlanCosts,
    RooflineRow,
    SearchView,
    TrialPoint,
    shares_text,
)
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec
from autotune.tuner.failures import count_reasons
from autotune.tuner.front import FrontPoint
from autotune.tuner.result import GroupResult, SearchResult

if TYPE_CHECKING:
    from autotune.runtime.session.host_profile import HostGroup, HostProfile


def write_report(
    result: SearchResult,
    spec: HardwareSpec,
    path: Path,
    profile: HostProfile | None = None,
    command: str = "",
    front: Sequence[FrontPoint] = (),
    plan_files: Sequence[str] = (),
) -> None:
    """Write the HTML report of a search; with the ``profile`` of the found plan where that runs on
    this machine, the ``command`` that repeats it, and the plans of a ``front`` with the names of their
    files. Raises ``OSError`` naming ``path``."""
    view = search_view(result, spec, profile, command)
    write_view(replace(view, front=front_rows(front, plan_files)), path)


def front_rows(front: Sequence[FrontPoint], plan_files: Sequence[str]) -> tuple[FrontRow, ...]:
    """Return a row per plan of a front."""
    return tuple(
        FrontRow(
            name,
            point.result.plan.objective.name,
            len(point.result.found.groups),
            point.cycles,
            point.energy_fj,
            point.peak_bytes,
        )
        for point, name in zip(front, plan_files, strict=True)
    )


def search_view(
    result: SearchResult,
    spec: HardwareSpec,
    profile: HostProfile | None = None,
    command: str = "",
) -> SearchView:
    """Return the view of a search on the machine ``spec``."""
    plans = (result.unfused, result.greedy, result.found, result.heuristic)

    def costs(name: str) -> PlanCosts:
        return PlanCosts(*(None if plan is None else getattr(plan, name) for plan in plans))

    return SearchView(
        network=result.plan.network,
        objective=result.plan.objective.name,
        spec=spec,
        cycles=costs("measured_cycles"),
        predicted_cycles=costs("predicted_cycles"),
        energy_fj=costs("energy_fj"),
        dram_bytes=costs("dram_bytes"),
        groups=_rows(result, spec),
        trials=tuple(TrialPoint(t.number, t.cost, t.best, t.strategy) for t in result.trials),
        model_metrics={} if result.model is None else result.model.metrics,
        facts=_facts(result, command),
        rooflines=() if profile is None else roofline_rows(profile),
        roofline_note="" if profile is None else roofline_note(profile),
        curves=measured_curves(result, spec),
        failures=tuple(
            FailureRow(f.kind.value, f.count, f.reason) for f in count_reasons(result.records)
        ),
        proofs=tuple(_proofs(result)),
        precision=result.precision,
    )


def _proofs(result: SearchResult) -> Iterator[str]:
    """Yield what is shown and proved of the found plan, in sentences."""
    for graph in result.graphs:
        if graph.forms is not None:
            yield f"{graph.forms.statement}."
    for statement in result.statements:
        yield f"Its partition is {statement}."
    yield from result.restrictions
    if result.above_bound is not None:
        basis = "" if result.is_bound_exact else "By the peaks that were measured of this CPU, "
        yield (
            f"{basis}{'N' if result.is_bound_exact else 'n'}o plan takes fewer than {result.bound_cycles:,.0f} cycles: "
            f"this one is at most {result.above_bound:.0%} above any plan."
        )


def _facts(result: SearchResult, command: str) -> tuple[tuple[str, str], ...]:
    plan = result.plan
    again = (("command", command),) if command else ()
    return (
        *again,
        ("network file", "–" if plan.network_file is None else Path(plan.network_file.path).name),
        ("graph fingerprints", ", ".join(graph.fingerprint[:16] for graph in plan.graphs)),
        ("target", plan.target),
        ("hardware profile", plan.profile_id),
        ("partitions tried", str(len(result.trials))),
        ("measurements taken", str(result.measurements)),
        *_bound_facts(result),
    )


def _bound_facts(result: SearchResult) -> tuple[tuple[str, str], ...]:
    """Return how far the found plan can be above the best one, where that is known."""
    if result.above_bound is None:
        return ()
    return (
        ("cycles that no plan undercuts", f"{result.bound_cycles:,.0f}"),
        ("found plan above any plan at most", f"{result.above_bound:.1%}"),
    )


def _rows(result: SearchResult, spec: HardwareSpec) -> tuple[GroupRow, ...]:
    made: dict[str, int] = {}
    rows = []
    alone = {item.group.ops[0].name: item for item in result.unfused.groups}
    is_measured = (
        result.unfused.measured_cycles is not None and result.found.measured_cycles is not None
    )
    for index, item in enumerate(result.found.groups):
        row = _row(index, item, made, spec)
        apart = tuple(_cycles(alone[name], is_measured) for name in row.names)
        rows.append(replace(row, apart_cycles=apart, apart_is_measured=is_measured))
        made.update((output, index) for output in item.group.outputs)
    return (
        with_read_costs(rows, result.found.groups, spec)
        if len(result.plan.graphs) == 1
        else tuple(rows)
    )


def _cycles(item: GroupResult, is_measured: bool) -> float:
    return float(item.measured_cycles or 0) if is_measured else item.predicted_cycles


def _row(index: int, item: GroupResult, made: Mapping[str, int], spec: HardwareSpec) -> GroupRow:
    group = item.group
    return GroupRow(
        index=index,
        operators=tuple(op.kind.value for op in group.ops),
        names=tuple(op.name for op in group.ops),
        output_shape=group.type_of[group.outputs[-1]].shape,
        schedule="" if item.schedule is None else describe(item.schedule),
        reads=tuple(sorted({made[x] for x in group.inputs if x in made})),
        multiply_adds=sum(_macs(op, item) for op in group.ops),
        macs_per_cell=_macs_per_cell(item, spec),
        bound_cycles=0.0 if item.schedule is None else group_bound(item, spec),
        predicted_cycles=item.predicted_cycles,
        low_cycles=item.low_cycles,
        high_cycles=item.high_cycles,
        measured_cycles=item.measured_cycles,
        energy_fj=item.energy_fj,
        dram_bytes=item.dram_bytes,
        is_view=item.schedule is None,
    )


def _macs_per_cell(item: GroupResult, spec: HardwareSpec) -> float:
    macs = [(_macs(op, item), spec.matrix.macs_per_cell(op.multiplied)) for op in item.group.ops]
    taken = sum(done / max(1, rate) for done, rate in macs)
    return sum(done for done, _ in macs) / taken if taken else 1.0


def _macs(op: Op, item: GroupResult) -> int:
    types = item.group.type_of
    if op.family is Family.CONV:
        weight = types[op.inputs[1]]
        per_output = weight.elements // weight.shape[op.axes.out_channel]
    elif op.family is Family.MATMUL:
        shape = types[op.inputs[0]].shape
        per_output = shape[-2] if op.int("trans_a") else shape[-1]
    elif op.family is Family.STRASSEN:
        factors, depth, _ = types[op.inputs[1]].shape
        per_output = factors * depth // 4
    else:
        return 0
    return types[op.output].elements * per_output


def group_bound(item: GroupResult, spec: HardwareSpec) -> float:
    """Return the roofline cycles of a group by its schedule."""
    nests = analyse(item.group)
    assert item.schedule is not None and not isinstance(nests, Rejection)
    return sum(
        float(bound(nest, ScheduleTable.of(nest, [part]), spec)[0])
        for nest, part in zip(nests, item.schedule.nests, strict=True)
    )


def describe(schedule: Schedule) -> str:
    """Return a schedule in few words."""
    return "; ".join(
        f"tile {'×'.join(map(str, part.tile))}"
        f" order {''.join(map(str, part.order))}"
        + (f" k {'/'.join(map(str, part.k_tile))}" if part.k_tile else "")
        + (" double" if part.buffers == 2 else " single")
        + (f" {part.cores} cores" if part.cores > 1 else "")
        + (" im2col" if part.im2col else "")
        for part in schedule.nests
    )


def roofline_rows(profile: HostProfile) -> tuple[RooflineRow, ...]:
    """Return a row per group, in order of execution."""
    return tuple(_roofline_row(index, group) for index, group in enumerate(profile.groups))


def roofline_note(profile: HostProfile) -> str:
    """Return the machine's measured roofs and the network's share of them, as text."""
    roofs = profile.roofs
    return (
        f"Measured peak {short(roofs.flops)}FLOP/s, of which the network does "
        f"{profile.peak_fraction:.0%}; memory {short(roofs.memory_bytes)}B/s. The bound is the least time "
        "that peak, memory (for bytes that caches cannot hold from one use to the next) and second-level "
        f"cache allow; all bounds together are {profile.bound_fraction:.0%} of the time. Times are those of "
        f"the fastest of {profile.runs} runs. Reasons are guesses from where the time goes within a group; "
        "a CPU tells neither energy nor traffic."
    )


def _roofline_row(index: int, group: HostGroup) -> RooflineRow:
    return RooflineRow(
        index,
        group.kinds,
        group.operators,
        group.seconds,
        group.share,
        group.work.flops,
        group.work.touched_bytes,
        group.work.memory_bytes,
        group.bound_seconds,
        group.limit.value,
        shares_text(group.steps),
        group.reason,
    )

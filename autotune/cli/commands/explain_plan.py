"""``autotune explain PLAN``: why every group of a plan is as it is; ``--group`` tells all of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.errors import AutotuneError, InputError
from autotune.report.view import group_label

if TYPE_CHECKING:
    from autotune.cost_model.explanation import Explanation
    from autotune.runtime.session.explanation import PlanReasons
    from autotune.tuner.graph_plan import PlannedGroup
    from autotune.tuner.placement.planned import PlannedDevices
    from autotune.tuner.plan import Plan
    from autotune.tuner.reasons.group_reasons import GroupReasons
    from autotune.tuner.reasons.price import Comparison
    from autotune.tuner.reasons.rejected_fusion import RejectedFusion

_UNSURE = "~"
"""Mark of a margin that the noise could explain."""
_BY_BYTES = frozenset(("winograd_conv", "strassen_matmul"))
"""Kinds of operators that are chosen by how long weights take from memory."""
_LISTED = 12
"""Rejected fusions that the overview lists: those that come nearest to a gain."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One group of a plan at ``index``; ``kinds`` is empty, and ``why`` None, where they are not known."""

    index: int
    planned: PlannedGroup
    kinds: tuple[str, ...]
    why: GroupReasons | None
    cost: Explanation | None = None

    @property
    def label(self) -> str:
        return f"#{self.index} {group_label(self.kinds, self.planned.operators)}"


def explain_plan(path: Path, group: int | None, store: str | None, json: bool) -> None:
    """Print why the groups of a plan are as they are, or all about one.

    Without its network or a cost model, the plan's own figures are printed, and one line says what is missing.
    Raises ``AutotuneError`` for a file that is no plan, ``InputError`` for a group that it does not have.
    """
    from autotune.tuner.plan import Plan

    plan = Plan.load(path)
    if group is not None and not 0 <= group < len(plan.groups):
        raise InputError(f"{path}: no group {group}; it has the groups 0 to {len(plan.groups) - 1}")
    reasons = _reasons(plan, path, group, store)
    if isinstance(reasons, str):
        say(f"the plan's own figures alone, without reasons: {reasons}")
        rows = _plain_rows(plan, path, group)
    else:
        rows = _rows(plan, reasons)
    if json:
        _print_documents(plan, rows)
    elif group is None:
        _print_overview(plan, path, rows)
    else:
        _print_group(plan, rows[0])
    if not isinstance(reasons, str):
        say(reasons.origin)


def _reasons(plan: Plan, path: Path, group: int | None, place: str | None) -> PlanReasons | str:
    """Return the reasons, or in one line why there are none."""
    from autotune.runtime.session.defaults import choose_target
    from autotune.runtime.session.explanation import explain_plan as reasons_of
    from autotune.store.store import Store

    if plan.devices is not None:
        return (
            "its groups stand on several devices, at nanoseconds as cycles; 'autotune run PLAN --profile' shows "
            "them on the timeline, 'autotune search NETWORK --target DEVICE' makes a plan of one device to explain"
        )
    try:
        with Store.open(place, reading=True) as store:
            return reasons_of(plan, choose_target(None, path), store, group)
    except AutotuneError as error:  # the network has gone or changed, or there is no cost model
        return str(error)


def _rows(plan: Plan, reasons: PlanReasons) -> list[_Row]:
    return [
        _Row(why.index, plan.groups[why.index], why.kinds, why, reasons.cost)
        for why in reasons.groups
    ]


def _plain_rows(plan: Plan, path: Path, group: int | None) -> list[_Row]:
    kinds = _kinds_of(plan, path)
    return [
        _Row(i, planned, tuple(kinds[x] for x in planned.operators) if kinds else (), None)
        for i, planned in enumerate(plan.groups)
        if group in (None, i)
    ]


def _kinds_of(plan: Plan, path: Path) -> dict[str, str]:
    """Return the kinds of the plan's operators by name; nothing if its network cannot be opened."""
    from autotune.runtime.session.defaults import choose_target
    from autotune.runtime.session.explanation import plan_graphs

    try:
        graphs = plan_graphs(plan, choose_target(None, path))
    except AutotuneError:
        return {}
    return {op.name: op.kind.value for graph in graphs for op in graph.ops}


def _print_documents(plan: Plan, rows: Sequence[_Row]) -> None:
    """Print one document for each graph of the plan with a group among the rows."""
    first, documents = 0, []
    for graph in plan.graphs:
        inside = [row for row in rows if 0 <= row.index - first < len(graph.groups)]
        first += len(graph.groups)
        if inside:
            head = {"network": graph.graph, "target": plan.target, "profile_id": plan.profile_id}
            placed = {} if plan.devices is None else {"devices": plan.devices.document()}
            documents.append({**head, **placed, "groups": [_document(row) for row in inside]})
    print_json(documents[0] if len(documents) == 1 else {"plans": documents})


def _document(row: _Row) -> dict[str, Any]:
    from autotune.report.from_search import describe

    planned = row.planned
    return {
        "index": row.index,
        **({"device": planned.device} if planned.device else {}),
        "operators": planned.operators,
        "kinds": row.kinds or None,
        "predicted": planned.predicted_cycles,
        "measured": planned.measured_cycles,
        "energy": planned.energy_fj,
        "dram_bytes": planned.dram_bytes,
        "schedule": None if planned.schedule is None else describe(planned.schedule),
        "why": None if row.why is None else _why_document(row.why, row.cost),
    }


def _why_document(why: GroupReasons, cost: Explanation | None) -> dict[str, Any]:
    from autotune.report.from_search import describe

    schedule, grouping = why.other_schedule, why.other_grouping
    return {
        "reasons": [*why.sentences, *(() if cost is None else cost.reasons)],
        "against_operators_apart": None if why.apart is None else comparison_document(why.apart),
        "kept_on_chip": [asdict(kept) | {"saved_bytes": kept.saved_bytes} for kept in why.kept],
        "next_schedule": None
        if schedule is None
        else {"schedule": describe(schedule.schedule)} | comparison_document(schedule.comparison),
        "next_grouping": None
        if grouping is None
        else {"change": grouping.text, "groups": grouping.groups}
        | comparison_document(grouping.comparison),
        "rejected_fusions": [_rejected_document(fusion) for fusion in why.rejected],
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON has it; ``saved`` is negative where the plan's way costs more."""
    return {
        "basis": "measured" if comparison.is_measured else "predicted",
        "other_cycles": comparison.before.cycles,
        "plan_cycles": comparison.after.cycles,
        "saved_cycles": comparison.saved_cycles,
        "noise_cycles": comparison.noise_cycles,
        "beyond_noise": comparison.is_sure,
        "saved_dram_bytes": comparison.saved_dram_bytes,
        "saved_energy_fj": comparison.saved_energy_fj,
    }


def _rejected_document(fusion: RejectedFusion) -> dict[str, Any]:
    reverse = None if fusion.comparison is None else fusion.comparison.reverse
    return {
        "groups": fusion.groups,
        "constraint": fusion.constraint.value,
        "reason": fusion.reason,
        "comparison": None if reverse is None else comparison_document(reverse),
    }


def _print_overview(plan: Plan, path: Path, rows: Sequence[_Row]) -> None:
    title = f"{plan.network} on {plan.target}"
    columns = (
        "group",
        "predicted",
        "measured",
        "fusing saves",
        "DRAM bytes",
        "next schedule",
        "next grouping",
    )
    if plan.devices is not None:
        _print_placed(title, plan.devices, rows)
        return
    cells = [_overview_row(row) for row in rows]
    print_table(title, columns, cells)
    if plan.macs_per_byte and any({*row.kinds} & _BY_BYTES for row in rows):
        say(
            f"convolutions and products have the forms for {plan.macs_per_byte} multiply-adds a byte of "
            "weights, which the plan keeps"
        )
    if any(_UNSURE in cell for row in cells for cell in row):
        say(f"{_UNSURE} within the noise: the next one may be as good")
    rejected = {fusion.groups: fusion for row in rows if row.why for fusion in row.why.rejected}
    if not rejected:
        return
    nearest = sorted(rejected.values(), key=_distance)[:_LISTED]
    print_table(
        f"fusions that were not taken: {len(nearest)} of {len(rejected)}, nearest to a gain first",
        ("groups", "constraint", "why"),
        [(_places(fusion), fusion.constraint.value, fusion.reason) for fusion in nearest],
        texts=3,
    )
    say(f"all about one group: autotune explain {path} --group N")


def _print_placed(title: str, devices: PlannedDevices, rows: Sequence[_Row]) -> None:
    """Print which device runs which group, and the plan beside the best single device and the bounds."""
    cells = [
        (
            row.label,
            row.planned.device,
            f"{row.planned.predicted_cycles / 1e6:,.3f}",
            "" if row.planned.measured_cycles is None else f"{row.planned.measured_cycles / 1e6:,.3f}",
        )
        for row in rows
    ]  # fmt: skip
    print_table(title, ("group", "device", "predicted ms", "measured ms"), cells, texts=2)
    alone = {f"alone on {n}": f"{1e3 * s:,.3f} ms" for n, s in devices.single_seconds.items()}
    print_facts(
        {
            "placed for": devices.serving.value,
            "one request": f"{1e3 * devices.makespan_seconds:,.3f} ms",
            **alone,
            "no placement beyond": f"{1e3 * devices.bound_seconds:,.3f} ms",
            "links": devices.links.description or "as given",
            **{
                f"{first} to {second}": f"{1e6 * link.latency_seconds:,.1f} µs and "
                f"{link.bandwidth_bytes_per_second / 1e9:,.2f} GB/s"
                for first, second, link in devices.links.joining(devices.names)
            },
        }
    )


def _overview_row(row: _Row) -> tuple[str, ...]:
    planned, why = row.planned, row.why
    schedule = None if why is None or why.other_schedule is None else why.other_schedule.comparison
    grouping = None if why is None or why.other_grouping is None else why.other_grouping.comparison
    apart = None if why is None else why.apart
    saved_bytes = None if apart is None else apart.saved_dram_bytes
    return (
        row.label,
        f"{planned.predicted_cycles:,.0f}",
        "" if planned.measured_cycles is None else f"{planned.measured_cycles:,}",
        "" if apart is None else f"{apart.saved_cycles:,.0f} ({apart.saved_share:.0%})",
        "" if saved_bytes is None else f"{-saved_bytes:+,.0f}",
        _margin(schedule),
        _margin(grouping),
    )


def _margin(comparison: Comparison | None) -> str:
    """Return the margin of a runner-up as a share, marked where it is within the noise."""
    if comparison is None or not comparison.after.cycles:
        return ""
    share = f"{comparison.saved_cycles / comparison.after.cycles:+.1%}"
    return share if comparison.is_sure else f"{share} {_UNSURE}"


def _distance(fusion: RejectedFusion) -> float:
    """Return cycles by which a fusion costs more; those that no program computes come last."""
    comparison = fusion.comparison
    return float("inf") if comparison is None else -comparison.saved_cycles


def _places(fusion: RejectedFusion) -> str:
    return " + ".join(f"#{place}" for place in fusion.groups)


def _print_group(plan: Plan, row: _Row) -> None:
    from autotune.report.from_search import describe

    planned, why = row.planned, row.why
    facts: dict[str, Any] = {"group": f"{row.label} of {plan.network} on {plan.target}"}
    facts["schedule"] = (
        "view: no program" if planned.schedule is None else describe(planned.schedule)
    )
    facts["predicted"] = f"{planned.predicted_cycles:,.0f} cycles"
    if planned.measured_cycles is not None:
        facts["measured"] = f"{planned.measured_cycles:,} cycles"
    if why is not None:
        for sentence in (*why.sentences, *(() if row.cost is None else row.cost.reasons)):
            label, _, rest = sentence.partition(": ")
            facts[label] = rest or label
        if why.other_schedule is not None:
            facts["next schedule"] += f"; {describe(why.other_schedule.schedule)}"
    print_facts(facts)
    if why is None:
        return
    if why.kept:
        print_table("kept on chip", ("tensor", "shape", "bytes", "crossings apart", "fused", "bytes saved"), [
            (k.tensor, "×".join(map(str, k.shape)), f"{k.size_bytes:,}", str(k.apart), str(k.fused),
             f"{k.saved_bytes:,}") for k in why.kept
        ])  # fmt: skip
    if why.rejected:
        columns = ("groups", "constraint", "why")
        print_table("fusions that were not taken", columns, [
            (_places(fusion), fusion.constraint.value, fusion.reason) for fusion in why.rejected
        ], texts=3)  # fmt: skip

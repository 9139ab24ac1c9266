"""The outcome of ``autotune run`` as text, tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_facts, print_table, say

if TYPE_CHECKING:
    from autotune.cli.emulator_profile import GroupCost
    from autotune.cli.latency import Latency
    from autotune.cli.placed_profile import PlacedGroup
    from autotune.cli.run_check import Difference
    from autotune.runtime.execution.event import Event
    from autotune.runtime.execution.memory_plan import MemoryPlan
    from autotune.runtime.session.host_profile import HostProfile
    from autotune.runtime.session.network_session import NetworkSession

    Costs = tuple[GroupCost, ...] | list[PlacedGroup] | Mapping[str, HostProfile]

PLANNED_BY = {
    "plan": "as given",
    "heuristic": "by heuristic; 'autotune search' looks for a faster one",
    "learning": "found by online learning",
}
"""Origin of a session's plan in words, by ``PlannedBy``."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Results of the runs of a network; ``session`` is the one that served them.

    ``latency`` is measured on this machine only, ``costs`` exist with ``--profile``, ``differences`` and
    ``races`` with ``--check``.
    """

    session: NetworkSession
    latency: Latency | None
    events: tuple[Event, ...]
    differences: Mapping[str, Difference]
    races: tuple[str, ...]
    costs: Costs | None

    @property
    def is_right(self) -> bool:
        """True if no output is off and no program has a race."""
        return not self.races and all(x.is_tolerable for x in self.differences.values())


def outcome_document(outcome: RunOutcome) -> dict[str, Any]:
    """Return the outcome as JSON has it."""
    from autotune.cli.device_profile import devices_document
    from autotune.cli.part_costs import parts_document

    session = outcome.session
    last, memory = session.last_run, _memory(session)
    is_counted = session.target.spec.energy.known  # a clock tells neither energy nor traffic
    return {
        "target": session.target.name,
        "planned_by": session.planned_by.value,
        "cycles": last.cycles,
        "predicted_cycles": last.predicted_cycles,
        **({} if outcome.latency is None else {"latency": outcome.latency.document()}),
        "energy_fj": last.energy_fj if is_counted else None,
        "dram_bytes": last.dram_bytes if is_counted else None,
        "memory": None if memory is None else asdict(memory),
        **parts_document(session),
        **devices_document(session),
        "check": {
            name: {"max_difference": x.largest, "ok": x.is_tolerable, "rounding": x.rounding}
            for name, x in outcome.differences.items()
        },
        "races": list(outcome.races),
        "variants": [asdict(variant) for variant in session.variants],
        "events": [
            {"kind": e.kind.value, "run": e.run, "text": e.text, "figures": dict(e.figures)}
            for e in outcome.events
        ],
        **_cost_documents(outcome.costs),
    }


def _cost_documents(costs: Costs | None) -> dict[str, Any]:
    from autotune.cli import emulator_profile, host_profile, placed_profile

    if costs is None:
        return {}
    if isinstance(costs, list):
        return {"groups": placed_profile.documents(costs)}
    if isinstance(costs, tuple):
        return {"groups": emulator_profile.documents(costs)}
    return host_profile.parts_document(costs)


def _memory(session: NetworkSession) -> MemoryPlan | None:
    """Return the memory plan of the part with the largest arena; None without parts."""
    from autotune.runtime.execution.memory_plan import memory_plan

    plans = [memory_plan(part.table) for part in session.parts.values()]
    return max(plans, key=lambda plan: plan.arena_bytes, default=None)


def print_outcome(outcome: RunOutcome) -> None:
    """Print cost, memory, parts, groups, differences, races and events, in this order."""
    from autotune.cli.device_profile import devices_of, print_devices
    from autotune.cli.part_costs import print_parts

    session, latency, memory = outcome.session, outcome.latency, _memory(outcome.session)
    print_facts(
        {
            "target": session.target.name,
            "plan": PLANNED_BY[session.planned_by.value],
            **({} if devices_of(session) else _time_facts(session, latency)),
            "arena bytes": "none"
            if memory is None
            else f"{memory.arena_bytes:,}  "
            f"({memory.excess:.1%} over the bound; side by side {memory.intermediate_bytes:,})",
            **{f"variant {n}": v.text for n, v in enumerate(session.variants, 1)},
        }
    )
    print_parts(session)
    print_devices(session)
    if outcome.costs is not None:
        _print_costs(outcome.costs)
    if outcome.differences:
        _print_differences(outcome.differences)
        print_facts({"races": len(outcome.races) or "none"})
    for race in outcome.races:
        say(race)
    for event in outcome.events:
        say(f"run {event.run}: {event.kind.value}: {event.text}")


def _time_facts(session: NetworkSession, latency: Latency | None) -> dict[str, str]:
    return _emulated_facts(session) if latency is None else latency.facts()


def _emulated_facts(session: NetworkSession) -> dict[str, str]:
    """Return the cost of the last run on an emulated machine, as lines for people."""
    last, spec = session.last_run, session.target.spec
    return {
        "cycles": f"{last.cycles:,}",
        "predicted": "no prediction: the plan was not searched"
        if last.predicted_cycles is None
        else f"{last.predicted_cycles:,.0f} cycles",
        "seconds on the target": f"{last.cycles / spec.clock_hz:.6f}",
        "energy µJ": f"{last.energy_fj / 1e9:,.1f}",
        "DRAM bytes": f"{last.dram_bytes:,}",
    }


def _print_costs(costs: Costs) -> None:
    from autotune.cli import emulator_profile, host_profile, placed_profile

    if isinstance(costs, list):
        placed_profile.print_groups(costs)
        return
    if isinstance(costs, tuple):
        emulator_profile.print_costs(costs)
        return
    for name, profile in costs.items():
        host_profile.print_profile(profile, name if len(costs) > 1 else None)


def _print_differences(differences: Mapping[str, Difference]) -> None:
    from autotune.cli.run_check import OF_RANGE, RELATIVE

    rows = [(name, f"{x.largest:.3g}", _verdict(x)) for name, x in differences.items()]
    title = (
        f"against the reference (tolerance {RELATIVE:g} of a number + {OF_RANGE:g} of the range)"
    )
    print_table(title, ("output", "largest difference", ""), rows)


def _verdict(found: Difference) -> str:
    if found.rounding == 0.0:
        return "ok" if found.is_tolerable else "DIFFERS"
    rounding = f"float32 leaves ±{found.rounding:.2g} open"
    return f"ok: {rounding}" if found.is_tolerable else f"DIFFERS: {rounding}"

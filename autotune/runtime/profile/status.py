"""Status of a session: what it runs, how fast, and what each of its groups costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune.display import Card, Displayed
from autotune.runtime.execution.event import Event
from autotune.runtime.execution.origin import Origin
from autotune.runtime.profile.durations import Durations
from autotune.runtime.profile.group_profile import GroupProfile, PairProfile
from autotune.runtime.profile.model_note import ModelNote

if TYPE_CHECKING:
    from autotune.runtime.builder.trace import BuildTrace


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """Bytes that a session's tables hold: constants, and arenas of all intermediates, one for each run at once so far."""

    constant_bytes: int
    arena_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class SessionStatus(Displayed):
    """A session at one moment. Times are seconds, ``at_seconds`` and ``opened_at_seconds`` of day.

    ``versions`` counts published plans and cost models, the highest of all parts. ``groups`` are those
    of all plans that ran, the most costly first; a group that other sessions of this process run on
    the same machine names their networks, too. ``pairs`` follow each other or pass data.
    """

    session: int
    network: str
    target: str
    profile_id: str
    clock_hz: float
    threads: int
    planned_by: str
    is_online: bool
    is_closed: bool
    versions: tuple[int, int]
    parts: int
    opened_at_seconds: float
    at_seconds: float
    durations: Durations
    memory: SessionMemory
    groups: tuple[GroupProfile, ...]
    pairs: tuple[PairProfile, ...]
    events: tuple[Event, ...]
    builds: tuple[BuildTrace, ...] = ()
    """What building tables did, the newest last; nothing for tables that were kept on disk."""
    model: ModelNote | None = None
    """The cost model that learning began with, of which ``versions`` count newer ones; None without learning."""

    def count_of(self, origin: Origin) -> int:
        """Return the number of groups of one origin that run now."""
        return sum(row.origin is origin and row.per_second > 0 for row in self.groups)

    def to_json(self, groups: int | None = None) -> dict[str, Any]:
        """Return the status as plain values for ``json.dumps``, with at most so many groups and pairs."""
        plan_version, model_version = self.versions
        return {
            "session": self.session,
            "network": self.network,
            "target": self.target,
            "hardware_profile": self.profile_id,
            "clock_hz": self.clock_hz,
            "threads": self.threads,
            "planned_by": self.planned_by,
            "online": self.is_online,
            "closed": self.is_closed,
            "plan_version": plan_version,
            "model_version": model_version,
            "model": None if self.model is None else asdict(self.model),
            "parts": self.parts,
            "opened_at": self.opened_at_seconds,
            "at": self.at_seconds,
            **self.durations.document(),
            "memory": asdict(self.memory),
            "group_count": len(self.groups),
            "groups": [row.document() for row in self.groups[:groups]],
            "pairs": [row.document() for row in self.pairs[:groups]],
            "builds": [build.document() for build in self.builds],
            "events": [_event_document(event) for event in self.events],
        }

    def _card(self) -> Card:
        times = self.durations
        facts = [
            ("runs", f"{times.runs:,}"),
            ("runs/s", f"{times.per_second:.3g}"),
            ("p50 ms", milliseconds(times.p50_seconds)),
            ("p99 ms", milliseconds(times.p99_seconds)),
            ("groups", str(len(self.groups))),
            ("plan", f"{self.planned_by}, version {self.versions[0]}"),
        ]
        if self.model is not None:
            error = f"mean error {self.model.held_out_error:.1%} on unseen networks"
            facts.append(("model", f"{self.model.kind}, {error}, version {self.versions[1]}"))
        columns = ("group", "origin", "executions", "mean µs", "± µs", "share")
        total = sum(row.total_cycles for row in self.groups) or 1
        rows = [
            (
                " ".join(row.operators),
                row.origin.value,
                f"{row.executions:,}",
                f"{1e6 * row.mean_cycles / self.clock_hz:.1f}",
                f"{1e6 * row.deviation_cycles / self.clock_hz:.1f}",
                f"{row.total_cycles / total:.1%}",
            )
            for row in self.groups
        ]
        return Card(f"Status of {self.network} on {self.target}", facts, columns, rows)


def milliseconds(seconds: float | None) -> str:
    """Return seconds as milliseconds for people."""
    return "-" if seconds is None else f"{1e3 * seconds:.4g}"


def by_cost(rows: Sequence[GroupProfile]) -> tuple[GroupProfile, ...]:
    """Return rows, those that took the most cycles first."""
    return tuple(sorted(rows, key=lambda row: -row.total_cycles))


def _event_document(event: Event) -> dict[str, Any]:
    return {
        "kind": event.kind.value,
        "run": event.run,
        "at": event.at_seconds,
        "text": event.text,
        "figures": dict(event.figures),
    }

"""The part of a plan for one graph: its fusion groups in running order, with schedules and costs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import PlanError
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice

AGAIN = "make it again with 'autotune search'"


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One group of a plan: its operators and outputs by name, and how to run it.

    ``schedule`` is None for a group of views, which costs nothing. Costs are of one execution;
    the measured ones are None where nothing was measured.
    """

    operators: tuple[str, ...]
    outputs: tuple[str, ...]
    schedule: Schedule | None
    predicted_cycles: float
    measured_cycles: int | None
    energy_fj: int | None
    dram_bytes: int | None
    device: str = ""
    """Device of a plan for several; its cycles are nanoseconds. Empty in a plan for one."""

    def __post_init__(self) -> None:
        if not self.operators:
            raise ValueError("a group has no operators")
        if not 0.0 <= self.predicted_cycles < math.inf:
            raise ValueError(f"{self.predicted_cycles} is not a number of cycles")

    def group(self, graph: Graph) -> Group:
        """The fusion group in its network."""
        return Group.from_graph(graph, self.operators)

    def document(self) -> dict[str, Any]:
        """What the file has of it."""
        return {
            "operators": self.operators,
            "outputs": self.outputs,
            "schedule": None if self.schedule is None else json.loads(self.schedule.to_json()),
            "predicted_cycles": self.predicted_cycles,
            "measured_cycles": self.measured_cycles,
            "energy_fj": self.energy_fj,
            "dram_bytes": self.dram_bytes,
            **({"device": self.device} if self.device else {}),
        }


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """Groups in running order for one graph, which ``fingerprint`` identifies."""

    graph: str
    """Name of the graph."""
    fingerprint: str
    groups: tuple[PlannedGroup, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError("it has no groups")

    def check_graph(self, graph: Graph) -> None:
        """Raise ``PlanError`` unless the plan was made for this graph and covers it."""
        from autotune.fusion.partition import Partition  # a session without a plan does without

        if self.fingerprint != graph.fingerprint:
            raise PlanError(
                f"plan is for network {self.graph} ({self.fingerprint[:12]}), not {graph.name} "
                f"({graph.fingerprint[:12]}); {AGAIN}"
            )
        Partition.of(graph, [group.operators for group in self.groups])
        for group in self.groups:
            outputs = group.group(graph).outputs
            if sorted(group.outputs) != sorted(outputs):
                raise PlanError(
                    f"plan of {self.graph}: the group of {group.operators[0]!r} has the outputs "
                    f"{list(outputs)}, not {list(group.outputs)}; {AGAIN}"
                )

    def choices(self, graph: Graph) -> tuple[Choice, ...]:
        """Return the groups in their graph, with schedules and predictions."""
        return tuple(
            Choice(
                row.group(graph),
                row.schedule,
                None if row.schedule is None else row.predicted_cycles,
                row.device,
            )
            for row in self.groups
        )

    def document(self) -> dict[str, Any]:
        """What the file has of it."""
        return {
            "graph": self.graph,
            "fingerprint": self.fingerprint,
            "groups": [group.document() for group in self.groups],
        }


def read_graph(plain: Mapping[str, Any]) -> GraphPlan:
    """Return the plan of a graph from its part of a file.

    Raises ``KeyError``, ``TypeError``, ``ValueError``, ``AttributeError`` or ``ScheduleError`` for anything else.
    """
    groups = tuple(map(_read_group, plain["groups"]))
    return GraphPlan(str(plain["graph"]), str(plain["fingerprint"]), groups)


def _read_group(row: Mapping[str, Any]) -> PlannedGroup:
    schedule = row["schedule"]
    measured = [None if row[name] is None else int(row[name]) for name in _MEASURED]
    cycles, energy_fj, dram_bytes = measured
    return PlannedGroup(
        tuple(map(str, row["operators"])),
        tuple(map(str, row["outputs"])),
        None if schedule is None else Schedule.from_json(json.dumps(schedule)),
        float(row["predicted_cycles"]),
        cycles,
        energy_fj,
        dram_bytes,
        str(row.get("device", "")),
    )


_MEASURED = ("measured_cycles", "energy_fj", "dram_bytes")

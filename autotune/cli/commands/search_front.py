"""``autotune search --front``: plans between least latency and least energy, each with its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import print_table
from autotune.disk.atomic_file import check_place

if TYPE_CHECKING:
    from autotune.targets.spec import HardwareSpec
    from autotune.tuner.front import FrontPoint
    from autotune.tuner.objective import Objective

FrontOption = Annotated[
    int | None,
    typer.Option(
        "--front",
        min=2,
        max=64,
        help="Searches for plans between least latency and least energy; on this CPU least peak memory. OUT.plan is the "
        "best by --objective, OUT.1.plan the fastest, the last one the most frugal. --seconds are for each search.",
    ),
]


@dataclass(frozen=True, slots=True)
class WrittenFront:
    """Plans by ascending cycles, none beaten by another in cycles and energy or memory, with their files."""

    points: tuple[FrontPoint, ...]
    files: tuple[Path, ...]

    def best(self, objective: Objective) -> FrontPoint:
        """Return the plan of the least cost by an objective."""
        if objective.most_bytes is not None:
            within = [one for one in self.points if one.peak_bytes <= objective.most_bytes]
            return min(within, key=lambda one: one.cycles, default=self.points[-1])
        return min(self.points, key=lambda one: objective.of(one.cycles, one.energy_fj))

    @property
    def document(self) -> list[dict[str, Any]]:
        """The plans as JSON has them."""
        return [
            {
                "plan": str(file),
                "objective": point.result.plan.objective.name,
                "groups": len(point.result.found.groups),
                "cycles": point.cycles,
                "energy_fj": point.energy_fj,
                "peak_bytes": point.peak_bytes,
            }
            for point, file in zip(self.points, self.files, strict=True)
        ]


def write_front(points: Sequence[FrontPoint], plan_file: Path) -> WrittenFront:
    """Write each plan beside ``plan_file``, with its number. Raises ``OSError`` and ``InputError`` for files
    that cannot be written."""
    files = numbered_files(plan_file, len(points))
    for point, file in zip(points, files, strict=True):
        point.result.plan.save(file)
    return WrittenFront(tuple(points), files)


def numbered_files(plan_file: Path, count: int) -> tuple[Path, ...]:
    """Return ``net.1.plan`` and so on for ``net.plan``."""
    suffix = plan_file.suffix or ".plan"
    stem = plan_file.stem if plan_file.suffix else plan_file.name
    return tuple(plan_file.with_name(f"{stem}.{number}{suffix}") for number in range(1, count + 1))


def check_files(plan_file: Path, count: int) -> None:
    """Raise ``InputError`` for a place that no plan can be written to, before anything is searched."""
    from autotune.tuner.plan import KIND

    for file in numbered_files(plan_file, count):
        check_place(file, KIND)


def print_front(front: WrittenFront, spec: HardwareSpec) -> None:
    """Print a row per plan; energy-delay is that of the least one."""
    knows = spec.energy.known
    scale, digits = (1e3 / spec.clock_hz, 3) if spec.timed else (1.0, 0)
    least = min(point.energy_delay for point in front.points)
    rows = []
    for point, file in zip(front.points, front.files, strict=True):
        row = [str(file), str(len(point.result.found.groups))]
        row.append(f"{scale * point.cycles:,.{digits}f}")
        if knows:
            row += [f"{point.energy_fj / 1e9:,.1f}", f"{point.energy_delay / least:.3f}"]
        rows.append([*row, f"{point.peak_bytes / 1024:,.0f}"])
    network = front.points[0].result.plan.network
    columns = [
        "plan",
        "groups",
        "ms" if spec.timed else "cycles",
        *["energy µJ", "energy-delay"] * knows,
        "peak KiB",
    ]
    print_table(f"{network} on {spec.name}: no plan beats another one here", columns, rows)

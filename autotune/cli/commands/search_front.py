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
        help="Searches for plans between least latency and least energy. OUT.plan is the best by --objective, "
        "OUT.1.plan the fastest, the last one the most frugal.",
    ),
]


@dataclass(frozen=True, slots=True)
class WrittenFront:
    """Plans by ascending cycles, none beaten by another in cycles and energy, with their files."""

    points: tuple[FrontPoint, ...]
    files: tuple[Path, ...]

    def best(self, objective: Objective) -> FrontPoint:
        """Return the plan of the least cost by an objective."""
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
    least = min(point.energy_delay for point in front.points)
    rows = [
        [
            str(file),
            str(len(point.result.found.groups)),
            f"{point.cycles:,.0f}",
            f"{point.energy_fj / 1e9:,.1f}",
            f"{point.energy_delay / least:.3f}",
            f"{point.peak_bytes / 1024:,.0f}",
        ]
        for point, file in zip(front.points, front.files, strict=True)
    ]
    network = front.points[0].result.plan.network
    columns = ["plan", "groups", "cycles", "energy µJ", "energy-delay", "peak KiB"]
    print_table(f"{network} on {spec.name}: no plan beats another one here", columns, rows)

"""Networks of several precisions on one machine: what each takes and loses, and which one a search keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrecisionPoint:
    """A network whose products have chosen formats, as searched.

    ``counts`` are its products by format, float32 included; ``loss`` is that of the runs held out; ``cost`` that of
    its plan by the objective, as measured; ``cycles`` are its plan's. ``is_within`` says whether the loss is within the limit.
    """

    name: str
    counts: Mapping[str, int]
    loss: float
    cost: float
    cycles: float
    is_within: bool
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class PrecisionTrial:
    """A choice of formats on the Pareto front of a study: its products by format, the loss of calibration runs, the
    predicted cost, and who proposed it."""

    counts: Mapping[str, int]
    loss: float
    cost: float
    origin: str


@dataclass(frozen=True, slots=True)
class PrecisionFront:
    """The networks that were searched, float32 first, with the limit of the loss and its measure.

    ``calibration_runs`` set the scales, ``held_out_runs`` judge; ``note`` says why float32 is kept, empty where it is not;
    ``contest`` how whole runs decided, where the machine is timed. ``trials`` counts the choices of the studies that
    proposed, ``pareto`` are those that no other one beats in predicted cost and loss, by rising cost.
    """

    measure: str
    limit: float
    points: tuple[PrecisionPoint, ...]
    calibration_runs: int
    held_out_runs: int
    note: str = ""
    contest: str = ""
    trials: int = 0
    pareto: tuple[PrecisionTrial, ...] = ()

    @property
    def kept(self) -> PrecisionPoint:
        """The point whose plan is the result."""
        return next(one for one in self.points if one.is_kept)

    @property
    def unbeaten(self) -> tuple[PrecisionPoint, ...]:
        """Points by rising cost, without those that another one beats in cost and loss."""
        found: list[PrecisionPoint] = []
        for one in sorted(self.points, key=lambda one: (one.cost, one.loss)):
            if not found or one.loss < found[-1].loss:
                found.append(one)
        return tuple(found)

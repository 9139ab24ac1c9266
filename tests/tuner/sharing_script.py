"""One of two processes that share a study: enters plans, and waits for the other one before its first."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from autotune.fusion.greedy import unfused
from autotune.fusion.group import Group
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.study_storage import open_storage
from tests.tuner.search_case import residual

PLANS = 25
PATIENCE_SECONDS = 60


class Unpriced:
    """Groups that nobody asks the price of."""

    def legal(self, group: Group) -> bool:
        """Allow any group."""
        return True

    def prepare(self, groups: Iterable[Group]) -> None:
        """Do nothing."""

    def deepen(self, groups: Iterable[Group]) -> None:
        """Do nothing."""

    def cost(self, group: Group) -> float | None:
        """Return one price for all."""
        return 1.0


def shared_study(place: Path) -> PlanStudy:
    """Open the study of one network in a file."""
    return PlanStudy.open(
        FusionProblem(residual(2), Unpriced()), "stand-in", "latency", open_storage(place)
    )


def enter(study: PlanStudy, who: str, count: int) -> None:
    """Begin and end ``count`` plans."""
    plan = unfused(study.problem.graph)
    for number in range(count):
        study.end(study.begin(who, plan, None, number), float(number))


if __name__ == "__main__":
    mine = shared_study(Path(sys.argv[1]))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while mine.count < 2 and time.monotonic() < deadline:  # each begins with one plan
        if not any(t.user_attrs["strategy"] == sys.argv[2] for t in mine.study.trials):
            enter(mine, sys.argv[2], 1)
        time.sleep(0.01)
    enter(mine, sys.argv[2], PLANS - 1)

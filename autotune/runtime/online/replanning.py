"""Replanning: search by the retrained model, price what was found, and hand it over to live trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

from autotune.fusion.equivalence import EquivalenceClasses
from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.runtime.online.learner_context import LearnerContext
from autotune.runtime.online.learning import Learning, M
from autotune.runtime.online.online_dataset import OnlineDataset
from autotune.store.records import Record
from autotune.tuner.observations import Observations

Tell = Callable[[EventKind, str, dict[str, float]], None]
"""Takes an event: its kind, its text and its figures."""


class Replanner(Generic[M]):
    """Looks for a better plan than the published one. Used by the learner's thread.

    ``dataset`` takes in what is measured on the way; ``tell`` takes events.
    """

    def __init__(
        self, work: LearnerContext, learning: Learning[M], dataset: OnlineDataset, tell: Tell
    ) -> None:
        self._work = work
        self._learning = learning
        self._dataset = dataset
        self._tell = tell
        self._twins = EquivalenceClasses(work.target.spec.dram.burst_bytes)

    def replan(self, model: M, stopping: Callable[[], bool]) -> None:
        """Search by ``model``; hand the plan over when it promises enough. Live trials decide (``live_tuner``).

        Does nothing on a target that runs whole networks here: a search would take the machine from its requests.
        """
        work, current = self._work, self._work.published.current
        if isinstance(work.target, WholeNetworks):
            return
        proposal = self._learning.plan(model, current, self._dataset.fresh(), stopping)
        if proposal is None:
            return
        self.take_in(proposal.records)
        proposed = compile_table(current.graph, proposal.choices, work.target.spec, work.cache)
        measured = Observations(self._twins, self._dataset.fresh())
        old = self._price(model, current, measured)
        new = self._price(model, proposed, measured)
        gain = 1 - new / old
        figures = {"current": old, "proposed": new, "gain": gain}
        if gain < work.options.margin:
            self._tell(
                EventKind.KEPT,
                f"best plan found is expected {gain:+.1%} better, below the margin of "
                f"{work.options.margin:.0%}",
                figures,
            )
            return
        self._tell(EventKind.PROPOSED, f"a plan expected to be {gain:.1%} better", figures)
        work.hand_over(proposal.choices)

    def take_in(self, records: Sequence[Record]) -> None:
        """Keep measurements in the store, and learn from them."""
        self._work.store.add(records)
        for record in records:
            self._dataset.observe(record)

    def _price(self, model: M, table: ProgramTable, measured: Observations) -> float:
        """Expected cost of one run, in the unit of the objective: of groups that were measured on
        the machine as it is now, or else whose twins were, what that was, of the others what the model predicts."""
        total = 0.0
        for step in table.group_steps:
            record = measured.find(step.group, step.schedule.to_json())
            total += (
                self._learning.price(model, step.group, step.schedule)
                if record is None
                else self._learning.paid(record)
            )
        return total

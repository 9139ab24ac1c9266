"""Replanning: search by the retrained model, price what was found, try it, and publish it once it is proven."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

from autotune.fusion.equivalence import EquivalenceClasses
from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.native_table import WholeNetworks, link_table
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.runtime.online.learner_context import LearnerContext
from autotune.runtime.online.learning import Learning, M, annotated
from autotune.runtime.online.online_dataset import OnlineDataset
from autotune.runtime.online.trial import TrialRuns, compare
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

    def replan(self, model: M, stopping: Callable[[], bool]) -> bool:
        """Search by ``model``; try the plan when it promises enough. Says whether it was swapped in.

        Does nothing on a target that runs whole networks here: a search would take the machine from its
        requests, times always move, and one run of each plan decides nothing. Live trials do (``live_tuner``).
        """
        work, current = self._work, self._work.published.current
        if isinstance(work.target, WholeNetworks):
            return False
        proposal = self._learning.plan(model, current, self._dataset.fresh(), stopping)
        if proposal is None:
            return False
        self.take_in(proposal.records)
        table = compile_table(current.graph, proposal.choices, work.target.spec, work.cache)
        proposed = annotated(link_table(table, work.target), model, current.model_version)
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
            return False
        self._tell(EventKind.PROPOSED, f"a plan expected to be {gain:.1%} better", figures)
        return self._decide(proposed, compare(current, proposed, work.target, work.inputs()))

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

    def _decide(self, proposed: ProgramTable, trial: TrialRuns) -> bool:
        """Publish the proposed table if it computes the same and was measured to cost less on all inputs in total."""
        at, recorder = self._work.clock(), self._work.recorder
        for trace in (*trial.current, *trial.proposed):
            self.take_in(recorder.records(trace, at))
        old = sum(map(self._learning.paid, trial.current))
        new = sum(map(self._learning.paid, trial.proposed))
        count = len(trial.current)
        figures = {
            "inputs": float(count),
            "current": float(old),
            "proposed": float(new),
            "gain": 1 - new / old,
            "largest_difference": trial.largest_difference,
        }
        unit = self._learning.unit
        on = "" if count == 1 else f" on {count} inputs"
        text = f"{new} {unit} against {old} of the current plan{on}"
        self._tell(EventKind.MEASURED, text, figures)
        if not trial.agrees:
            text = f"its outputs differ by {trial.largest_difference:.2g} from the current plan's"
            self._tell(EventKind.REFUSED, text, figures)
            return False
        if new >= old:
            self._tell(EventKind.REFUSED, "measured no better than the current plan", figures)
            return False
        version = self._work.published.swap(proposed).plan_version
        text = f"plan {version} runs from now on, for {1 - new / old:.1%} fewer {unit}"
        self._tell(EventKind.SWAPPED, text, {"plan_version": float(version), **figures})
        return True

"""Forms of a network's 3×3 convolutions: what whole runs say of Winograd's forms that the rule did not choose.

The rule chooses by the multiply-adds that the machine makes while a byte of weights arrives. Other such numbers give
other forms; a plan keeps its number, so that sessions open the same forms again.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.errors import AutotuneError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes.winograd import Forms, forms_at
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits
from autotune.runtime.in_place.screening import RUNS
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.session.plan_contest import draw_inputs
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice
from autotune.tuner.contest import hold_contest
from autotune.tuner.form_choice import FormChoice
from autotune.tuner.heuristic_plan import heuristic_choices

MOST = 32
"""Largest number of multiply-adds a byte that is looked at: a core with the bandwidth of a disk."""
NEIGHBOURS = 2
"""Other choices of forms that are tried on either side of the rule's."""
TURNS = 5
"""Turns of each choice with the rule's."""
PROMISE = 0.99
"""Time over the rule's from which a choice is worth a contest."""
APART = 1e-4
"""Share of an output's range by which two networks may differ: each is within 4e-5 of the exact sums
(docs/decisions/0023-small-winograd-tiles.md)."""
LARGEST_BYTES = 512 << 20
"""Constants of a network beyond which no choice is tried: each holds them anew."""

Reopen = Callable[[int], Graph]
"""Opens the network with forms for so many multiply-adds a byte. Raises ``AutotuneError``."""


def other_choices(graph: Graph, accuracy: Accuracy, usual: int) -> list[tuple[int, int]]:
    """Return numbers of multiply-adds a byte that choose other forms than ``usual``, the nearest first on either side, each
    with how many convolutions change."""
    base = forms_at(graph, accuracy, usual)
    below = _steps(graph, accuracy, base, range(usual - 1, 0, -1))
    above = _steps(graph, accuracy, base, range(usual + 1, MOST + 1))
    return [*below, *above]


def _steps(
    graph: Graph, accuracy: Accuracy, base: Forms, numbers: Sequence[int]
) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    before = base
    for number in numbers:
        forms = forms_at(graph, accuracy, number)
        if forms != before and len(found) < NEIGHBOURS:
            found.append((number, sum(forms[x] is not base[x] for x in base)))
        before = forms
    return found


@dataclass(frozen=True, slots=True)
class _Variant:
    """The network with some forms, by its heuristic plan."""

    graph: Graph
    plan: tuple[Choice, ...]
    runs: WholeRuns

    def seconds(self) -> float:
        """Seconds of a run, group by group the shortest of a few."""
        return sum(self.runs.run(self.plan, RUNS).least.values())

    def outputs(self) -> Mapping[str, Array]:
        """Run once; return the outputs by name."""
        return self.runs.execute(self.plan)

    def once(self) -> float:
        """Run once; return seconds."""
        begin = time.perf_counter()
        self.runs.execute(self.plan)
        return time.perf_counter() - begin


@dataclass(frozen=True, slots=True)
class _Tried:
    """A choice with its time over the rule's; fields as ``FormChoice`` has them."""

    ratio: float
    number: int
    changed: int
    variant: _Variant


@dataclass(frozen=True, slots=True)
class FormSearch:
    """Tries other forms of one network's convolutions on this machine.

    ``usual`` is the machine's number of multiply-adds a byte; ``is_over`` tells when no further choice begins. Inputs are drawn by ``seed``
    within ``ranges``, and plans are built within ``build``.
    """

    target: Target
    accuracy: Accuracy
    usual: int
    ranges: Mapping[str, Interval]
    seed: int
    is_over: Callable[[], bool]
    build: BuildLimits = NO_LIMITS

    def best(self, graph: Graph, reopen: Reopen) -> tuple[Graph, FormChoice | None]:
        """Return the network with the fastest forms, and what showed it; as it is, and None, unless others win.

        Raises ``ScheduleError`` for an operator without a legal schedule.
        """
        if self.accuracy is Accuracy.EXACT or not self.usual or self.is_over():
            return graph, None
        choices = other_choices(graph, self.accuracy, self.usual)
        held = sum(array.nbytes for array in graph.constants.values())
        if not choices or held > LARGEST_BYTES:
            return graph, None
        inputs = draw_inputs(graph, self.ranges, self.seed)
        base = self._variant(graph, inputs)
        best: _Tried | None = None
        for number, changed in choices:
            if self.is_over():
                break
            one = self._tried(base, number, changed, reopen, inputs)
            if one is not None and one.ratio <= (PROMISE if best is None else best.ratio):
                best = one
        if best is None or not _agree(base.outputs(), best.variant.outputs()):
            return graph, None
        contest = hold_contest(base.once, best.variant.once)
        if not contest.is_won:
            return graph, None
        return best.variant.graph, FormChoice(best.number, self.usual, best.changed, contest)

    def _variant(self, graph: Graph, inputs: Mapping[str, Array]) -> _Variant:
        runs = WholeRuns(graph, self.target, inputs, self.build)
        return _Variant(graph, heuristic_choices(graph, self.target.spec), runs)

    def _tried(
        self,
        base: _Variant,
        number: int,
        changed: int,
        reopen: Reopen,
        inputs: Mapping[str, Array],
    ) -> _Tried | None:
        """Run a choice in turns with the rule's; None where it cannot be built."""
        try:
            other = self._variant(reopen(number), inputs)
            ratios = [other.seconds() / base.seconds() for _ in range(TURNS)]
        except AutotuneError:
            return None
        return _Tried(statistics.median(ratios), number, changed, other)


def _agree(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    """Return True if all outputs are as near as networks with two forms of their convolutions are."""
    return all(
        np.allclose(outputs[x], value, 0.0, APART * _range(value), equal_nan=True)
        for x, value in expected.items()
    )


def _range(value: Array) -> float:
    finite = value[np.isfinite(value)]
    return float(np.ptp(finite)) if finite.size else 0.0

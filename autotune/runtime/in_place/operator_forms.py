"""Forms of a network's convolutions and products: what whole runs say of Winograd's and Strassen's forms that the rule did not choose.

The rule chooses by the multiply-adds that the machine makes while a byte of weights arrives. Other such numbers give
other forms; a plan keeps its number, so that sessions open the same forms again.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from autotune.errors import AutotuneError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes.strassen import StrassenProducts
from autotune.graph.passes.winograd import forms_at
from autotune.graph.ranges import Ranges, intervals_by_input
from autotune.isa.formats import Formats
from autotune.operators.axes import Layout
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits
from autotune.runtime.in_place.screening import RUNS
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.plan_contest import draw_inputs
from autotune.runtime.variants.variants import Names, names_of
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
"""Time over the rule's from which a choice is worth a contest, by the groups that change."""
APART = 1e-4
"""Share of an output's range by which two networks may differ: each is within 4e-5 of the exact sums
(docs/decisions/0023-small-winograd-tiles.md)."""
LARGEST_BYTES = 512 << 20
"""Constants of a network beyond which no choice is tried: each holds them anew."""

Reopen = Callable[[int], Graph]
"""Opens the network with forms for so many multiply-adds a byte. Raises ``AutotuneError``."""


@dataclass(frozen=True, slots=True)
class FileOpening:
    """How the network of a file is opened for a machine."""

    path: Path
    dims: Mapping[str, int]
    machine: Target
    accuracy: Accuracy
    ranges: Ranges

    def __call__(self, macs_per_byte: int) -> Graph:
        """Open it with forms for so many multiply-adds a byte. Raises ``AutotuneError``."""
        spec = self.machine.spec
        formats = replace(spec.formats, macs_per_byte=macs_per_byte)
        layout = Layout(spec.layout)
        return open_network(self.path, self.dims, layout, self.accuracy, self.ranges, formats)


def choose_forms(
    opening: FileOpening, graph: Graph, seed: int, seconds: float, build: BuildLimits = NO_LIMITS
) -> tuple[Graph, FormChoice | None]:
    """Return the network of a file with the fastest forms, and what showed it, as ``FormSearch.best`` does.

    ``graph`` is the network as it is opened usually. After ``seconds`` no further choice begins.
    """
    begin, spec = time.monotonic(), opening.machine.spec
    search = FormSearch(
        opening.machine,
        opening.accuracy,
        spec.formats.macs_per_byte,
        intervals_by_input(graph, opening.ranges),
        seed,
        lambda: time.monotonic() - begin > seconds,
        seconds,
        build,
    )
    return search.best(graph, opening)


def other_choices(graph: Graph, accuracy: Accuracy, usual: int) -> list[tuple[int, frozenset[str]]]:
    """Return numbers of multiply-adds a byte that choose other forms than ``usual``, each with the operators that change.

    Of either side in turns, the nearest first.
    """
    base = _forms(graph, accuracy, usual)
    above = _steps(graph, accuracy, base, range(usual + 1, MOST + 1))
    below = _steps(graph, accuracy, base, range(usual - 1, 0, -1))
    turns = chain.from_iterable(zip_longest(above, below))
    return [choice for choice in turns if choice is not None]


def _forms(graph: Graph, accuracy: Accuracy, number: int) -> Mapping[str, object]:
    """Return the forms of convolutions by name, and True for the products that are Strassen's."""
    products = StrassenProducts(accuracy, Formats(macs_per_byte=number)).taken(graph)
    return {**forms_at(graph, accuracy, number), **dict.fromkeys(products, True)}


def _steps(
    graph: Graph, accuracy: Accuracy, base: Mapping[str, object], numbers: Sequence[int]
) -> list[tuple[int, frozenset[str]]]:
    found: list[tuple[int, frozenset[str]]] = []
    before = base
    for number in numbers:
        forms = _forms(graph, accuracy, number)
        if forms != before and len(found) < NEIGHBOURS:
            found.append(
                (number, frozenset(x for x in {**base, **forms} if forms.get(x) is not base.get(x)))
            )
        before = forms
    return found


@dataclass(frozen=True, slots=True)
class _Variant:
    """The network with some forms, by its heuristic plan."""

    graph: Graph
    plan: tuple[Choice, ...]
    runs: WholeRuns

    def timed(self) -> Mapping[Names, float]:
        """Return the seconds of each group, the shortest of a few runs."""
        return self.runs.run(self.plan, RUNS).least

    def outputs(self) -> Mapping[str, Array]:
        """Run once; return the outputs by name."""
        return self.runs.execute(self.plan)

    def once(self) -> float:
        """Run once, warm; return seconds."""
        return sum(self.runs.run(self.plan, 1).least.values())


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

    ``usual`` is the machine's number of multiply-adds a byte; ``is_over`` tells when no further choice begins, and the
    contest ends with the next look after ``contest_seconds``. Inputs are drawn by ``seed`` within ``ranges``, and plans
    are built within ``build``.
    """

    target: Target
    accuracy: Accuracy
    usual: int
    ranges: Mapping[str, Interval]
    seed: int
    is_over: Callable[[], bool]
    contest_seconds: float
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
        contest = hold_contest(base.once, best.variant.once, seconds=self.contest_seconds)
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
        changed: frozenset[str],
        reopen: Reopen,
        inputs: Mapping[str, Array],
    ) -> _Tried | None:
        """Run a choice in turns with the rule's; None where it cannot be built."""
        try:
            other = self._variant(reopen(number), inputs)
            turns = self._turns(base, other)
        except AutotuneError:
            return None
        within = _affected(changed, (base.plan, other.plan))
        ratios = [_ratio(before, after, within) for before, after in turns]
        return _Tried(statistics.median(ratios), number, len(changed), other)

    def _turns(
        self, base: _Variant, other: _Variant
    ) -> list[tuple[Mapping[Names, float], Mapping[Names, float]]]:
        """Return the times of both in turns: ``TURNS``, fewer where the time is over."""
        turns = [(base.timed(), other.timed())]
        while len(turns) < TURNS and not self.is_over():
            turns.append((base.timed(), other.timed()))
        return turns


def _affected(changed: frozenset[str], plans: Sequence[Sequence[Choice]]) -> frozenset[str]:
    """Return the least set of operators with ``changed`` ones that both plans compute by groups of their own."""
    groups = [frozenset(names_of(choice)) for plan in plans for choice in plan]
    found = changed
    while True:
        grown = found.union(*(group for group in groups if not found.isdisjoint(group)))
        if grown == found:
            return found
        found = grown


def _ratio(
    before: Mapping[Names, float], after: Mapping[Names, float], within: frozenset[str]
) -> float:
    """Return a network's time over that before, if only the groups ``within`` changed theirs."""
    saved = _seconds(before, within) - _seconds(after, within)
    return 1.0 - saved / sum(before.values())


def _seconds(timed: Mapping[Names, float], within: frozenset[str]) -> float:
    return sum(seconds for names, seconds in timed.items() if within.issuperset(names))


def _agree(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    """Return True if all outputs are as near as networks with two forms of their convolutions are."""
    return all(
        np.allclose(outputs[x], value, 0.0, APART * _range(value), equal_nan=True)
        for x, value in expected.items()
    )


def _range(value: Array) -> float:
    finite = value[np.isfinite(value)]
    return float(np.ptp(finite)) if finite.size else 0.0

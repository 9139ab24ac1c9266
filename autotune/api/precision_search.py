"""A search that chooses the precision of each product beside fusion and schedule, within a limit of the loss.

float32 is searched first. An Optuna study of predicted cost and loss then chooses formats (``quantisation.precision_study``).
The cheapest choices within the limit are searched, and their plans tell more. The best plan within the limit is kept.
Where weights take the time, networks whose weights alone are narrow are searched too.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.arguments import path_of
from autotune.disk.atomic_file import check_place, replace_file
from autotune.errors import InputError
from autotune.fusion.partition import Names
from autotune.isa.formats import Format
from autotune.quantisation.assignment_prices import AssignmentPrices
from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.loss import Loss
from autotune.quantisation.precision_study import PLAIN, PrecisionStudy, Proposer, StudyKeeper
from autotune.quantisation.qdq import Formats
from autotune.quantisation.quantize import (
    DEFAULT_HELD_OUT,
    DEFAULT_RUNS,
    limit_of,
    measure_of,
)
from autotune.quantisation.samples import Run
from autotune.quantisation.space import PrecisionSpace, opened_space
from autotune.runtime.session.plan_contest import WARM_UP
from autotune.runtime.session.session import Session
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.contest import hold_contest
from autotune.tuner.interruption import SearchInterrupted
from autotune.tuner.objective import Objective
from autotune.tuner.plan import NetworkFile
from autotune.tuner.precision import PrecisionFront, PrecisionPoint, PrecisionTrial
from autotune.tuner.progress import MACHINES, Progress
from autotune.tuner.result import SearchResult

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

CONTESTANTS = 3
"""Narrow plans that run in turns at most, the fastest by their searches."""
FINALISTS = 4
"""Choices that are searched at most: the cheapest by the study, and the rule's of most gain, in turns."""
WEIGHTS_REUSE = 8.0
"""Multiplications by an element of a weight up to which weights take the time: steps of decoders, small batches."""
PLAIN_SHARE = 0.3
"""Share of the time of a search on this CPU that the float32 network has; the others share the rest."""
Search = Callable[[Path, float, Sequence[Sequence[Names]]], SearchResult]
"""Searches a network file in a share of the time, beginning with groups of plans for other precisions."""


@dataclass(frozen=True, slots=True)
class LossLimit:
    """The largest loss of a search's network, its measure, and the inputs that it is measured on."""

    data: Path
    limit: float
    measure: Loss

    @classmethod
    def of(
        cls,
        max_loss: float | str | None,
        data: Path | str | None,
        loss: Loss | str | None,
        out: Path | None,
        spec: HardwareSpec,
    ) -> LossLimit | None:
        """Check the arguments of a search; None without ``max_loss``. Raises ``InputError``."""
        if max_loss is None:
            alone = [name for name, given in (("data", data), ("loss", loss)) if given is not None]
            if alone:
                raise InputError(
                    f"{alone[0]} is for a search with a limit of the loss; give --max-loss too"
                )
            return None
        limit = limit_of(max_loss)
        assert limit is not None
        measure = measure_of(Loss.RELATIVE if loss is None else loss)
        if data is None:
            raise InputError(
                "a limit of the loss is measured on inputs of yours; give --data FOLDER|FILE too"
            )
        if out is None:
            raise InputError("max_loss writes the network beside the plan; give out, its file")
        if not narrow_formats(spec):
            raise InputError(
                f"{spec.name} multiplies float32 only, which a limit of the loss changes nothing about; leave --max-loss out"
            )
        check_place(narrow_file(out))
        return cls(path_of(data, "data"), limit, measure)


def narrow_file(plan_file: Path) -> Path:
    """Return where the network of a plan is written that is not the user's own: ``net.narrow.onnx``."""
    return plan_file.with_name(f"{plan_file.stem}.narrow.onnx")


def narrow_formats(spec: HardwareSpec) -> tuple[NarrowFormat, ...]:
    """Return the narrow formats that a machine multiplies."""
    both = ((NarrowFormat.INT8, Format.INT8), (NarrowFormat.BF16, Format.BF16))
    return tuple(one for one, stored in both if stored in spec.formats.multiplied)


class _Run:
    """Runs a session on one of the inputs; each call returns seconds."""

    def __init__(self, session: Session, inputs: Run) -> None:
        self._session, self._inputs = session, inputs
        for _ in range(WARM_UP):
            self()

    def __call__(self) -> float:
        begin = time.perf_counter()
        self._session.run(self._inputs)
        return time.perf_counter() - begin


@dataclass(frozen=True, slots=True)
class _Tried:
    """A searched network: its formats, its loss, its file, its result."""

    name: str
    formats: Formats
    loss: float
    file: Path
    result: SearchResult
    label: str = ""
    """What its formats' names say beside them."""

    def cost(self, objective: Objective) -> float:
        """Return the cost of the plan as measured, else as predicted."""
        found = self.result.found
        measured = found.measured_cost(objective)
        return found.predicted_cost(objective) if measured is None else measured

    @property
    def cycles(self) -> float:
        """Cycles of the plan."""
        found = self.result.found
        return float(found.measured_cycles or found.predicted_cycles)


@dataclass
class PrecisionSearches:
    """The searches of one network in several precisions on one machine.

    On a machine that is timed whole runs in turns decide, else the cost by the ``objective``.
    """

    path: Path
    machine: Target
    objective: Objective
    limit: LossLimit
    dims: Mapping[str, int]
    seed: int
    plan_file: Path
    search: Search
    prices: Callable[[PrecisionSpace], AssignmentPrices]
    proposer: Proposer
    trials: int
    """Choices at most that a sampler proposes."""
    progress: Progress
    storage: BaseStorage | None = None
    """Where trials of formats are kept too; None: nowhere."""
    _tried: list[_Tried] = field(default_factory=list)
    _studies: dict[str, PrecisionStudy] = field(default_factory=dict)
    """By label of the space."""
    _beyond: list[tuple[str, Formats]] = field(default_factory=list)
    """Label and formats of files that are beyond the limit."""
    _space: PrecisionSpace | None = None
    _most: int = 1 + FINALISTS
    """Networks that are searched at most; they share the time."""

    def run(self) -> SearchResult:
        """Search, write the chosen network, return its result with the front.

        Raises ``SearchInterrupted`` with the best plan within the limit so far where Ctrl-C ended a search.
        """
        with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
            try:
                self._search_all(Path(folder))
                best, text = self._best()
            except KeyboardInterrupt as stop:
                if not self._tried and isinstance(stop, SearchInterrupted):
                    self._tried.append(_Tried(PLAIN, {}, 0.0, self.path, stop.result))
                if not self._tried:
                    raise
                raise SearchInterrupted(self._kept(self._best_so_far(), "")) from None
            return self._kept(best, text)

    def _search_all(self, folder: Path) -> None:
        self._report()
        with self._opened(is_weights_only=False) as space:
            self._space = space
            prices = self.prices(space)
            is_led_by_weights = space.reuse <= WEIGHTS_REUSE
            per_space = FINALISTS + len(space.names)
            self._most = 1 + per_space * (1 + is_led_by_weights)
            plain = self.search(self.path, PLAIN_SHARE, ())
            self._tried.append(_Tried(PLAIN, {}, 0.0, self.path, plain))
            self._search_space(space, prices, folder)
        if is_led_by_weights:
            with self._opened(is_weights_only=True) as weights:
                self._search_space(weights, self.prices(weights), folder)

    def _opened(self, is_weights_only: bool) -> AbstractContextManager[PrecisionSpace]:
        formats, data = narrow_formats(self.machine.spec), self.limit.data
        return opened_space(
            self.path,
            *(data, formats, self.limit.measure, DEFAULT_HELD_OUT, DEFAULT_RUNS),
            *(self.dims, self.seed, self.progress, is_weights_only),
        )

    def _search_space(self, space: PrecisionSpace, prices: AssignmentPrices, folder: Path) -> None:
        """Search the choices of a space that a study finds cheapest; each plan tells more of the others."""
        prices.learn({}, self._tried[0].result)
        for format in space.names:
            self._try(space, prices, f"all {format}{space.label}", space.uniform(format), folder)
        study = PrecisionStudy(
            space, prices.price, self.limit.limit, self.proposer, self.seed, self._keeper()
        )
        self._studies[space.label] = study
        proposed: list[Formats] = [{}]
        for number in range(FINALISTS):
            rule = study.propose(prices.gains(), 0 if number else self.trials, self.progress)
            cheapest = (one.formats for one in study.reconsider())
            wanted = (*rule, *cheapest) if number % 2 else (*cheapest, *rule)
            chosen = next((one for one in wanted if one not in proposed), None)
            if chosen is None:
                return
            proposed.append(chosen)
            name = f"choice {1 + sum(one.name.startswith('choice') for one in self._tried)}"
            self._try(space, prices, name, chosen, folder)

    def _keeper(self) -> StudyKeeper | None:
        if self.storage is None:
            return None
        parts = f"{self.path.name} on {self.machine.name} for {self.objective}, {self.limit.measure} loss"
        return StudyKeeper(self.storage, parts)

    def _report(self) -> None:
        self.progress(MACHINES, min(len(self._tried), self._most), self._most)

    def _try(
        self,
        space: PrecisionSpace,
        prices: AssignmentPrices,
        name: str,
        chosen: Formats,
        folder: Path,
    ) -> None:
        """Search a network. A choice loses steps until its written file is within the limit; a uniform one only tells costs.

        Nothing is searched if no file of a choice is within the limit, or one that was searched before.
        """
        self._report()
        file = Path(tempfile.mkdtemp(dir=folder)) / narrow_file(self.plan_file).name
        is_uniform = not name.startswith("choice")
        for formats in [chosen] if is_uniform else space.narrower_first(chosen):
            if (space.label, formats) in self._beyond:
                continue
            known = self._searched(space.label, formats)
            loss = space.write(formats, file) if known is None else known.loss
            if is_uniform or loss <= self.limit.limit:
                if known is None:
                    plans = [one.result.found.names for one in self._tried]
                    result = self.search(file, (1.0 - PLAIN_SHARE) / (self._most - 1), plans)
                    self._tried.append(_Tried(name, formats, loss, file, result, space.label))
                    prices.learn(formats, result)
                return
            self._beyond.append((space.label, formats))

    def _searched(self, label: str, formats: Formats) -> _Tried | None:
        """Return the searched network of these formats; None if there is none."""
        alike = (one for one in self._tried if (one.label, one.formats) == (label, formats))
        return next(alike, None)

    def _best_so_far(self) -> _Tried:
        """Return the cheapest network within the limit; float32 where only whole runs in turns could tell."""
        return self._tried[0] if self.machine.spec.timed else self._cheapest

    @property
    def _cheapest(self) -> _Tried:
        within = [one for one in self._tried if one.loss <= self.limit.limit]
        return min(within, key=lambda one: one.cost(self.objective))

    def _best(self) -> tuple[_Tried, str]:
        """Return the cheapest network within the limit; one that is timed has to win against float32 in turns."""
        plain = self._tried[0]
        if not self.machine.spec.timed:
            return self._best_so_far(), ""
        within = [one for one in self._tried[1:] if one.loss <= self.limit.limit]
        within.sort(key=lambda one: one.cost(self.objective))
        assert self._space is not None
        return self._winner(self._space, plain, within[:CONTESTANTS])

    def _winner(
        self, space: PrecisionSpace, plain: _Tried, within: Sequence[_Tried]
    ) -> tuple[_Tried, str]:
        """Run plans in turns. A narrow one has to be faster, and within the limit as this machine runs it."""
        best, lines = plain, []
        for one in within:
            with ExitStack() as stack:
                old, new = (
                    stack.enter_context(
                        Session(x.file, self.machine, dims=self.dims, plan=x.result.plan)
                    )
                    for x in (best, one)
                )
                if space.session_loss(new) > self.limit.limit:
                    lines.append(f"{one.name}: beyond the limit as its plan computes it")
                    continue
                contest = hold_contest(*(_Run(x, space.held_out) for x in (old, new)))
            lines.append(
                f"{one.name} at {contest.gain:.3f} times the speed of {best.name}, faster in {contest.wins} of "
                f"{contest.rounds} rounds"
            )
            best = one if contest.is_won else best
        return best, "; ".join(lines)

    def _kept(self, best: _Tried, contest: str) -> SearchResult:
        """Write the network of the best plan; return its result with the front."""
        plan = best.result.plan
        if best.formats:
            file = narrow_file(self.plan_file)
            replace_file(file, best.file.read_bytes())
            plan = replace(plan, network_file=NetworkFile.of(file))
        return replace(best.result, plan=plan, precision=self._front(best, contest))

    def _front(self, best: _Tried, contest: str) -> PrecisionFront:
        space = self._space
        assert space is not None
        samples = space.quantiser.samples
        return PrecisionFront(
            self.limit.measure.value,
            self.limit.limit,
            tuple(self._point(one, best, len(space.network.products)) for one in self._tried),
            len(samples.calibration),
            len(samples.held_out),
            "" if best.formats else self._note(),
            contest,
            sum(len(study.tried) for study in self._studies.values()),
            self._pareto(len(space.network.products)),
        )

    def _pareto(self, products: int) -> tuple[PrecisionTrial, ...]:
        """Return what no choice of any study beats in cost, at the latest prices, and loss."""
        found = [
            PrecisionTrial(_counts(one.formats, label, products), one.loss, one.cost, one.origin)
            for label, study in self._studies.items()
            for one in study.tried
        ]
        kept: list[PrecisionTrial] = []
        for trial in sorted(found, key=lambda one: (one.cost, one.loss)):
            if not kept or trial.loss < kept[-1].loss:
                kept.append(trial)
        return tuple(kept)

    def _point(self, one: _Tried, best: _Tried, products: int) -> PrecisionPoint:
        return PrecisionPoint(
            one.name,
            _counts(one.formats, one.label, products),
            one.loss,
            one.cost(self.objective),
            one.cycles,
            one.loss <= self.limit.limit,
            one is best,
        )

    def _note(self) -> str:
        """Return why the network stays in float32."""
        if any(one.formats and one.loss <= self.limit.limit for one in self._tried):
            return "no plan of a narrower network within the limit is shown to be faster"
        return "no choice of narrower products is within the limit and gains"


def _counts(formats: Formats, label: str, products: int) -> dict[str, int]:
    """Return the number of products by format, float32 included; ``label`` stands behind a format's name."""
    counts = Counter(f"{format}{label}" for format in formats.values())
    counts[PLAIN] = products - len(formats)
    return {name: count for name, count in sorted(counts.items()) if count}

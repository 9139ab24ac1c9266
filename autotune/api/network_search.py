"""A search of one network on one machine: check the arguments, search every graph, write the plan."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.api.networks import distinct_graphs
from autotune.api.open_store import opened
from autotune.api.precision_search import LossLimit, PrecisionSearches, narrow_file
from autotune.api.search_arguments import (
    allowed_seconds,
    build_limits,
    check_options,
    checked_workers,
    search_options,
    writable_plan_file,
)
from autotune.arguments import dims_of
from autotune.errors import InputError
from autotune.frontend.importing import has_control_flow
from autotune.fusion.partition import Names
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges, intervals_by_input
from autotune.measure.cluster.cluster import Cluster, opened_cluster
from autotune.operators.axes import Layout
from autotune.quantisation.assignment_prices import AssignmentPrices, GroupPrices, PlanPrices
from autotune.quantisation.loss import Loss
from autotune.quantisation.precision_study import DEFAULT, PROPOSERS, SAMPLED
from autotune.quantisation.space import PrecisionSpace
from autotune.runtime.estimated_plans import heuristic_search
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.in_place.budget import Limits
from autotune.runtime.in_place.operator_forms import FileOpening, choose_forms
from autotune.runtime.in_place.search_setup import LEAST_SECONDS, Allowance
from autotune.runtime.in_place.timed_search import GraphOutcome, timed_search
from autotune.runtime.session.defaults import (
    choose_accuracy,
    choose_target,
    ranges_of,
    resolve_model,
)
from autotune.runtime.session.opening import open_model, open_network
from autotune.runtime.session.plan_contest import keep_faster_plan
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.front import FrontPoint, least_product
from autotune.tuner.fusion import search as search_graph
from autotune.tuner.interruption import SearchInterrupted
from autotune.tuner.objective import Objective
from autotune.tuner.options import DEFAULT_STRATEGY, SearchOptions
from autotune.tuner.plan import NetworkFile
from autotune.tuner.progress import GRAPHS, Progress, silent
from autotune.tuner.ranking import ROUGH
from autotune.tuner.rankings import Rankings
from autotune.tuner.result import SearchResult
from autotune.tuner.schedules import GroupCosts
from autotune.tuner.study_storage import storage_for

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

FORMS_SHARE = 0.2
"""Share of the time of a search on this CPU after which no further choice of convolutions' forms is tried."""
DEFAULT_SECONDS = 120.0
"""Time of a search on this CPU that chooses precisions, where the user names none."""


def search(
    model: Path | str,
    target: Target | Path | str | None = None,
    trials: int | None = None,
    measure: int | None = None,
    objective: Objective | str = Objective.LATENCY,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    out: Path | str | None = None,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    accuracy: Accuracy | str | None = None,
    ranges: Ranges | None = None,
    time_limit_seconds: float | None = None,
    seconds: float | None = None,
    strategy: str = DEFAULT_STRATEGY,
    storage: str | Path | None = None,
    workers: int | str | Cluster | None = None,
    cores: int | None = None,
    memory: int | str | None = None,
    max_loss: float | str | None = None,
    data: Path | str | None = None,
    loss: Loss | str | None = None,
) -> SearchResult:
    """Find fusion groups and schedules for a network, measure the best, and write the plan.

    ``model`` is an ONNX file or a shipped network's name. ``target`` is a name, a spec file or an open target (None: this
    CPU). ``out`` is the plan file. ``strategy`` names what proposes plans. ``trials`` bounds the plans that are tried
    (None: 200), ``measure`` the measurements (None: 160). A measurement fails after ``time_limit_seconds`` (None: a
    minute, and more for large candidates).

    ``objective`` is ``latency``, ``energy``, a sum such as ``latency+4e-07*energy`` (cycles and femtojoules), or
    ``energy-delay``. The latter is their product: it takes three to five searches, and the plan names the sum that it is
    best for. On this CPU it may be ``memory``: groups merge until the intermediate tensors that live at once are fewest,
    then the plan becomes as fast as its time allows. ``accuracy`` selects the algorithms (None: ``close`` on this CPU,
    ``exact`` elsewhere). ``ranges`` bound the inputs. Both stay with the plan.

    On this CPU ``seconds`` bounds the whole search (None: 15 to 60, by the network's own time). ``trials`` bounds the
    improved plans there, ``measure`` the candidates of each graph (None: any number). Candidates are measured in whole
    runs of the network: forms of its 3×3 convolutions first, where ``accuracy`` is not ``exact``, then fusions and
    schedules. The plan keeps the forms. In the last step the plan and the heuristic plan run in turns: the heuristic plan stays unless
    the other one is shown to be faster. Plans are built by at most ``cores`` threads (None: all) within ``memory`` of this
    process, in bytes or as a text such as ``4GiB``.

    Ctrl-C ends the search. The best plan so far is written, the heuristic one at least. ``SearchInterrupted``, a
    ``KeyboardInterrupt``, has the result.

    Plans that were tried are trials of an Optuna study in ``storage``: a URL, a file (``.log``: a journal, else
    SQLite), ``:memory:`` for none, or None for ``studies.db`` beside the store. A later search of the network goes on from
    the best of them, also one in another process. On this CPU single changes of a plan are trials of a second study, and
    plans and changes that are clearly slower are pruned. ``workers`` measure candidates of emulated machines: a number
    of Dask workers of this machine, the URL of a Dask scheduler, or an open ``Cluster``.

    ``max_loss``, a number or a text such as ``0.5%``, lets the search choose a format for each product: int8, bf16 or
    float32, as far as the target multiplies them. ``data`` are inputs as ``quantize`` takes them; a quarter of them is
    held out. On these a kept network loses ``max_loss`` at most, by the measure ``loss`` (``relative``, ``cosine``,
    ``top1``; None: relative). An Optuna study of predicted cost and loss proposes; ``strategy`` names its sampler. Up to
    seven networks are searched, each with ``trials`` and ``measure``. Where few rows meet large weights up to thirteen
    are, some with narrow weights alone. ``seconds`` are for all of them. The float32 network is always one, and its plan
    is kept unless another one is faster. Else the network is written beside ``out`` as ``.narrow.onnx``, and the plan is
    for that file.

    Control flow makes several graphs of a network: pieces and bodies, taken or not, each with this
    budget. Shapes that depend on values are those of inputs drawn by ``seed``; other shapes are
    planned by rule when they run. Costs are predicted by the target's calibrated model, else by the shipped one
    on emulated machines, and by an analytic estimate on this CPU.

    Raises ``AutotuneError`` before it searches, for a network that cannot be read and for a place where no plan can be
    written. An emulated machine takes no ``seconds``. This CPU takes no ``workers``, no ``time_limit_seconds`` and not the
    strategy ``exact``.
    """
    start_seconds = time.monotonic()
    plan_file, extents, limits = writable_plan_file(out), dims_of(dims), ranges_of(ranges)
    options = search_options(trials, measure, objective, seed, time_limit_seconds, strategy)
    path, machine = resolve_model(model), choose_target(target)
    check_options(options, machine)
    allowance = Allowance(
        start_seconds,
        allowed_seconds(seconds, machine),
        build=build_limits(cores, memory, machine),
        limits=Limits.of(trials, measure),
    )
    chosen, measured_by = choose_accuracy(accuracy, machine.spec), checked_workers(workers, machine)
    request = NetworkSearch(
        *(path, machine, options, chosen, extents, limits, allowance),
        *(measured_by, store, storage, plan_file, progress),
    )
    bound = LossLimit.of(max_loss, data, loss, plan_file, machine.spec)
    if bound is not None:
        return request.run_within(bound)
    return request.run_by_sums() if options.objective.is_product else request.run()


@dataclass(frozen=True, slots=True)
class NetworkSearch:
    """A search of one network on one machine, its arguments checked; running it writes the plan file."""

    path: Path
    machine: Target
    options: SearchOptions
    accuracy: Accuracy
    dims: Mapping[str, int]
    ranges: Ranges
    allowance: Allowance
    workers: int | str | Cluster | None
    store: Store | Path | str | None
    storage: str | Path | None
    plan_file: Path | None
    progress: Progress | None
    rankings: Rankings = field(default_factory=Rankings)
    """Shared by the searches of one network in several precisions."""
    alike: tuple[tuple[Names, ...], ...] = ()
    """Groups of plans for this network in other precisions."""

    def run_by_sums(self) -> SearchResult:
        """Minimise a product: search for several sums, and return the result with the least product.

        Raises ``SearchInterrupted`` where Ctrl-C ended one of them, with the best plan so far.
        """
        results: list[SearchResult] = []

        def run(weighed: Objective) -> SearchResult:
            weighs = replace(self.options, objective=weighed)
            results.append(replace(self, options=weighs, plan_file=None).run())
            return results[-1]

        try:
            result = least_product(run)
        except KeyboardInterrupt as stop:  # in a search, or while the next one opens the network
            points = map(FrontPoint.of, results)
            best = min(points, key=lambda one: one.energy_delay, default=None)
            if best is not None:
                kept: SearchResult = best.result
            elif isinstance(stop, SearchInterrupted):
                kept = stop.result
            else:
                raise
            self._save(kept)
            raise SearchInterrupted(kept) from None
        self._save(result)
        return result

    def run(self) -> SearchResult:
        """Search every graph and write the plan.

        Raises ``SearchInterrupted`` with the result where Ctrl-C ended the search. Graphs that it did not come to
        have their heuristic plans.
        """
        graphs = distinct_graphs(
            self.path,
            self.dims,
            self.machine.spec,
            self.accuracy,
            self.ranges,
            self.options.seed,
        )
        outcomes = self._outcomes(graphs)
        result = self._result(outcomes, NetworkFile.of(self.path))
        self._save(result)
        if any(one.is_interrupted for one in outcomes):
            raise SearchInterrupted(result)
        return result

    def run_within(self, limit: LossLimit) -> SearchResult:
        """Choose the precision of each product too, and write the plan of the best network within the limit.

        Raises ``SearchInterrupted`` as ``run`` does.
        """
        if self.options.objective.is_product or self.options.objective.is_memory:
            raise InputError(
                "a search with a limit of the loss minimises latency, energy or a sum of them; leave max_loss out"
            )
        assert self.plan_file is not None
        written = narrow_file(self.plan_file)
        if written.resolve() == self.path.resolve():
            raise InputError(
                f"{self.path}: the narrow network would be written over it; name another plan file in out"
            )
        with opened(self.store) as records:
            studies = storage_for(self.storage, records)
        searches = PrecisionSearches(
            self.path,
            self.machine,
            self.options.objective,
            limit,
            self.dims,
            self.options.seed,
            self.plan_file,
            self._of_file,
            self._assignment_prices,
            PROPOSERS.get(self.options.strategy, DEFAULT),
            min(self.options.trials, SAMPLED),
            silent if self.progress is None else self.progress,
            studies,
        )
        try:
            result = searches.run()
        except SearchInterrupted as stop:
            self._save(stop.result)
            raise
        self._save(result)
        return result

    def _of_file(self, path: Path, share: float, alike: Sequence[Sequence[Names]]) -> SearchResult:
        """Search a file in a share of the time, without writing its plan, from the groups of plans for other precisions."""
        allowance = replace(self.allowance, start_seconds=time.monotonic())
        if self._is_in_place:
            whole = DEFAULT_SECONDS if allowance.seconds is None else allowance.seconds
            allowance = replace(allowance, seconds=share * whole)
        alone = replace(
            self, path=path, allowance=allowance, plan_file=None, alike=tuple(map(tuple, alike))
        )
        return alone.run()

    def _assignment_prices(self, space: PrecisionSpace) -> AssignmentPrices:
        """Return what prices choices of formats: the cost model, where there is one of groups."""
        by_product = PlanPrices(space, self.options.objective)
        if self._is_in_place or has_control_flow(self.path):
            return by_product
        spec, options = self.machine.spec, self.options
        with opened(self.store) as records:
            model, known = open_model(records, self.machine).model, records.records(spec.profile_id)
        told = (options.objective, options.seed, known, options.workers, self.rankings, ROUGH)
        costs = GroupCosts(model, spec, *told)
        return GroupPrices(space, costs, self._graph, by_product)

    def _graph(self, path: Path) -> Graph:
        spec = self.machine.spec
        layout = Layout(spec.layout)
        return open_network(path, self.dims, layout, self.accuracy, self.ranges, spec.formats)

    def _save(self, result: SearchResult) -> None:
        if self.plan_file is not None:
            result.plan.save(self.plan_file)

    def _outcomes(self, graphs: Sequence[Graph]) -> list[GraphOutcome]:
        """Search the graphs in turn, up to the one that Ctrl-C ends."""
        outcomes: list[GraphOutcome] = []
        with opened_cluster(self.workers) as cluster, opened(self.store) as records:
            options = replace(self.options, workers=cluster)
            studies = storage_for(self.storage, records)
            for number, graph in enumerate(graphs):
                try:
                    self._report_graph(number, len(graphs))
                    left = len(graphs) - number
                    outcomes.append(self._outcome(graph, options, records, studies, left))
                except KeyboardInterrupt:
                    outcomes.append(self._unsearched(graph))
                if outcomes[-1].is_interrupted:
                    break
        outcomes += map(self._unsearched, graphs[len(outcomes) :])
        return outcomes

    def _report_graph(self, number: int, total: int) -> None:
        """Tell the progress that a graph begins."""
        if self.progress is not None:
            if total > 1:
                self.progress(GRAPHS, number, total)
            self.progress("prepare", 0, 1)

    def _outcome(
        self,
        graph: Graph,
        options: SearchOptions,
        records: Store,
        studies: BaseStorage | None,
        graphs_left: int,
    ) -> GraphOutcome:
        if self._is_in_place:
            return self._search_in_place(graph, options, records, studies, graphs_left)
        return self._search_by_model(graph, options, records, studies)

    def _unsearched(self, graph: Graph) -> GraphOutcome:
        """Return what Ctrl-C leaves of a search that has no plan yet: the heuristic one."""
        return GraphOutcome(heuristic_search(graph, self.machine.spec), "", is_interrupted=True)

    @property
    def _is_in_place(self) -> bool:
        """True for a machine whose candidates are measured in whole runs of the network."""
        return isinstance(self.machine, WholeNetworks)

    def _search_in_place(
        self,
        graph: Graph,
        options: SearchOptions,
        records: Store,
        studies: BaseStorage | None,
        graphs_left: int,
    ) -> GraphOutcome:
        allowance = replace(self.allowance, graphs=graphs_left)
        forms = None
        if graphs_left == 1 and not has_control_flow(self.path):  # one plan has one choice of forms
            opening = FileOpening(self.path, self.dims, self.machine, self.accuracy, self.ranges)
            share = FORMS_SHARE * (self.allowance.seconds or LEAST_SECONDS)
            graph, forms = choose_forms(opening, graph, options.seed, share, allowance.build)
        found = timed_search(
            graph, self.machine, records, self.ranges, options, allowance, self.progress, studies
        )
        return replace(found, search=replace(found.search, forms=forms))

    def _search_by_model(
        self, graph: Graph, options: SearchOptions, records: Store, studies: BaseStorage | None
    ) -> GraphOutcome:
        answer = open_model(records, self.machine)
        try:
            search = search_graph(
                graph,
                self.machine,
                answer.model,
                options,
                progress=self.progress,
                store=records,
                storage=studies,
                rankings=self.rankings,
                alike=self.alike,
            )
        except SearchInterrupted as stop:
            return GraphOutcome(stop.result, answer.line, is_interrupted=True)
        if self.machine.spec.timed:
            search = keep_faster_plan(
                search,
                graph,
                self.machine,
                intervals_by_input(graph, self.ranges),
                options.seed,
                self.progress,
                self.allowance.build,
            )
        line = f"{answer.line}; {search.began_from}" if search.began_from else answer.line
        return GraphOutcome(search, line, is_interrupted=False)

    def _result(self, outcomes: Sequence[GraphOutcome], file: NetworkFile) -> SearchResult:
        has_own_accuracy = len(outcomes) == 1 and not self.ranges
        return SearchResult.of(
            [one.search for one in outcomes],
            self.machine,
            self.options.objective,
            file,
            None if has_own_accuracy else self.accuracy,
            self.dims,
            self.ranges,
            next((one.origin for one in outcomes if one.origin), ""),
        )

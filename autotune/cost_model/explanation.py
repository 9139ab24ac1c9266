"""Why a schedule costs what is predicted: cycles by resource, the roofline, and what is done twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.analysis import Analysis, analytic_model
from autotune.cost_model.cached.model import CachedAnalysis
from autotune.cost_model.cached.work_kinds import WORK_KINDS
from autotune.cost_model.cost import Cost, FusionGain
from autotune.cost_model.model import CostModel
from autotune.cost_model.model_file import GUIDED, RAW
from autotune.cost_model.prepared import PreparedGroup
from autotune.cost_model.raw.model import RawAnalysis
from autotune.cost_model.raw.prices import RawPrices
from autotune.cost_model.raw.work import RawUnit
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.shapley import contributions
from autotune.cost_model.topics import raw_topic_of, topic_of
from autotune.display import Card, Displayed
from autotune.fusion.group import Group
from autotune.isa.opcodes import Unit
from autotune.operators.families import FAMILIES

_UNITS = {
    Unit.MATRIX: ("matrix unit", "products, with filling and draining the array"),
    Unit.VECTOR: ("vector unit", "element-wise operators, reductions, bank conflicts"),
    Unit.LOAD: ("load DMA", "loads into the scratchpad, with their set-up"),
    Unit.STORE: ("store DMA", "stores from the scratchpad, with their set-up"),
}
_RAW_UNITS = {
    RawUnit.MATRIX: ("matrix unit", "passes over the array, calls and results, at fitted prices"),
    RawUnit.VECTOR: ("vector unit", "operations, steps and calls of passes, at fitted prices"),
    RawUnit.LOAD: ("load DMA", "loads, runs, bursts and rows of DRAM, at fitted prices"),
    RawUnit.STORE: ("store DMA", "stores, runs, bursts and rows of DRAM, at fitted prices"),
    RawUnit.CONTROL: ("sequencer", "nests, tiles and calls, at fitted prices"),
}
_LEAST_SHARE = 0.01
"""Share of the analytic cycles from which a resource of a CPU is listed."""
_NAMED = 3
"""Topics that a sentence names."""


@dataclass(frozen=True, slots=True)
class Term:
    """Cycles of one resource or sort of work, and what they are spent on."""

    name: str
    cycles: float
    meaning: str


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Displayed):
    """Where predicted cycles go.

    ``terms`` are busy cycles: on a machine with scratchpads those of units that overlap, so that the
    longest decides; on a CPU parts of one sum. ``analytic_cycles`` follow from them, and the trees
    correct these by ``correction``, a factor. ``model`` says which model answers (``CostModel.kind``): a raw one has
    terms and ``analytic_cycles`` of counted work at fitted prices. ``bound_cycles`` is the roofline. ``intensity`` and
    ``ridge`` are in multiply-adds per DRAM byte. Multiply-adds and DRAM bytes stand beside the
    fewest that the group needs. ``learned`` are the cycles that the trees add to the analytic ones
    or take from them, by topic: exact Shapley values of the log ratio, times the logarithmic mean of
    both costs, so that they add up. ``fusion`` is the gain of a pair.
    """

    cost: Cost
    terms: tuple[Term, ...]
    learned: tuple[Term, ...]
    analytic_cycles: float
    bound_cycles: float
    intensity: float
    ridge: float
    multiply_adds: float
    needed_multiply_adds: float
    needed_bytes: float
    array_use: float
    fusion: FusionGain | None = None
    model: str = GUIDED

    @property
    def bottleneck(self) -> str:
        """Name of the resource with most cycles; '' for a group without a program."""
        return max(self.terms, key=lambda term: term.cycles).name if self.terms else ""

    @property
    def correction(self) -> float:
        """Predicted over analytic cycles: what the trees learned from measurements."""
        return self.cost.cycles / self.analytic_cycles if self.analytic_cycles else 1.0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Sentences, the gain of fusing first, then the bottleneck and what is done in vain."""
        return tuple(self._reasons())

    def _reasons(self) -> Iterator[str]:
        if self.fusion is not None:
            yield self.fusion.reason
        if not self.terms:
            yield "no program: the group only renames memory"
            return
        side = "below" if self.intensity < self.ridge else "above"
        yield (
            f"limited by the {self.bottleneck}: {self.intensity:,.1f} multiply-adds a byte, {side} the "
            f"ridge of {self.ridge:,.1f}"
        )
        yield self._roofline
        if self.array_use:
            yield f"array use: {self.array_use:.0%} of its cells while it is busy"
        again = (
            self.multiply_adds / self.needed_multiply_adds - 1 if self.needed_multiply_adds else 0
        )
        if again >= _LEAST_SHARE:
            yield f"recomputation: {again:.0%} more multiply-adds than needed, for halos of tiles"
        yield (
            f"DRAM traffic: {self.cost.dram_bytes:,.0f} bytes, "
            f"{self.cost.dram_bytes / self.needed_bytes:.1f} times what is read and written once"
        )
        if self.learned:
            most = ", ".join(f"{x.name} {x.cycles:+,.0f}" for x in self.learned[:_NAMED])
            sort = "priced" if self.model == RAW else "analytic"
            yield f"learned: × {self.correction:.3f} of the {sort} cycles, most by {most}"
        if self.cost.is_novel:
            yield (
                f"novel: the model knew {self.cost.novelty:.0%} of its training programs better; measure "
                "before you rely on it"
            )

    @property
    def _roofline(self) -> str:
        if self.bound_cycles <= self.cost.cycles:
            share = f"{self.bound_cycles / self.cost.cycles:.0%} of the predicted"
            return f"roofline: {self.bound_cycles:,.0f} cycles at least, {share}"
        return (
            f"roofline: {self.bound_cycles:,.0f} cycles by the spec, more than the {self.cost.cycles:,.0f} predicted: "
            "these are too few, or the machine is faster than its spec"
        )

    def _card(self) -> Card:
        rows = [(term.name, f"{term.cycles:,.0f}", term.meaning) for term in self.terms]
        rows += [(f"learned: {x.name}", f"{x.cycles:+,.0f}", x.meaning) for x in self.learned]
        facts = [("because", "; ".join(self.reasons))]
        columns = ("resource", "cycles", "spent on")
        return Card(f"Explanation of {self.cost.cycles:,.0f} cycles", facts, columns, rows)


def explain_cost(
    model: CostModel, prepared: PreparedGroup, cost: Cost, fusion: FusionGain | None
) -> Explanation:
    """Explain the cost that a model predicts for a prepared group's schedule."""
    spec, learned = model.spec, list[Term]()
    analysed, sized = list[Analysis](), list[Analysis]()
    for nest, table in zip(prepared.nests, prepared.tables(cost.schedule), strict=True):
        analysed.append(analytic_model(spec).analyse(nest, table, spec))
        sized.append(model.corrected.analyse(nest, table, spec) if model.is_raw else analysed[-1])
        learned += _learned(model, sized[-1], float(model.forecast(nest, table).cycles[0]))
    terms = [term for a in sized for term in _terms(model, a)]
    done = sum(float(a.multiply_adds[0]) for a in analysed)
    cells, taken = spec.matrix.rows * spec.matrix.cols, sum(map(_cell_cycles, analysed))
    peak = spec.peak_macs_per_cycle * (done / taken if taken else 1.0)
    return Explanation(
        cost,
        _summed(terms),
        _summed(learned),
        sum(float(a.cycles(model.unit_costs)[0]) for a in sized),
        sum(float(a.roofline[0]) for a in analysed),
        done / max(1.0, cost.dram_bytes),
        peak / spec.dram.bytes_per_cycle,
        done,
        float(_needed_multiply_adds(prepared.group)),
        float(_needed_bytes(prepared.group)),
        _array_use(analysed, taken, cells),
        fusion,
        model.kind,
    )


def _terms(model: CostModel, analysis: Analysis) -> Iterator[Term]:
    """Return the cycles of one nest by resource."""
    if isinstance(analysis, RawAnalysis):
        busy = RawPrices(model.unit_costs).by_unit(analysis.work)[0]
        for place, (name, meaning) in _RAW_UNITS.items():
            yield Term(name, float(busy[place]), meaning)
    if isinstance(analysis, ScratchpadAnalysis):
        for unit, (name, meaning) in _UNITS.items():
            yield Term(name, float(analysis.busy[unit][0]), meaning)
        channel, dispatch = analysis.channel_cycles[0], analysis.dispatch_cycles[0]
        yield Term("DRAM channel", float(channel), "bursts and row misses of all cores")
        yield Term("sequencer", float(dispatch), "launch of instructions")
    if isinstance(analysis, CachedAnalysis):
        cycles = analysis.work[0] * model.unit_costs
        for kind, value in zip(WORK_KINDS, cycles.tolist(), strict=True):
            if value >= _LEAST_SHARE * cycles.sum():
                yield Term(kind.name, value, kind.doc)


def _learned(model: CostModel, analysis: Analysis, cycles: float) -> Iterator[Term]:
    """Return what trees add to one nest's analytic cycles by topic; ``cycles`` are predicted.

    A share of a log ratio is a share of the difference (Ang 2004, *Decomposition analysis for
    policymaking in energy*, Energy Policy 32: the logarithmic mean Divisia index).
    """
    forests = model.cycle_forests
    if not forests:
        return
    known = model.corrected.rows(analysis.features, analysis.work, model.unit_costs)
    row, analytic = known[0], float(analysis.cycles(model.unit_costs)[0])
    ratio = math.log(cycles / analytic)
    price = (cycles - analytic) / ratio if abs(ratio) > 1e-9 else analytic
    values = np.sum([contributions(forest, row) for forest in forests], axis=0)
    names = model.corrected.feature_names
    by_topic: dict[str, float] = {}
    named = raw_topic_of if model.is_raw else topic_of
    for name, value in zip(names, values.tolist(), strict=True):
        by_topic[named(name)] = by_topic.get(named(name), 0.0) + value * price
    for topic, share in by_topic.items():
        yield Term(topic, share, "more or less than a mean schedule of the training set")
    yield Term("mean", (ratio - float(values.sum())) * price, "of the training set")


def _summed(terms: list[Term]) -> tuple[Term, ...]:
    """Return the terms of nests that run one after the other, those of most cycles first."""
    summed: dict[str, Term] = {}
    for term in terms:
        before = summed.get(term.name)
        cycles = term.cycles + (0.0 if before is None else before.cycles)
        summed[term.name] = Term(term.name, cycles, term.meaning)
    return tuple(sorted(summed.values(), key=lambda term: -abs(term.cycles)))


def _cell_cycles(analysed: Analysis) -> float:
    """Return the cycles of cells that products take, by the peak of what they multiply."""
    if isinstance(analysed, ScratchpadAnalysis):
        return float(analysed.cell_cycles[0])
    return float(analysed.multiply_adds[0])


def _array_use(analysed: list[Analysis], taken: float, cells: int) -> float:
    """Return cycles taken of cells over those of a fully used array while it is busy; 0 without
    products or an array."""
    arrays = [a for a in analysed if isinstance(a, ScratchpadAnalysis)]
    busy = sum(float((a.busy[Unit.MATRIX] * a.tiling.active_cores)[0]) for a in arrays)
    return taken / (busy * cells) if busy else 0.0


def _needed_multiply_adds(group: Group) -> int:
    shapes = {x: kind.shape for x, kind in group.types}
    return sum(
        FAMILIES[op.family].multiply_adds(op, [shapes[x] for x in op.inputs], shapes[op.output])
        for op in group.ops
    )


def _needed_bytes(group: Group) -> int:
    """Return the bytes of the tensors that a group reads and makes for others."""
    ends = (*group.inputs, *group.outputs)
    return sum(group.type_of[x].size_bytes for x in ends)

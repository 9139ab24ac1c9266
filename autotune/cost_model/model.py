"""The learned cost model: measured over analytic cycles as boosted trees, with intervals.

``fitting`` trains it from stored measurements; search, predictor and runtime ask it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import Analysed, AnalyticModel
from autotune.cost_model.cached.work_kinds import TYPICAL_ERROR, TYPICAL_FACTOR, UNIT_COSTS
from autotune.cost_model.composition import Composed, Composition
from autotune.cost_model.cost import Cost
from autotune.cost_model.estimate import Best, Estimate, Forecast, Prediction
from autotune.cost_model.forest import Forest
from autotune.cost_model.learned import Learned
from autotune.cost_model.model_file import FORMULA, GUIDED, RAW, SHIPPED, is_shared, pack, unpack
from autotune.cost_model.provenance import Provenance
from autotune.cost_model.raw.model import corrected_model
from autotune.cost_model.training import Ratios, log_spread, scale_of
from autotune.errors import ScheduleError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec, Memory

if TYPE_CHECKING:  # imports lowering and binding, which predicting without a search needs not
    from autotune.cost_model.held_out import Misjudged
    from autotune.cost_model.verifier import Verifier

Floats = npt.NDArray[np.float64]

TYPICAL = "typical"
"""Kind of a model at typical costs, and the name of its mean error elsewhere among the metrics."""


class CostModel:
    """Predicts what schedules cost on one machine. Immutable; usable from several threads.

    A shared model was trained on several machines and answers for any with their kind of memory.
    """

    def __init__(
        self,
        spec: HardwareSpec,
        learned: Learned,
        metrics: Mapping[str, float],
        misjudged: tuple[Misjudged, ...] = (),
        shared: bool = False,
        verifier: Verifier | bytes | None = None,
        provenance: Provenance | None = None,
        composition: Composition | None = None,
    ) -> None:
        """``misjudged`` are the groups that it was worst at when it was trained; not stored. ``verifier``
        is the second stage, which prices bound programs, or its file form. ``provenance`` says what it
        was trained on (None: on nothing, or its file does not say). ``composition`` says what whole networks take beside
        their groups (None: no network was run)."""
        self.spec = spec
        self.is_shared = shared
        self.misjudged = misjudged
        self._verifier = verifier
        self.learned = learned
        self.metrics = dict(metrics)
        self.provenance = provenance
        self.composition = composition

    @property
    def kind(self) -> str:
        """What answers: ``guided`` where trees correct the analytic cycles, ``raw`` where they correct counted work at
        fitted prices, ``formula`` where no trees do; ``shipped`` for the model in the package and ``typical`` for a
        formula, both without any measurement of the machine."""
        if TYPICAL in self.metrics:
            return TYPICAL
        if self.is_shared:
            return SHIPPED
        if self.is_raw:
            return RAW
        return FORMULA if self.learned.ratios.is_formula else GUIDED

    @property
    def is_raw(self) -> bool:
        """True if no analytic cycles are in its predictions."""
        return self.learned.ratios.is_raw

    @property
    def corrected(self) -> AnalyticModel:
        """What its trees correct."""
        return corrected_model(self.spec, self.is_raw)

    @property
    def held_out_error(self) -> float:
        """Mean error (a fraction) on programs that no training saw; at typical costs that of other machines."""
        return self.metrics[TYPICAL if self.is_typical else "mape"]

    @property
    def is_typical(self) -> bool:
        """True if no measurement of its machine is in it, nor of any like it."""
        return self.kind == TYPICAL

    @classmethod
    def typical(cls, spec: HardwareSpec) -> CostModel:
        """Return the plain formula of a CPU at typical unit costs: no measurement of this machine is in it.

        Its intervals are those of another machine's programs: ``TYPICAL_FACTOR``.
        """
        assert spec.memory is Memory.CACHED, "other machines have the shipped model"
        learned = Learned(Ratios(None, None, None, UNIT_COSTS), None, math.log(TYPICAL_FACTOR))
        return cls(spec, learned, {TYPICAL: TYPICAL_ERROR})

    @property
    def verifier(self) -> Verifier | None:
        """The second stage, read when it is first asked for: it imports lowering and binding."""
        if isinstance(self._verifier, bytes):
            from autotune.cost_model.verifier import Verifier

            self._verifier = Verifier.from_bytes(self._verifier, self.spec)
        return self._verifier

    def with_verifier(self, verifier: Verifier | None) -> CostModel:
        """Return the same model with a second stage, its held-out figures beside the others as
        ``verified_…``; without one where ``verifier`` does not improve on it, or is None."""
        if verifier is None or not verifier.improves_on(self.metrics):
            return self
        figures = {f"verified_{name}": value for name, value in verifier.metrics.items()}
        metrics = {**self.metrics, **figures}
        return CostModel(
            self.spec,
            self.learned,
            metrics,
            self.misjudged,
            self.is_shared,
            verifier,
            self.provenance,
            self.composition,
        )

    def with_composition(self, composed: Composed | None, seconds: Floats) -> CostModel:
        """Return the same model with the fitted times of whole networks. Its figures compare the predictions ``left_out`` with the
        measured ``seconds`` [n]."""
        if composed is None:
            return self
        errors = np.abs(composed.left_out / seconds - 1.0)
        figures = {
            "whole_networks": float(len(seconds)),
            "whole_networks_mape": float(errors.mean()),
            "whole_networks_within_10": float((errors <= 0.1).mean()),
        }
        return CostModel(
            self.spec,
            self.learned,
            {**self.metrics, **figures},
            self.misjudged,
            self.is_shared,
            self._verifier,
            self.provenance,
            composed.composition,
        )

    def grown(self, learned: Learned, provenance: Provenance) -> CostModel:
        """Return this model with other trained parts; figures and second stage stay."""
        return CostModel(
            self.spec,
            learned,
            self.metrics,
            verifier=self._verifier,
            provenance=provenance,
            composition=self.composition,
        )

    @cached_property
    def formula(self) -> CostModel:
        """The same model without trees for cycles: what drafts candidates for a second stage, and what
        chooses where trees choose worse. A raw model drafts
        with its trees, for only with these its choices were shown to be no worse."""
        if self.is_raw:
            return self
        ratios = self.learned.ratios.as_formula()
        learned = replace(self.learned, ratios=ratios, known_support=None, formula_chooses=False)
        return CostModel(self.spec, learned, self.metrics, shared=self.is_shared)

    @property
    def chooser(self) -> CostModel:
        """What chooses among schedules of a group, which this model prices: the plain formula where trees were found to
        choose worse."""
        return self.formula if self.learned.formula_chooses else self

    @property
    def cycle_forests(self) -> tuple[Forest, ...]:
        """Trees whose predictions add up to the log of cycles over analytic ones; none for a formula."""
        return self.learned.ratios.cycle_forests

    @property
    def unit_costs(self) -> Floats:
        """Fitted cycles [W] of a unit of each of the ``corrected`` model's ``work_kinds``; of a raw model the
        logarithms, and two exponents (``RawPrices``)."""
        return self.learned.ratios.unit_costs

    def predict_nest(self, nest: Nest, table: ScheduleTable) -> Prediction:
        """Cycles of every schedule in a table."""
        found = self.estimate(nest, table)
        return Prediction(found.cycles, found.low, found.high)

    def predict_energy(self, nest: Nest, table: ScheduleTable) -> Floats:
        """Femtojoules of every schedule in a table [n]."""
        return self.estimate(nest, table).energy_fj

    def estimate(self, nest: Nest, table: ScheduleTable) -> Estimate:
        """Cycles, interval, energy and DRAM bytes in one go: one analysis serves them all."""
        return self.completed(self.forecast(nest, table))

    def forecast(self, nest: Nest, table: ScheduleTable, best: Best | None = None) -> Forecast:
        """Cycles alone of every schedule in a table, with what the rest can be found from.

        If only the ``best`` matter, others may be given too few cycles, but more than the best have. Trees may order
        schedules as the analytic cycles do not: all are analysed for them.
        """
        matter = self.matter(best)
        return self.judged(self.corrected.analyse(nest, table, self.spec, matter))

    def matter(self, best: Best | None) -> Best | None:
        """Return which schedules must be laid out where only the ``best`` matter; None for all."""
        return best if self.learned.ratios.is_formula else None

    def judged(self, a: Analysed) -> Forecast:
        """Return the forecast of analysed schedules."""
        ratios = self.learned.ratios
        x = self.corrected.rows(a.features, a.work, ratios.unit_costs)
        cycles = a.cycles(ratios.unit_costs) * np.exp(ratios.log_cycles(x))
        return Forecast(np.maximum(cycles, 1.0), x, a.dynamic_fj, a.leak_fj, a.moved_bytes)

    def energy(self, forecast: Forecast) -> Floats:
        """Femtojoules of forecast schedules [n]."""
        energy = forecast.dynamic_fj + forecast.leak_fj * forecast.cycles
        return energy * np.exp(self.learned.ratios.log_energy(forecast.x))

    def completed(self, forecast: Forecast) -> Estimate:
        """All that is predicted of forecast schedules: the trees of the interval, of energy and of bytes
        are asked for these alone."""
        learned, cycles = self.learned, forecast.cycles
        scale = 1.0 if learned.scale is None else scale_of(learned.scale, forecast.x)
        spread = np.exp(log_spread(learned.factor, scale)) * np.ones(len(cycles))
        dram = forecast.moved_bytes * np.exp(learned.ratios.log_dram(forecast.x))
        energy, new = self.energy(forecast), learned.novelty(forecast.x)
        return Estimate(cycles, cycles / spread, cycles * spread, energy, dram, new)

    def rough(self, nest: Nest, table: ScheduleTable) -> Floats:
        """Return a cheap score [n] to pre-filter schedules; only its ranking is meaningful."""
        analysis = self.corrected.analyse(nest, table, self.spec)
        return analysis.order(self.learned.ratios.unit_costs)

    def predict(self, group: Group, schedule: Schedule) -> float:
        """Cycles of a group: the sum over its nests, which run one after the other.

        Raises ``ScheduleError`` for a group that no program can be made of.
        """
        return self.total(group, schedule).cycles

    def total(self, group: Group, schedule: Schedule) -> Cost:
        """Return all that is predicted of a group: sums over its nests, and the largest novelty among them.

        Raises ``ScheduleError`` as ``predict`` does.
        """
        nests = nests_of(group)
        if len(schedule.nests) != len(nests):
            raise ScheduleError(f"schedule has {len(schedule.nests)} nests, the group {len(nests)}")
        found = [
            self.estimate(nest, ScheduleTable.of(nest, [part]))
            for nest, part in zip(nests, schedule.nests, strict=True)
        ]
        sums = np.sum([np.zeros(5), *(one.columns[:, 0] for one in found)], axis=0)
        cycles, low, high, energy, dram = sums.tolist()
        novelty = float(np.fmax.reduce([np.nan, *(one.novelty[0] for one in found)]))
        return Cost(schedule, cycles, low, high, energy, dram, novelty)

    def caution(self, group: Group, schedule: Schedule) -> float:
        """Return the ``caution`` of a candidate's cost. Raises ``ScheduleError`` as ``predict`` does."""
        return self.total(group, schedule).caution

    @property
    def trees(self) -> dict[str, Forest]:
        """Forests by name: ``scale``, ``cycles``, ``energy``, ``dram``, and ``base`` ones they add to."""
        ratios = self.learned.ratios
        trees = {"scale": self.learned.scale, **_trees(ratios, "")}
        if ratios.base is not None:
            trees |= _trees(ratios.base, "base ")
        return {name: forest for name, forest in trees.items() if forest is not None}

    @property
    def interval_factor(self) -> float:
        """Half width of an interval, in logarithms, over the predicted size of the error."""
        return self.learned.factor

    def to_bytes(self) -> bytes:
        """The model as a file: a JSON header and the tables of the trees."""
        ratios = self.learned.ratios
        parts = {name: forest.to_bytes() for name, forest in self.trees.items()}
        if self.verifier is not None:
            parts["verifier"] = self.verifier.to_bytes()
        if self.composition is not None:
            parts["composition"] = self.composition.to_bytes()
        return pack(
            self.spec,
            parts,
            self.learned.factor,
            self.metrics,
            ratios.unit_costs.tolist(),
            self.is_shared,
            self.provenance,
            self.learned.known_support,
            self.is_raw,
            self.learned.formula_chooses,
        )

    @classmethod
    def from_bytes(cls, blob: bytes, spec: HardwareSpec) -> CostModel:
        """Read what ``to_bytes`` wrote. Raises ``StoreError`` for a broken file, another feature
        version or another machine."""
        file = unpack(blob, spec)
        verifier = file.parts.pop("verifier", None)
        composition = file.parts.pop("composition", None)
        trees = {name: Forest.from_bytes(part) for name, part in file.parts.items()}
        costs = np.array(file.unit_costs)
        is_refined = any(name.startswith("base ") for name in trees)
        base = _ratios(trees, "base ", costs, None) if is_refined else None
        ratios = replace(_ratios(trees, "", costs, base), is_raw=file.is_raw)
        learned = Learned(
            ratios, trees.get("scale"), file.factor, file.support, file.formula_chooses
        )
        return cls(
            spec,
            learned,
            file.metrics,
            shared=is_shared(blob),
            verifier=verifier,
            provenance=file.provenance,
            composition=None if composition is None else Composition.from_bytes(composition),
        )


def _trees(ratios: Ratios, prefix: str) -> dict[str, Forest | None]:
    """Return the trees of ratios by the names that they have in a file."""
    return {f"{prefix}{name}": getattr(ratios, name) for name in _RATIOS}


def _ratios(
    trees: Mapping[str, Forest], prefix: str, unit_costs: Floats, base: Ratios | None
) -> Ratios:
    cycles, energy, dram = (trees.get(f"{prefix}{name}") for name in _RATIOS)
    return Ratios(cycles, energy, dram, unit_costs, base)


_RATIOS = ("cycles", "energy", "dram")

"""Second stage of prediction on CPUs: schedules are lowered and bound, never run, and priced by kernel.

The first stage ranks thousands of schedules by counts of their nests. It does not see what binding makes of
a program: fused runs, copies that are left out, micro-kernels and their blocking. The second stage does,
at some milliseconds each, and is asked about the best ones alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from math import sqrt

import numpy as np
import numpy.typing as npt

from autotune.cost_model.bound.footprint import Cache
from autotune.cost_model.bound.kernel_kinds import KERNEL_KINDS, KERNEL_PRICES, KIND_INDEX, Floats
from autotune.cost_model.bound.kernel_prices import (
    family_cycles,
    fit_kernel_prices,
    kernel_cycles,
)
from autotune.cost_model.bound.program_work import program_work
from autotune.cost_model.core_caches import core_caches
from autotune.cost_model.dataset import Dataset, dataset
from autotune.cost_model.first_choice import PROMISES, cautious
from autotune.cost_model.forest import Forest
from autotune.cost_model.metrics import mape, median_error, regret, within, within_groups
from autotune.cost_model.training import COVERAGE, FOLDS, Growth, boost, conformal_quantile, folds
from autotune.errors import ProgramError, ScheduleError, StoreError
from autotune.fusion.group import Group
from autotune.lowering.lower import lower
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.targets.native.cpu import topology
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.cpu.vector_isa import VectorIsa
from autotune.targets.native.linking.loader import bind
from autotune.targets.spec import HardwareSpec, Memory

FIRST_SOFTNESS, COLOUR_DEVIATION = 0.1, 0.88
"""Deviation of what a first-level cache holds, as a share of its size; and of pages of a colour, over that of a Poisson
number."""
DEFAULT_WAYS = 16
"""Of a cache that the system does not tell of."""
REMEMBERED = 16384
"""Schedules whose work is remembered: a search that retrains asks for most again."""
MIN_PROGRAMS = 50
"""Fewer bound measurements than this give no second stage."""
KERNEL_TREES = Growth(rounds=300, depth=5, eta=0.05, leaf_weight=3.0, pull=5.0)
"""Trees over kernel prices: depth 5 leaves 6.5 % in the median, depth 4 7.0 % and depth 3 7.2 % on the same
3 210 programs."""
BEFORE = 1.3
"""Promise of second stages in files of older versions, which do not name it."""
SHARE_DIGITS, SIZE_STEP = 2, 0.5
"""Digits of a share that trees see, and steps of the logarithm of cycles."""
_LENGTH_BYTES = 8


def is_better(metrics: Mapping[str, float], others: Mapping[str, float]) -> bool:
    """Return True for a smaller held-out error and a regret that is no larger than the formula's in the same
    groups."""
    chooses_worse = metrics["top1_regret"] > metrics["formula_top1_regret"]
    return not chooses_worse and metrics["mape"] < others["mape"]


def can_verify(spec: HardwareSpec) -> bool:
    """Return True for a CPU whose kernels are generated here."""
    return spec.memory is Memory.CACHED and available()


@cache
def caches(spec: HardwareSpec) -> tuple[Cache, Cache, Cache]:
    """Return a core's caches, smallest first; the last is what a core may keep at all.

    The first is indexed by bytes within a page. In the others, pages fall on colours, on average as many on each as the
    cache has ways, with the deviation of that number's root; all pages of a colour that has more miss.
    """
    first, second = core_caches()
    last = max(second, spec.scratchpad.size_bytes)
    paged = [
        COLOUR_DEVIATION / sqrt(topology.cache_ways(level) or DEFAULT_WAYS) for level in (2, 3)
    ]
    return Cache(first, FIRST_SOFTNESS), Cache(second, paged[0]), Cache(last, paged[1])


@cache
def _isa() -> VectorIsa:
    """Return the instruction set that programs are bound for."""
    return host_isa()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A schedule of a group on a machine, told from others by the group's key."""

    key: str
    schedule: Schedule
    spec: HardwareSpec
    group: Group = field(compare=False)


@lru_cache(maxsize=REMEMBERED)
def _bound_work(candidate: _Candidate) -> Floats | None:
    """Return the counts [K] of a candidate's bound program; None where none can be made."""
    spec = candidate.spec
    try:
        bound = bind(lower(candidate.group, candidate.schedule, spec), _isa())
    except (ProgramError, ScheduleError):
        return None
    counts: Floats = np.zeros(len(KERNEL_KINDS))
    for name, value in program_work(bound, caches(spec), spec.cores).items():
        counts[KIND_INDEX[name]] = value
    if counts[KIND_INDEX["synchronised"]]:  # two may be hardware threads of one core
        counts[KIND_INDEX["contended"]] = kernel_cycles(counts[None], KERNEL_PRICES)[0]
    return counts


def bound_work(group: Group, schedules: Sequence[Schedule], spec: HardwareSpec) -> Floats:
    """Return the counts [n, K] of ``KERNEL_KINDS`` of each schedule's bound program, NaN where none can be
    made."""
    nothing = np.full(len(KERNEL_KINDS), np.nan)
    key = group.key
    rows = (_bound_work(_Candidate(key, schedule, spec, group)) for schedule in schedules)
    return np.stack([nothing if row is None else row for row in rows])


@dataclass(frozen=True, slots=True)
class BoundPrograms:
    """Measured programs: counts ``work`` [r, K] of what was bound, and the same measurements by ``nests``, which
    the formula prices."""

    work: Floats
    nests: Dataset

    @classmethod
    def of(cls, records: Sequence[Record], spec: HardwareSpec) -> BoundPrograms:
        """Lower and bind the candidates of successful measurements; of equal ones the last counts."""
        latest = {
            (record.group_key, record.schedule_json): record
            for record in records
            if record.outcome is Outcome.OK and record.cycles > 0
        }
        members: dict[str, list[Record]] = {}
        for record in latest.values():
            members.setdefault(record.group_key, []).append(record)
        rows, kept = [], []
        for key, own in members.items():  # in the order of a data set
            group = Group.from_json(own[0].group_json)
            for record in own:
                schedule = Schedule.from_json(record.schedule_json)
                work = _bound_work(_Candidate(key, schedule, spec, group))
                if work is not None:
                    rows.append(work)
                    kept.append(record)
        made = np.stack(rows) if rows else np.empty((0, len(KERNEL_KINDS)))
        return cls(made, dataset(kept, spec))

    def __len__(self) -> int:
        return len(self.work)

    @property
    def cycles(self) -> Floats:
        """Measured cycles [r]."""
        return self.nests.cycles

    @property
    def weight(self) -> Floats:
        """What each counts [r]: many schedules of one group tell less each."""
        _, inverse, counts = np.unique(self.nests.keys, return_inverse=True, return_counts=True)
        return np.asarray(self.nests.weight / np.sqrt(counts[inverse]), dtype=np.float64)

    def take(self, chosen: npt.NDArray[np.bool_]) -> BoundPrograms:
        """Return the ``chosen`` measurements [r]."""
        return BoundPrograms(self.work[chosen], self.nests.take(chosen))


@dataclass(frozen=True, slots=True)
class Verifier:
    """Kernel prices [K] of a machine, trees for what they leave, and the factor that holds 90 % of
    measurements either way; ``metrics`` are of networks that were not trained on. ``promised`` is that of its
    ``cautious`` choices: infinite where the formula's stay."""

    spec: HardwareSpec
    prices: Floats
    trees: Forest | None
    spread: float
    metrics: Mapping[str, float]
    promised: float = np.inf

    @classmethod
    def fit(cls, records: Sequence[Record], spec: HardwareSpec, seed: int) -> Verifier | None:
        """Train on measurements of one machine; None where programs cannot be bound, or are too few.

        Trees stay only where they lower the held-out error. Held-out groups say how much cheaper another schedule must be than the
        formula's choice to be taken instead; where such choices are worse than the formula's, these stay.
        """
        if not can_verify(spec):
            return None
        programs = BoundPrograms.of(records, spec)
        if len(programs) < MIN_PROGRAMS:
            return None
        rng = np.random.default_rng(seed)
        fold = folds(programs.nests.networks, programs.nests.keys, rng)
        formula, priced, learned = _held_out(programs, fold, seed)
        contenders = [
            _Judged(_figures(programs, cycles, formula, promised), cycles, grown, promised)
            for promised in PROMISES
            for cycles, grown in ((priced, False), (learned, True))
        ]
        best = min(
            (one for one in contenders if not one.chooses_worse),
            key=lambda one: (one.figures["mape"], one.figures["top1_regret"], -one.promised),
        )
        error = np.abs(np.log(programs.cycles / best.cycles))
        prices = fit_kernel_prices(programs.work, programs.cycles, programs.weight)
        trees = _trees(programs, prices, seed) if best.grown else None
        # by networks, as the first stage is calibrated, they held 97 and 98 % of unseen ones; by rows 92 to 97 %
        spread = float(np.exp(conformal_quantile(error, COVERAGE)))
        return cls(spec, prices, trees, spread, best.figures, best.promised)

    def improves_on(self, metrics: Mapping[str, float]) -> bool:
        """Return True if it errs less than a model of these held-out ``metrics``, and chooses no worse than the
        formula."""
        return is_better(self.metrics, metrics)

    def cycles(
        self, group: Group, schedules: Sequence[Schedule], formula: Floats | None = None
    ) -> Floats:
        """Return the cycles [n] of a group's schedules, infinite for one that no program can be made of. To choose
        among them, give the ``formula``'s cycles [n]: it is ``cautious`` then."""
        work = bound_work(group, schedules, self.spec)
        made = ~np.isnan(work[:, 0])
        found: Floats = np.full(len(schedules), np.inf)
        if made.any():
            found[made] = _predicted(work[made], self.prices, self.trees)
        return found if formula is None else cautious(found, formula, self.promised)

    def to_bytes(self) -> bytes:
        """Return length of the header, header, trees."""
        header = json.dumps(
            {
                "prices": dict(zip(KIND_INDEX, self.prices.tolist(), strict=True)),
                "spread": self.spread,
                "promised": self.promised if self.promised < np.inf else None,
                "metrics": dict(self.metrics),
            }
        ).encode()
        trees = b"" if self.trees is None else self.trees.to_bytes()
        return len(header).to_bytes(_LENGTH_BYTES, "little") + header + trees

    @classmethod
    def from_bytes(cls, blob: bytes, spec: HardwareSpec) -> Verifier:
        """Read what ``to_bytes`` wrote, whose checksum the cost model's file has checked. Raises
        ``StoreError`` for one of other kinds of work."""
        end = _LENGTH_BYTES + int.from_bytes(blob[:_LENGTH_BYTES], "little")
        header = json.loads(blob[_LENGTH_BYTES:end])
        if list(header["prices"]) != list(KIND_INDEX):
            raise StoreError(
                "cost model: prices kernels by other kinds of work than this version; run "
                f"'autotune calibrate --target {spec.name}' to train a new one"
            )
        prices = np.array(list(header["prices"].values()))
        trees = Forest.from_bytes(blob[end:]) if len(blob) > end else None
        promised = header.get("promised", BEFORE if header.get("chooses") else None)
        return cls(spec, prices, trees, header["spread"], header["metrics"], promised or np.inf)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Held-out ``figures`` and ``cycles`` [r] of a second stage: with trees if ``grown``, and with choices that take what
    is ``promised``."""

    figures: dict[str, float]
    cycles: Floats
    grown: bool
    promised: float

    @property
    def chooses_worse(self) -> bool:
        """True if the regret is larger than the formula's in the same groups; never where its choices stay."""
        return self.figures["top1_regret"] > self.figures["formula_top1_regret"]


def _features(work: Floats, prices: Floats) -> Floats:
    """Return features [n, F]: shares of the total of each kind, and of families' arithmetic and traffic, and the
    logarithm of the total.

    They are rounded, so that trees learn of groups. Differences of a group's schedules are smaller than what trees
    of some hundred groups know; finer features made ranks in a set worse (0.37 instead of 0.49).
    """
    total = kernel_cycles(work, prices)[:, None]
    shares = np.concatenate([work * prices, family_cycles(work, prices)], axis=1) / total
    size = np.round(np.log(total) / SIZE_STEP) * SIZE_STEP
    return np.concatenate([np.round(shares, SHARE_DIGITS), size], axis=1)


def _trees(programs: BoundPrograms, prices: Floats, seed: int) -> Forest:
    error = np.log(programs.cycles / kernel_cycles(programs.work, prices))
    return boost(_features(programs.work, prices), error, programs.weight, seed, KERNEL_TREES)


def _predicted(work: Floats, prices: Floats, trees: Forest | None) -> Floats:
    cycles = kernel_cycles(work, prices)
    return cycles if trees is None else cycles * np.exp(trees.predict(_features(work, prices)))


def _held_out(
    programs: BoundPrograms, fold: npt.NDArray[np.int64], seed: int
) -> tuple[Floats, Floats, Floats]:
    """Return cycles [r] by the formula, by prices alone and with trees, of what the other folds teach."""
    nests = programs.nests
    formula, priced, learned = (programs.cycles.copy() for _ in range(3))
    for index in range(FOLDS):
        tested = fold == index
        known = ~np.isin(nests.keys, nests.keys[tested])
        if not tested.any() or not known.any():
            continue
        unit_costs = nests.fit(known)
        formula[tested] = nests.summed(nests.analytic_cycles(unit_costs))[tested]
        others = programs.take(known)
        prices = fit_kernel_prices(others.work, others.cycles, others.weight)
        priced[tested] = kernel_cycles(programs.work[tested], prices)
        trees = _trees(others, prices, seed)
        learned[tested] = _predicted(programs.work[tested], prices, trees)
    return formula, priced, learned


def _figures(
    programs: BoundPrograms, cycles: Floats, formula: Floats, promised: float
) -> dict[str, float]:
    """Return held-out figures, with the regret of ``cautious`` choices beside that of the formula."""
    groups = programs.nests.keys.tolist()
    chosen = cycles.copy()
    for key in dict.fromkeys(groups):
        own = programs.nests.keys == key
        chosen[own] = cautious(cycles[own], formula[own], promised)
    regrets, others = (
        within_groups(regret, programs.cycles, one, groups) for one in (chosen, formula)
    )
    return {
        "mape": mape(programs.cycles, cycles),
        "median_error": median_error(programs.cycles, cycles),
        "within_10": within(programs.cycles, cycles, 0.10),
        "top1_regret": float(regrets.mean()) if len(regrets) else 0.0,
        "formula_top1_regret": float(others.mean()) if len(others) else 0.0,
    }

"""What a whole network takes, of what its groups take when each runs alone.

A group that is measured alone finds its operands where its last run left them. In a network they come from farther away: weights
that all caches together cannot hold come from memory, and activations from where a larger group has driven them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.core_caches import core_caches
from autotune.errors import StoreError
from autotune.fusion.group import Group
from autotune.operators.op import OpKind
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]

FEWEST_NETWORKS = 8
"""Measured networks from which on a composition is fitted."""
RATES = (0.5, 0.6, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
"""Rates of memory that are tried, over the one that the machine's probe read at: a shared host changes it by the hour."""
ROUNDS, CALM = 30, 0.02
"""Rounds of reweighting, and the error from which on errors count by their size instead of its square."""
TYPICAL_COSTS, TYPICAL_SPREAD = (0.07, 2e-11, 1.5e-7, 5e-6), 1.3
"""Stretch, refill, seconds of a group and of a run on a Zen 4, by 43 networks. The interval holds 42 of them, on one thread and on two."""
HOLD = 0.3
"""Weight that holds each cost at its typical one, over that of a network: some networks hardly depend on one."""
COVERAGE = 0.9
"""Share of networks that the interval holds."""


@dataclass(frozen=True, slots=True)
class NetworkLoad:
    """Groups of a network in running order. Each takes ``alone`` seconds [n], reads so many bytes of ``constants`` [n], and reads or
    writes so many of activations, ``moved`` [n]."""

    alone: Floats
    constants: Floats
    moved: Floats

    @classmethod
    def of(
        cls, groups: Iterable[Group], alone: Sequence[float], constants: Collection[str]
    ) -> NetworkLoad:
        """Return the load of groups; ``constants`` are the network's, by name."""
        bytes_read = np.array([_bytes(group, constants) for group in groups], dtype=np.float64)
        return cls(np.asarray(alone, np.float64), *bytes_read.reshape(-1, 2).T)


def _bytes(group: Group, constants: Collection[str]) -> tuple[int, int]:
    """Return the bytes of constants and of activations. Of a table that a gather reads, the rows that it takes count."""
    read: dict[str, int] = {}
    for op in group.ops:
        for x in op.inputs:
            if x not in constants:
                continue
            is_table = op.kind is OpKind.GATHER and x == op.inputs[0]
            rows = group.type_of[op.output if is_table else x].size_bytes
            read[x] = max(read.get(x, 0), min(rows, group.type_of[x].size_bytes))
    moved = {x for x in (*group.inputs, *group.outputs) if x not in constants}
    return sum(read.values()), sum(group.type_of[x].size_bytes for x in moved)


@dataclass(frozen=True, slots=True)
class Reserves:
    """Bytes that caches hold of what a network's groups pass on: those ``near`` the cores, and ``all`` of them."""

    near: float
    all: float

    @classmethod
    def of(cls, spec: HardwareSpec) -> Reserves:
        """Return those of a CPU."""
        _, second = core_caches()
        near = spec.cores * second
        return cls(float(near), float(max(near, spec.scratchpad.size_bytes)))


@dataclass(frozen=True, slots=True)
class Composition:
    """Costs of a network beside those of its groups alone.

    ``bytes_per_second`` is the rate of memory: no group is faster than what it has to read from there. ``refill`` are seconds for a byte of
    activations that come from beyond the cores' own caches, ``group_seconds`` are for each group, ``run_seconds`` for a
    run. Groups take 1 + ``stretch`` times as long as alone. ``spread`` is the factor of the 90 % interval.
    """

    bytes_per_second: float
    refill: float
    group_seconds: float
    run_seconds: float
    stretch: float
    spread: float

    @classmethod
    def typical(cls, spec: HardwareSpec) -> Composition:
        """Return the one of a CPU where no network was measured: costs of a Zen 4, and this machine's memory."""
        stretch, refill, group_seconds, run_seconds = TYPICAL_COSTS
        return cls(_memory_rate(spec), refill, group_seconds, run_seconds, stretch, TYPICAL_SPREAD)

    def seconds(self, load: NetworkLoad, reserves: Reserves) -> float:
        """Return what a run of a network takes."""
        columns = columns_of(load, reserves, self.bytes_per_second)
        costs = (1.0 + self.stretch, self.refill, self.group_seconds, self.run_seconds)
        return float(columns @ np.array(costs))

    def to_bytes(self) -> bytes:
        """Return its file form."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, blob: bytes) -> Composition:
        """Read what ``to_bytes`` wrote. Raises ``StoreError`` for fields of another version."""
        try:
            return cls(**json.loads(blob))
        except (TypeError, ValueError):
            raise StoreError(
                "cost model: its times of whole networks are of another version; run 'autotune calibrate' to measure them"
            ) from None


def _memory_rate(spec: HardwareSpec) -> float:
    """Bytes per second that reading alone reaches."""
    return spec.dram.bytes_per_cycle * spec.clock_hz


def columns_of(load: NetworkLoad, reserves: Reserves, bytes_per_second: float) -> Floats:
    """Return what the costs are of [4]: seconds of groups alone, at least of what they read from memory; bytes of activations from
    beyond the cores' caches; groups; runs."""
    own = load.constants + load.moved
    before = np.concatenate([[0.0], own[:-1]])
    holds_constants = load.constants.sum() + load.moved.max(initial=0.0) <= reserves.all
    streamed = np.zeros_like(own) if holds_constants else load.constants.copy()
    streamed += np.where(before > reserves.all, load.moved, 0.0)
    streamed = np.where(own > reserves.all, own, streamed)
    refilled = np.where((before > reserves.near) & (own <= reserves.near), load.moved, 0.0)
    alone = np.maximum(load.alone, streamed / bytes_per_second)
    return np.array([alone.sum(), refilled.sum(), float(len(own)), 1.0])


@dataclass(frozen=True, slots=True)
class Composed:
    """A fitted composition, and what it predicts of each measured network [n] when fitted without it."""

    composition: Composition
    left_out: Floats


def fit_composition(
    loads: Sequence[NetworkLoad],
    seconds: Sequence[float] | Floats,
    spec: HardwareSpec,
    reserves: Reserves,
) -> Composed | None:
    """Fit to measured ``seconds`` of networks; None for fewer than ``FEWEST_NETWORKS``."""
    if len(loads) < FEWEST_NETWORKS:
        return None
    measured = np.asarray(seconds, np.float64)
    rates = [rate * _memory_rate(spec) for rate in RATES]
    by_rate = [np.stack([columns_of(x, reserves, rate) for x in loads]) for rate in rates]

    def fitted(kept: npt.NDArray[np.bool_]) -> tuple[int, Floats]:
        found = [_costs(columns[kept], measured[kept]) for columns in by_rate]
        best = min(range(len(rates)), key=lambda at: found[at][1])
        return best, found[best][0]

    left_out = np.empty(len(loads))
    for place in range(len(loads)):
        at, costs = fitted(np.arange(len(loads)) != place)
        left_out[place] = by_rate[at][place] @ costs
    at, costs = fitted(np.ones(len(loads), np.bool_))
    errors = np.sort(np.abs(np.log(measured / left_out)))
    spread = math.exp(errors[min(len(errors) - 1, math.ceil(COVERAGE * (len(errors) + 1)) - 1)])
    groups, refill, group_seconds, run_seconds = costs.tolist()
    made = Composition(rates[at], refill, group_seconds, run_seconds, groups - 1.0, spread)
    return Composed(made, left_out)


def _costs(columns: Floats, seconds: Floats) -> tuple[Floats, float]:
    """Return costs [4], none below zero and groups at least as long as alone, and their mean relative error."""
    from scipy.optimize import nnls  # slow to import; only calibrating fits

    rows = columns / seconds[:, None]
    wanted = 1.0 - rows[:, 0]
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0.0] = 1.0
    hold = HOLD * np.diag(1.0 / (scale * np.array(TYPICAL_COSTS)))
    weight, found = np.ones(len(rows)), np.zeros(rows.shape[1])
    for _ in range(ROUNDS):
        weighed = np.concatenate([rows / scale * weight[:, None], hold])
        found, _ = nnls(weighed, np.concatenate([wanted * weight, np.full(len(hold), HOLD)]))
        errors = np.abs(rows / scale @ found - wanted)
        weight = np.sqrt(1.0 / np.maximum(errors, CALM))
    costs = found / scale
    costs[0] += 1.0
    return costs, float(errors.mean())

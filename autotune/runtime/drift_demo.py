"""The demonstration of learning from runs: DRAM bandwidth is cut in the middle of a series of runs,
prediction error rises, falls again after retraining, and the plan follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.errors import AutotuneError
from autotune.graph.graph import Graph
from autotune.operators.tensor import Array
from autotune.runtime.execution.event import Event
from autotune.runtime.online.learning import OnlineOptions
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Target
from autotune.tuner.plan import Plan

DRAM_BANDWIDTH = 0.6
"""The factor on DRAM bandwidth from the middle of the series on: a cut of 40 %."""


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """One run: whether the bandwidth was cut, its prediction error (a fraction), its measured and
    predicted cycles, and the plan and model that it ran by."""

    run: int
    derated: bool
    error: float
    cycles: int
    predicted_cycles: float
    plan_version: int
    model_version: int


@dataclass(frozen=True, slots=True)
class DriftSeries:
    """The runs and what the session did about them. ``frozen_cycles`` is what the first plan
    takes on the cut machine: what not following would cost."""

    network: str
    target: str
    dram_bandwidth: float
    points: tuple[DriftPoint, ...]
    events: tuple[Event, ...]
    frozen_cycles: int

    @property
    def error_before(self) -> float:
        """Mean error before the cut."""
        return _mean([p.error for p in self.points if not p.derated])

    @property
    def error_at_worst(self) -> float:
        """Largest error after the cut."""
        return max(p.error for p in self.points if p.derated)

    @property
    def error_after(self) -> float:
        """Error of the last run."""
        return self.points[-1].error


def demonstrate_drift(
    graph: Graph,
    target: Target,
    store: Store,
    *,
    plan: Plan | None = None,
    runs_before: int = 10,
    runs_after: int = 20,
    dram_bandwidth: float = DRAM_BANDWIDTH,
    options: OnlineOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DriftSeries:
    """Run a network in an online session on an emulator whose DRAM bandwidth is cut half-way.

    The session works on an emulator of its own and on a copy of ``store``, which must hold a cost
    model of the target: what a cut machine costs stays out of the user's measurements. After each
    run the session may finish learning, so that the series does not depend on the host's speed.
    ``progress`` hears the number of finished runs and of all. Raises ``AutotuneError`` for a
    target without a model.
    """
    if runs_before < 1 or runs_after < 1:
        raise AutotuneError(f"{runs_before} runs before and {runs_after} after: give 1 or more")
    feeds = _random_inputs(graph)
    machine = EmulatorTarget(target.spec, target.name)
    points: list[DriftPoint] = []
    with (
        _copied(store, machine) as copy,
        Session(graph, machine, copy, online=True, plan=plan, options=options) as session,
    ):
        first = session.table
        for run in range(runs_before + runs_after):
            if run == runs_before:
                machine.derate(dram_bandwidth)
            session.run(feeds)
            points.append(_point(run, run >= runs_before, session))
            session.wait_idle()
            if progress is not None:
                progress(run + 1, runs_before + runs_after)
        frozen = sum(machine.time(step.program).cycles for step in first.group_steps)
        events = session.events
    return DriftSeries(graph.name, target.name, dram_bandwidth, tuple(points), events, frozen)


def _point(run: int, derated: bool, session: Session) -> DriftPoint:
    trace = session.last_run
    error = trace.error
    assert error is not None, "an online session predicts every group"
    predicted = sum(r.step.predicted_cycles or 0.0 for r in trace.groups)
    return DriftPoint(
        run, derated, error, trace.cycles, predicted, trace.plan_version, trace.model_version
    )


def _copied(store: Store, target: Target) -> Store:
    profile = target.spec.profile_id
    copy = Store.memory()
    copy.add(store.records(profile))
    model = store.load_model(profile)
    if model is not None:
        copy.save_model(profile, model.blob, model.metrics, model.feature_version)
    return copy


def _random_inputs(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)

"""What one run of a whole network is predicted to take, on machines that run programs and on those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.cost_model.additive.model import AdditiveModel
from autotune.cost_model.predictor import Predictor
from autotune.display import Card, Displayed
from autotune.errors import ScheduleError, StoreError
from autotune.frontend.export.file_nodes import FileNodes
from autotune.fusion.greedy import greedy
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.store.store import Store
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.plugins.tunables import Value
from autotune.tuner.file_groups import whole_group


@dataclass(frozen=True, slots=True)
class PartCost:
    """Seconds of some operators of a network, by kind and name."""

    kinds: tuple[str, ...]
    operators: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True, repr=False)
class NetworkCost(Displayed):
    """Seconds of one run of a network; ``low_seconds`` to ``high_seconds`` holds 90 % of measurements or
    more. ``parts`` are its groups, or its operators where the machine fuses by itself. ``configuration`` is the best one
    of a machine's own parameters."""

    network: str
    target: str
    seconds: float
    low_seconds: float
    high_seconds: float
    parts: tuple[PartCost, ...]
    configuration: Mapping[str, Value] = field(default_factory=dict)

    def _card(self) -> Card:
        facts = [
            ("seconds", f"{self.seconds:.6g}"),
            ("90 % interval", f"{self.low_seconds:.6g} to {self.high_seconds:.6g}"),
            *((name, str(value)) for name, value in self.configuration.items()),
        ]
        rows = [(" ".join(part.kinds), f"{part.seconds:.3g}") for part in self.parts]
        return Card(
            f"NetworkCost {self.network} on {self.target}", facts, ("part", "seconds"), rows
        )


def stored_model(store: Store, target: ModelTarget, version: str | None = None) -> AdditiveModel:
    """Return the newest model of a machine, or the one whose SHA-256 begins with ``version``. Raises ``StoreError``
    if there is none."""
    stored = store.load_model(target.profile_id, version=version)
    if stored is None and version is not None:
        raise StoreError(f"{target.name}: no model {version!r}; 'autotune store models' lists them")
    if stored is None:
        raise StoreError(
            f"no cost model for {target.name} (hardware profile {target.profile_id}); "
            f"run 'autotune calibrate --target {target.name}' first"
        )
    return AdditiveModel.from_bytes(stored.blob, target.profile_id, target.name)


def predict_as_group(
    graph: Graph, model: AdditiveModel, target: str, nodes: FileNodes | None = None
) -> NetworkCost:
    """Predict a network as one group, whose machine fuses by itself; ``nodes`` are those of its file."""
    group = whole_group(graph, nodes)
    best = model.best_configuration(group)
    cost, shares = model.predict(group, best), model.operator_seconds(group, best)
    parts = tuple(
        PartCost((op.kind.value,), (op.name,), seconds)
        for op, seconds in zip(group.ops, shares.tolist(), strict=True)
    )
    return NetworkCost(graph.name, target, cost.seconds, cost.low, cost.high, parts, best)


def predict_greedy(graph: Graph, predictor: Predictor) -> NetworkCost:
    """Predict a network as its greedily fused groups, one after the other.

    The interval adds up those of the groups, as if all erred the same way: it holds 90 % or more.
    """
    clock_hz = predictor.spec.clock_hz
    parts, totals = [], [0.0, 0.0, 0.0]
    for names in greedy(graph, lambda names: _fits(predictor, graph, names)).groups:
        group = Group.from_graph(graph, names)
        if group.is_view:
            continue
        cost = predictor.predict(group)
        for i, cycles in enumerate((cost.cycles, cost.low_cycles, cost.high_cycles)):
            totals[i] += cycles / clock_hz
        kinds = tuple(op.kind.value for op in group.ops)
        parts.append(PartCost(kinds, tuple(names), cost.cycles / clock_hz))
    seconds, low, high = totals
    return NetworkCost(graph.name, predictor.spec.name, seconds, low, high, tuple(parts))


def _fits(predictor: Predictor, graph: Graph, names: tuple[str, ...]) -> bool:
    """Return True if the predictor finds a legal schedule."""
    try:
        predictor.predict(Group.from_graph(graph, names))
    except ScheduleError:
        return False
    return True

"""Measurements of many emulated machines: shipped and drawn specs, each by programs of its own.

What the shipped model is trained on (``benchmarks.shipped_model``) and judged on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from autotune.api import load_network
from autotune.datasets import NETWORKS
from autotune.graph.graph import Graph
from autotune.measure.runner import measure
from autotune.schedule.candidate import Candidate
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.spec import HardwareSpec
from autotune.tuner.records import to_record
from autotune.tuner.sampling import sample_candidates

HELD_OUT = (
    "light_densenet121",
    "mobilenet_v2",
    "unet",
    "bert_small",
    "gpt2_step",
    "swin_tiny",
    "conformer",
    "yolo_head",
)
"""Networks that the shipped model never sees: its figures are on them."""

TRAINED_ON = tuple(name for name in NETWORKS if name not in HELD_OUT)

NETWORKS_PER_SPEC = 5
"""Networks that one machine's groups are drawn from, besides generated ones: reading takes longer than
measuring."""

Told = Callable[[str, int, int], None]
"""Receiver of progress: the machine, its number, and how many there are."""


@dataclass
class Shelf:
    """Networks by name and layout, each read once."""

    graphs: dict[tuple[str, str], Graph] = field(default_factory=dict)

    def take(self, name: str, layout: str) -> Graph:
        """Return a network as machines of this layout open it."""
        key = (name, layout)
        if key not in self.graphs:
            self.graphs[key] = load_network(name, layout=layout)
        return self.graphs[key]


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of a fleet and the measurements that count of it, in the order they were drawn."""

    spec: HardwareSpec
    records: tuple[Record, ...]


def shipped_specs() -> tuple[HardwareSpec, ...]:
    """Return the specs in the package."""
    return tuple(load_spec(name) for name in spec_names())


def measured_fleet(
    specs: Sequence[HardwareSpec],
    runs: int,
    networks: Sequence[str],
    seed: int,
    store: Store,
    tell: Told,
) -> Iterator[Machine]:
    """Give each machine with its first ``runs`` candidates, measured now or already in the store.

    Specs, networks, runs and seed decide the candidates. An interrupt loses one machine at most.
    """
    shelf = Shelf()
    for number, spec in enumerate(specs):
        tell(spec.name, number, len(specs))
        rng = np.random.default_rng([seed, int(spec.profile_id[:8], 16)])
        names = rng.choice(networks, min(NETWORKS_PER_SPEC, len(networks)), replace=False).tolist()
        graphs = [shelf.take(name, spec.layout) for name in names]
        drawn = _distinct(sample_candidates(graphs, spec, int(rng.integers(1 << 31))), runs)
        yield Machine(spec, tuple(_measured(EmulatorTarget(spec), drawn, store)))


def _distinct(candidates: Iterator[Candidate], count: int) -> list[Candidate]:
    """Return the first ``count`` different candidates."""
    seen: dict[tuple[str, str], Candidate] = {}
    while len(seen) < count:
        for candidate in islice(candidates, count - len(seen)):
            seen.setdefault(candidate.key, candidate)
    return list(seen.values())


def _measured(
    target: EmulatorTarget, candidates: Sequence[Candidate], store: Store
) -> list[Record]:
    """Measure what the store lacks; return the records of all candidates."""
    profile = target.spec.profile_id
    known = store.known(profile)
    missing = [candidate for candidate in candidates if candidate.key not in known]
    store.add([to_record(result, target, "calibrate") for result in measure(target, missing)])
    records = {(r.group_key, r.schedule_json): r for r in store.records(profile)}
    return [records[candidate.key] for candidate in candidates]

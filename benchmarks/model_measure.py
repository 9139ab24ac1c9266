"""Measured candidate sets: drawn once per target, kept in a folder with what their programs cost.

``python -m benchmarks.model_measure edge --folder FOLDER`` draws what is missing there, and measures it; it
can be interrupted and called again. A target has a folder there: a file per network says which programs
form its sets, and ``measured.db`` is a store of their measurements.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.api import load_network
from autotune.datasets.networks import NETWORKS
from autotune.disk.atomic_file import replace_file
from autotune.errors import ScheduleError
from autotune.fusion.group import Group
from autotune.measure.cluster.cluster import opened_cluster
from autotune.measure.runner import Workers, measure
from autotune.runtime.session.defaults import choose_accuracy
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.opening import is_host, load_spec, target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.records import to_record
from benchmarks.model_sets import FEWEST, CandidateSet, NetworkSets, WholePlan, draw_network

Floats = npt.NDArray[np.float64]

GROUPS = 2
"""Sets of a network where machines are emulated."""
TIMED_GROUPS = 1
"""The same where programs are compiled and timed, at a tenth of a second each."""
TIMED_NETWORKS = (
    "light_squeezenet",
    "mobilenet_v2",
    "transformer_block",
    "mlp",
    "attention",
    "gru",
    "norm_gelu",
    "mixer_s16",
    "light_resnet50",
    "bert_small",
    "efficientnet_b0",
    "yolo_head",
    "gpt2_step",
    "conv_tasnet",
    "swin_tiny",
    "unet",
)
"""Networks that are measured there unless told: of several kinds, enough that one odd set does not carry a mean."""
BATCH = 256
"""Measurements that go into the store together."""


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """A candidate set and its cycles [n]; failed schedules are left out."""

    network: str
    kind: str
    group: Group
    schedules: tuple[Schedule, ...]
    cycles: Floats

    def __len__(self) -> int:
        return len(self.schedules)


@dataclass(frozen=True, slots=True)
class MeasuredPlan:
    """The parts of a network's heuristic plan: how often each occurs, and its cycles [parts]."""

    network: str
    parts: tuple[tuple[Group, Schedule], ...]
    counts: Floats
    cycles: Floats

    @property
    def total_cycles(self) -> float:
        """Cycles of one run, group after group."""
        return float(self.counts @ self.cycles)


@dataclass(frozen=True, slots=True)
class TargetSets:
    """Everything that was measured on one target."""

    spec: HardwareSpec
    sets: tuple[MeasuredSet, ...]
    plans: tuple[MeasuredPlan, ...]
    records: tuple[Record, ...]


def say(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def drawn_sets(
    name: str, folder: Path, networks: Sequence[str], groups: int, seed: int = 0
) -> tuple[NetworkSets, ...]:
    """Return the sets of every network on a target, from the folder's files or drawn into it now.

    A network with an operator that does not fit the machine has none.
    """
    spec = load_spec(name)
    options = {"profile": spec.profile_id, "seed": seed}
    taken: set[str] = set()
    known: dict[str, Schedule | None] = {}
    found = []
    for network in networks:
        file = place(folder, name) / f"{network}.json"
        content = json.loads(file.read_text()) if file.is_file() else {}
        if content.get("options") == options and content["groups"] >= groups:
            drawn = _read(network, content, groups)
            taken |= {part.group.key for part in drawn.sets}
        else:
            say(f"{name}: drawing {network}")
            accuracy = choose_accuracy(None, spec)
            graph = load_network(network, layout=spec.layout, accuracy=accuracy)
            try:
                drawn = draw_network(graph, network, spec, seed, groups, taken, known)
            except ScheduleError as error:
                say(f"  left out: {error}")
                drawn = NetworkSets(network, (), WholePlan(network, ()))
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps({"options": options, "groups": groups, **_plain(drawn)}))
        found.append(drawn)
    return tuple(found)


def place(folder: Path, name: str) -> Path:
    """Return the folder of a target."""
    return folder / name.replace(":", "-")


def _plain(drawn: NetworkSets) -> dict[str, Any]:
    return {
        "sets": [
            {
                "kind": part.kind,
                "group": part.group.to_json(),
                "schedules": [schedule.to_json() for schedule in part.schedules],
            }
            for part in drawn.sets
        ],
        "plan": [
            {"group": group.to_json(), "schedule": schedule.to_json(), "count": count}
            for group, schedule, count in drawn.plan.parts
        ],
    }


def _read(network: str, content: Mapping[str, Any], groups: int) -> NetworkSets:
    sets = tuple(
        CandidateSet(
            network,
            row["kind"],
            Group.from_json(row["group"]),
            tuple(map(Schedule.from_json, row["schedules"])),
        )
        for row in content["sets"][:groups]
    )
    parts = tuple(
        (Group.from_json(row["group"]), Schedule.from_json(row["schedule"]), int(row["count"]))
        for row in content["plan"]
    )
    return NetworkSets(network, sets, WholePlan(network, parts))


WORKERS = "local Dask workers, or those of the scheduler at tcp://HOST:PORT"
"""Help of ``--workers``."""


def measure_missing(
    name: str,
    candidates: Iterable[Candidate],
    store: Store,
    seconds: float | None = None,
    workers: Workers = None,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Measure candidates that the store does not know; return how many are left when ``seconds``
    are over. An interrupt loses nothing but the last second's measurements. ``workers`` are processes of
    this machine, or an open cluster."""
    machine, profile = target(name), load_spec(name).profile_id
    known = store.known(profile)
    missing = {c.key: c for c in candidates if c.key not in known}
    start, done, records = clock(), 0, []
    results = measure(machine, missing.values(), workers)
    try:
        for result in results:
            records.append(to_record(result, machine, "calibrate"))
            done += 1
            if len(records) == BATCH:
                store.add(records)
                records = []
                rate = done / (clock() - start)
                say(f"{name}: {done} of {len(missing)} programs, {rate:.0f} a second")
            if seconds is not None and clock() - start > seconds:
                break
    finally:
        store.add(records)
        close = getattr(results, "close", None)
        if close is not None:
            close()
    return len(missing) - done


def in_turn(drawn: Sequence[NetworkSets]) -> Iterator[Candidate]:
    """Give plans first, then the first set of every network, the second, and so on: what is measured so far
    covers all networks."""
    for network in drawn:
        yield from network.plan.candidates()
    for number in range(max((len(network.sets) for network in drawn), default=0)):
        for network in drawn:
            if number < len(network.sets):
                yield from network.sets[number].candidates()


def measured_sets(name: str, drawn: Sequence[NetworkSets], store: Store) -> TargetSets:
    """Return the sets as far as they are measured: whole ones, and plans of which every part is."""
    spec = load_spec(name)
    records = store.records(spec.profile_id)
    by_key = {(record.group_key, record.schedule_json): record for record in records}
    sets = (_measured(part, by_key) for network in drawn for part in network.sets)
    plans = (_measured_plan(network.plan, by_key) for network in drawn)
    return TargetSets(
        spec,
        tuple(part for part in sets if part is not None),
        tuple(plan for plan in plans if plan is not None),
        tuple(records),
    )


Known = Mapping[tuple[str, str], Record]


def _measured(drawn: CandidateSet, known: Known) -> MeasuredSet | None:
    keys = [(drawn.group.key, schedule.to_json()) for schedule in drawn.schedules]
    if not all(key in known for key in keys):
        return None
    rows = [
        (schedule, known[key].cycles)
        for schedule, key in zip(drawn.schedules, keys, strict=True)
        if known[key].outcome is Outcome.OK
    ]
    if len(rows) < FEWEST:
        return None
    schedules, cycles = zip(*rows, strict=True)
    return MeasuredSet(
        drawn.network, drawn.kind, drawn.group, schedules, np.array(cycles, dtype=np.float64)
    )


def _measured_plan(plan: WholePlan, known: Known) -> MeasuredPlan | None:
    found = [known.get((group.key, schedule.to_json())) for group, schedule, _ in plan.parts]
    if not found or any(record is None or record.outcome is not Outcome.OK for record in found):
        return None
    return MeasuredPlan(
        plan.network,
        tuple((group, schedule) for group, schedule, _ in plan.parts),
        np.array([count for *_, count in plan.parts], dtype=np.float64),
        np.array([record.cycles for record in found if record is not None], dtype=np.float64),
    )


def open_sets(
    name: str, folder: Path, networks: Sequence[str] = (), groups: int | None = None
) -> TargetSets:
    """Return what a folder holds of a target's sets; nothing is measured."""
    chosen = networks or default_networks(name)
    drawn = drawn_sets(name, folder, chosen, groups or default_groups(name))
    with open_store(name, folder) as store:
        return measured_sets(name, drawn, store)


def open_store(name: str, folder: Path, file: str = "measured.db") -> Store:
    """Open a store of a target's measurements."""
    place(folder, name).mkdir(parents=True, exist_ok=True)
    return Store.open(place(folder, name) / file)


def default_groups(name: str) -> int:
    """Return the number of sets of each network."""
    return TIMED_GROUPS if is_host(name) else GROUPS


def default_networks(name: str) -> tuple[str, ...]:
    """Return the shipped networks that a target is judged by."""
    return TIMED_NETWORKS if is_host(name) else tuple(NETWORKS)


def main() -> None:
    """Draw and measure the sets of targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="+", help="names of targets, such as edge or cpu:1")
    parser.add_argument("--folder", type=Path, required=True, help="where sets are kept")
    parser.add_argument("--networks", nargs="*", help="shipped networks")
    parser.add_argument("--groups", type=int, help="sets of each network")
    parser.add_argument(
        "--seconds", type=float, help="stop measuring a target after so many seconds"
    )
    parser.add_argument("--workers", help=WORKERS)
    arguments = parser.parse_args()
    for name in arguments.targets:
        groups = arguments.groups or default_groups(name)
        networks = arguments.networks or default_networks(name)
        drawn = drawn_sets(name, arguments.folder, networks, groups)
        with (
            opened_cluster(arguments.workers) as cluster,
            open_store(name, arguments.folder) as store,
        ):
            left = measure_missing(name, in_turn(drawn), store, arguments.seconds, cluster)
            sets = measured_sets(name, drawn, store)
        say(
            f"{name}: {len(sets.sets)} sets and {len(sets.plans)} plans whole, {left} programs left"
        )


if __name__ == "__main__":
    main()

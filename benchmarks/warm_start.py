"""A hundred new measurements beside many known ones: a model extended, beside one that is trained anew.

    python -m benchmarks.warm_start [--target edge] [--known 20000] [--store FILE]

Run it by `make bench-warm-start`. Programs of emulated machines cost the same every time; seconds are CPU time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from autotune.api import load_network
from autotune.cost_model.fitting import extended, fit
from autotune.cost_model.metrics import mape
from autotune.cost_model.model import CostModel
from autotune.cost_model.shipped import shipped_model
from autotune.fusion.group import Group
from autotune.measure.runner import measure
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.tuner.records import to_record
from autotune.tuner.sampling import sample_candidates
from benchmarks.table import Table

KNOWN_NETWORKS = (
    "mlp",
    "light_resnet50",
    "bert_layer",
    "mobilenet_v2",
    "lstm",
    "transformer_block",
)
"""Networks whose groups, beside generated ones, the model before was trained on."""
NEW_NETWORKS = ("conv_tasnet", "segformer_b0", "mobilevit_xs")
"""Networks that come new, one at a time."""
KNOWN, NEWS, ASKED = 20_000, 100, 300
"""Known measurements, new ones, and programs of known and of new networks that models are judged by."""
SEED = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """Measurements of some networks: those to train on, and others to be judged by."""

    records: tuple[Record, ...]
    asked: tuple[Record, ...]


def drawn(
    names: Sequence[str], count: int, target: EmulatorTarget, store: Store, own: bool
) -> Drawn:
    """Measure ``count`` programs and ``ASKED`` more, or read them from the store; ``own`` leaves out generated
    graphs. Equal candidates are taken once."""
    graphs = [load_network(name, layout=target.spec.layout) for name in names]
    stream = sample_candidates(graphs, target.spec, SEED + len(names))
    if own:
        stream = (one for one in stream if not one.network.startswith("workload:"))
    found: dict[tuple[str, str], Candidate] = {}
    while len(found) < count + ASKED:
        for one in islice(stream, count + ASKED - len(found)):
            found.setdefault(one.key, one)
    profile = target.spec.profile_id
    known = store.known(profile)
    missing = [one for key, one in found.items() if key not in known]
    store.add([to_record(result, target, "calibrate") for result in measure(target, missing)])
    records = {(r.group_key, r.schedule_json): r for r in store.records(profile)}
    rows = [records[key] for key in found if records[key].outcome is Outcome.OK]
    cut = len(rows) - ASKED
    order = np.random.default_rng(SEED).permutation(len(rows))
    return Drawn(tuple(rows[i] for i in sorted(order[:cut])), tuple(rows[i] for i in order[cut:]))


def error(model: CostModel, records: Sequence[Record]) -> float:
    """Return the mean error of a model on measurements."""
    found = [
        model.predict(Group.from_json(r.group_json), Schedule.from_json(r.schedule_json))
        for r in records
    ]
    return mape(np.array([float(r.cycles) for r in records]), np.array(found))


def timed(call: Callable[[], CostModel]) -> tuple[CostModel, float]:
    """Return what a call returns, and its CPU seconds."""
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


def rows_of(name: str, new: Drawn, known: Drawn, before: CostModel) -> list[tuple[str, ...]]:
    """Return a row for the model before, the extended and the fresh one, with one new network."""
    spec, both = before.spec, (*known.records, *new.records)

    def extend() -> CostModel:
        more = extended(before, both, seed=SEED)
        if more is None:
            raise SystemExit(
                f"{spec.name}: the plain formula was chosen, which has no trees to extend"
            )
        return more

    extend()  # features of known groups are remembered, as in a session
    models = {
        "before": (before, None),
        "extended": timed(extend),
        "trained anew": timed(lambda: fit(both, spec, seed=SEED, base=shipped_model(spec))),
    }
    return [
        (
            name,
            title,
            "–" if seconds is None else f"{seconds:.2f}",
            f"{error(model, new.asked):.2%}",
            f"{error(model, known.asked):.2%}",
        )
        for title, (model, seconds) in models.items()
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="edge", help="emulated machine")
    parser.add_argument("--known", type=int, default=KNOWN, help="known measurements")
    parser.add_argument("--store", type=Path, default=Path("build/warm_start.db"))
    asked = parser.parse_args()
    asked.store.parent.mkdir(parents=True, exist_ok=True)
    target = EmulatorTarget(load_spec(asked.target))
    with Store.open(asked.store) as store:
        known = drawn(KNOWN_NETWORKS, asked.known, target, store, own=False)
        news = {name: drawn((name,), NEWS, target, store, own=True) for name in NEW_NETWORKS}
    base = shipped_model(target.spec)
    before, seconds = timed(lambda: fit(known.records, target.spec, seed=SEED, base=base))
    trees = ", ".join(f"{name} {len(forest.roots)}" for name, forest in before.trees.items())
    sys.stderr.write(
        f"trained on {len(known.records):,} measurements in {seconds:.1f} CPU s, features of all included: "
        f"{before.kind}, trees: {trees}\n"
    )
    rows = [row for name, new in news.items() for row in rows_of(name, new, known, before)]
    columns = ("new network", "model", "CPU s", "error on the new network", "on known ones")
    title = f"{NEWS} new measurements beside {len(known.records):,} on {asked.target}:"
    print(Table(title, columns, tuple(rows)).text())


if __name__ == "__main__":
    main()

"""Trains a cost model on many measurements in a process of its own, whose memory is what is measured.

    python -m benchmarks.training_worker ROWS

Groups and schedules are those that a calibration of `edge` may draw; what they cost is what the shipped model predicts,
times noise, as a million measurements would take days. Prints one JSON object.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator

import numpy as np

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.fitting import fit
from autotune.cost_model.predictor import Predictor
from autotune.cost_model.prepared import PreparedGroup
from autotune.errors import ScheduleError
from autotune.store.records import Outcome, Record
from autotune.targets.opening import target
from autotune.targets.protocol import Target
from benchmarks.child import spent
from benchmarks.scale_costs import drawn

TARGET = "edge"
CANDIDATES = 2_000
"""Candidates that are drawn; their groups are those of the measurements."""
NOISE, BIAS = 0.02, 0.3
"""Standard deviation of the logarithm of a measurement, and of a group."""


def main() -> None:
    """Make the measurements, train, and print what it took."""
    rows = int(sys.argv[1])
    records = list(itertools.islice(made(target(TARGET), rows), rows))
    before, start = spent(), time.perf_counter()
    model = fit(records, target(TARGET).spec, seed=0)
    seconds, after = time.perf_counter() - start, spent()
    print(
        json.dumps(
            {
                "rows": len(records),
                "groups": len({record.group_key for record in records}),
                "features": len(analytic_model(model.spec).feature_names),
                "records_bytes": before["peak_rss_bytes"],
                "peak_bytes": after["peak_rss_bytes"],
                "cpu_seconds": after["cpu_seconds"] - before["cpu_seconds"],
                "seconds": seconds,
                "mape": model.metrics["mape"],
            }
        )
    )


def made(machine: Target, rows: int) -> Iterator[Record]:
    """Yield measurements of different schedules, as many of every group as it has, up to its share."""
    rng, predictor = np.random.default_rng(0), Predictor.load(machine)
    groups = {c.group.key: (c.group, c.network) for c in drawn(machine, CANDIDATES)[0]}
    limit = 2 * rows // len(groups) + 1
    for group, network in groups.values():
        try:
            prepared = predictor.prepare(group)
        except ScheduleError:
            continue
        yield from _of_group(prepared, network, machine, limit, rng)


def _of_group(
    prepared: PreparedGroup, network: str, machine: Target, limit: int, rng: np.random.Generator
) -> Iterator[Record]:
    chosen = prepared.schedules(limit)
    if not len(chosen):
        return
    key, text = prepared.group.key, prepared.group.to_json()
    costs = prepared.predict_batch(chosen)
    noise = np.exp(rng.normal(0.0, BIAS) + rng.normal(0.0, NOISE, len(chosen)))
    for row, cycles, energy, moved in zip(
        chosen, costs.cycles * noise, costs.energy_fj, costs.dram_bytes, strict=True
    ):
        schedule = prepared.schedule(row).to_json()
        cost = int(cycles), int(energy), int(moved)
        profile = machine.spec.profile_id
        yield Record(
            key, text, schedule, profile, machine.name, network, "calibrate", Outcome.OK, "", *cost
        )


if __name__ == "__main__":
    main()

"""Worker of ``benchmarks.noise_floor``: measures the first candidates of a calibration, once each.

    python -m benchmarks.noise_floor_worker TARGET COUNT SEED

Prints one JSON object: cycles and trust by candidate, seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

from autotune.api import CALIBRATED_ON, load_network
from autotune.measure.runner import measure
from autotune.runtime.session.defaults import choose_accuracy, choose_target
from autotune.schedule.candidate import Candidate
from autotune.store.records import Outcome
from autotune.targets.protocol import Target
from autotune.tuner.records import to_record
from autotune.tuner.sampling import sample_candidates


def drawn(target: Target, count: int, seed: int) -> Iterator[Candidate]:
    """The first ``count`` different candidates that a calibration of the target draws."""
    spec = target.spec
    graphs = [load_network(name, layout=spec.layout) for name in CALIBRATED_ON]
    seen: set[tuple[str, str]] = set()
    for candidate in sample_candidates(graphs, spec, seed, choose_accuracy(None, spec)):
        if len(seen) == count:
            return
        if candidate.key not in seen:
            seen.add(candidate.key)
            yield candidate


def main() -> None:
    """Measure and print."""
    name, count, seed = sys.argv[1:]
    target = choose_target(name)
    candidates = list(drawn(target, int(count), int(seed)))
    start = time.monotonic()
    records = [to_record(result, target, "calibrate") for result in measure(target, candidates)]
    seconds = time.monotonic() - start
    costs = {
        " ".join((r.group_key, r.schedule_json)): r for r in records if r.outcome is Outcome.OK
    }
    answer = {
        "cycles": {key: record.cycles for key, record in costs.items()},
        "trust": {key: record.trust for key, record in costs.items()},
        "seconds": seconds,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()

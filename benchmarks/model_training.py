"""What models are trained on before they are judged: the programs that a calibration over all networks draws.

Kept like candidate sets: a file per network says which programs, and the target's store what they cost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from autotune.api import load_network
from autotune.disk.atomic_file import replace_file
from autotune.fusion.group import Group
from autotune.runtime.session.defaults import choose_accuracy
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.targets.opening import is_host, load_spec
from autotune.tuner.calibrate import ALONE_BUDGET, DEFAULT_BUDGET
from autotune.tuner.sampling import sample_candidates
from benchmarks.model_measure import place, say


def drawn_training(
    name: str, folder: Path, networks: Sequence[str], budget: int | None = None, seed: int = 0
) -> tuple[Candidate, ...]:
    """Return ``budget`` candidates (None: as many as a calibration measures), an even share by each network:
    half of a share from groups of the network, half from generated graphs, as calibration draws them."""
    spec = load_spec(name)
    whole = ALONE_BUDGET if is_host(name) else DEFAULT_BUDGET
    share = (whole if budget is None else budget) // len(networks)
    options = {"profile": spec.profile_id, "seed": seed, "share": share}
    found: list[Candidate] = []
    for number, network in enumerate(networks):
        file = place(folder, name) / "training" / f"{network}.json"
        content = json.loads(file.read_text()) if file.is_file() else {}
        if content.get("options") != options:
            say(f"{name}: drawing what to train on from {network}")
            accuracy = choose_accuracy(None, spec)
            graph = load_network(network, layout=spec.layout, accuracy=accuracy)
            drawn = sample_candidates((graph,), spec, seed + number, accuracy)
            rows = [
                (
                    c.network if c.network.startswith("workload:") else network,
                    c.group.to_json(),
                    c.schedule.to_json(),
                )
                for c in islice(drawn, share)
            ]
            content = {"options": options, "candidates": rows}
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps(content))
        found += (
            Candidate(Group.from_json(group), Schedule.from_json(schedule), origin)
            for origin, group, schedule in content["candidates"]
        )
    return tuple({candidate.key: candidate for candidate in found}.values())


def training_records(drawn: Sequence[Candidate], records: Sequence[Record]) -> Iterator[Record]:
    """Give the successful records of the drawn candidates."""
    by_key = {(record.group_key, record.schedule_json): record for record in records}
    for candidate in drawn:
        record = by_key.get(candidate.key)
        if record is not None and record.outcome is Outcome.OK:
            yield record

"""A CPU's model is trained on groups that ran alone, not on what searches and sessions timed in whole networks."""

from __future__ import annotations

from dataclasses import replace

from autotune.store.store import Store
from autotune.targets.opening import load_spec
from autotune.tuner.calibrate import training_records
from tests.store.store_case import record


def test_a_cpu_is_trained_on_calibrations_alone_and_other_machines_on_all() -> None:
    for name, sources in (("cpu:1", ["calibrate"]), ("edge", ["calibrate", "run", "search"])):
        spec = load_spec(name)
        made = [
            record(number, source, spec.profile_id)
            for number, source in enumerate(("run", "calibrate", "search"))
        ]
        store = Store.memory()
        store.add([replace(one, network="net") for one in made])
        found = training_records(store, spec)
        assert sorted(one.source for one in found) == sources, name

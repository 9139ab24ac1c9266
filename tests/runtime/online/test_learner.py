"""What a learner begins with: measurements of its machine, on a CPU none that searches made within networks."""

from __future__ import annotations

from autotune.runtime.online.learner import known_records
from autotune.store.records import SOURCES
from autotune.store.store import Store
from autotune.targets.opening import target
from tests.store.store_case import record


def sources_known(machine: str) -> list[str]:
    spec = target(machine).spec
    with Store.memory() as store:
        store.add([record(i, x, spec.profile_id) for i, x in enumerate(SOURCES)])
        return [one.source for one in known_records(store, spec)]


def test_times_of_a_search_within_a_network_teach_no_session_on_a_cpu() -> None:
    assert sources_known("cpu:1") == ["calibrate", "run"]


def test_an_emulated_machine_learns_from_all_that_was_measured() -> None:
    assert sources_known("edge") == list(SOURCES)

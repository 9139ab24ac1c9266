"""The store gives back what it was given, keeps all of a change or nothing, from anywhere at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.disk.home import home
from autotune.errors import StoreError
from autotune.store.place import store_place
from autotune.store.records import Outcome, Record
from autotune.store.store import MODELS_KEPT, Store
from tests.store.store_case import APPEND, READ, edit, record, records, run_python


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store can be made: the suite is one contract of all databases."""
    if request.param == "file":
        return str(tmp_path / "a.db")
    return str(request.getfixturevalue("server_url"))


@pytest.fixture(params=["file", "memory", "server"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        opened = Store.memory()
    elif request.param == "file":
        opened = Store.open(tmp_path / "a.db")
    else:
        opened = Store.open(request.getfixturevalue("server_url"))
    with opened:
        yield opened


@given(st.lists(records(), max_size=8, unique_by=lambda r: (r.group_key, r.schedule_json)))
def test_records_come_back_equal_and_in_order(batch: list[Record]) -> None:
    with Store.memory() as store:
        store.add(batch)
        assert store.records("p") == batch
        assert store.count("p") == len(batch)
        assert store.known("p") == {(r.group_key, r.schedule_json) for r in batch}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(records(), max_size=8, unique_by=lambda r: (r.group_key, r.schedule_json)))
def test_a_server_gives_back_any_record_whose_texts_hold_no_nul(
    server_store: Store, batch: list[Record]
) -> None:
    profile = f"p{server_store.count('p')}-{len(server_store.info().profiles)}"
    held = [of_profile(one, profile) for one in batch]
    server_store.add(held)
    assert server_store.records(profile) == held
    assert server_store.known(profile) == {(r.group_key, r.schedule_json) for r in held}


def test_a_server_refuses_a_nul_in_a_text_in_one_line(server_store: Store) -> None:
    with pytest.raises(StoreError, match="NUL"):
        server_store.add([record(1, network="a\0b")])
    assert server_store.count("p") == 0


def test_records_survive_closing(place: str, tmp_path: Path) -> None:
    batch = [record(i) for i in range(50)]
    with Store.open(place) as store:
        store.add(batch)
    with Store.open(place) as store:
        assert store.records("p") == batch
    assert {file.name for file in tmp_path.iterdir()} <= {"a.db"}


def test_records_are_told_apart_by_profile_and_source(store: Store) -> None:
    store.add([record(1), record(2, "calibrate"), record(3, "search", profile="q")])
    assert [r.cycles for r in store.records("p")] == [1, 2]
    assert [r.cycles for r in store.records("p", source="calibrate")] == [2]
    assert [r.cycles for r in store.records("q")] == [3]
    assert (store.count("p"), store.count("p", "run"), store.count("none")) == (2, 1, 0)
    assert store.records("none") == [] and store.known("none") == set()


def test_a_limit_takes_the_newest_and_lists_them_oldest_first(store: Store) -> None:
    store.add([record(i) for i in range(10)])
    assert [r.cycles for r in store.records("p", limit=3)] == [7, 8, 9]
    assert store.records("p", limit=0) == []


def test_more_groups_than_a_statement_binds_come_back(store: Store) -> None:
    batch = [record(i, group_json=f"{{{i}}}") for i in range(1200)]
    store.add(batch)
    assert store.records("p") == batch


def test_runs_append_the_same_candidate_and_calibration_keeps_the_first(store: Store) -> None:
    store.add([record(1, cycles=5), record(1, cycles=6)])
    store.add([record(1, "calibrate", cycles=7)])
    store.add([record(1, "calibrate", cycles=8), record(2, "calibrate")])
    assert [r.cycles for r in store.records("p", "run")] == [5, 6]
    assert [r.cycles for r in store.records("p", "calibrate")] == [7, 2]


def test_a_batch_with_one_bad_record_is_not_stored_at_all(store: Store) -> None:
    store.add([record(0)])
    bad = record(2)
    object.__setattr__(bad, "network", None)
    with pytest.raises(StoreError):
        store.add([record(1), bad])
    assert store.records("p") == [record(0)]


def test_an_interrupt_inside_a_change_takes_it_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = store._database
    with pytest.raises(KeyboardInterrupt), database.write() as connection:
        connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")
        raise KeyboardInterrupt
    store.add([record(1)])
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM meta").scalar_one() == 2
    assert store.count("p") == 1


def test_models_are_versioned_the_newest_is_loaded_and_old_ones_go(store: Store) -> None:
    assert store.load_model("p") is None
    for version in range(MODELS_KEPT + 3):
        store.save_model("p", bytes([version]), {"mape": version / 100}, 7)
    store.save_model("q", b"other", {}, 7)
    model = store.load_model("p")
    assert model is not None
    assert (model.blob, model.metrics, model.feature_version) == (b"\n", {"mape": 0.1}, 7)
    assert [profile.models for profile in store.info().profiles] == [MODELS_KEPT, 1]


def test_the_newest_model_of_the_features_asked_for_is_loaded(store: Store) -> None:
    for version, blob in ((7, b"old"), (8, b"new"), (7, b"last")):
        store.save_model("p", blob, {}, version)
    found = [store.load_model("p", version) for version in (None, 7, 8, 9)]
    assert [None if model is None else model.blob for model in found] == [
        b"last",
        b"last",
        b"new",
        None,
    ]


def test_a_damaged_model_is_refused_with_the_way_out(place: str) -> None:
    with Store.open(place) as store:
        store.save_model("p", b"model", {}, 1)
        edit(place, "UPDATE models SET sha256 = '00'")
        with pytest.raises(StoreError, match=r"damaged.*autotune calibrate") as caught:
            store.load_model("p")
        assert str(caught.value).startswith(store.path)


def test_info_counts_what_is_stored(place: str) -> None:
    with Store.open(place) as store:
        store.add([record(1), record(2), record(8, "calibrate")])
        store.add([record(9, "calibrate", outcome=Outcome.FAILED, reason="r")])
        store.save_model("q", b"", {}, 1)
        info = store.info()
    assert info.path == str(store_place(place)) and info.size_bytes > 0
    p, q = info.profiles
    assert p.records == (("calibrate", "failed", 1), ("calibrate", "ok", 1), ("run", "ok", 2))
    assert (p.targets, p.groups, p.measurements, p.first_at, p.last_at) == (("edge",), 2, 4, 1, 9)
    assert (q.targets, q.measurements, q.models, q.first_at) == ((), 0, 1, None)


@pytest.mark.parametrize(
    "change",
    ["outcome = 'maybe'", "reason = 'odd'", "cycles = -1", "source = 'guess'", "counters = ''"],
)
@pytest.mark.parametrize("flags", [[], ["-O"]], ids=["asserts", "no asserts"])
def test_a_damaged_record_is_refused_with_and_without_asserts(
    change: str, flags: list[str], tmp_path: Path
) -> None:
    place = str(tmp_path / "a.db")
    with Store.open(place) as store:
        store.add([record(1)])
    edit(place, f"UPDATE records SET {change}")
    out, _ = run_python(READ, place, flags=flags).communicate(timeout=60)
    assert "record 1 is damaged" in out
    assert out.startswith("StoreError")


def test_a_damaged_record_on_a_server_is_refused(server_store: Store) -> None:
    server_store.add([record(1)])
    with server_store._database.write() as connection:
        connection.exec_driver_sql("UPDATE records SET counters = ''")
    with pytest.raises(StoreError, match="record 1 is damaged"):
        server_store.records("p")


def test_pruning_drops_old_runs_and_texts_nothing_refers_to(store: Store) -> None:
    store.add([record(i, group_json=f"{{{i}}}") for i in range(10)])
    store.add([record(11, "calibrate")])
    assert store.prune_runs("p", keep=2) == 8
    assert [r.cycles for r in store.records("p")] == [8, 9, 11]
    with store._database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM texts").scalar_one() == 4


def test_threads_write_and_read_at_once(store: Store) -> None:
    failures: list[Exception] = []

    def work(thread: int) -> None:
        try:
            for batch in range(10):
                start = thread * 1000 + batch * 10
                store.add([record(i) for i in range(start, start + 10)])
                assert store.count("p") % 10 == 0
        except (StoreError, AssertionError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len({r.cycles for r in store.records("p")}) == 400


def test_processes_open_a_new_store_and_write_at_once(place: str) -> None:
    writers = [run_python(APPEND, place, first, 20, 5) for first in (0, 1000)]
    for writer in writers:
        out, _ = writer.communicate(timeout=60)
        assert writer.returncode == 0 and len(out.split()) == 20
    with Store.open(place) as store:
        assert len({r.cycles for r in store.records("p")}) == 200


def test_a_killed_writer_leaves_whole_batches(place: str) -> None:
    writer = run_python(APPEND, place, 0, 10_000, 50)
    assert writer.stdout is not None
    taken = [int(writer.stdout.readline()) for _ in range(5)]
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=60)
    with Store.open(place) as store:
        store.add([record(1)])  # waits for what the server still does of the last batch
        stored = [r.cycles for r in store.records("p")][:-1]
    assert len(stored) % 50 == 0 and stored == list(range(len(stored)))
    assert len(stored) >= taken[-1] + 50


def test_home_is_chosen_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "new" / "home?#%20é"))
    with Store.open() as store:
        store.add([record(1)])
    assert (home() / "autotune.db").is_file() and home().parent == tmp_path / "new"
    monkeypatch.setenv("AUTOTUNE_HOME", "")
    assert home().name == "autotune" and home().is_absolute()


def of_profile(one: Record, profile: str) -> Record:
    """Return the record for another machine, without NUL in its texts."""
    texts = {name: value.replace("\0", "0") for name, value in vars_of(one).items()}
    counters = {name.replace("\0", "0"): count for name, count in one.counters.items()}
    return replace(one, **texts | {"profile_id": profile}, counters=counters)


def vars_of(one: Record) -> dict[str, str]:
    """Return the texts of a record by field."""
    values = {field.name: getattr(one, field.name) for field in fields(one)}
    return {name: value for name, value in values.items() if type(value) is str}


def test_the_best_schedule_of_some_groups_is_that_of_all(store: Store) -> None:
    batch = [record(i, "search", schedule_json=f"[{i}]", cycles=(i * 37) % 11) for i in range(60)]
    store.add([*batch, record(3, "search", outcome=Outcome.FAILED, reason="r", cycles=0)])
    for by_energy in (False, True):
        every = store.best_schedules("p", by_energy)
        assert every.keys() == {f"g{i}" for i in range(7)}
        for key, schedule in every.items():
            costs = {
                r.schedule_json: (r.energy_fj if by_energy else r.cycles, r.created_at)
                for r in batch
                if r.group_key == key
            }
            assert costs[schedule] == min(costs.values())
        some = {"g1", "g5", "none", *(f"x{i}" for i in range(1200))}
        assert store.best_schedules("p", by_energy, some) == {k: every[k] for k in ("g1", "g5")}
    assert store.best_schedules("p", groups=()) == {} == store.best_schedules("other")


def test_known_candidates_may_be_of_one_source() -> None:
    store = Store.memory()
    made = record(1, "calibrate"), record(2, "search")
    store.add(made)
    keys = [(one.group_key, one.schedule_json) for one in made]
    assert store.known("p") == set(keys)
    assert store.known("p", "calibrate") == {keys[0]}

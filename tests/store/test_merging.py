"""Merging is commutative, associative and idempotent, and loses nothing; conflicts are listed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import StoreError
from autotune.store.contents import Contents, StoreContents, canonical, machines_of
from autotune.store.merging import Merged, merge
from autotune.store.parquet_folder import ParquetContents, write_folder
from autotune.store.records import Record
from autotune.store.store import MODELS_KEPT, Store, StoredProfile
from autotune.store.verification import verify
from autotune.targets.opening import load_spec
from autotune.targets.spec_document import spec_document
from tests.store.store_case import edit, record, records

Entry = tuple[str, Any]


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """A record, a model or a machine, of so few values that stores share some and contradict each other."""
    kind = draw(st.sampled_from(("record", "record", "record", "model", "profile")))
    profile, at = draw(st.sampled_from("pq")), float(draw(st.integers(0, 3)))
    if kind == "model":
        return kind, (profile, at, draw(st.sampled_from((b"a", b"b"))))
    if kind == "profile":
        return kind, (StoredProfile(profile, draw(st.sampled_from("xy")), "{}"), at)
    drawn = record(
        draw(st.integers(0, 2)),
        draw(st.sampled_from(("calibrate", "search", "run"))),
        profile,
        cycles=draw(st.integers(1, 2)),
        created_at=at,
        toolchain=draw(st.sampled_from(("", "autotune 1"))),
    )
    return kind, drawn


def filled(content: Sequence[Entry]) -> Store:
    now = [0.0]
    store = Store.memory(clock=lambda: now[0])
    for kind, value in content:
        if kind == "record":
            store.add([value])
        elif kind == "model":
            now[0] = value[1]
            store.save_model(value[0], value[2], {}, 1)
        else:
            now[0] = value[1]
            store.save_profile(value[0])
    return store


def snapshot(contents: Contents) -> dict[str, Any]:
    """Return everything in a store, without the order in which it came."""
    return {
        one: (
            contents.profile(one),
            Counter(contents.models(one)),
            Counter(canonical(r) for batch in contents.records(one) for r in batch),
        )
        for one in contents.profile_ids()
    }


def union(*stores: Store) -> dict[str, Any]:
    """Return the content of a new store that the stores were merged into, in turn."""
    with Store.memory() as target:
        for store in stores:
            merge(target, StoreContents(store))
        return snapshot(StoreContents(target))


STORES = st.lists(entries(), max_size=8)


@settings(max_examples=12)
@given(STORES, STORES, STORES)
def test_merging_is_commutative_associative_and_idempotent(
    a: list[Entry], b: list[Entry], c: list[Entry]
) -> None:
    with ExitStack() as stack:
        x, y, z = (stack.enter_context(filled(content)) for content in (a, b, c))
        assert union(x, y, z) == union(z, y, x) == union(y, x, z, x, z)
        both = stack.enter_context(Store.memory())
        for store in (x, y):
            merge(both, StoreContents(store))
        assert union(both, z) == union(x, y, z) == union(x, both, z)
        before = snapshot(StoreContents(both))
        for store in (x, y, both):
            again = merge(both, StoreContents(store))
            assert (again.added, again.models, again.machines) == (0, 0, 0)
        assert snapshot(StoreContents(both)) == before
        assert not verify(both).problems


@settings(max_examples=12)
@given(STORES, STORES)
def test_nothing_is_lost_or_doubled(a: list[Entry], b: list[Entry]) -> None:
    with ExitStack() as stack:
        x, y = (stack.enter_context(filled(content)) for content in (a, b))
        merged = union(x, y)
        ours, theirs = snapshot(StoreContents(x)), snapshot(StoreContents(y))
        for one, (_, _, counts) in merged.items():
            empty: Counter[Any] = Counter()
            first = ours.get(one, (None, None, empty))[2]
            second = theirs.get(one, (None, None, empty))[2]
            assert counts <= first | second
            gone = (first | second) - counts  # the later one of two calibrations
            assert all("calibrate" in values for values in gone)
        assert merged.keys() == ours.keys() | theirs.keys()


@pytest.fixture(params=["file", "server"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    place = tmp_path / "t.db"
    with Store.open(
        place if request.param == "file" else request.getfixturevalue("server_url")
    ) as store:
        yield store


def test_conflicts_are_listed_and_the_earlier_calibration_stays(target: Store) -> None:
    ours = [record(i, "calibrate", created_at=5.0, toolchain="t") for i in range(3)]
    theirs = [
        replace(ours[0], cycles=70),  # as early: their order by content decides
        replace(ours[1], cycles=71, created_at=4.0),
        replace(ours[2], cycles=72, created_at=6.0),
        replace(ours[2], toolchain="another", cycles=73),
    ]
    target.add(ours)
    with Store.memory() as other:
        other.add(theirs)
        done = merge(target, StoreContents(other))
        assert merge(target, StoreContents(other)).added == 0
        with Store.memory() as turned:
            merge(turned, StoreContents(other))
            merge(turned, StoreContents(target))
            assert snapshot(StoreContents(turned)) == snapshot(StoreContents(target))
    pairs = {(c.group_key, c.kept, c.dropped) for c in done.conflicts}
    assert {("g1", 71, 1), ("g2", 2, 72)} <= pairs and len(pairs) == 3
    assert {c.toolchain for c in done.conflicts} == {"t"}
    stored = {(r.group_key, r.toolchain): r.cycles for r in target.records("p")}
    assert stored["g1", "t"] == 71 and stored["g2", "t"] == 2 and stored["g2", "another"] == 73


def test_equal_runs_of_one_store_all_stay(target: Store) -> None:
    target.add([record(1)] * 2)
    with Store.memory() as other:
        other.add([record(1)] * 3)
        assert merge(target, StoreContents(other)).added == 1
    assert target.count("p") == 3


def test_models_of_both_stay_up_to_the_newest(target: Store) -> None:
    times = iter(range(100))
    with Store.memory(clock=lambda: float(next(times))) as other:
        for number in range(MODELS_KEPT):
            other.save_model("p", bytes([number]), {}, 1)
        done = merge(target, StoreContents(other))
        assert done.models == MODELS_KEPT
        target.save_model("p", b"newest", {}, 1)  # the clock is at its real time
        assert merge(target, StoreContents(other)).models == 0
    found = target.load_model("p")
    assert found is not None and found.blob == b"newest"


def test_machines_are_counted_and_listed_with_their_toolchains(target: Store) -> None:
    with Store.memory() as other:
        other.add([record(1, toolchain="t"), record(2, toolchain="u")])
        other.save_profile(StoredProfile("p", "edge", "{}"))
        other.save_profile(StoredProfile("q", "idle", "{}"))
        assert merge(target, StoreContents(other)).machines == 2
    rows = [(m.names, m.profile_id, m.toolchain, m.measurements) for m in machines_of(target)]
    assert rows == [(("edge",), "p", "t", 1), (("edge",), "p", "u", 1), (("idle",), "q", "", 0)]


def test_a_machine_whose_numbers_are_of_another_is_refused(target: Store) -> None:
    spec = load_spec("edge")
    text = json.dumps(spec_document(spec))
    with Store.memory() as other:
        for profile in (spec.profile_id, "0123456789abcdef"):
            other.save_profile(StoredProfile(profile, "edge", text))
            other.add([record(1, profile=profile)])
        done = merge(target, StoreContents(other))
    assert done.added == 1 and "0123456789abcdef" in done.refused[0]
    assert [m.profile_id for m in machines_of(target)] == [spec.profile_id]


@given(st.lists(records(), max_size=6))
@settings(max_examples=12)
def test_any_record_travels_through_parquet(batch: list[Record]) -> None:
    import tempfile

    with Store.memory() as store, tempfile.TemporaryDirectory() as folder:
        store.add(batch)
        store.save_model("p", b"\0model", {"mape": 0.1}, 3)
        store.save_profile(StoredProfile("p", "edge", "{}"))
        write_folder(store, Path(folder), StoreContents(store).profile_ids())
        assert snapshot(ParquetContents(Path(folder))) == snapshot(StoreContents(store))


def test_parquet_is_read_by_other_tools_and_goes_into_a_store_once(
    target: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.store.contents.BATCH", 400)
    monkeypatch.setattr("autotune.store.parquet_folder.BATCH", 300)
    monkeypatch.setattr("autotune.store.record_columns.AT_ONCE", 90)
    pq = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "out"
    with Store.memory() as store:
        store.add([record(i, "search", "pq"[i % 2]) for i in range(1007)])
        assert write_folder(store, folder, ["p"]) == 504
        assert write_folder(store, folder, ["p", "q"]) == 1007
        table = pq.read_table(folder / "records.parquet", columns=["cycles", "target"])
        assert sorted(table["cycles"].to_pylist()) == list(range(1007))
        first = merge(target, ParquetContents(folder))
        assert (first.added, first.known) == (1007, 0)
        again = merge(target, ParquetContents(folder))
        assert (again.added, again.known) == (0, 1007)
        assert snapshot(StoreContents(target)) == snapshot(StoreContents(store))


def test_a_folder_of_other_parquet_files_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    with pytest.raises(StoreError, match=r"records\.parquet: cannot be read"):
        ParquetContents(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "records.parquet")
    with pytest.raises(StoreError, match="not written by 'autotune store export'"):
        ParquetContents(tmp_path)
    (tmp_path / "records.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="cannot be read"):
        ParquetContents(tmp_path)


def test_verification_names_what_is_damaged(tmp_path: Path) -> None:
    place = str(tmp_path / "a.db")
    with Store.open(place) as store:
        store.add([record(i) for i in range(40)])
        store.save_model("p", b"model", {}, 1)
        store.save_profile(StoredProfile("p", "edge", "{}"))
        sound = verify(store)
        assert (sound.records, sound.models, sound.machines, sound.problems) == (40, 1, 1, ())
        edit(place, "UPDATE models SET sha256 = 'x'")
        edit(place, "UPDATE records SET counters = '' WHERE id <= 25")
        edit(place, "UPDATE profiles SET spec_json = '{'")
        edit(place, "INSERT INTO texts VALUES (x'00', 'unused')")
        found = verify(store)
    assert found.unused_texts == 1 and len(found.problems) == 23
    assert any("record 1 is damaged" in line for line in found.problems)
    assert "5 more measurements are damaged" in found.problems
    assert any("cost model" in line for line in found.problems)


def test_vacuum_gives_space_back_and_keeps_everything(target: Store) -> None:
    target.add([record(i, group_json=f"{{{i}}}" * 50) for i in range(3000)])
    target.prune_runs("p", 10)
    before, kept = target.info().size_bytes, target.records("p")
    saved = target.vacuum()
    assert target.records("p") == kept
    assert target.info().size_bytes == before - saved
    if not target.path.startswith("postgresql"):
        assert saved > 500_000


def test_sums_of_merges_add_up() -> None:
    one = Merged("a", 1, 2, 3, 4, (), ("no",))
    assert one + one == Merged("a", 2, 4, 6, 8, (), ("no", "no"))

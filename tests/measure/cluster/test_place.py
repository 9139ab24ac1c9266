"""Places of workers: what users may write, and one clear line for the rest."""

from __future__ import annotations

import sys

import pytest

from autotune.errors import InputError, TargetError
from autotune.measure.cluster.cluster import Cluster, opened_cluster
from autotune.measure.cluster.place import MOST_LOCAL, Place


def test_a_number_means_local_workers_and_a_url_a_scheduler() -> None:
    assert Place.parse(3) == Place.parse(" 3 ") == Place(local_workers=3)
    assert Place.parse("tcp://host:8786") == Place(address="tcp://host:8786")
    assert Place.parse("tls://[::1]:1").address == "tls://[::1]:1"
    assert (Place.parse(3).text, Place.parse("tcp://a:1").text) == ("3", "tcp://a:1")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (0, "give 1 to"),
        ("-2", "give 1 to"),
        (MOST_LOCAL + 1, f"give 1 to {MOST_LOCAL} local"),
        ("", "give a number of local worker processes, or tcp://HOST:PORT"),
        ("two", "give a number"),
        ("host:8786", "give a number"),
        ("http://host:8787", "give a number"),
        ("tcp://host", "no host with a port; give tcp://HOST:PORT"),
        ("tcp://:8786", "no host with a port"),
        ("tcp://host:99999", "no host with a port"),
        (True, "give a number"),
        (2.5, "give a number"),
    ],
)
def test_anything_else_is_refused_in_one_line(given: object, says: str) -> None:
    with pytest.raises(InputError) as refusal:
        Place.parse(given)
    assert says in str(refusal.value) and "\n" not in str(refusal.value)


def test_without_dask_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for module in ("connection", "local"):
        monkeypatch.delitem(sys.modules, f"autotune.measure.cluster.{module}", raising=False)
    with pytest.raises(InputError, match=r"pip install 'autotune\[dask\]'"):
        Cluster.open(1)


def test_no_workers_are_no_cluster_and_need_no_dask() -> None:
    with opened_cluster(None) as cluster:
        assert cluster is None


def test_an_address_without_a_scheduler_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = pytest.importorskip("autotune.measure.cluster.connection")
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    with pytest.raises(TargetError) as refusal:
        Cluster.open("tcp://127.0.0.1:9")
    assert "no Dask scheduler answers" in str(refusal.value)
    assert "dask scheduler" in str(refusal.value) and "\n" not in str(refusal.value)

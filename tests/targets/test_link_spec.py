"""Links between devices: read from TOML, refused in one line that names key and value."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import InputError, SpecError
from autotune.isa.formats import Formats
from autotune.targets.device_name import device_names
from autotune.targets.device_set import DeviceSet
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.link_spec import SHIPPED, LinkSpec, parse_links, read_links
from autotune.targets.opening import load_spec

ROW = {"between": ["edge", "cpu"], "bandwidth_bytes_per_second": 1e9, "latency_seconds": 2e-6}
BANDWIDTH = {"bandwidth_bytes_per_second": 1e9}
SHARED = {"devices": ["edge", "cpu:2"], **BANDWIDTH}


def test_the_shipped_links_join_all_devices_at_the_stated_speed() -> None:
    link = read_links().between("edge", "anything")
    lanes_bytes_per_second = 4 * 8e9 * 128 / 130 / 8
    assert link.bandwidth_bytes_per_second == pytest.approx(
        lanes_bytes_per_second * 256 / 282, rel=2e-3
    )
    assert link.seconds(0) == 1e-6
    assert link.seconds(3_570_000) == pytest.approx(1.001e-3)


def test_links_name_pairs_in_any_order_and_this_cpu_with_any_threads() -> None:
    links = parse_links({"link": [ROW]})
    assert links.between("cpu:2", "edge") == links.between("edge", "cpu") == LinkSpec(1e9, 2e-6)
    assert parse_links(links.document()) == links
    shared = parse_links({"memory": [SHARED]})
    assert shared.memories[0].devices == ("edge", "cpu")
    assert parse_links(shared.document()) == shared
    shipped = read_links()
    assert parse_links(shipped.document()) == shipped


def test_a_missing_link_is_told_with_what_to_add() -> None:
    links = parse_links({"link": [ROW]})
    with pytest.raises(SpecError, match=r"no link joins edge and mobile; add \[\[link\]\] between"):
        links.check_devices(["edge", "mobile", "cpu"])
    links.check_devices(["edge"])
    links.check_devices(["edge", "cpu:2"])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"links": []}, "links: unknown key; known: description"),
        (
            {"default": {"bandwidth_bytes_per_second": 1e9}},
            "default.latency_seconds: None is not a",
        ),
        (
            {"default": {"bandwidth_bytes_per_second": 0, "latency_seconds": 0}},
            r"default.bandwidth_bytes_per_second: 0 is not in 1e3..1e13",
        ),
        ({"link": [ROW | {"latency_seconds": 11}]}, r"link 1.latency_seconds: 11 is not in 0..10"),
        (
            {"link": [ROW | {"latency_seconds": True}]},
            "link 1.latency_seconds: True is not a number",
        ),
        ({"link": [ROW | {"delay": 1}]}, "link 1.delay: unknown key"),
        ({"link": [ROW, ROW]}, "link 2: cpu and edge are joined twice"),
        ({"link": [ROW | {"between": ["edge"]}]}, r"link 1: between = \['edge'\] is not two names"),
        ({"link": [ROW | {"between": ["edge", "edge"]}]}, "is not two names"),
        ({"link": {}}, "is not a list"),
        ({"memory": {}}, "memory: {} is not a list"),
        (
            {"memory": [{"devices": ["edge"], **BANDWIDTH}]},
            r"memory 1: devices = \['edge'\] is not two",
        ),
        ({"memory": [{"devices": 1, **BANDWIDTH}]}, "memory 1: devices = 1 is not names"),
        (
            {"memory": [{"devices": ["a", "b"]}]},
            "memory 1.bandwidth_bytes_per_second: None is not a",
        ),
        ({"memory": [SHARED, SHARED]}, "memory: edge is in two memories"),
        ({"default": 3}, "default: 3 is not a section"),
    ],
)
def test_bad_links_are_refused(document: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_links(document)


def test_files_that_are_no_links_are_refused_by_their_name(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none.toml: cannot be read: No such file"):
        read_links(tmp_path / "none.toml")
    for name, data in (("a.toml", b"x = "), ("b.toml", b"\xff\xfe"), ("c.toml", b"speed = 1")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(SpecError, match=name):
            read_links(tmp_path / name)
    assert SHIPPED.is_file()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["cpu", "cpu"], "cpu: this machine is one device"),
        (["cpu", "cpu:1"], "cpu and cpu:1: this machine is one device"),
        (["cpu", "edge", "cpu#2"], "cpu: this machine is one device"),
        (["edge", ""], "names with commas between them"),
        ([], "names with commas between them"),
    ],
)
def test_this_cpu_is_one_device(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        device_names(names)


def test_equal_machines_are_numbered_and_their_links_are_those_of_the_machine() -> None:
    assert device_names(["edge", "mobile", "edge", "edge"]) == (
        "edge",
        "mobile",
        "edge#2",
        "edge#3",
    )
    assert device_names(["edge#2", "edge"]) == device_names(["edge", "edge"])
    assert device_names(["./a#b.toml"] * 2) == ("./a#b.toml", "./a#b.toml#2")
    named = {"between": ["edge", "edge#2"], **BANDWIDTH, "latency_seconds": 0}
    links = parse_links({"link": [ROW, named]})
    assert links.between("edge#2", "cpu:2") == LinkSpec(1e9, 2e-6)
    assert links.between("edge#2", "edge") == LinkSpec(1e9, 0)
    with pytest.raises(SpecError, match="no link joins edge and edge#3"):
        links.check_devices(["edge", "edge#2", "edge#3"])


def test_a_set_of_equal_machines_opens_each_and_refuses_one_target_twice() -> None:
    one, two = (EmulatorTarget(load_spec("edge"), "edge") for _ in range(2))
    both = DeviceSet.of([one, two])
    assert both.names == ("edge", "edge#2")
    assert both.by_name["edge#2"] is two
    with pytest.raises(InputError, match="one open target is one device"):
        DeviceSet.of([one, one])
    with pytest.raises(InputError, match="two unlike machines are named edge"):
        DeviceSet.of([one, EmulatorTarget(load_spec("mobile"), "edge")])


def test_a_device_set_counts_nanoseconds_and_has_the_identity_of_all() -> None:
    edge, tpu = (EmulatorTarget(load_spec(name), name) for name in ("edge", "tpuv1-like"))
    both = DeviceSet.of([edge, tpu])
    assert both.name == "edge,tpuv1-like"
    assert both.nanoseconds("tpuv1-like", 7) == pytest.approx(10.0)
    assert both.spec.profile_id != DeviceSet.of([tpu, edge]).spec.profile_id
    assert both.spec.profile_id == DeviceSet.of([edge, tpu]).spec.profile_id
    assert not both.spec.energy.known
    assert both.spec.formats == Formats.common([edge.spec.formats, tpu.spec.formats])

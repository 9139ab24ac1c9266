"""The page of rooflines: which groups it lists, and what it says of them."""

from __future__ import annotations

from autotune.datasets import NETWORKS
from benchmarks import roofline
from benchmarks.cpu_networks import NAMES


def group(name: str, seconds: float, bound: float, reason: str) -> dict:
    return {
        "operators": [f"{name}_0", f"{name}_1"],
        "kinds": ["conv", "conv"],
        "seconds": seconds,
        "bound_seconds": bound,
        "fraction": bound / seconds,
        "flops": 10**6,
        "limit": "arithmetic",
        "reason": reason,
    }


PROFILE = {
    "groups": [
        group("near", 0.5, 0.45, ""),
        group("little", 0.005, 0.001, "short"),
        group("most", 0.3, 0.1, "copies (50%)"),
        group("some", 0.195, 0.1, "1 part for 2 threads"),
    ],
    "roofline": {
        "seconds": 1.0,
        "peak_flops": 1e11,
        "memory_bytes_per_second": 2e10,
        "peak_fraction": 0.4,
        "bound_fraction": 0.65,
        "steps": {"products": 0.9, "copies": 0.1, "reductions": 0.001},
    },
}


def test_groups_are_listed_by_what_they_lose_and_those_near_their_bound_are_not() -> None:
    assert [g["operators"][1] for g in roofline.worst(PROFILE)] == ["most_1", "some_1"]


def test_the_page_gives_every_network_a_line_and_its_worst_groups() -> None:
    found = {"one": PROFILE, "two": PROFILE}
    page = roofline.markdown([roofline.network_table(found, 2), roofline.group_table(found, 2)])
    assert "| one | 1000.000 | 0.004 | 40% | 65% | products 90%, copies 10% |" in page.splitlines()
    assert "| two | conv ×2 (most_1) | 300.000 | 20% | 33% | arithmetic | copies (50%) |" in page
    assert "2 threads: peak 100 GFLOP/s, memory 20.0 GB/s" in page


def test_all_networks_of_the_bench_are_profiled() -> None:
    assert set(NAMES) == set(NETWORKS)

"""A plan keeps the algorithms that its network was opened with, whatever bandwidth is measured later."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.errors import PlanError
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind as K
from autotune.runtime.session.opening import open_graph
from autotune.runtime.session.request import open_request
from autotune.runtime.session.session import Session
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.opening import load_spec
from autotune.tuner.plan import Plan

PLAIN = load_spec("cpu:1")
SLOW = NativeTarget(
    replace(PLAIN, dram=replace(PLAIN.dram, bytes_per_cycle=PLAIN.peak_macs_per_cycle / 10))
)
FAST = NativeTarget(
    replace(PLAIN, dram=replace(PLAIN.dram, bytes_per_cycle=PLAIN.peak_macs_per_cycle))
)


def network() -> Graph:
    """A convolution of 14×14, which is of 16 large tiles or 49 small ones."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("one")
    x = b.input("x", (1, 32, 14, 14))
    w = b.constant(rng.standard_normal((32, 32, 3, 3)).astype(np.float32))
    return b.build([b.add(K.CONV, x, w, pads=(1, 1, 1, 1))])


def opened(target: NativeTarget, plan: Plan | None = None) -> Graph:
    request = open_request(network(), target, accuracy=None if plan else "close", plan=plan)
    return open_graph(request).graph


def test_a_plan_opens_on_a_machine_of_another_bandwidth(tmp_path: Path) -> None:
    graph = opened(SLOW)
    assert graph.fingerprint != opened(FAST).fingerprint
    with Session(network(), SLOW, tmp_path / "a.db", accuracy="close") as session:
        plan = session.save_plan(tmp_path / "one.plan")
    assert Plan.load(tmp_path / "one.plan") == plan and plan.macs_per_byte == 12
    assert opened(FAST, plan).fingerprint == graph.fingerprint
    with Session(network(), FAST, tmp_path / "a.db", plan=plan) as session:
        assert session.save_plan(tmp_path / "again.plan").macs_per_byte == 12
    text = json.loads((tmp_path / "one.plan").read_text())
    del text["macs_per_byte"]  # as versions before wrote it, of the other algorithm
    (tmp_path / "old.plan").write_text(json.dumps(text))
    with pytest.raises(PlanError, match="plan is for network"):
        opened(FAST, Plan.load(tmp_path / "old.plan"))

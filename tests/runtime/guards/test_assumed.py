"""A session that assumes a class of inputs runs a variant for it, and the general program for all others."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest

from autotune import Session
from autotune.datasets.masked import masked_encoder
from autotune.errors import InputError
from autotune.runtime.execution.event import EventKind
from autotune.runtime.guards.variant import Worth
from autotune.runtime.session import specialisation
from autotune.runtime.session.session import Session as SessionClass
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.plan import Plan
from tests.runtime.guards.guard_case import assert_right, clipped, feeds, masked

TARGETS = ("cpu:1", "cpu:2", "edge")


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny networks save less than a guard costs; here they are to have variants."""
    monkeypatch.setattr(specialisation, "LEAST_GAIN", {"ns": -1e9, "cycles": -1e9})


@pytest.mark.parametrize("target", TARGETS)
def test_a_mask_of_ones_is_not_computed_and_any_other_mask_is(target: str) -> None:
    graph = masked()
    with Session(graph, target, assume={"mask": "ones"}) as session:
        (variant,) = session.variants
        assert variant.share < 1
        for seed in range(3):
            assert_right(session, graph, feeds(graph, seed, mask=1), "in the class")
            assert_right(session, graph, feeds(graph, seed), "some keys hidden")
            assert_right(session, graph, feeds(graph, seed, mask=0), "all keys hidden")
        (variant,) = session.variants
        assert (variant.served, variant.fell_back) == (3, 6)


@pytest.mark.parametrize("target", TARGETS)
def test_one_element_outside_of_the_class_falls_back(target: str) -> None:
    graph = masked()
    with Session(graph, target, assume={"mask": "ones"}) as session:
        for place in np.ndindex(graph.shape("mask")):
            fed = feeds(graph, 0, mask=1)
            fed["mask"][place] = 0
            assert_right(session, graph, fed, str(place))
        assert session.variants[0].served == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "value", [0.0, 1.0, -0.0, np.nextafter(np.float32(1), np.float32(2)), -1e-45, np.nan, np.inf]
)
def test_a_clip_binds_at_the_border_of_its_class_and_beyond(target: str, value: float) -> None:
    graph = clipped()
    fed = feeds(graph, x=0.5)
    fed["x"][2, 3] = value
    with Session(graph, target, assume={"x": (0, 1)}) as session:
        assert_right(session, graph, fed)
        assert session.variants[0].served == (0.0 <= value <= 1.0)


def test_examples_state_the_class() -> None:
    graph = masked()
    examples = [feeds(graph, seed, mask=1) for seed in range(2)]
    with Session(graph, "cpu:1", assume=examples) as session:
        assert session.variants[0].classes == "mask all 1"
        assert_right(session, graph, feeds(graph, 5, mask=1))
        assert session.variants[0].served == 1


def test_inputs_that_change_from_call_to_call_are_right_from_two_threads() -> None:
    graph = masked()
    failures: list[AssertionError] = []
    with Session(graph, "cpu:1", assume={"mask": "ones"}) as session:

        def call(offset: int) -> None:
            try:
                for number in range(40):
                    fixed = {"mask": 1} if (number + offset) % 2 else {}
                    assert_right(session, graph, feeds(graph, number, **fixed))
            except AssertionError as error:
                failures.append(error)

        threads = [threading.Thread(target=call, args=(offset,)) for offset in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


def test_a_variant_that_removes_nothing_is_left_alone() -> None:
    graph = clipped()
    with Session(graph, "cpu:1", assume={"x": (-3, 3)}) as session:
        assert session.variants == ()
        assert session.events[-1].kind is EventKind.REFUSED
        assert "leaves nothing out" in session.events[-1].text


def test_on_an_emulated_machine_a_variant_that_saves_less_than_its_guard_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(specialisation, "LEAST_GAIN", {"cycles": 0.0})
    monkeypatch.setattr(specialisation, "counted", _as_expensive)
    with Session(masked(), "edge", assume={"mask": "ones"}) as session:
        assert session.variants == ()
        assert "saves less than its guard costs" in session.events[-1].text


def _as_expensive(*_: object) -> Worth:
    return Worth(100.0, 95.0, 6.0, "cycles", 0)


def test_a_network_that_computes_nothing_else_keeps_its_operators() -> None:
    graph = clipped()
    with Session(graph, "cpu:1", assume={"x": "zeros"}) as session:
        assert session.variants == ()
        assert_right(session, graph, feeds(graph, x=0))


@pytest.mark.parametrize(
    ("assume", "message"),
    [
        ({"nobody": "ones"}, "assumes of 'nobody'; the inputs are 'q', 'k', 'mask'"),
        ({"mask": "twos"}, r"assume\['mask'\] is 'twos'; give 'ones', 'zeros'"),
        ({"mask": (3, 1)}, "has no numbers"),
        ({"mask": float("nan")}, "nan"),
        ({"mask": np.ones((3, 3))}, "shape"),
        ([], "empty list"),
        (7, "assume maps names"),
    ],
)
def test_what_is_no_assumption_is_refused_in_one_line(assume: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        SessionClass(masked(), "cpu:1", assume=assume)
    assert "\n" not in str(refused.value)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("encoder") / "encoder.onnx"
    onnx.save(masked_encoder(2, 8, 16, 2, 2, 32), path)
    return str(path)


def encoder_feeds(mask: np.ndarray | int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    fed = {x: rng.integers(0, 2, (2, 8)) for x in ("input_ids", "token_type_ids")}
    return fed | {"attention_mask": np.broadcast_to(mask, (2, 8)).astype(np.int64)}


@pytest.mark.parametrize("target", TARGETS)
def test_an_encoder_from_a_file_is_right_inside_and_outside(encoder: str, target: str) -> None:
    assume = {"attention_mask": "ones", "token_type_ids": "zeros"}
    with Session(encoder, target, assume=assume) as session, Session(encoder, "cpu:1") as plain:
        for mask in (1, np.array([[1] * 8, [1] * 5 + [0] * 3])):
            for types in (0, None):
                fed = encoder_feeds(mask)
                if types is not None:
                    fed["token_type_ids"][:] = types
                np.testing.assert_allclose(
                    *(one.run(fed)["logits"] for one in (session, plain)), rtol=1e-4, atol=1e-5
                )
        assert session.variants[0].served == 1


MASKS = (
    [1, 1, 1, 1, 1, 0, 0, 0],
    [1, 0, 1, 0, 0, 0, 0, 0],
    [1, 0, 0, 0, 0, 0, 0, 0],
    [1, 1, 1, 1, 1, 1, 0, 0],
    [0, 1, 1, 1, 1, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 0],
    [1, 1, 1, 1, 1, 0, 0, 1],
    [1, 2, 1, 1, 1, 0, 0, 0],
    [1, -1, 1, 1, 1, 0, 0, 0],
)
INSIDE = 3
"""Masks that are padded from 5 on; the others are not."""


@pytest.mark.parametrize("target", TARGETS)
def test_a_padded_batch_is_computed_as_far_as_its_mask_shows(encoder: str, target: str) -> None:
    assume = {"attention_mask": "padded:5"}
    with Session(encoder, target, assume=assume) as session, Session(encoder, "cpu:1") as plain:
        assert session.variants[0].share < 0.7
        for number, mask in enumerate(MASKS):
            fed = encoder_feeds(np.array([mask, MASKS[0]]), number)
            np.testing.assert_allclose(
                *(one.run(fed)["logits"] for one in (session, plain)),
                rtol=1e-4,
                atol=1e-5,
                err_msg=str(mask),
            )
        served = session.variants[0]
        assert (served.served, served.fell_back) == (INSIDE, len(MASKS) - INSIDE)


def test_an_index_that_its_table_lacks_is_refused_at_opening(encoder: str) -> None:
    with pytest.raises(InputError, match="holds the index 5"):
        Session(encoder, "cpu:1", assume={"token_type_ids": 5})


def test_a_plan_keeps_the_schedules_of_what_stays(encoder: str) -> None:
    with Session(encoder, "edge") as session:
        graph, spec, steps = session.graph, session.target.spec, session.table.group_steps
        groups = [
            PlannedGroup(names, step.group.outputs, step.schedule, 1.0, None, None, None)
            for step in steps
            for names in [step.operators]
        ]
        views = [c for c in session.table.choices if c.schedule is None]
        groups += [
            PlannedGroup(
                tuple(op.name for op in c.group.ops), c.group.outputs, None, 0.0, None, None, None
            )
            for c in views
        ]
    plan = Plan(
        (GraphPlan(graph.name, graph.fingerprint, tuple(groups)),),
        None,
        "edge",
        spec.profile_id,
        Objective.LATENCY,
    )
    assume = {"attention_mask": "ones"}
    with Session(encoder, "edge", plan=plan, assume=assume) as session:
        variant = session.tables[1]
        kept = {step.key + step.operators for step in variant.group_steps} & {
            step.key + step.operators for step in steps
        }
        assert len(kept) > len(steps) // 2
        assert session.variants[0].share < 1


@pytest.mark.parametrize("target", ["edge", "server"])
def test_an_emulated_machine_holds_one_program_for_both_classes(encoder: str, target: str) -> None:
    assume = {"attention_mask": "padded:5"}
    with Session(encoder, target, assume=assume) as session, Session(encoder, target) as plain:
        general, variant = (table.group_steps for table in session.tables)
        shared = {id(step.call.program) for step in general if step.call is not None}
        assert shared
        assert shared == {id(step.call.program) for step in variant if step.call is not None}
        assert any("in place of" in event.text for event in session.events)
        inside, outside = (encoder_feeds(np.array([mask] * 2)) for mask in (MASKS[0], MASKS[4]))
        for fed in (inside, outside):
            wanted = plain.reference_outputs(fed)["logits"]
            np.testing.assert_allclose(session.run(fed)["logits"], wanted, rtol=1e-4, atol=1e-5)
        cycles, alone = (one.traced_run(outside)[1].cycles for one in (session, plain))
        assert alone <= cycles <= 1.01 * alone + 32 * len(general)

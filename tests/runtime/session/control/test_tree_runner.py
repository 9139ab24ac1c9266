"""Trees of control flow against ONNX's reference evaluator."""

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import AutotuneError, InputError
from autotune.frontend.sequences import SEQUENCES
from autotune.frontend.subgraphs import bodies_of
from autotune.runtime.session.control.version_table import VERSIONS_KEPT
from autotune.runtime.session.control.versions import Versions
from tests.runtime.control_case import (
    BRANCH,
    COUNTED,
    GROWING,
    NESTED,
    SCANNED,
    agrees,
    model_of,
    versions_of,
)

MODELS = {
    name: model_of(text)
    for name, text in {
        "branch": BRANCH, "counted": COUNTED, "scanned": SCANNED, "nested": NESTED, "growing": GROWING,
    }.items()
}  # fmt: skip
VERSIONS = {name: versions_of(model) for name, model in MODELS.items()}


def check(name: str, **inputs: object) -> None:
    arrays = {x: np.asarray(value) for x, value in inputs.items()}
    agrees(MODELS[name], VERSIONS[name], arrays)


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@given(st.booleans(), st.integers(1, 3), st.integers(0, 9))
def test_a_branch_is_taken_by_its_condition_and_reads_what_lies_outside(
    pick: bool, rows: int, seed: int
) -> None:
    check("branch", pick=pick, x=floats(seed, rows, 4))


@given(st.integers(1, 6), st.floats(-2, 20, width=32), st.integers(1, 3), st.integers(0, 9))
def test_a_loop_ends_by_its_trips_or_its_condition_and_stacks_rows(
    trips: int, limit: float, size: int, seed: int
) -> None:
    check("counted", trips=np.int64(trips), go=True, x=floats(seed, size), limit=np.float32(limit))


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 9))
def test_a_scan_slices_and_stacks_along_its_axes_in_both_directions(
    rows: int, size: int, seed: int
) -> None:
    start, x, w = floats(seed, size), floats(seed + 1, rows, size), floats(seed + 2, size, rows)
    made = VERSIONS["scanned"].run({"start": start, "x": x, "w": w})
    state, wanted = start, []  # ONNX's evaluator knows no other direction than forwards
    for row, weight in zip(x, w.T[::-1], strict=True):
        state = np.tanh(state + row * weight)
        wanted.append(state - row)
    np.testing.assert_allclose(made["last"], state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made["y"], np.stack(wanted[::-1], axis=1), rtol=1e-5, atol=1e-6)


@given(st.integers(0, 5), st.integers(1, 3), st.integers(0, 9))
def test_loops_inside_branches_inside_loops_nest(trips: int, size: int, seed: int) -> None:
    check("nested", trips=np.int64(trips), x=floats(seed, size))


@given(st.integers(0, 5), st.integers(0, 9))
def test_a_body_whose_state_grows_is_specialised_again_for_each_shape(
    trips: int, seed: int
) -> None:
    check("growing", trips=np.int64(trips), x=floats(seed, 1, 3))


def test_a_loop_that_never_runs_hands_on_its_first_values_and_stacks_nothing() -> None:
    text = COUNTED.replace("float[N]", "float[2]").replace("float[T, N]", "float[T, 2]")
    x = floats(0, 2)
    inputs = {"trips": np.asarray(0), "go": np.asarray(True), "x": x, "limit": np.float32([9])[0]}
    made = versions_of(model_of(text)).run({k: np.asarray(v) for k, v in inputs.items()})
    np.testing.assert_array_equal(made["last"], x)
    assert made["count"] == 0 and made["rows"].shape == (0, 2)


def test_a_loop_without_a_condition_runs_all_its_trips() -> None:
    model = model_of(GROWING.replace("(trips, start, x)", "(trips, , x)"))
    made = versions_of(model).run({"trips": np.asarray(3), "x": np.ones((1, 3), np.float32)})
    np.testing.assert_array_equal(made["y"][:, 0], [1, 2, 2, 2])


def test_rows_that_no_iteration_made_have_the_shape_that_one_would_give_them() -> None:
    inputs = {"trips": 0, "go": True, "x": floats(0, 2), "limit": np.float32(1)}
    made = VERSIONS["counted"].run({k: np.asarray(v) for k, v in inputs.items()})
    assert made["rows"].shape == (0, 2)
    np.testing.assert_array_equal(made["last"], floats(0, 2))


def test_extents_that_contradict_each_other_are_refused_naming_both() -> None:
    inputs = {"start": floats(0, 3), "x": floats(0, 2, 3), "w": floats(0, 4, 2)}
    with pytest.raises(InputError) as refusal:
        VERSIONS["scanned"].run(inputs)
    assert str(refusal.value) == (
        "case: dimension 'N' is 4 in input 'w' (axis 0) and 3 in input 'start' (axis 0); feed equal "
        "extents"
    )


def test_a_version_is_made_once_per_shape_and_the_oldest_goes_first() -> None:
    model = model_of("relu (float[N] x) => (float[N] y) { y = Relu (x) }")
    versions = versions_of(model)
    first = versions.version({"x": floats(0, 1)})
    assert versions.version({"x": floats(1, 1)}) is first
    for size in range(2, VERSIONS_KEPT + 1):
        versions.run({"x": floats(0, size)})
    assert versions.version({"x": floats(0, 1)}) is first
    for size in range(VERSIONS_KEPT + 1, VERSIONS_KEPT + 2):
        versions.run({"x": floats(0, size)})
    assert len(versions.held) == VERSIONS_KEPT
    assert versions.version({"x": floats(0, 1)}) is first


def test_values_that_decide_shapes_are_bound_to_what_they_are() -> None:
    model = model_of(
        "reshaped (float[N] x, int64[2] to) => (float[A, B] y) { y = Reshape (x, to) }"
    )
    versions = versions_of(model)
    for shape in ((2, 6), (3, 4), (2, 6)):
        agrees(model, versions, {"x": floats(0, 12), "to": np.asarray(shape)})
    assert len(versions.held) == 2


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": floats(0, 2), "pick": np.asarray(True)}, r"has shape \[2\], expected \['N', 4\]"),
        ({"x": floats(0, 2, 5), "pick": np.asarray(True)}, r"has shape \[2, 5\]"),
        ({"x": floats(0, 2, 4).astype(float), "pick": np.asarray(True)}, "is float64, expected"),
        ({"x": floats(0, 2, 4)}, "input 'pick' is missing"),
        ({"x": floats(0, 2, 4), "pick": np.asarray(True), "more": floats(0)}, "no input 'more'"),
        ({"x": [floats(0, 4)], "pick": np.asarray(True)}, "input 'x' is list; feed an array"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_by_name(inputs: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        VERSIONS["branch"].run(inputs)


def test_sequences_are_carried_from_one_iteration_to_the_next() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        pieces (int64 trips, float[3] x) => (float[M] y, int64 count) {
            none = SequenceEmpty ()
            start = Constant <value = bool {1}> ()
            all = Loop (trips, start, none) <
                body = step (int64 i, bool go, seq(float) s) => (bool on, seq(float) t) {
                    on = Identity (go)
                    twice = Add (x, x)
                    t = SequenceInsert (s, twice)
                }
            >
            count = SequenceLength (all)
            y = ConcatFromSequence <axis = 0> (all)
        }"""
    )
    versions: Versions = versions_of(model)
    for trips in (1, 4):
        agrees(model, versions, {"trips": np.asarray(trips), "x": floats(1, 3)})


@given(st.randoms(use_true_random=False))
def test_damaged_control_flow_is_refused_and_never_crashes(random: Random) -> None:
    name = random.choice(sorted(MODELS))
    model = onnx.ModelProto()
    model.CopyFrom(MODELS[name])
    for _ in range(random.randint(1, 3)):
        damage(model.graph, random)
    inputs = {x: np.asarray(value) for x, value in FED[name].items()}
    with suppress(AutotuneError):
        versions_of(model).run(inputs)


FED: dict[str, dict[str, Any]] = {
    "branch": {"pick": True, "x": np.ones((2, 4), np.float32)},
    "counted": {"trips": 2, "go": True, "x": np.ones(2, np.float32), "limit": np.float32(3)},
    "scanned": {
        "start": np.ones(2, np.float32),
        "x": np.ones((3, 2), np.float32),
        "w": np.ones((2, 3), np.float32),
    },
    "nested": {"trips": 2, "x": np.ones(2, np.float32)},
    "growing": {"trips": 2, "x": np.ones((1, 3), np.float32)},
}


def damage(graph: onnx.GraphProto, random: Random) -> None:
    """Take something from a node, or hand it something else."""
    found = list(nodes_of(graph))
    inside, node = random.choice(found)
    names = ["nothing", *(x for _, other in found for x in (*other.input, *other.output))]
    match random.randrange(6):
        case 0 if node.input:
            node.input[random.randrange(len(node.input))] = random.choice(["", *names])
        case 1:
            node.op_type = random.choice([*SEQUENCES, *(other.op_type for _, other in found)])
        case 2 if node.attribute:
            del node.attribute[random.randrange(len(node.attribute))]
        case 3:
            shrunk = random.choice([node.input, node.output, inside.output, inside.input])
            del shrunk[:1]
        case 4:
            node.input.append(random.choice(names))
        case _ if node.output:
            node.output[0] = random.choice(names)


def nodes_of(graph: onnx.GraphProto) -> Iterator[tuple[onnx.GraphProto, onnx.NodeProto]]:
    for node in graph.node:
        yield graph, node
        for body in bodies_of(node):
            yield from nodes_of(body)


NAMESAKES = """
namesakes (int64 trips, float[N] x) => (float[N] y, float[N] z, float[N] v) {
    go = Constant <value = bool {1}> ()
    y = Loop (trips, go, x) <
        body = first (int64 i, bool on, float[N] s) => (bool more, float[N] t) {
            more = Identity (on) t = Add (s, x)
        }
    >
    z = Loop (trips, go, y) <
        body = second (int64 i, bool on, float[N] s) => (bool more, float[N] t) {
            more = Identity (on) t = Mul (s, x)
        }
    >
    v = If (go) <
        then_branch = third () => (float[N] a) { a = Neg (z) },
        else_branch = fourth () => (float[N] b) { b = Relu (z) }
    >
}
"""


@pytest.mark.parametrize("name", ["", "loop", "unnamed node #2"])
def test_control_nodes_that_share_a_name_run_each_its_own_bodies(name: str) -> None:
    model = model_of(NAMESAKES)
    for node in model.graph.node:
        node.name = name
    agrees(model, versions_of(model), {"trips": np.asarray(3), "x": floats(0, 4)})

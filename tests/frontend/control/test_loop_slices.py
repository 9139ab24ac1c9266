"""Loops that slice what they are given by the trip's number run one program for all trips."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from autotune.errors import InputError, ModelError
from autotune.frontend.control.loop_slices import LoopSlices, SlicedBody, cut_slices
from autotune.frontend.node import AnyArray, Node
from autotune.frontend.source_model import SourceModel
from autotune.frontend.translate.constant_folding import Values, fold
from autotune.runtime.session.control.tree_runner import TreeRunner
from autotune.runtime.session.control.versions import Versions
from tests.runtime.control_case import HEAD, agrees, model_of, versions_of

LOOP = """
sliced (int64 trips, int64 first, float[T, N] x, float[1, N] h) => (float[1, N] last, int64 count, float[M, N] rows) {{
    go = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    table = Constant <value = float[4, 2] {{1, 2, 3, 4, 5, 6, 7, 8}}> ()
    order = Constant <value = int64[4] {{2, 0, 3, 1}}> ()
    last, count, rows = Loop (trips, go, h, zero) <
        body = step (int64 i, bool on, float[1, N] state, int64 seen)
            => (bool again, float[1, N] next, int64 now, float[N] flat) {{
            again = Identity (on)
            axis = Constant <value = int64[1] {{0}}> ()
            one = Constant <value = int64[1] {{1}}> ()
            now = Add (seen, one_more)
            one_more = Constant <value = int64 {{1}}> ()
            {steps}
            sum = Add (state, row)
            all = Constant <value = int64[1] {{-1}}> ()
            flat = Reshape (row, all)
            next = Tanh (sum)
        }}
    >
}}
"""
FORMS = {
    "by the trip's number": "s = Unsqueeze (i, axis) e = Add (s, one) row = Slice (x, s, e, axis)",
    "from a place outside": "p = Add (i, first) s = Unsqueeze (p, axis) e = Add (s, one) row = Slice (x, s, e, axis)",
    "by what is carried": "s = Reshape (seen, one) e = Add (s, one) row = Slice (x, s, e)",
    "from the end": "n = Neg (i) m = Sub (n, one_more) s = Unsqueeze (m, axis) e = Sub (s, one) "
    "back = Neg (one) row = Slice (x, s, e, axis, back)",
    "of a slice": "s = Unsqueeze (i, axis) end = Shape <end = 1> (x) far = Slice (x, s, end, axis) p = Unsqueeze (zero, axis) "
    "row = Slice (far, p, one, axis)",
    "of a constant": "s = Unsqueeze (i, axis) e = Add (s, one) row = Slice (table, s, e, axis)",
    "by a table of places": "t = Gather (order, i) s = Unsqueeze (t, axis) e = Add (s, one) row = Slice (x, s, e, axis)",
    "with what is computed from it": "s = Unsqueeze (i, axis) e = Add (s, one) k = Slice (x, s, e, axis) "
    "f = CastLike (i, k) row = Mul (k, f)",
    "handed on as it is": "s = Unsqueeze (i, axis) e = Add (s, one) next = Slice (x, s, e, axis) row = Relu (next)",
    "of a constant, handed on as it is": "s = Unsqueeze (i, axis) e = Add (s, one) next = Slice (table, s, e, axis) "
    "row = Relu (next)",
}  # fmt: skip
SUMS = {
    "beyond the end": "s = Unsqueeze (i, axis) e = Add (s, one) k = Slice (x, s, e, axis)",
    "of a constant": "s = Unsqueeze (i, axis) e = Add (s, one) k = Slice (table, s, e, axis)",
    "before the beginning": "n = Neg (i) s = Unsqueeze (n, axis) e = Add (s, one) k = Slice (x, s, e, axis)",
    "backwards": "n = Neg (i) m = Sub (n, one_more) s = Unsqueeze (m, axis) e = Sub (s, one) back = Neg (one) "
    "k = Slice (x, s, e, axis, back)",
    "that grows": "s = Unsqueeze (i, axis) e = Add (s, one) k = Slice (x, axis, e, axis)",
    "that is empty at first": "s = Unsqueeze (i, axis) k = Slice (x, axis, s, axis)",
    "of a slice": "s = Unsqueeze (i, axis) end = Shape <end = 1> (x) far = Slice (x, s, end, axis) k = Slice (far, axis, one, axis)",
}  # fmt: skip
"""What makes a slice k that may have no rows: its sum has one."""


def written(steps: str) -> onnx.ModelProto:
    """The loop with these steps, as ONNX orders them."""
    text = LOOP.format(steps=steps)
    late = "            one_more = Constant <value = int64 {1}> ()\n"
    before = "            now = Add (seen, one_more)\n"
    if "next =" in steps:
        text = text.replace("            next = Tanh (sum)\n", "")
    return model_of(text.replace(late, "").replace(before, late + before))


def fed(trips: int, rows: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, h = (rng.standard_normal((n, 2)).astype(np.float32) for n in (rows, 1))
    return {"trips": np.asarray(trips), "first": np.asarray(0), "x": x, "h": h}


def programs(versions: Versions) -> int:
    """Versions that the body of the only loop has."""
    (tree,) = versions.held
    assert isinstance(tree, TreeRunner)
    (body,) = (model for label, model in tree.models.items() if label.endswith("body"))
    return len(body.held)


@pytest.mark.parametrize("steps", FORMS.values(), ids=FORMS)
def test_one_program_serves_all_trips_of_a_loop_that_slices(steps: str) -> None:
    model = written(steps)
    versions = versions_of(model)
    agrees(model, versions, fed(4))
    assert programs(versions) == 1
    agrees(model, versions, fed(3, seed=1))
    assert programs(versions) == 1


@given(st.sampled_from(sorted(FORMS)), st.integers(1, 4), st.integers(0, 9))
def test_sliced_loops_compute_what_onnx_does(form: str, trips: int, seed: int) -> None:
    model = written(FORMS[form])
    agrees(model, versions_of(model), fed(trips, seed=seed))


@given(st.sampled_from(sorted(SUMS)), st.integers(1, 7), st.integers(0, 9))
def test_sliced_loops_compute_what_onnx_does_beyond_the_rows(
    form: str, trips: int, seed: int
) -> None:
    model = written(f"{SUMS[form]} row = ReduceSum <keepdims = 1> (k, axis)")
    agrees(model, versions_of(model), fed(trips, seed=seed))


COMPUTED = "r = Relu (x) s = Unsqueeze (i, axis) e = Add (s, one) row = Slice (r, s, e, axis)"
FIXED = (
    "n = Shape (h) s = Sub (n, n) e = Add (n, one) k = Slice (x, axis, one, axis) row = Relu (k)"
)


def test_slices_of_what_the_body_computes_run_too() -> None:
    model = written(COMPUTED)
    versions = versions_of(model)
    agrees(model, versions, fed(4))
    assert programs(versions) == 4


def test_places_that_constants_decide_are_left_to_import() -> None:
    model = written(FIXED)
    versions = versions_of(model)
    agrees(model, versions, fed(4))
    (tree,) = versions.held
    assert isinstance(tree, TreeRunner)
    assert all(getattr(step, "slices", None) is None for step in tree.tree.steps)


def test_a_place_that_a_table_does_not_have_is_refused_naming_the_loop() -> None:
    with pytest.raises(InputError, match="a slice in its body does not fit"):
        versions_of(written(FORMS["by a table of places"])).run(fed(5, rows=9))


def test_loops_in_loops_slice_by_both_numbers() -> None:
    model = model_of("""
        nested (int64 trips, float[2, 3] x, float[1, 1] h) => (float[1, 1] y) {
            go = Constant <value = bool {1}> ()
            y = Loop (trips, go, h) <
                body = outer (int64 i, bool on, float[1, 1] a) => (bool again, float[1, 1] b) {
                    again = Identity (on)
                    three = Constant <value = int64 {3}> ()
                    few = Min (three, three)
                    b = Loop (few, on, a) <
                        body = inner (int64 j, bool more, float[1, 1] c) => (bool still, float[1, 1] d) {
                            still = Identity (more)
                            axes = Constant <value = int64[2] {0, 1}> ()
                            flat = Constant <value = int64[1] {-1}> ()
                            one = Constant <value = int64 {1}> ()
                            p = Reshape (i, flat)
                            q = Reshape (j, flat)
                            s = Concat <axis = 0> (p, q)
                            e = Add (s, one)
                            k = Slice (x, s, e, axes)
                            t = Mul (c, k)
                            d = Sin (t)
                        }
                    >
                }
            >
        }
    """)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    inputs = {"trips": np.asarray(2), "x": x, "h": np.ones((1, 1), np.float32)}
    agrees(model, versions_of(model), inputs)


def sliced(*nodes: onnx.NodeProto) -> SlicedBody:
    """What is cut from a body of these nodes behind the place ``s`` of an iteration's number."""
    place = helper.make_node("Unsqueeze", ["i", "axis"], ["s"])
    names = [onnx.ValueInfoProto(name=x) for x in ("i", "on", "x")]
    out = [onnx.ValueInfoProto(name="y")]
    axis = numpy_helper.from_array(np.asarray([0]), "axis")
    graph = helper.make_graph([place, *nodes], "body", names, out, [axis])
    return cut_slices(SourceModel(helper.make_model(graph)), 2)


@pytest.mark.parametrize(
    "inputs", [[], ["x"], ["x", "s"], ["x", "s", ""], ["x", "", "s"], ["", "s", "s"]]
)
def test_a_slice_that_lacks_a_name_is_left_to_import(inputs: list[str]) -> None:
    assert sliced(helper.make_node("Slice", inputs, ["y"])).slices is None
    assert sliced(helper.make_node("Slice", ["x", "s", "s"], [])).slices is None


def slices_of(*nodes: onnx.NodeProto) -> LoopSlices:
    slices = sliced(*nodes).slices
    assert slices is not None
    return slices


def test_places_that_wait_for_each_other_are_refused() -> None:
    ring = [helper.make_node("Add", [a, "s"], [b]) for a, b in ("ab", "ba")]
    with pytest.raises(ModelError, match="cycle"):
        sliced(*ring, helper.make_node("Slice", ["x", "a", "b"], ["y"]))


def test_a_slice_of_a_sequence_is_refused() -> None:
    slices = slices_of(helper.make_node("Slice", ["x", "s", "s"], ["y"]))
    with pytest.raises(InputError, match="reads 'x', which is list; only tensors are sliced"):
        slices.evaluate("the loop", {"i": np.asarray(0), "x": [np.zeros(3)]})


def test_what_constants_decide_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counted(node: Node, values: Values) -> AnyArray:
        computed.append(node.operator)
        return fold(node, values)

    monkeypatch.setattr("autotune.frontend.control.loop_slices.fold", counted)
    three = helper.make_node("Constant", [], ["three"], value_ints=[3])
    more = helper.make_node("Neg", ["three"], ["more"])
    end = helper.make_node("Sub", ["s", "more"], ["e"])
    slices = slices_of(three, more, end, helper.make_node("Slice", ["x", "s", "e"], ["y"]))
    computed.clear()
    x = np.arange(5)
    for i in range(3):
        made = slices.evaluate("the loop", {"i": np.asarray(i), "x": x})
        np.testing.assert_array_equal(made["y"], x[i : i + 3])
    assert computed == ["Unsqueeze", "Sub", "Slice"] * 3


def test_constants_that_do_not_fit_are_refused_by_the_first_trip() -> None:
    odd = [
        helper.make_node("Constant", [], [x], value_ints=[1] * n) for x, n in (("p", 2), ("q", 3))
    ]
    end = [helper.make_node("Add", ["p", "q"], ["r"]), helper.make_node("Add", ["r", "s"], ["e"])]
    slices = slices_of(*odd, *end, helper.make_node("Slice", ["x", "s", "e"], ["y"]))
    with pytest.raises(InputError, match="the loop: a slice in its body does not fit"):
        slices.evaluate("the loop", {"i": np.asarray(0), "x": np.zeros(3)})


LAYERED = """
layered (int64 trips, float[1, N] x) => (float[1, N] y)
<int64[1] axis = {{0}}, int64[1] one = {{1}}, bool go = {{1}}> {{
    y = Loop (trips, go, x) <
        body = step (int64 i, bool on, float[1, N] state) => (bool again, float[1, N] next) {{
            again = Identity (on)
            s = Unsqueeze (i, axis)
            e = Add (s, one)
            k = Slice (table, s, e, axis)
            next = {read}
        }}
    >
}}
"""


def layered(table: np.ndarray, read: str) -> onnx.ModelProto:
    """A loop whose trips read a row k of a constant."""
    model = onnx.parser.parse_model(f"{HEAD} {LAYERED.format(read=read)}")
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    return model


@pytest.mark.parametrize(("columns", "served"), [(5000, 3), (1366, 3), (1365, 1)])
def test_rows_of_a_long_constant_stay_constants(columns: int, served: int) -> None:
    rng = np.random.default_rng(0)
    weights, x = (rng.standard_normal((n, columns)).astype(np.float32) for n in (3, 1))
    model = layered(weights, "Mul (state, k)")
    versions = versions_of(model)
    agrees(model, versions, {"trips": np.asarray(3), "x": x})
    assert programs(versions) == served


@pytest.mark.parametrize("columns", [5000, 1365])
def test_what_only_import_can_read_may_be_a_row_of_a_constant(columns: int) -> None:
    rng = np.random.default_rng(0)
    model = layered(
        np.stack([rng.permutation(columns) for _ in range(3)]),
        "ScatterElements <axis = 1> (state, k, state)",
    )
    x = rng.standard_normal((1, columns)).astype(np.float32)
    agrees(model, versions_of(model), {"trips": np.asarray(3), "x": x})

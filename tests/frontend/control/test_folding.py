"""Control flow that constants and shapes decide is folded at import, and said to be."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ModelError
from autotune.frontend.bind import bind
from autotune.frontend.control.folding import UNROLLED_NODES, UNROLLED_TRIPS, fold_control
from autotune.frontend.importing import SUPPORTED, import_tree, translate
from autotune.frontend.modernise import modernise
from autotune.frontend.source_model import SourceModel
from autotune.frontend.subgraphs import node_count
from autotune.operators.op import OpKind
from autotune.runtime.session.control.versions import GraphVersion
from tests.runtime.control_case import COUNTED, HEAD, NESTED, agrees, model_of, versions_of

BY_RANK = """
ranked (float[N, 3] x) => (float[N, 3] y) {
    shape = Shape (x)
    rank = Size (shape)
    two = Constant <value = int64 {2}> ()
    flat = Equal (rank, two)
    y = If (flat) <
        then_branch = yes () => (float[N, 3] a) { a = Relu (x) },
        else_branch = no () => (float[N, 3] b) { b = Neg (x) }
    >
}
"""

REPEATED = """
repeated (float[N] x) => (float[N] y, float[T, N] rows) {
    trips = Constant <value = int64 {TRIPS}> ()
    start = Constant <value = bool {1}> ()
    y, rows = Loop (trips, start, x) <
        body = step (int64 i, bool go, float[N] s) => (bool on, float[N] t, float[N] row) {
            on = Identity (go)
            number = Cast <to = 1> (i)
            t = Add (s, x)
            row = Mul (t, number)
        }
    >
}
"""


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_branch_that_shapes_decide_is_taken_at_import() -> None:
    model = model_of(BY_RANK)
    agrees(model, versions_of(model), {"x": floats(2, 3)})
    imported = import_tree(SourceModel(model_of(BY_RANK)), "ranked", {"N": 2})
    assert imported.graph is not None
    kinds = {op.kind for op in imported.graph.ops}
    assert OpKind.RELU in kinds and OpKind.NEG not in kinds
    assert [str(note) for note in imported.notes] == [
        "control folding: removed unnamed node #3 (If): its condition is known to be true; the else "
        "branch is never taken"
    ]


@given(st.integers(1, UNROLLED_TRIPS))
def test_a_loop_of_known_trips_is_written_out(trips: int) -> None:
    model = model_of(REPEATED.replace("TRIPS", str(trips)))
    versions = versions_of(model)
    agrees(model, versions, {"x": floats(3)})
    (version,) = versions.held
    assert isinstance(version, GraphVersion)
    assert f"it runs {trips} times" in version.notes[0].reason


def test_a_loop_of_many_trips_stays_a_loop() -> None:
    model = model_of(REPEATED.replace("TRIPS", str(UNROLLED_TRIPS + 1)))
    versions = versions_of(model)
    agrees(model, versions, {"x": floats(3)})
    assert not isinstance(versions.held[0], GraphVersion)


def test_a_loop_of_no_trips_hands_on_what_it_got() -> None:
    text = REPEATED.replace("TRIPS", "0").replace("float[N]", "float[3]")
    made = versions_of(model_of(text.replace("[T, N]", "[T, 3]"))).run({"x": floats(3)})
    np.testing.assert_array_equal(made["y"], floats(3))
    assert made["rows"].shape == (0, 3)


def test_a_loop_that_its_condition_may_end_stays_a_loop() -> None:
    with pytest.raises(
        ModelError, match="operator Loop is decided at run time; open the model with"
    ):
        translate(model_of(COUNTED), "counted", {"N": 2})


def test_what_surrounds_folded_control_flow_and_what_is_nested_keep_their_names() -> None:
    text = NESTED.replace("(int64 trips, float[N] x)", "(float[N] x)").replace(
        "start = Const", "trips = Constant <value = int64 {3}> ()\n    start = Const"
    )
    model = model_of(text)
    agrees(model, versions_of(model), {"x": floats(2)})


def nested(outer: int, inner: int, adds: int) -> str:
    """A loop in a loop, around some additions."""
    chain = " ".join(f"t{i + 1} = Add (t{i}, x)" for i in range(adds))
    return f"""
    nested (float[N] x) => (float[N] y) {{
        outer = Constant <value = int64 {{{outer}}}> ()
        inner = Constant <value = int64 {{{inner}}}> ()
        start = Constant <value = bool {{1}}> ()
        y = Loop (outer, start, x) <
            body = around (int64 i, bool go, float[N] s) => (bool on, float[N] r) {{
                on = Identity (go)
                r = Loop (inner, start, s) <
                    body = within (int64 j, bool keep, float[N] t0) => (bool kept, float[N] t{adds}) {{
                        kept = Identity (keep) {chain}
                    }}
                >
            }}
        >
    }}"""


@pytest.mark.parametrize(("outer", "inner", "adds"), [(16, 16, 31), (8, 16, 31), (2, 16, 31)])
def test_all_loops_that_are_written_out_come_to_a_bounded_number_of_nodes(
    outer: int, inner: int, adds: int
) -> None:
    model = model_of(nested(outer, inner, adds))
    bound = bind(modernise(SourceModel(model), SUPPORTED), {"N": 2}, {})
    folded = fold_control(bound, lambda cone, name: None).proto
    assert node_count(folded.graph) <= UNROLLED_NODES + node_count(model_of(nested(1, 1, 1)).graph)


def test_small_loops_in_loops_are_written_out_as_a_whole() -> None:
    model = model_of(nested(3, 3, 4))
    versions = versions_of(model)
    agrees(model, versions, {"x": floats(3)})
    assert isinstance(versions.held[0], GraphVersion)


def test_nodes_out_of_order_are_put_in_order() -> None:
    model = model_of(BY_RANK)
    backwards = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(backwards)
    made = versions_of(model).run({"x": floats(2, 3)})
    np.testing.assert_array_equal(made["y"], np.maximum(floats(2, 3), 0))


def test_a_body_that_takes_other_values_than_it_is_handed_is_refused() -> None:
    model = onnx.parser.parse_model(f"{HEAD} {REPEATED.replace('TRIPS', '2')}")
    body = model.graph.node[2].attribute[0].g
    del body.input[2]
    with pytest.raises(ModelError, match="hands 3 values to its body"):
        import_tree(SourceModel(model), "repeated", {"N": 2})


def test_a_body_inside_a_body_that_takes_other_values_is_refused_naming_both() -> None:
    text = nested(2, 2, 1).replace("(float[N] x)", "(bool pick, float[N] x)", 1)
    model = onnx.parser.parse_model(f"{HEAD} {text}")
    inner = model.graph.node[3].attribute[0].g.node[1].attribute[0].g
    del inner.input[2]
    told = (
        r"unnamed node #1 in the body 'around' of unnamed node #3: Loop hands 3 values to its body"
    )
    with pytest.raises(ModelError, match=told):
        import_tree(SourceModel(model), "nested", {"N": 2})


def test_a_shape_that_is_taken_apart_is_known() -> None:
    model = model_of(
        "parted (float[N, 3] x) => (float[M] y) { s = Shape (x) a, b = Split (s) size = Mul (a, b)"
        " minus = Constant <value_ints = [-1]> () y = Reshape (x, minus) z = Reshape (x, size) }"
    )
    agrees(model, versions_of(model), {"x": floats(2, 3)})

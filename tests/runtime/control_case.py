"""Models with control flow, and a way to run their pieces that compiles nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from autotune.frontend.source_model import SourceModel
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.session.control.tree_runner import TreeRunner
from autotune.runtime.session.control.versions import Versions

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def model_of(text: str) -> onnx.ModelProto:
    """A model in ONNX's text form, of operator set 17."""
    model = onnx.parser.parse_model(f"{HEAD} {text}")
    onnx.checker.check_model(model)
    return model


def versions_of(model: onnx.ModelProto) -> Versions:
    """The model over the numpy reference."""
    return Versions(SourceModel(model), ReferenceSession, "case", TreeRunner)


def agrees(model: onnx.ModelProto, versions: Versions, inputs: Mapping[str, Any]) -> None:
    """Assert that outputs and their types are those of ONNX's reference evaluator."""
    wanted = ReferenceEvaluator(model).run(None, dict(inputs))
    made = versions.run(inputs)
    for value, expected in zip(model.graph.output, wanted, strict=True):
        given = made[value.name]
        assert given.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5)


BRANCH = """
choice (bool pick, float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
    h = Exp (x)
    y, z = If (pick) <
        then_branch = first () => (float[N, 4] a, float[N, 4] b) {
            t = Add (h, x)
            a = Relu (t)
            b = Identity (h)
        },
        else_branch = second () => (float[N, 4] c, float[N, 4] d) {
            c = Neg (h)
            d = Mul (h, c)
        }
    >
}
"""

COUNTED = """
counted (int64 trips, bool go, float[N] x, float limit) => (float[N] last, int64 count, float[T, N] rows) {
    zero = Constant <value = int64 {0}> ()
    scaled = Mul (x, x)
    last, count, rows = Loop (trips, go, x, zero) <
        body = step (int64 trip, bool more, float[N] state, int64 seen)
            => (bool again, float[N] next, int64 now, float[N] row) {
            one = Constant <value = int64 {1}> ()
            half = Constant <value = float {0.5}> ()
            now = Add (seen, one)
            damped = Mul (state, half)
            next = Add (damped, scaled)
            total = ReduceSum <keepdims = 0> (next)
            again = Less (total, limit)
            row = Sub (next, state)
        }
    >
}
"""

SCANNED = """
scanned (float[N] start, float[T, N] x, float[N, T] w) => (float[N] last, float[N, T] y) {
    last, y = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1],
                    scan_output_axes = [1], scan_output_directions = [1],
        body = cell (float[N] h, float[N] row, float[N] weight) => (float[N] after, float[N] out) {
            product = Mul (row, weight)
            sum = Add (h, product)
            after = Tanh (sum)
            out = Sub (after, row)
        }
    > (start, x, w)
}
"""

NESTED = """
nested (int64 trips, float[N] x) => (float[N] y) {
    start = Constant <value = bool {1}> ()
    y = Loop (trips, start, x) <
        body = outer (int64 i, bool go, float[N] state) => (bool on, float[N] next) {
            on = Identity (go)
            one = Constant <value = int64 {1}> ()
            inner_trips = Add (i, one)
            total = ReduceSum <keepdims = 0> (state)
            bound = Constant <value = float {4.0}> ()
            small = Less (total, bound)
            next = If (small) <
                then_branch = grow () => (float[N] grown) {
                    grown = Loop (inner_trips, go, state) <
                        body = inner (int64 j, bool keep, float[N] s) => (bool kept, float[N] t) {
                            kept = Identity (keep)
                            t = Add (s, x)
                        }
                    >
                },
                else_branch = shrink () => (float[N] shrunk) {
                    quarter = Constant <value = float {0.25}> ()
                    shrunk = Mul (state, quarter)
                }
            >
        }
    >
}
"""

GROWING = """
growing (int64 trips, float[1, 3] x) => (float[M, 3] y) {
    start = Constant <value = bool {1}> ()
    y = Loop (trips, start, x) <
        body = step (int64 i, bool go, float[K, 3] rows) => (bool on, float[L, 3] more) {
            on = Identity (go)
            twice = Add (x, x)
            more = Concat <axis = 0> (rows, twice)
        }
    >
}
"""

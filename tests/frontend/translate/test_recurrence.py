"""RNN, GRU and LSTM: every attribute means what ONNX's equations say, one step after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from autotune.errors import ModelError
from autotune.graph.evaluation import evaluate
from tests.frontend.onnx_case import assert_same, imported, single

STEPS, BATCH, INPUTS, WIDTH = 5, 3, 4, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
Numbers = np.ndarray
Function = Callable[[Numbers], Numbers]

FUNCTIONS: dict[str, Function] = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "Elu": lambda x: np.where(x < 0, np.exp(x) - 1, x),
    "ScaledTanh": np.tanh,
    "ThresholdedRelu": lambda x: np.where(x > 1, x, 0),
    "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x),
    "Affine": lambda x: x,
}
"""ONNX's activations with the numbers that they have where a model gives none."""


def drawn(operator: str, directions: int, seed: int = 0) -> list[Numbers]:
    """x, w, r, b, lengths, initial states and peepholes; layout 0."""
    rng = np.random.default_rng(seed)
    rows = GATES[operator] * WIDTH
    shapes = [(STEPS, BATCH, INPUTS), (directions, rows, INPUTS), (directions, rows, WIDTH)]
    shapes += [(directions, 2 * rows), (directions, BATCH, WIDTH), (directions, BATCH, WIDTH)]
    found = [rng.standard_normal(s).astype(np.float32) for s in (*shapes, (directions, 3 * WIDTH))]
    return [*found[:4], np.asarray([5, 2, 3], np.int32), *found[4:]]


def by_definition(operator: str, inputs: list, way: int, attrs: dict) -> tuple[Numbers, ...]:
    """One direction by ONNX's equations, every sequence for itself: Y [steps, batch, width] and the
    last states."""
    x, w, r, b, lengths, h0, c0, peepholes = inputs
    names = attrs.get("activations", DEFAULTS[operator] * w.shape[0])
    f, g, h_function = (
        [FUNCTIONS[n] for n in names][way * len(DEFAULTS[operator]) :] + [None] * 2
    )[:3]
    limit = attrs.get("clip", np.inf)
    backward = attrs.get("direction") == "reverse" or way == 1
    y = np.zeros((STEPS, BATCH, WIDTH))
    last = [np.zeros((BATCH, WIDTH)) for _ in range(2)]
    clipped = lambda v: np.clip(v, -limit, limit)  # noqa: E731  # one expression
    for n in range(BATCH):
        h, c = h0[way, n].astype(np.float64), c0[way, n].astype(np.float64)
        times = range(int(lengths[n]))
        for t in reversed(times) if backward else times:
            from_x = np.split(w[way] @ x[t, n] + np.split(b[way], 2)[0], GATES[operator])
            rb = np.split(np.split(b[way], 2)[1], GATES[operator])
            rows = np.split(r[way], GATES[operator])
            own = [m @ h + bias for m, bias in zip(rows, rb, strict=True)]
            if operator == "RNN":
                h = f(clipped(from_x[0] + own[0]))
            elif operator == "GRU":
                z, reset = (f(clipped(from_x[k] + own[k])) for k in (0, 1))
                linear = attrs.get("linear_before_reset", 0)
                kept = reset * own[2] if linear else rows[2] @ (reset * h) + rb[2]
                h = (1 - z) * g(clipped(from_x[2] + kept)) + z * h
            else:
                pi, po, pf = np.split(peepholes[way], 3)
                total = [a + o for a, o in zip(from_x, own, strict=True)]
                enter = f(clipped(total[0] + pi * c))
                keep = 1 - enter if attrs.get("input_forget") else f(clipped(total[2] + pf * c))
                c = keep * c + enter * g(clipped(total[3]))
                h = f(clipped(total[1] + po * c)) * h_function(clipped(c))
            y[t, n] = h
        last[0][n], last[1][n] = h, c
    return y, *last


def node_of(operator: str, inputs: list, constant: tuple[int, ...], **attrs: object):
    """A one-node model of which all outputs are used, and what to feed it."""
    model, feeds = single(operator, inputs, 14, constant, hidden_size=WIDTH, **attrs)
    outputs = ["y", "y_h", "y_c"][: 3 if operator == "LSTM" else 2]
    model.graph.node[0].output[:] = outputs
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, []) for name in outputs
    )
    return model, feeds


def assert_as_defined(operator: str, inputs: list, constant: tuple[int, ...], **attrs) -> None:
    """All outputs against the equations, in both layouts."""
    ways = [by_definition(operator, inputs, way, attrs) for way in range(inputs[1].shape[0])]
    y = np.stack([way[0] for way in ways], axis=1)
    states = [np.stack([way[1 + k] for way in ways]) for k in range(2)]
    given = inputs[: 8 if operator == "LSTM" else 6]
    model, feeds = node_of(operator, given, constant, **attrs)
    found = evaluate(imported(model), feeds)
    for name, wanted in zip(["y", "y_h", "y_c"], [y, *states], strict=True):
        if name in found:
            np.testing.assert_allclose(found[name], wanted, rtol=2e-5, atol=2e-6)


CASES = [
    ("RNN", {}),
    ("RNN", {"direction": "reverse", "clip": 0.5}),
    ("RNN", {"direction": "bidirectional", "activations": ["Relu", "Softsign"]}),
    ("GRU", {}),
    ("GRU", {"direction": "bidirectional", "linear_before_reset": 1}),
    ("GRU", {"direction": "reverse", "activations": ["HardSigmoid", "Elu"], "clip": 0.7}),
    ("LSTM", {}),
    ("LSTM", {"direction": "bidirectional", "clip": 0.6}),
    ("LSTM", {"direction": "reverse", "input_forget": 1}),
    ("LSTM", {"activations": ["HardSigmoid", "Softplus", "ScaledTanh"]}),
]


@pytest.mark.parametrize("constant", [(1, 2, 3, 4), ()], ids=["known", "at-run-time"])
@pytest.mark.parametrize(("operator", "attrs"), CASES)
def test_sequences_of_any_length_agree_with_the_equations(operator, attrs, constant) -> None:
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    assert_as_defined(operator, drawn(operator, directions), constant, **attrs)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_activation_is_its_function(name: str) -> None:
    assert_as_defined("RNN", drawn("RNN", 1), (1, 2, 3, 4), activations=[name])


@settings(max_examples=20, deadline=None)
@given(
    operator=st.sampled_from(sorted(GATES)),
    way=st.sampled_from(["forward", "reverse", "bidirectional"]),
    lengths=st.lists(st.integers(0, STEPS), min_size=BATCH, max_size=BATCH),
    seed=st.integers(0, 99),
)
def test_lengths_cut_every_sequence_for_itself(operator, way, lengths, seed) -> None:
    inputs = drawn(operator, 2 if way == "bidirectional" else 1, seed)
    inputs[4] = np.asarray(lengths, np.int32)
    assert_as_defined(operator, inputs, (1, 2, 3), direction=way)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("way", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", sorted(GATES))
def test_layouts_and_directions_agree_with_onnx_reference(operator, way, layout) -> None:
    x, w, r, b, _, h, c, peepholes = drawn(operator, 2 if way == "bidirectional" else 1)
    if layout:
        x, h, c = (np.ascontiguousarray(v.swapaxes(0, 1)) for v in (x, h, c))
    inputs = [x, w, r, b, None, h, c, peepholes][: 8 if operator == "LSTM" else 6]
    model, feeds = node_of(operator, inputs, (1, 2, 3), direction=way, layout=layout)
    assert_same(model, feeds)


def test_alpha_and_beta_go_to_the_functions_that_take_them() -> None:
    inputs = drawn("LSTM", 1)
    inputs[4][:] = STEPS
    given = {"activations": ["HardSigmoid", "Tanh", "ScaledTanh"]}
    named = {"activation_alpha": [0.3, 1.7], "activation_beta": [0.4, 0.6]}
    model, feeds = node_of("LSTM", inputs, (1, 2, 3), **given, **named)
    mine = {
        "HardSigmoid": lambda x: np.clip(0.3 * x + 0.4, 0, 1),
        "ScaledTanh": lambda x: 1.7 * np.tanh(0.6 * x),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, function in mine.items():
            patch.setitem(FUNCTIONS, name, function)
        wanted, _, _ = by_definition("LSTM", inputs, 0, given)
    np.testing.assert_allclose(
        evaluate(imported(model), feeds)["y"][:, 0], wanted, rtol=2e-5, atol=2e-6
    )


def test_the_last_state_alone_may_be_used() -> None:
    inputs = drawn("LSTM", 1)
    model, feeds = node_of("LSTM", inputs, (1, 2, 3, 4))
    model.graph.node[0].output[:] = ["", "y_h"]
    del model.graph.output[0], model.graph.output[1:]
    found = evaluate(imported(model), feeds)
    np.testing.assert_allclose(
        found["y_h"][0], by_definition("LSTM", inputs, 0, {})[1], rtol=2e-5, atol=2e-6
    )


@pytest.mark.parametrize("outputs", [["y", "", "y_c"], ["y", "y_h", ""], ["", "", "y_c"]])
def test_outputs_left_out_beside_inputs_left_out_are_not_asked_for(outputs: list[str]) -> None:
    inputs = drawn("LSTM", 1)
    inputs[4] = None
    model, feeds = node_of("LSTM", inputs, (1, 2, 3))
    whole = evaluate(imported(model), feeds)
    model.graph.node[0].output[:] = outputs
    for place in reversed([k for k, name in enumerate(outputs) if not name]):
        del model.graph.output[place]
    found = evaluate(imported(model), feeds)
    assert list(found) == [name for name in outputs if name]
    for name, value in found.items():
        np.testing.assert_array_equal(value, whole[name])


def test_all_steps_read_their_input_through_one_product() -> None:
    model, _ = node_of("LSTM", drawn("LSTM", 1), (1, 2, 3, 4))
    products = [op for op in imported(model).ops if op.kind == "matmul"]
    assert len(products) == 1 + STEPS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activations": ["Cosine"]}, "'Cosine' is not known; known are affine, elu"),
        ({"activations": ["Tanh", "Tanh"]}, "needs 1 activations, got 2"),
        ({"activation_alpha": [1.0, 2.0]}, "2 numbers for 0 functions"),
        ({"direction": "sideways"}, "direction 'sideways'; known are forward, reverse"),
        ({"direction": "bidirectional"}, r"shape \[1, 2, 4\], not \[2, 2, 4\]"),
    ],
)
def test_what_means_nothing_is_refused_by_name(change: dict, message: str) -> None:
    model, _ = node_of("RNN", drawn("RNN", 1)[:6], (), **change)
    with pytest.raises(ModelError, match=message):
        imported(model)


def test_sequences_beyond_the_limit_are_refused_with_it() -> None:
    inputs = [np.zeros((1025, 1, 1), np.float32), *(np.zeros((1, 1, 1), np.float32),) * 2]
    model, _ = single("RNN", inputs, 14, hidden_size=1)
    with pytest.raises(ModelError, match="over 1025 steps; sequences are unrolled up to 1024"):
        imported(model)

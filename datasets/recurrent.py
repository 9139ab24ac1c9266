"""LSTM and GRU: cells unrolled over some steps, in the nodes that exporters trace them into, and layers of
ONNX's own operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from autotune.datasets.exporter import Exporter, floats


def lstm(
    steps: int = 8, batch: int = 1, inputs: int = 128, width: int = 256, seed: int = 0
) -> onnx.ModelProto:
    """``x`` [steps, batch, inputs] and states ``h``, ``c`` [batch, width] to all hidden states ``y``
    [steps, batch, width] and the last states ``h_last``, ``c_last``."""
    export = Exporter(np.random.default_rng(seed))
    gates = _gates(export, inputs, width, 4)
    h, c, hidden = "h", "c", list[str]()
    for step in range(steps):
        last = step == steps - 1
        x = _step(export, step)
        total = export.node("Add", gates("x", x), gates("h", h))
        names = ("h_last", "c_last") if last else (None, None)
        h, c = _lstm_cell(export, total, c, width, *names)
        hidden.append(_unsqueezed(export, h, step))
    export.node("Concat", *hidden, output="y", axis=0)
    state, shape = floats((batch, width)), (steps, batch, inputs)
    return export.typed_model(
        "lstm",
        {"x": floats(shape), "h": state, "c": state},
        {"y": floats((steps, batch, width)), "h_last": state, "c_last": state},
    )


def gru(
    steps: int = 8, batch: int = 1, inputs: int = 128, width: int = 256, seed: int = 0
) -> onnx.ModelProto:
    """``x`` [steps, batch, inputs] and the state ``h`` [batch, width] to all hidden states ``y``
    [steps, batch, width] and the last one ``h_last``."""
    export = Exporter(np.random.default_rng(seed))
    gates = _gates(export, inputs, width, 3)
    h, hidden = "h", list[str]()
    for step in range(steps):
        x = _step(export, step)
        h = _gru_cell(
            export, gates("x", x), gates("h", h), h, width, "h_last" if step == steps - 1 else None
        )
        hidden.append(_unsqueezed(export, h, step))
    export.node("Concat", *hidden, output="y", axis=0)
    state = floats((batch, width))
    return export.typed_model(
        "gru",
        {"x": floats((steps, batch, inputs)), "h": state},
        {"y": floats((steps, batch, width)), "h_last": state},
    )


def lstm_layer(
    steps: int = 16, batch: int = 1, inputs: int = 128, width: int = 128, seed: int = 0
) -> onnx.ModelProto:
    """A bidirectional layer of ONNX's LSTM with its states given: ``x`` [steps, batch, inputs], ``h``
    and ``c`` [2, batch, width] to ``y`` [steps, batch, 2 · width] and the last states."""
    return _layer("LSTM", 4, 2, ("h", "c"), (steps, batch, inputs, width), seed)


def gru_layer(
    steps: int = 16, batch: int = 1, inputs: int = 128, width: int = 256, seed: int = 0
) -> onnx.ModelProto:
    """A layer of ONNX's GRU, the reset gate behind the product as PyTorch exports it: ``x`` [steps,
    batch, inputs] and ``h`` [1, batch, width] to ``y`` [steps, batch, width] and the last state."""
    return _layer("GRU", 3, 1, ("h",), (steps, batch, inputs, width), seed, linear_before_reset=1)


def _layer(
    operator: str,
    gates: int,
    directions: int,
    states: tuple[str, ...],
    extents: tuple[int, int, int, int],
    seed: int,
    **attrs: int | str,
) -> onnx.ModelProto:
    """One recurrent operator, and the directions side by side as PyTorch's modules give them."""
    steps, batch, inputs, width = extents
    export = Exporter(np.random.default_rng(seed))
    rows = gates * width
    weights = (
        export.normal("w", (directions, rows, inputs), inputs**-0.5),
        export.normal("r", (directions, rows, width), width**-0.5),
        export.normal("b", (directions, 2 * rows), 0.1),
    )
    outputs = ["all", *(f"{state}_last" for state in states)]
    if directions == 2:
        attrs["direction"] = "bidirectional"
    export.nodes.append(
        helper.make_node(
            operator,
            ["x", *weights, "", *states],
            outputs,
            name=operator.lower(),
            hidden_size=width,
            **attrs,
        )
    )
    beside = export.node("Transpose", "all", perm=[0, 2, 1, 3])
    export.node("Reshape", beside, export.integers("shape", 0, 0, -1), output="y")
    state = floats((directions, batch, width))
    return export.typed_model(
        operator.lower() + "_layer",
        {"x": floats((steps, batch, inputs)), **dict.fromkeys(states, state)},
        {
            "y": floats((steps, batch, directions * width)),
            **{f"{name}_last": state for name in states},
        },
    )


def _gates(export: Exporter, inputs: int, width: int, count: int) -> Callable[[str, str], str]:
    """All gates' products with the input (``x``) or the state (``h``) at once, weights shared by all
    steps."""
    weights = {
        "x": export.weight("x_w", inputs, count * width),
        "h": export.weight("h_w", width, count * width),
    }
    biases = {source: export.vector(f"{source}_b", count * width) for source in weights}

    def gates(source: str, value: str) -> str:
        return export.node("Add", export.node("MatMul", value, weights[source]), biases[source])

    return gates


def _lstm_cell(
    export: Exporter, total: str, c: str, width: int, h_name: str | None, c_name: str | None
) -> tuple[str, str]:
    """Hidden and cell state behind one step (Hochreiter and Schmidhuber 1997, with the forget gate of
    Gers et al. 2000, doi:10.1162/089976600300015015); gates are cut out in the order input, forget,
    cell, output."""
    parts = [export.slice(total, gate * width, (gate + 1) * width) for gate in range(4)]
    enter, forget, leave = (export.node("Sigmoid", parts[gate]) for gate in (0, 1, 3))
    fresh = export.node("Mul", enter, export.node("Tanh", parts[2]))
    c = export.node("Add", export.node("Mul", forget, c), fresh, output=c_name)
    return export.node("Mul", leave, export.node("Tanh", c), output=h_name), c


def _gru_cell(
    export: Exporter, from_x: str, from_h: str, h: str, width: int, name: str | None
) -> str:
    """The state behind one step (Cho et al. 2014, arXiv:1406.1078; the reset gate behind the
    product); gates are in the order reset, update, new."""
    both = [
        [export.slice(x, gate * width, (gate + 1) * width) for gate in range(3)]
        for x in (from_x, from_h)
    ]
    reset, update = (
        export.node("Sigmoid", export.node("Add", both[0][gate], both[1][gate])) for gate in (0, 1)
    )
    kept = export.node("Mul", reset, both[1][2])
    new = export.node("Tanh", export.node("Add", both[0][2], kept))
    one = export.number(f"one_{len(export.nodes)}", 1.0)
    fresh = export.node("Mul", export.node("Sub", one, update), new)
    return export.node("Add", fresh, export.node("Mul", update, h), output=name)


def _step(export: Exporter, step: int) -> str:
    """The input [batch, inputs] of one step."""
    return export.node("Gather", "x", export.integer(f"step{step}", step), axis=0)


def _unsqueezed(export: Exporter, x: str, step: int) -> str:
    return export.node("Unsqueeze", x, export.integers(f"axis{step}", 0))

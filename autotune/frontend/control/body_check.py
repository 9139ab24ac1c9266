"""Checks that the bodies of control flow match their nodes, before folding relies on it."""

from __future__ import annotations

import onnx

from autotune.errors import ModelError
from autotune.frontend.subgraphs import CONTROL, bodies_of, is_control, label_of


def check_bodies(model: onnx.ModelProto) -> None:
    """Refuse bodies, at any depth, whose inputs and outputs do not match their node. Raises
    ``ModelError``."""
    _check_nodes(model.graph, "")


def _check_nodes(graph: onnx.GraphProto, inside: str) -> None:
    """Check the control nodes of a graph; ``inside`` is a suffix that names the node around it."""
    for index, node in enumerate(graph.node):
        if not is_control(node):
            continue
        label = f"{label_of(node, index)}{inside}"
        if not any(node.output):
            raise ModelError(f"{label}: {node.op_type} has no output; the file is damaged")
        first = 2 if node.op_type == "Loop" else 0
        if node.op_type in CONTROL and not all(node.input[first:]):
            raise ModelError(
                f"{label}: an input of {node.op_type} has no name; the file is damaged"
            )
        if node.op_type in CONTROL:
            _check_bodies(node, label)
        for body in bodies_of(node):
            _check_nodes(body, f" in the body {body.name!r} of {label}")


def _check_bodies(node: onnx.NodeProto, label: str) -> None:
    scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
    inputs, fixed = {
        "If": (0, 0),
        "Loop": (max(2, len(node.input)), 1),
        "Scan": (len(node.input), 0),
    }[node.op_type]
    carried = 0 if node.op_type == "If" else inputs - 2 * fixed - scanned
    for body in bodies_of(node):
        if (len(body.input), len(body.output)) != (inputs, fixed + len(node.output)) or not (
            0 <= carried <= len(node.output)
        ):
            raise ModelError(
                f"{label}: {node.op_type} hands {inputs} values to its body and gets "
                f"{fixed + len(node.output)} back, but the body takes {len(body.input)} and makes "
                f"{len(body.output)}; export the model again"
            )

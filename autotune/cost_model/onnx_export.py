"""A cost model's trees as an ONNX model of TreeEnsembleRegressor nodes, for ONNX Runtime and its like.

Floats may differ from ours in their last bits: a runtime adds trees in the order that it likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from autotune.cost_model.forest import Forest

_ML_OPSET, _OPSET, _IR = 3, 17, 8


def export_onnx(
    machine: str, feature_names: Sequence[str], trees: Mapping[str, Forest]
) -> onnx.ModelProto:
    """Return a model from ``features`` float32 [n, F] to one output [n, 1] for each forest, by its name."""
    rows = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", len(feature_names)])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in trees]
    nodes = [
        helper.make_node(
            "TreeEnsembleRegressor",
            ["features"],
            [name],
            domain="ai.onnx.ml",
            **_attributes(forest),
        )
        for name, forest in trees.items()
    ]
    graph = helper.make_graph(nodes, "cost_model", [rows], outputs)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR, producer_name="autotune")
    helper.set_model_props(model, {"machine": machine, "features": ",".join(feature_names)})
    return model


def _attributes(forest: Forest) -> dict[str, Any]:
    """Return the attributes of one node; ids count from each tree's root."""
    sizes = np.diff(np.append(forest.roots, len(forest.feature)))
    tree = np.repeat(np.arange(len(sizes)), sizes)
    node = np.arange(len(forest.feature)) - forest.roots[tree]
    inner = forest.feature >= 0
    left = np.where(inner, forest.left - forest.roots[tree], 0)
    leaves = ~inner
    return {
        "n_targets": 1,
        "base_values": [forest.base],
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": node.tolist(),
        "nodes_modes": np.where(inner, "BRANCH_LT", "LEAF").tolist(),
        "nodes_featureids": np.maximum(forest.feature, 0).tolist(),
        "nodes_values": np.where(inner, forest.value, 0.0).tolist(),
        "nodes_truenodeids": left.tolist(),
        "nodes_falsenodeids": np.where(inner, left + 1, 0).tolist(),
        "nodes_missing_value_tracks_true": forest.nan_left.tolist(),
        "target_treeids": tree[leaves].tolist(),
        "target_nodeids": node[leaves].tolist(),
        "target_ids": [0] * int(leaves.sum()),
        "target_weights": forest.value[leaves].tolist(),
    }

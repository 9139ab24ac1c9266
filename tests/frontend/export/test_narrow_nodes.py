"""Products of 8-bit integers leave as products of numbers less their zero points."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from autotune.frontend.export.model import export_model
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.operators.op import OpKind


@pytest.mark.parametrize("kind", ["conv", "channels last", "matmul", "turned"])
def test_an_exported_narrow_product_computes_the_same(kind: str) -> None:
    rng, b = np.random.default_rng(1), GraphBuilder("g")
    zeros = {"a_zero": 7, "b_zero": -2}

    def weight(*shape: int) -> str:
        return b.constant(rng.integers(-128, 128, shape), "w")

    if kind in ("matmul", "turned"):
        x = b.input("x", (3, 5))
        turned = int(kind == "turned")
        w = weight(4, 5) if turned else weight(5, 4)
        y = b.add(OpKind.MATMUL, x, w, trans_b=turned, **zeros)
    else:
        last = int(kind == "channels last")
        x = b.input("x", (1, 6, 6, 3) if last else (1, 3, 6, 6))
        w = weight(3, 3, 3, 4) if last else weight(4, 3, 3, 3)
        y = b.add(OpKind.CONV, x, w, pads=(1,) * 4, channels_last=last, **zeros)
    graph = b.build([y])
    fed = {"x": rng.integers(0, 256, graph.shape("x")).astype(np.float32)}
    session = onnxruntime.InferenceSession(export_model(graph), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, fed)
    np.testing.assert_array_equal(got, evaluate(graph, fed)[y])

"""What a session that runs by a plan does not import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

HEAVY = ("xgboost", "sklearn", "scipy", "optuna", "sqlalchemy", "networkx")


def test_a_session_imports_nothing_that_only_learning_and_search_need() -> None:
    code = f"import sys, autotune.runtime.session.session; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_writers_of_code_are_imported_where_there_is_none_yet() -> None:
    names = [f"autotune.targets.native.codegen.{x}" for x in ("gemm", "gemm_tile", "rows")]
    code = f"import sys, autotune.runtime.session.session; print([m for m in {names} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


COMPILERS = (
    *("onnx", "concurrent.futures", "tomllib", "autotune.graph.passes", "autotune.fusion.nest"),
    *("autotune.lowering.lower", "autotune.isa.verifier.proof", "autotune.tuner.heuristic_plan"),
    *("autotune.targets.native.binding.binding", "autotune.targets.native.codegen.kernel_spec"),
)
WARM = """if True:
    import sys
    from pathlib import Path
    import numpy as np
    from autotune.runtime.caches import network_cache, table_cache
    from autotune.runtime.session.session import Session

    network_cache.cache_folder = table_cache.cache_folder = lambda: Path(sys.argv[2])
    now = network_cache.now_ns
    network_cache.now_ns = lambda: now() + 3600 * 10**9  # as if the file were not new
    with Session(sys.argv[1], target="cpu", threads=1) as session:
        session.run({"x": np.ones((4, 8), np.float32)})
    print([m for m in sys.argv[3:] if m in sys.modules])
"""


def test_a_session_over_a_kept_network_imports_nothing_that_only_compiling_needs(
    tmp_path: Path,
) -> None:
    pytest.importorskip("llvmlite")
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, [4, 8]) for e in ("x", "y")]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], [weight])
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    call = [sys.executable, "-c", WARM, str(path), str(tmp_path / "kept"), *COMPILERS]
    home = os.environ | {"AUTOTUNE_HOME": str(tmp_path / "home")}  # the user's may have the program
    first, later = (
        subprocess.run(call, env=home, capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    )
    assert "autotune.lowering.lower" in first
    assert later == "[]"

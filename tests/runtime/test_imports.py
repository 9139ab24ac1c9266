"""What a session that runs by a plan does not import."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("xgboost", "sklearn", "scipy", "optuna", "sqlalchemy", "networkx", "plotly")


def test_a_session_imports_nothing_that_only_learning_and_search_need() -> None:
    code = f"import sys, autotune.runtime.session; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_writers_of_code_are_imported_where_there_is_none_yet() -> None:
    names = [f"autotune.targets.native.codegen.{x}" for x in ("gemm", "gemm_tile", "rows")]
    code = f"import sys, autotune.runtime.session; print([m for m in {names} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

"""Imports inside functions: each is listed here with the start-up time that it saves.

A room joins by a line in ``ROOMS`` and a reason for each of its imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import autotune

PACKAGE = Path(autotune.__file__).parent
ROOMS = ("runtime", "disk", "adapters", "api")

ONNX = "a session over a cached network imports no ONNX"
LEARNING = "only online learning fits, searches and stores"
FUSION = "a session over a cached table neither fuses nor lowers"
DEFECT = "only a group that cannot be built is attempted again"
CHECK = "only a check draws inputs or runs the reference"
CLASSES = "only sessions with classes of inputs, stated or learned, build variants"
DEVICES = "most sessions have one device"
TORCH = "PyTorch is optional and takes seconds to import"

REASONS = {
    ("adapters/extra.py", "autotune.adapters.exported_network"): TORCH,
    ("adapters/extra.py", "autotune.adapters.inference_module"): TORCH,
    ("adapters/extra.py", "autotune.adapters.subgraph"): TORCH,
    ("adapters/inference_session.py", "autotune.frontend.model_file"): ONNX,
    (
        "runtime/builder/limits.py",
        "autotune.targets.native.compiling.compiler",
    ): "only the default of cores asks whether LLVM may run in several threads",
    ("runtime/builder/payoff.py", "autotune.tuner.reasons.on_chip_tensors"): FUSION,
    ("runtime/builder/splitting.py", "autotune.measure.attempt"): DEFECT,
    ("runtime/builder/splitting.py", "autotune.schedule.heuristic"): DEFECT,
    ("runtime/builder/splitting.py", "autotune.tuner.heuristic_plan"): DEFECT,
    ("runtime/builder/splitting.py", "autotune.tuner.legality"): DEFECT,
    ("runtime/caches/network_cache.py", "autotune.frontend.model_file"): ONNX,
    ("runtime/execution/native_table.py", "autotune.runtime.execution.concat_aliasing"): FUSION,
    ("runtime/execution/program_cache.py", "autotune.lowering.lower"): FUSION,
    (
        "runtime/online/apart.py",
        "autotune.measure.orphan",
    ): "only a process that fits models needs it",
    (
        "runtime/profile/status_writer.py",
        "autotune.runtime.profile.status_file",
    ): "no session waits for it",
    ("runtime/session/defaults.py", "autotune.datasets"): "only a shipped network is built",
    ("runtime/session/factory.py", "autotune.frontend.importing"): ONNX,
    ("runtime/session/factory.py", "autotune.runtime.session.dynamic"): ONNX,
    ("runtime/session/graph_session.py", "autotune.runtime.execution.random_inputs"): CHECK,
    ("runtime/session/graph_session.py", "autotune.runtime.execution.reference_session"): CHECK,
    ("runtime/session/initial_table.py", "autotune.runtime.builder.plan_build"): FUSION,
    ("runtime/session/initial_table.py", "autotune.runtime.caches.schedule_cache"): FUSION,
    ("runtime/session/initial_table.py", "autotune.runtime.devices.placed_table"): DEVICES,
    ("runtime/session/initial_table.py", "autotune.runtime.online.learning"): LEARNING,
    ("runtime/session/initial_table.py", "autotune.store.store"): LEARNING,
    (
        "runtime/session/graph_session.py",
        "autotune.runtime.session.saved_plan",
    ): "only a session that keeps its plan needs it",
    ("runtime/session/initial_table.py", "autotune.cost_model.shipped"): LEARNING,
    ("runtime/session/learners.py", "autotune.runtime.devices.placed_runs"): DEVICES,
    ("runtime/session/learners.py", "autotune.runtime.guards.assumptions"): CLASSES,
    ("runtime/session/learners.py", "autotune.runtime.guards.specialiser"): CLASSES,
    ("runtime/session/learners.py", "autotune.runtime.online.learning"): LEARNING,
    ("runtime/session/learners.py", "autotune.runtime.online.live_tuning"): LEARNING,
    ("runtime/session/learners.py", "autotune.runtime.online.planning"): LEARNING,
    ("runtime/session/learners.py", "autotune.runtime.session.compile_queue"): CLASSES,
    ("runtime/session/learners.py", "autotune.runtime.session.specialisation"): CLASSES,
    ("runtime/session/saved_plan.py", "autotune.cost_model.shipped"): LEARNING,
    (
        "runtime/session/session.py",
        "autotune.runtime.session.saved_plan",
    ): "only a session that keeps its plan needs it",
    ("runtime/session/opening.py", "autotune.cost_model.shipped"): LEARNING,
    ("runtime/session/opening.py", "autotune.frontend.importing"): ONNX,
    ("runtime/session/opening.py", "autotune.graph.passes"): ONNX,
    ("runtime/session/request.py", "autotune.runtime.guards.assumptions"): CLASSES,
}
"""Reason of each import by file and imported module."""


def files_of(room: str) -> Iterator[Path]:
    place = PACKAGE / room
    yield from [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))


def function_imports(path: Path) -> set[tuple[str, str]]:
    """File and module of our own modules that functions of a file import."""
    functions = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    inner = [node for function in functions for node in ast.walk(function)]
    names = [node.module or "" for node in inner if isinstance(node, ast.ImportFrom)]
    names += [a.name for node in inner if isinstance(node, ast.Import) for a in node.names]
    file = path.relative_to(PACKAGE).as_posix()
    return {(file, name) for name in names if name.split(".")[0] == "autotune"}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_inside_functions_are_listed_with_their_reason(room: str) -> None:
    found = {row for path in files_of(room) for row in function_imports(path)}
    listed = {row for row in REASONS if row[0] == room or row[0].startswith(f"{room}/")}
    assert found == listed


def test_an_import_in_a_function_is_seen_wherever_it_stands() -> None:
    assert ("runtime/session/factory.py", "autotune.frontend.importing") in function_imports(
        PACKAGE / "runtime/session/factory.py"
    )
    assert not function_imports(PACKAGE / "disk/cache.py")

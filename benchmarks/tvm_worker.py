"""Tunes an ONNX file with TVM's MetaSchedule, or times what was tuned; the interpreter is TVM's own.

Arguments: `tune` or `time-tune`, the folder of `task.onnx`, trials. Prints one JSON object; what TVM
prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.s_tir import meta_schedule
from tvm.target.codegen import llvm_get_system_cpu

LIBRARY = "tuned.so"
SECONDS = 0.5
"""Of timed runs."""
BUILD_SECONDS = 120.0
"""After which a candidate's build is given up: TVM's 30 are too few on a busy machine."""


def target() -> tvm.target.Target:
    """This CPU, one thread."""
    return tvm.target.Target({"kind": "llvm", "mcpu": llvm_get_system_cpu(), "num-cores": 1})


def imported(folder: Path) -> tuple[tvm.IRModule, list[tvm.runtime.Tensor]]:
    """The module and the weights, which are arguments: constants of a megabyte make the tuner write
    and hash them as text, which takes minutes before the first trial."""
    module = from_onnx(onnx.load(folder / "task.onnx"), keep_params_in_input=True)
    module, weights = relax.frontend.detach_params(relax.get_pipeline("zero")(module))
    return module, weights["main"]


def tune(folder: Path, trials: int) -> dict[str, float]:
    """Seconds of tuning, wall clock, from the imported module to the compiled library."""
    module, _ = imported(folder)
    start = time.perf_counter()
    work = str(folder / "tvm")
    builder = meta_schedule.builder.LocalBuilder(timeout_sec=BUILD_SECONDS)
    database = meta_schedule.relax_integration.tune_relax(
        module, {}, target(), work, trials, builder=builder
    )
    with target(), database, tvm.transform.PassContext(opt_level=3):
        module = relax.transform.MetaScheduleApplyDatabase()(module)
        built = tvm.compile(module, target=target())
    seconds = time.perf_counter() - start
    built.export_library(str(folder / LIBRARY))
    return {"seconds": seconds, "measurements": len(database.get_all_tuning_records())}


def timed(folder: Path) -> dict[str, float]:
    """Seconds of the fastest run."""
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / LIBRARY)), tvm.cpu())
    shape = [
        d.dim_value
        for d in onnx.load(folder / "task.onnx").graph.input[0].type.tensor_type.shape.dim
    ]
    x = tvm.runtime.tensor(
        np.random.default_rng(0).standard_normal(shape, dtype=np.float32), tvm.cpu()
    )
    _, weights = imported(folder)
    run = machine["main"]
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run(x, *weights)
        best = min(best, time.perf_counter() - start)
    return {"seconds": best}


def main() -> None:
    """Do what the first argument says."""
    mode, folder, trials = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    with contextlib.redirect_stdout(sys.stderr):
        found = tune(folder, trials) if mode == "tune" else timed(folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""How fast a cost model's trees answer: ours beside XGBoost, ONNX Runtime and TL2cgen in one run, on one thread.

    python -m benchmarks.trees [--markdown docs/figures-trees.md]

The trees are 200 of depth 5 over 54 features, as a calibration trains them. All take turns over the
same drawn rows; each one's fastest turn counts, in CPU time. TL2cgen runs in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import xgboost as xgb

from autotune.cost_model.c_export import export_c
from autotune.cost_model.forest import Forest
from autotune.cost_model.onnx_export import export_onnx
from autotune.cost_model.training import WIDEST
from benchmarks.table import Table

FEATURES, TRAINED_ROWS, BULK_ROWS, SINGLE_ROWS, TURNS = 54, 20_000, 20_000, 1_000, 5
PEER = Path(".bench/trees/bin/python")
WORKER = Path(__file__).with_name("trees_worker.py")
NOTE = (
    "`make bench-trees` writes this page. Times are CPU time; the last column is the share of rows "
    "that equal XGBoost's bit for bit: other engines add the trees in another order."
)
SAMPLE = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>
#include "trees.h"
static float rows[{rows}][TREES_FEATURES];
int main(void) {{
    if (fread(rows, sizeof rows, 1, stdin) != 1) return 1;
    double best = 1, total = 0;
    for (int turn = 0; turn < {turns}; turn++) {{
        struct timespec from, to;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        for (int i = 0; i < {rows}; i++) total += trees_trees(TREES_CYCLES, rows[i]);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        double took = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        if (took < best) best = took;
    }}
    printf("%.9e %.9e", best / {rows}, total);
    return 0;
}}
"""


def train() -> tuple[xgb.Booster, npt.NDArray[np.float32]]:
    """Train on drawn rows; return the trees and other rows [n, F]."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(TRAINED_ROWS + BULK_ROWS, FEATURES))
    x[:, :20] = np.round(np.exp(x[:, :20]))
    y = np.tanh(x[:, :20]).sum(axis=1) + x[:, 20] * x[:, 21] + 0.1 * rng.normal(size=len(x))
    parameters = {
        "objective": "reg:pseudohubererror",
        "huber_slope": 0.1,
        "max_depth": 5,
        "max_bin": 128,
        "eta": 0.1,
        "subsample": 0.8,
        "colsample_bytree": 0.5,
        "min_child_weight": 0.05,
        "base_score": float(y.mean()),
        "nthread": 1,
        "verbosity": 0,
    }
    matrix = xgb.DMatrix(x[:TRAINED_ROWS], y[:TRAINED_ROWS], nthread=1)
    return xgb.train(parameters, matrix, 200), x[TRAINED_ROWS:].astype(np.float32)


Predict = Callable[[npt.NDArray[np.float32]], object]


def time_in_turns(peers: dict[str, Predict], x: npt.NDArray[np.float32]) -> dict[str, list[float]]:
    """Return microseconds a row of each peer: one row at a time, and all of them at once."""
    singles = [x[i : i + 1] for i in range(SINGLE_ROWS)]
    best = {name: [np.inf, np.inf] for name in peers}
    for _ in range(TURNS):
        for name, predict in peers.items():
            start = time.process_time()
            for row in singles:
                predict(row)
            middle = time.process_time()
            predict(x)
            took = (middle - start) / len(singles), (time.process_time() - middle) / len(x)
            best[name] = [min(a, 1e6 * b) for a, b in zip(best[name], took, strict=True)]
    return best


def time_in_c(forest: Forest, x: npt.NDArray[np.float32]) -> float:
    """Return microseconds a row of the exported C, called row by row."""
    names = [f"x{i}" for i in range(forest.features)]
    trees = {"scale": forest, "cycles": forest}
    texts = export_c("trees", "benchmark", names, trees, 1.0, 1.0, WIDEST)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sample = SAMPLE.format(rows=SINGLE_ROWS, turns=TURNS)
        for name, text in zip(("trees.c", "trees.h", "main.c"), (*texts, sample), strict=True):
            (place / name).write_text(text)
        call = ["cc", "-std=c99", "-O3", "main.c", "trees.c", "-lm", "-o", "main"]
        subprocess.run(call, cwd=place, check=True)
        rows = np.ascontiguousarray(x[:SINGLE_ROWS]).tobytes()
        out = subprocess.run([place / "main"], input=rows, capture_output=True, check=True)
    return 1e6 * float(out.stdout.split()[0])


def time_tl2cgen(
    booster: xgb.Booster, x: npt.NDArray[np.float32], python: Path
) -> list[float] | None:
    """Return microseconds a row as ``time_in_turns`` does; None where TL2cgen is not installed."""
    if not python.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        booster.save_model(f"{folder}/model.json")
        np.save(f"{folder}/x.npy", x)
        call = [str(python), str(WORKER), folder, str(SINGLE_ROWS), str(TURNS)]
        out = subprocess.run(call, capture_output=True, text=True, check=False)
    if out.returncode:
        sys.exit(out.stderr)
    found: list[float] = json.loads(out.stdout.splitlines()[-1])
    return found


def measure(python: Path) -> Table:
    """Time everyone over the same trees and rows."""
    booster, x = train()
    forest = Forest.of(booster)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = export_onnx("benchmark", [f"x{i}" for i in range(FEATURES)], {"cycles": forest})
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    peers: dict[str, Predict] = {
        "autotune": forest.predict,
        "XGBoost, inplace_predict": booster.inplace_predict,
        "ONNX Runtime": lambda rows: session.run(None, {"features": rows}),
    }
    theirs = booster.inplace_predict(x)
    equal = {
        "autotune": float(np.mean(forest.predict(x) == theirs)),
        "XGBoost, inplace_predict": 1.0,
        "ONNX Runtime": float(np.mean(session.run(None, {"features": x})[0][:, 0] == theirs)),
    }
    found: dict[str, list[float] | None] = {**time_in_turns(peers, x)}
    tl2cgen = time_tl2cgen(booster, x, python)
    if tl2cgen is not None:
        equal["TL2cgen, gcc"] = tl2cgen.pop()
    found["TL2cgen, gcc"] = tl2cgen
    rows: list[tuple[str, ...]] = [("autotune, exported C", f"{time_in_c(forest, x):.2f}", "", "")]
    for name, times in found.items():
        cells = ["not installed", ""] if times is None else [f"{t:.2f}" for t in times]
        rows.append((name, *cells, f"{equal[name]:.0%}".replace("%", " %") if times else ""))
    columns = ("engine", "one row, µs", "bulk, µs a row", "bits of XGBoost")
    title = f"200 trees of depth 5 over {FEATURES} features, one thread; bulk: {BULK_ROWS:,} rows"
    return Table(title, columns, tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--tl2cgen", type=Path, default=PEER, help="a Python that has TL2cgen")
    options = parser.parse_args()
    table = measure(options.tl2cgen)
    print(table.text())
    if options.markdown is not None:
        text = f"# Trees of a cost model\n\n{NOTE}\n\n{table.markdown()}\n"
        options.markdown.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

"""Figures of ONNX Runtime as a target: networks that the cost model was not trained on, against their latency.

python -m benchmarks.model_ort [--markdown docs/figures-model.md]: after ``autotune calibrate --target ort``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.api import load_network
from autotune.cost_model.additive.dataset import OperatorRows, operator_rows
from autotune.cost_model.additive.features import operator_features
from autotune.cost_model.additive.model import AdditiveModel
from autotune.cost_model.additive.training import fit
from autotune.frontend.export.file_nodes import FileNodes
from autotune.fusion.group import Group
from autotune.store.store import Store
from autotune.targets.native.running.sampling import REST_SECONDS
from autotune.targets.native.running.target import host_reference
from autotune.targets.plugins.ort_engine import THREADS, open_engine, time_in_session
from autotune.targets.plugins.timing import ModelTiming
from autotune.tuner.file_groups import whole_group
from benchmarks.cpu_networks import NAMES, make_case
from benchmarks.machine import busy
from benchmarks.model_kept import KeptTarget, kept_targets
from benchmarks.model_page import page
from benchmarks.table import Table

FOLDS = 8
PASSES = 3
"""Sessions of each network, of whose latencies the median counts."""
LIMIT = 0.1


def measured_seconds(name: str, folder: Path) -> float:
    """Return the latency of a network's own file in ONNX Runtime on one thread of a calm machine."""
    case, machine = make_case(name, folder), open_engine()
    inputs = dict(np.load(case.inputs))
    call = time_in_session(case.network.read_bytes(), inputs)
    timing = ModelTiming(lambda: call, host_reference(THREADS))
    while (cost := timing.visit()) is None:
        time.sleep(REST_SECONDS)
    return cost.cycles / machine.clock_hz


def held_out(data: OperatorRows, graphs: dict[str, Group], seed: int = 0) -> dict[str, float]:
    """Return the predicted seconds of every network by models that saw none of its groups."""
    names = np.random.default_rng(seed).permutation(list(graphs)).tolist()
    predicted: dict[str, float] = {}
    for number in range(FOLDS):
        tested = names[number::FOLDS]
        own = np.isin(data.networks, tested)
        fitted = fit(data.take(~np.isin(data.keys, data.keys[own])), seed)
        for name in tested:
            each = fitted.operator_seconds(*operator_features(graphs[name]))
            predicted[name] = fitted.run_seconds + float(each.sum())
    return predicted


def exported_seconds(data: OperatorRows, graphs: dict[str, Group]) -> dict[str, float]:
    """Return the latency of networks as calibration measured it, among its groups: the file's nodes with drawn weights."""
    found = dict(zip(data.keys.tolist(), data.seconds.tolist(), strict=True))
    return {name: found[group.key] for name, group in graphs.items() if group.key in found}


def row(
    model: AdditiveModel,
    seconds: dict[str, float],
    exported: dict[str, float],
    predicted: dict[str, float],
) -> KeptTarget:
    """Return what docs/figures-model.md says of ONNX Runtime: groups and whole networks, all held out."""
    m, errors = model.metrics, _errors(seconds, predicted)
    against = _errors(exported, predicted)
    apart = _errors(seconds, exported)
    cells = (
        f"{m['formula_mape']:.1%}",
        f"{m['mape']:.1%}",
        "–",
        f"{m['within_10']:.1%}",
        *("–",) * 4,
        f"{m['coverage']:.1%}",
        f"{errors.mean():.1%}",
    )
    table = Table(
        "ort, by network:",
        ("held-out network", "measured, ms", "predicted / measured", "in calibration / measured"),
        tuple(
            (
                name,
                f"{seconds[name] * 1e3:.3f}",
                f"{predicted[name] / seconds[name]:.3f}",
                f"{exported[name] / seconds[name]:.3f}" if name in exported else "–",
            )
            for name in sorted(seconds)
        ),
    )
    text = (
        f"{m['n']:,.0f} groups, {FOLDS} folds by network. Median error of groups {m['median_error']:.1%}. Of "
        f"{len(seconds)} networks {np.mean(errors <= LIMIT):.1%} are within ±10 % of the latency of their file, the "
        f"mean error is {errors.mean():.1%}, the median {np.median(errors):.1%}, the worst ratios "
        f"{_worst(seconds, predicted)}. A calibration runs networks, too, with drawn weights: {np.mean(apart <= LIMIT):.1%} "
        f"of {len(apart)} took the same time within ±10 % then, which no prediction can surpass but by luck; of those times "
        f"{np.mean(against <= LIMIT):.1%} are predicted within ±10 %, the median error is {np.median(against):.1%}. {busy()}"
    )
    return KeptTarget(cells, f"{text}\n\n{table.markdown()}")


def _worst(seconds: dict[str, float], predicted: dict[str, float]) -> str:
    """Return the networks that are predicted far too short and far too long, with their ratios."""
    ratios = sorted((predicted[name] / seconds[name], name) for name in seconds)
    return " and ".join(f"{ratio:.2f} ({name})" for ratio, name in (ratios[0], ratios[-1]))


def _errors(seconds: dict[str, float], predicted: dict[str, float]) -> npt.NDArray[np.float64]:
    """Return the relative error of every network of both [n]."""
    both = sorted(seconds.keys() & predicted.keys())
    return np.array([abs(predicted[name] / seconds[name] - 1.0) for name in both])


def main() -> None:
    """Measure every network, predict it held out, and print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="store of the calibration; default: the user's")
    parser.add_argument("--networks", nargs="*", default=NAMES, help="shipped networks")
    parser.add_argument("--markdown", type=Path, help="also write the row of docs/figures-model.md")
    asked, machine = parser.parse_args(), open_engine()
    with Store.open(asked.store, reading=True) as store:
        records = store.records(machine.profile_id)
    data = operator_rows(records, machine.clock_hz)
    graphs, seconds = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.networks:
            passes = [measured_seconds(name, Path(folder)) for _ in range(PASSES)]
            seconds[name] = statistics.median(passes)
            graph = load_network(Path(folder) / f"{name}.onnx")
            graphs[name] = whole_group(graph, FileNodes.read(Path(folder) / f"{name}.onnx"))
    predicted = held_out(data, graphs)
    errors = _errors(seconds, predicted)
    for name in sorted(seconds, key=lambda name: abs(np.log(predicted[name] / seconds[name]))):
        ratio = predicted[name] / seconds[name]
        sys.stdout.write(f"| {name} | {seconds[name] * 1e3:.3f} | {ratio:.3f} |\n")
    sys.stdout.write(
        f"{len(errors)} networks: MAPE {errors.mean():.1%}, median {np.median(errors):.1%}, "
        f"within ±10 % {np.mean(errors <= LIMIT):.1%}\n"
    )
    if asked.markdown is not None:
        model = AdditiveModel.fit(records, machine.profile_id, machine.clock_hz, "ort", 0)
        kept = kept_targets(asked.markdown.read_text("utf-8"))
        found = {**kept, "ort": row(model, seconds, exported_seconds(data, graphs), predicted)}
        asked.markdown.write_text(page([], "images", found), "utf-8")


if __name__ == "__main__":
    main()

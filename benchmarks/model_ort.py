"""Figures of ONNX Runtime as a target: networks that the cost model was not trained on, against their latency.

python -m benchmarks.model_ort: after ``autotune calibrate --target ort`` with the shipped networks as --models.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from autotune.api import load_network
from autotune.cost_model.additive.dataset import OperatorRows, operator_rows
from autotune.cost_model.additive.features import operator_features
from autotune.cost_model.additive.training import fit
from autotune.cost_model.metrics import mape, median_error, within
from autotune.fusion.group import Group
from autotune.store.store import Store
from autotune.targets.plugins.registry import open_plugin
from autotune.targets.plugins.timing import ModelTiming
from benchmarks.cpu_networks import NAMES, make_case

FOLDS = 8
LIMIT = 0.1


def measured_seconds(name: str, folder: Path) -> float:
    """Return the latency of a network's own file in ONNX Runtime on one thread."""
    case, machine = make_case(name, folder), open_plugin("ort")
    inputs = dict(np.load(case.inputs))
    timing = ModelTiming(lambda: machine.time_model(case.network.read_bytes(), inputs))
    while (cost := timing.visit()) is None:
        pass
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


def main() -> None:
    """Measure every network, predict it held out, and print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="store of the calibration; default: the user's")
    machine = open_plugin("ort")
    with Store.open(parser.parse_args().store, reading=True) as store:
        data = operator_rows(store.records(machine.profile_id), machine.clock_hz)
    graphs, seconds = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            seconds[name] = measured_seconds(name, Path(folder))
            graph = load_network(Path(folder) / f"{name}.onnx")
            graphs[name] = Group.from_graph(graph, [op.name for op in graph.ops])
    predicted = held_out(data, graphs)
    for name in sorted(NAMES, key=lambda name: abs(np.log(predicted[name] / seconds[name]))):
        ratio = predicted[name] / seconds[name]
        sys.stdout.write(f"| {name} | {seconds[name] * 1e3:.3f} | {ratio:.3f} |\n")
    actual = np.array([seconds[name] for name in NAMES])
    guess = np.array([predicted[name] for name in NAMES])
    sys.stdout.write(
        f"{len(NAMES)} networks: MAPE {mape(actual * 1e9, guess * 1e9):.1%}, "
        f"median {median_error(actual * 1e9, guess * 1e9):.1%}, "
        f"within ±10 % {within(actual * 1e9, guess * 1e9, LIMIT):.1%}\n"
    )


if __name__ == "__main__":
    main()

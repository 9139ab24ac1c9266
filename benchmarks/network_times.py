"""Whole networks predicted and run: `make bench-networks`.

    autotune calibrate --target cpu:1 && autotune calibrate --target cpu:2
    python -m benchmarks.network_times [--threads 1 2] [--networks …] [--json FILE] [--markdown docs/figures-networks.md]

The model is the user's. Networks that its calibration ran are predicted by costs that are fitted without them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.api import load_network
from autotune.cost_model.composition import Reserves, fit_composition
from autotune.cost_model.predictor import Predictor
from autotune.runtime.network_roofline import network_roofline
from autotune.runtime.network_times import MEASURED, load_of, price_of, time_of, timed_networks
from autotune.runtime.session.defaults import choose_accuracy
from autotune.targets.opening import target as open_target
from autotune.targets.spec import HardwareSpec
from benchmarks.child import raise_priority, run_child
from benchmarks.cpu_networks import NAMES
from benchmarks.machine import busy
from benchmarks.table import Table

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]
CHAINS = ("attention", "norm_gelu", "elementwise")
"""Single operators and chains: shown, and left out of the summary."""
WAYS = {
    "roofline": "the measured peaks alone",
    "alone": "the sum of the groups, each as if alone",
    "network": "ours: the groups in their network",
}
"""Predictions by name, and what they are."""


def rows(names: Sequence[str], threads: int) -> dict[str, Any]:
    """Run networks; return what they took and what was predicted, in seconds, with how sure the model is."""
    machine = open_target("cpu", threads)
    spec, predictor = machine.spec, Predictor.load(f"cpu:{threads}")
    model, reserves, price = predictor.model, Reserves.of(spec), price_of(predictor.model)
    timed = timed_networks(names, machine, _say)
    loads = {x.name: load_of(x.choices, x.constants, price, spec.clock_hz) for x in timed}
    measured = {x.name: x.seconds for x in timed}
    plain = {x.name: x.plain_seconds for x in timed}
    times = {name: time_of(model, load) for name, load in loads.items()}
    seconds = {name: one.seconds for name, one in times.items()}
    own = [name for name in names if name in MEASURED] if model.composition is not None else []
    again = fit_composition([loads[x] for x in own], [measured[x] for x in own], spec, reserves)
    if again is not None:
        seconds |= dict(zip(own, again.left_out.tolist(), strict=True))
    found = [
        {
            "network": name,
            "is_own": name in own,
            "measured": measured[name],
            "plain": plain[name],
            "roofline": _roofline(name, spec),
            "alone": float(loads[name].alone.sum()),
            "network_time": seconds[name],
            "factor": times[name].high_seconds / times[name].seconds,
        }
        for name in names
    ]
    return {"rows": found, "origin": predictor.origin}


def _roofline(name: str, spec: HardwareSpec) -> float:
    accuracy = choose_accuracy(None, spec)
    graph = load_network(name, {}, spec.layout, accuracy, formats=spec.formats)
    return network_roofline(graph, spec).cycles / spec.clock_hz


def _say(phase: str, done: int, total: int, best: float | None = None) -> None:
    if done % 10 == 0:
        print(f"{phase}: {done} of {total}", file=sys.stderr, flush=True)


def ratio(row: Row, way: str) -> float:
    """Return predicted over measured seconds."""
    return float(row["network_time" if way == "network" else way] / row["measured"])


def summary(threads: int, found: Sequence[Row]) -> Table:
    """Return how far each way errs."""
    cells = []
    counted = [row for row in found if row["network"] not in CHAINS]
    unseen = [row for row in counted if not row["is_own"]]
    for way, text in WAYS.items():
        error = np.array([abs(ratio(row, way) - 1) for row in counted])
        apart = np.array([abs(np.log(ratio(row, way))) for row in counted])
        worst = counted[int(apart.argmax())]
        others = np.mean([abs(ratio(row, way) - 1) <= 0.1 for row in unseen]) if unseen else np.nan
        cells.append(
            (
                text,
                f"{error.mean():.1%}",
                f"{np.median(error):.1%}",
                f"{(error <= 0.1).mean():.0%}",
                f"{others:.0%}",
                f"{ratio(worst, way):.2f} ({worst['network']})",
            )
        )
    columns = (
        "predicted by",
        "mean error",
        "median",
        "within ±10 %",
        "… of those no calibration ran",
        "worst",
    )
    threads_text = f"{threads} thread{'s' * (threads > 1)}"
    return Table(f"{threads_text}, {len(counted)} networks", columns, tuple(cells))


def held(found: Sequence[Row]) -> str:
    """Say how many networks the intervals hold."""
    inside = sum(abs(np.log(ratio(row, "network"))) <= np.log(row["factor"]) for row in found)
    return f"{inside} of {len(found)}"


def as_they_came(found: Sequence[Row]) -> str:
    """Say how many networks are within 10 % of the median of all their runs, whatever the machine did meanwhile."""
    counted = [row for row in found if row["network"] not in CHAINS]
    near = [abs(row["network_time"] / row["plain"] - 1) <= 0.1 for row in counted]
    return f"{np.mean(near):.0%}"


def each(threads: int, found: Sequence[Row]) -> Table:
    """Return the table of networks."""
    cells = tuple(
        (
            row["network"] + "*" * row["is_own"],
            f"{1e3 * row['measured']:.3f}",
            *(f"{ratio(row, way):.3f}" for way in WAYS),
        )
        for row in found
    )
    title = f"{threads} thread{'s' * (threads > 1)}: predicted over measured"
    return Table(title, ("network", "measured ms", "roofline", "alone", "network"), cells)


def chains(results: dict[int, dict[str, Any]]) -> str:
    """Say how the worst of the chains is predicted."""
    found = [
        (abs(np.log(ratio(row, "network"))), ratio(row, "network"), row["network"], threads)
        for threads, one in results.items()
        for row in one["rows"]
        if row["network"] in CHAINS
    ]
    if not found:
        return "none was run"
    _, worst, name, threads = max(found)
    return f"the worst of them is {name}, predicted at {worst:.2f} of what it takes with --threads {threads}"


def markdown(results: dict[int, dict[str, Any]], note: str) -> str:
    """Return docs/figures-networks.md."""
    holds, came = (
        "; ".join(f"{t} thread{'s' * (t > 1)}: {say(one['rows'])}" for t, one in results.items())
        for say in (held, as_they_came)
    )
    parts = [
        "# Figures of whole networks predicted",
        "Written by `make bench-networks`, with the model of `autotune calibrate --target cpu:N`. Every shipped network is opened by a "
        "session on this CPU and run, in two passes some minutes apart, and measured as groups are: visits to a calm machine count, at its "
        f"usual clock, and of these the lower quartile. Within ±10 % of the median of all runs as they came: {came}. *alone* is the sum of the groups of the "
        "heuristic plan as the second stage predicts them: as if each ran again and again by itself. *network* is what `autotune "
        "predict` gives: the groups, at least as long as memory takes for weights that all caches cannot hold, and costs of "
        f"activations, groups and runs. A calibration fits these to {len(MEASURED)} networks (\\*), which are predicted here by costs "
        "that are fitted without them; nothing of the others was run before. The summary leaves out single operators and chains "
        f"({', '.join(CHAINS)}): {chains(results)}. Intervals of nominal 90 % hold, of all networks: {holds}. {note}",
        *(summary(t, one["rows"]).markdown() for t, one in results.items()),
        *(each(t, one["rows"]).markdown() for t, one in results.items()),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--networks", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--worker", type=int, help="run with so many threads and print rows")
    parser.add_argument("--json", type=Path, help="rows to go on from, and to keep")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--note", help="of the machine, in place of how busy it is now")
    given = parser.parse_args()
    if given.worker is not None:
        raise_priority()
        print(json.dumps(rows(given.networks, given.worker)))
        return
    note = busy() if given.note is None else given.note
    results: dict[int, dict[str, Any]] = {}
    if given.json is not None and given.json.exists():
        results = {int(t): one for t, one in json.loads(given.json.read_text()).items()}
    for threads in given.threads:
        if threads not in results:
            arguments = ["--worker", str(threads), "--networks", *given.networks]
            results[threads] = run_child(
                Path(sys.executable), "benchmarks.network_times", arguments
            )
            if given.json is not None:
                given.json.write_text(json.dumps(results) + "\n")
    for threads, one in results.items():
        print(one["origin"])
        print(each(threads, one["rows"]).text() + "\n")
        print(summary(threads, one["rows"]).text() + "\n")
        print(f"intervals hold {held(one['rows'])}\n")
    if given.markdown is not None:
        given.markdown.write_text(markdown(results, note))


if __name__ == "__main__":
    main()

"""The figures of `make bench`: plans against unfused and greedy, seconds for calibrating and searching,
and the emulator's speed; all measured in one run."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autotune import api
from autotune.runtime.drift_demo import demonstrate_drift
from autotune.store.store import Store
from autotune.targets.opening import target
from benchmarks.emulator import emulator_figures

NETWORKS = ("light_squeezenet", "light_resnet50", "mlp", "transformer_block")
SPECS = ("edge", "mobile", "server")
DRIFT_SPEC = "edge"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One network on one spec: measured cycles, their ratios, and how long the search took."""

    network: str
    unfused_cycles: int
    greedy_cycles: int
    found_cycles: int
    found_over_unfused: float
    found_over_greedy: float
    predicted_over_measured: float
    measurements: int
    search_seconds: float


@dataclass(frozen=True, slots=True)
class SpecRow:
    """One spec: calibration and its networks."""

    spec: str
    calibrate_seconds: float
    measured: int
    held_out: Mapping[str, float]
    plans: list[PlanRow] = field(default_factory=list)
    drift: Mapping[str, float] = field(default_factory=dict)


def say(text: str) -> None:
    """Progress goes to stderr; stdout is for figures."""
    print(text, file=sys.stderr, flush=True)


def bench_plan(network: str, spec: str, store: Store) -> PlanRow:
    """Search one network on one spec."""
    start = time.perf_counter()
    result = api.search(network, target=spec, store=store)
    seconds = time.perf_counter() - start
    cycles = [plan.measured_cycles for plan in (result.unfused, result.greedy, result.found)]
    unfused, greedy, found = (c for c in cycles if c is not None)
    row = PlanRow(
        network,
        unfused,
        greedy,
        found,
        found / unfused,
        found / greedy,
        result.found.predicted_cycles / found,
        result.measurements,
        seconds,
    )
    say(
        f"  {network}: found/unfused {row.found_over_unfused:.3f}, found/greedy "
        f"{row.found_over_greedy:.3f}, {seconds:.1f} s"
    )
    return row


def bench_spec(spec: str, home: Path) -> SpecRow:
    """Calibrate one spec with the default budget in a fresh store, then search every network."""
    say(f"{spec}: calibrating")
    with Store.open(home / f"{spec}.db") as store:
        start = time.perf_counter()
        calibration = api.calibrate(spec, store=store)
        seconds = time.perf_counter() - start
        held_out = {name: float(value) for name, value in calibration.metrics.items()}
        say(
            f"  {calibration.measured} measurements, {seconds:.1f} s, held-out MAPE "
            f"{held_out['mape']:.3f}, within ±10 % {held_out['within_10']:.1%}"
        )
        plans = [bench_plan(network, spec, store) for network in NETWORKS]
        drift = bench_drift(NETWORKS[0], spec, store) if spec == DRIFT_SPEC else {}
    return SpecRow(spec, seconds, calibration.measured, held_out, plans, drift)


def bench_drift(network: str, spec: str, store: Store) -> dict[str, float]:
    """Prediction error and cycles when DRAM bandwidth is cut by 40 % in the middle of a series."""
    say(f"  {network}: DRAM bandwidth × 0.6 in the middle of an online session")
    plan = api.search(network, target=spec, store=store).plan
    series = demonstrate_drift(
        api.load_network(network), target(spec), store, plan=plan, runs_before=8, runs_after=12
    )
    return {
        "error_before": series.error_before,
        "error_at_worst": series.error_at_worst,
        "error_after": series.error_after,
        "first_plan_on_cut_machine_cycles": series.frozen_cycles,
        "last_plan_on_cut_machine_cycles": series.points[-1].cycles,
    }


def table(rows: list[SpecRow]) -> str:
    """The plans' figures as text."""
    lines = [
        f"{'spec':8} {'network':18} {'found/unfused':>13} {'found/greedy':>12} "
        f"{'cycles':>12} {'search s':>9}"
    ]
    for row in rows:
        for plan in row.plans:
            lines.append(
                f"{row.spec:8} {plan.network:18} {plan.found_over_unfused:13.3f} "
                f"{plan.found_over_greedy:12.3f} {plan.found_cycles:12d} {plan.search_seconds:9.1f}"
            )
    lines.append("")
    lines.append(f"{'spec':8} {'calibrate s':>11} {'MAPE':>7} {'within ±10 %':>13}")
    for row in rows:
        m = row.held_out
        lines.append(
            f"{row.spec:8} {row.calibrate_seconds:11.1f} {m['mape']:7.3f} {m['within_10']:13.3f}"
        )
    return "\n".join(lines)


def markdown(rows: list[SpecRow], emulator: Mapping[str, float]) -> str:
    """The figures as docs/figures.md shows them."""
    lines = [
        "# Figures",
        "",
        "Written by `make bench`, everything measured in one run on two cores. How the emulator compares",
        "with SCALE-Sim in speed, memory and cycles is in [figures-systolic.md](figures-systolic.md).",
        "",
        "Measured cycles of the found plan, as a ratio:",
        "",
        "| spec | network | of unfused | of greedy | found cycles | predicted / measured | search s |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.spec} | {p.network} | {p.found_over_unfused:.3f} | {p.found_over_greedy:.3f} "
        f"| {p.found_cycles:,} | {p.predicted_over_measured:.3f} | {p.search_seconds:.1f} |"
        for row in rows
        for p in row.plans
    ]
    lines += [
        "",
        "Calibrations for these plans; what the cost model is worth on unseen networks is in",
        "[figures-model.md](figures-model.md):",
        "",
        "| spec | measurements | calibrate s |",
        "|---|---|---|",
    ]
    lines += [f"| {row.spec} | {row.measured} | {row.calibrate_seconds:.1f} |" for row in rows]
    lines += ["", "| emulator | figure |", "|---|---|"]
    lines += [f"| {name} | {value:.4g} |" for name, value in emulator.items()]
    for row in rows:
        if row.drift:
            lines += [
                "",
                f"DRAM bandwidth × 0.6 in the middle of an online session on {row.spec}:",
                "",
            ]
            lines += [f"- {name}: {value:.4g}" for name, value in row.drift.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures.md here")
    parser.add_argument("--specs", nargs="*", default=SPECS, help="targets to measure")
    arguments = parser.parse_args()
    say("emulator speed")
    emulator = emulator_figures()
    with tempfile.TemporaryDirectory() as home:
        rows = [bench_spec(spec, Path(home)) for spec in arguments.specs]
    print(table(rows))
    for name, value in emulator.items():
        print(f"{name:64} {value:.4g}")
    for row in rows:
        for name, value in row.drift.items():
            print(f"drift {row.spec} {name:36} {value:.6g}")
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(rows, emulator))
    if arguments.json is not None:
        figures = {"emulator": emulator, "specs": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()

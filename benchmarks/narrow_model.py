"""How well the shipped cost model predicts narrow programs: int8 and bf16 networks that it was not trained on, beside float32.

The sections of docs/figures-narrow-machines.md about errors are of layers by the analytic estimate; these are groups of whole networks
by formula and model, and what a choice by them costs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotune.api import load_network
from autotune.cost_model.shipped import shipped_model
from autotune.datasets.narrowing import bf16_form, int8_form
from autotune.graph.graph import Graph
from autotune.graph.passes.pipeline import simplify
from autotune.isa.formats import FLOAT32_ONLY, Format
from autotune.measure.measurement import Measured
from autotune.measure.runner import measure
from autotune.operators.axes import Layout
from autotune.schedule.candidate import Candidate
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
from benchmarks.model_machines import formula, learned
from benchmarks.model_measure import MeasuredSet
from benchmarks.model_scores import Judged, Scores, score
from benchmarks.model_sets import CandidateSet, draw_network
from benchmarks.narrow_machines import machines
from benchmarks.table import Table

NETWORKS = ("mobilenet_v2", "bert_small", "unet", "swin_tiny")
"""Networks of the shipped model's held-out ones, each on every second machine."""
DRAWN, SEED = 4, 1
"""Drawn machines besides the shipped ones, of another seed than the model's."""
SETS, SCHEDULES = 6, 48
"""Groups drawn of a network, of which those with a product in the format count; schedules of each."""
PREDICTORS = ("formula", "shipped model")


@dataclass(frozen=True, slots=True)
class Version:
    """A format, its networks made of float32 ones."""

    name: str
    format: Format
    narrowed: Callable[[Graph], Graph] | None

    def graph(self, plain: Graph, spec: HardwareSpec) -> Graph:
        """Return the network as a machine opens it."""
        formats = FLOAT32_ONLY if self.narrowed is None else spec.formats
        graph = plain if self.narrowed is None else self.narrowed(plain)
        return simplify(graph, Layout(spec.layout), formats=formats).graph


VERSIONS = (
    Version("float32", Format.FP32, None),
    Version("int8", Format.INT8, int8_form),
    Version("bf16", Format.BF16, bf16_form),
)


def measured_sets(
    version: Version, plain: Graph, spec: HardwareSpec, seed: int
) -> list[MeasuredSet]:
    """Draw and measure the candidate sets of a network, of groups that multiply in the format."""
    rng = np.random.default_rng([seed, int(spec.profile_id[:8], 16)])
    graph = version.graph(plain, spec)
    drawn = draw_network(graph, plain.name, spec, seed, SETS, set(), {}).sets
    return [
        found
        for one in drawn
        if _multiplies(one, version.format)
        for found in [_measured(one, spec, rng)]
        if len(found.schedules) > 1
    ]


def _multiplies(one: CandidateSet, format: Format) -> bool:
    products = [
        op for op in one.group.ops if op.multiplied is not None and op.kind in ("matmul", "conv")
    ]
    if format is Format.FP32:
        return bool(products)
    return any(op.multiplied.bytes == format.bytes for op in products)


def _measured(one: CandidateSet, spec: HardwareSpec, rng: np.random.Generator) -> MeasuredSet:
    picked = rng.permutation(len(one.schedules))[:SCHEDULES].tolist()
    schedules = [one.schedules[at] for at in picked]
    candidates = [Candidate(one.group, schedule, one.network) for schedule in schedules]
    outcomes = list(measure(EmulatorTarget(spec), candidates))
    kept = {x.candidate.schedule: x.execution.cycles for x in outcomes if isinstance(x, Measured)}
    known = tuple(schedule for schedule in schedules if schedule in kept)
    cycles = np.array([kept[schedule] for schedule in known], dtype=np.float64)
    return MeasuredSet(one.network, one.kind, one.group, known, cycles)


def judged_by_format(
    specs: Sequence[HardwareSpec], networks: Sequence[str], seed: int
) -> dict[str, dict[str, list[Judged]]]:
    """Return what both predictors say of all sets, by format."""
    found: dict[str, dict[str, list[Judged]]] = {
        v.name: {p: [] for p in PREDICTORS} for v in VERSIONS
    }
    for number, spec in enumerate(specs):
        model = shipped_model(spec)
        assert model is not None, "make models"
        asked = dict(zip(PREDICTORS, (formula(spec), learned(model)), strict=True))
        for name in networks[number % 2 :: 2]:
            plain = load_network(name)
            for version in VERSIONS:
                if not spec.multiplies(version.format):
                    continue
                sets = measured_sets(version, plain, spec, seed)
                for predictor, ask in asked.items():
                    found[version.name][predictor] += [Judged.of(one, ask) for one in sets]
                print(spec.name, name, version.name, len(sets), file=sys.stderr, flush=True)
    return found


def table(found: dict[str, dict[str, list[Judged]]]) -> Table:
    """Return a row per format and predictor."""
    rows = [
        (format, predictor, *_cells(score(judged)))
        for format, by_predictor in found.items()
        for predictor, judged in by_predictor.items()
        if judged
    ]
    columns = (
        "format",
        "predictor",
        "sets",
        "MAPE",
        "±10 %",
        "Spearman in groups (worst)",
        "top-1 regret (worst)",
        "90 % interval",
    )
    return Table("## The shipped model on narrow networks", columns, tuple(rows))


def _cells(scores: Scores) -> tuple[str, ...]:
    return (
        str(scores.sets),
        f"{scores.mape:.2%}",
        f"{scores.within_10:.1%}",
        f"{scores.spearman:.3f} ({scores.worst_spearman:.2f})",
        f"{scores.top1_regret:.2%} ({scores.worst_top1_regret:.1%})",
        "–" if scores.coverage is None else f"{scores.coverage:.0%}",
    )


def section(networks: Sequence[str], drawn: int, seed: int) -> str:
    """Measure; return the section of the page."""
    specs = machines(drawn, seed)
    found = table(judged_by_format(specs, networks, seed))
    return (
        f"{found.markdown()}\n\nGroups with a product in the format, of {', '.join(networks)} (held out of the shipped model's "
        f"training), on the shipped machines that multiply int8 and {drawn} drawn ones of another seed, each with two of the networks; "
        f"up to {SCHEDULES} legal schedules of each, measured by the emulator. Each set counts alike; *regret* is that of the schedule that the predictor "
        "puts first."
    )


def main() -> None:
    """Measure and print the section, or write it to the end of a page in place of the one before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=[*NETWORKS])
    parser.add_argument("--drawn", type=int, default=DRAWN)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--markdown", type=Path, help="page that the section ends")
    options = parser.parse_args()
    text = section(options.networks, options.drawn, options.seed)
    if options.markdown is None:
        print(text)
        return
    before = options.markdown.read_text("utf-8").partition("\n## The shipped model on narrow")[0]
    options.markdown.write_text(f"{before.rstrip()}\n\n{text}\n", "utf-8")


if __name__ == "__main__":
    main()

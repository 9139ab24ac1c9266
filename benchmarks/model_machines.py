"""``make bench-machines``: how well the shipped model predicts machines that it never saw, with 0 and with 50 runs.

Machines are drawn ones of another seed than the shipped model's; candidate sets are of networks that it was
not trained on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.fitting import fit
from autotune.cost_model.model import CostModel
from autotune.cost_model.shipped import shipped_model
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.measure.runner import measure
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.store.records import Outcome
from autotune.store.store import Store
from autotune.targets.drawn import drawn_specs
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
from autotune.tuner.records import to_record
from benchmarks.fleet import HELD_OUT, TRAINED_ON, Machine, Shelf, measured_fleet
from benchmarks.model_measure import MeasuredSet
from benchmarks.model_scores import Floats, Judged, Predictor, Scores, score
from benchmarks.model_sets import CandidateSet, draw_network
from benchmarks.shipped_model import SEED
from benchmarks.table import Table

MACHINES = 20
"""Drawn machines that are judged."""
UNSEEN_SEED = 1
"""Their seed; the shipped model's is ``shipped_model.SEED``."""
FEW = 50
"""Runs of a machine that refine the model, of networks outside of the candidate sets."""
NETWORKS, SETS = 1, 2
"""Held-out networks of a machine, and candidate sets of each."""
COLUMNS = (
    "machine",
    "predictor",
    "sets",
    "MAPE",
    "±10 %",
    "Spearman in groups (worst)",
    "top-1 regret (worst)",
    "90 % interval",
)

HEAD = """# Figures of machines that the model never saw

Written by `make bench-machines`: {machines} drawn machines that the shipped model was not trained on, and the worst of
them. Each has {sets} candidate sets of up to 256 legal schedules, as a search would rank them, of groups of a network that the
model was not trained on: {networks}. *Formula* is the analytic estimate, *0 runs* the shipped model, *{few} runs* that model
refined by so many runs of the machine, on other networks. Means are over sets, each set counts alike.

"""

Asked = Callable[[Nest, ScheduleTable], Floats]


@dataclass(frozen=True, slots=True)
class JudgedMachine:
    """Sets of one machine, as each predictor judges them."""

    spec: HardwareSpec
    judged: dict[str, list[Judged]]


def formula(spec: HardwareSpec) -> Predictor:
    """Return the analytic estimate as a predictor."""
    return lambda group, schedules: _summed(
        group,
        schedules,
        lambda nest, table: analytic_model(spec).analyse(nest, table, spec).estimate,
    )


def learned(model: CostModel) -> Predictor:
    """Return a cost model as a predictor with intervals."""
    return lambda group, schedules: _summed(
        group, schedules, lambda nest, table: model.estimate(nest, table).columns[:3]
    )


def _summed(group: Group, schedules: Sequence[Schedule], ask: Asked) -> Floats:
    """Sum the answers of ``ask(nest, table)`` over a group's nests."""
    parts = [
        ask(nest, ScheduleTable.of(nest, [schedule.nests[at] for schedule in schedules]))
        for at, nest in enumerate(nests_of(group))
    ]
    total: Floats = np.sum(parts, axis=0)
    return total


def candidate_sets(spec: HardwareSpec, shelf: Shelf) -> list[CandidateSet]:
    """Draw the candidate sets of a machine from held-out networks."""
    rng = np.random.default_rng([UNSEEN_SEED, int(spec.profile_id[:8], 16)])
    taken: set[str] = set()
    sets: list[CandidateSet] = []
    for name in rng.choice(HELD_OUT, NETWORKS, replace=False).tolist():
        graph = shelf.take(name, spec.layout)
        sets += draw_network(graph, name, spec, UNSEEN_SEED, SETS, taken, {}).sets
    return sets


def measured_sets(machine: Machine, shelf: Shelf, store: Store) -> list[MeasuredSet]:
    """Draw and measure a machine's candidate sets; groups that its runs hold are left out."""
    spec, known = machine.spec, {record.group_key for record in machine.records}
    target = EmulatorTarget(spec)
    measured = []
    for drawn in candidate_sets(spec, shelf):
        if drawn.group.key in known:
            continue
        candidates = [Candidate(drawn.group, s, drawn.network) for s in drawn.schedules]
        cycles = _cycles(target, candidates, store)
        kept = [at for at, cost in enumerate(cycles) if cost]
        measured.append(
            MeasuredSet(
                drawn.network,
                drawn.kind,
                drawn.group,
                tuple(drawn.schedules[at] for at in kept),
                np.array([cycles[at] for at in kept], dtype=np.float64),
            )
        )
    return measured


def _cycles(target: EmulatorTarget, candidates: Sequence[Candidate], store: Store) -> list[int]:
    """Return measured cycles, 0 for what failed; the store keeps them."""
    profile = target.spec.profile_id
    known = store.known(profile)
    missing = [candidate for candidate in candidates if candidate.key not in known]
    store.add([to_record(result, target, "search") for result in measure(target, missing)])
    records = {(r.group_key, r.schedule_json): r for r in store.records(profile)}
    found = [records[candidate.key] for candidate in candidates]
    return [record.cycles if record.outcome is Outcome.OK else 0 for record in found]


def judge(machine: Machine, shelf: Shelf, store: Store) -> JudgedMachine:
    """Judge formula, shared model and refined model on one machine."""
    spec, base = machine.spec, shipped_model(machine.spec)
    assert base is not None, "make models"
    refined = fit(machine.records, spec, seed=SEED, base=base)
    predictors = {
        "formula": formula(spec),
        "0 runs": learned(base),
        f"{FEW} runs": learned(refined),
    }
    sets = measured_sets(machine, shelf, store)
    return JudgedMachine(
        spec, {name: [Judged.of(one, p) for one in sets] for name, p in predictors.items()}
    )


def rows(name: str, machines: Sequence[JudgedMachine]) -> list[tuple[str, ...]]:
    """Return a row per predictor over the sets of several machines."""
    found = []
    for predictor in machines[0].judged:
        judged = [one for machine in machines for one in machine.judged[predictor]]
        found.append((name, predictor, *_cells(score(judged))))
    return found


def _cells(scores: Scores) -> tuple[str, ...]:
    return (
        str(scores.sets),
        f"{scores.mape:.1%}",
        f"{scores.within_10:.1%}",
        f"{scores.spearman:.3f} ({scores.worst_spearman:.2f})",
        f"{scores.top1_regret:.2%} ({scores.worst_top1_regret:.1%})",
        "–" if scores.coverage is None else f"{scores.coverage:.0%}",
    )


def worst(machines: Sequence[JudgedMachine]) -> JudgedMachine:
    """Return the machine with the largest error at 0 runs."""
    return max(machines, key=lambda machine: score(machine.judged["0 runs"]).mape)


def _tell(name: str, done: int, total: int) -> None:
    print(f"{done + 1} of {total} machines: {name}", file=sys.stderr, flush=True)


def main() -> None:
    """Judge machines and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=MACHINES, help="drawn machines")
    parser.add_argument("--store", type=Path, default=Path("build/fleet.db"))
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-machines.md here")
    asked = parser.parse_args()
    asked.store.parent.mkdir(parents=True, exist_ok=True)
    shelf = Shelf()
    with Store.open(asked.store) as store:
        specs = drawn_specs(asked.machines, UNSEEN_SEED)
        judged = measured_fleet(specs, FEW, TRAINED_ON, UNSEEN_SEED, store, _tell)
        unseen = [judge(machine, shelf, store) for machine in judged]
    hardest = worst(unseen)
    table = Table(
        "Candidate sets of held-out networks:",
        COLUMNS,
        (
            *rows(f"{len(unseen)} drawn machines", unseen),
            *rows(f"the worst of them, {hardest.spec.name}", [hardest]),
        ),
    )
    print(table.text())
    if asked.markdown is not None:
        head = HEAD.format(
            machines=asked.machines,
            sets=NETWORKS * SETS,
            networks=", ".join(HELD_OUT),
            few=FEW,
        )
        asked.markdown.write_text(f"{head}{table.markdown()}\n", "utf-8")


if __name__ == "__main__":
    main()

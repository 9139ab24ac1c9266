"""``python -m tests.fuzz.networks``: tries drawn networks by drawn plans on every kind of machine.

A case is an ONNX model of up to twelve operators, a partition and schedules, as in
``tests/networks/test_drawn_models.py``, of which this runs more than a test has time for. What failed is
printed: the model's text, groups and schedules.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from autotune.graph.accuracy import Accuracy
from autotune.operators.op import Family
from autotune.runtime.execution.program_table import ProgramTable
from autotune.schedule.schedule import Schedule
from tests.drawn_machines import MACHINES
from tests.drawn_models import models
from tests.drawn_plans import assert_close, drawn_table, imported, run
from tests.growing_models import DrawnModel

BATCH = 250
"""Cases of one run of Hypothesis, which goes over the same ground more often the longer it runs."""


def fuzz(machine: str, cases: int, number: int, shrink: bool = False) -> tuple[Counter[str], bool]:
    """Try cases of a seed on a machine: how many operators and groups they had, and whether all held."""
    counts: Counter[str] = Counter()
    tried: list[DrawnModel | ProgramTable] = []

    @seed(number)
    @settings(
        max_examples=cases,
        derandomize=False,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=models(), accuracy=st.sampled_from(Accuracy), data=st.data())
    def attempt(drawn: DrawnModel, accuracy: Accuracy, data: st.DataObject) -> None:
        target = MACHINES[machine]()
        tried[:] = [drawn]
        table = drawn_table(imported(drawn, target.spec, accuracy), target.spec, data.draw)
        tried.append(table)
        counts["cases"] += 1
        counts["operators"] += len(table.graph.ops)
        counts["groups"] += len(table.group_steps)
        counts["by patches"] += sum(_patches(choice.schedule) for choice in table.choices)
        counts["by Winograd's tiles"] += sum(op.family is Family.WINOGRAD for op in table.graph.ops)
        assert_close(run(table, target, drawn.feeds), drawn.wanted, accuracy)

    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        traceback.print_exception(error.with_traceback(error.__traceback__), limit=-6)
        print(f"# {machine}: seed {number}\n" + "\n".join(map(described, tried)), flush=True)
        return counts, False
    return counts, True


def _patches(schedule: Schedule | None) -> bool:
    return schedule is not None and any(part.im2col for part in schedule.nests)


def described(tried: DrawnModel | ProgramTable) -> str:
    """A model as text, or a table's operators by group with their schedules."""
    if isinstance(tried, DrawnModel):
        return str(onnx.printer.to_text(tried.model))
    lines = [f"outputs {tried.graph.outputs}"]
    for choice in tried.choices:
        lines.append("by " + (choice.schedule.to_json() if choice.schedule else "views"))
        shape = choice.group.type_of
        lines += [
            f"  {op.output}{list(shape[op.output].shape)} = {op.kind} "
            + ", ".join(f"{x}{list(shape[x].shape)}" for x in op.inputs)
            + f" {dict(op.attrs)}"
            for op in choice.group.ops
        ]
    return "\n".join(lines)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("tests.fuzz.networks", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="of each machine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shrink", action="store_true", help="what fails: takes minutes")
    parser.add_argument("--machine", choices=tuple(MACHINES), action="append")
    given_ = parser.parse_args()
    failed = 0
    for machine in given_.machine or MACHINES:
        begin, total = time.process_time(), Counter[str]()
        for batch in range(-(-given_.cases // BATCH)):
            cases = min(BATCH, given_.cases - batch * BATCH)
            counts, held = fuzz(machine, cases, 1000 * given_.seed + batch, given_.shrink)
            total += counts
            failed += not held
        spent = time.process_time() - begin
        print(f"{machine}: {dict(total)} in {spent:.0f} s of CPU time", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

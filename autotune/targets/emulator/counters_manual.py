"""Prints the page on counters in docs from the counter table.

``python -m autotune.targets.emulator.counters_manual > docs/counters.md`` renews it; a test
compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from autotune.targets.emulator.counters import COUNTERS, FAMILIES, PART_COUNTERS, Counter
from autotune.targets.emulator.reading import CAUSES

_INTRODUCTION = f"""# Counters

Generated from `autotune/targets/emulator/counters.py` by `python -m autotune.targets.emulator.counters_manual`; do not
edit.

Every run of a program on the emulator has {len(COUNTERS)} counters: `Execution.counters`,
`autotune time --counters`. {len(PART_COUNTERS)} of them, of scope *part*, exist for each profile mark
and each instruction too (`EmulatorTarget.profile`, `autotune time --marks`); the others, of scope
*program*, say nothing of a part. All counts are exact whole numbers. Over the marks, and over the
instructions, each counter of scope *part* adds up to the program's; of `cycles` the parts overlap,
of `scratchpad_peak_bytes` the largest is the program's.

For each unit, its busy, stall and idle cycles add up to `core_cycles`. A cycle is booked once, on
the instruction that it was spent in, or before its start:
"""


def manual() -> str:
    """Return the page as Markdown."""
    lines = [_INTRODUCTION, *_causes()]
    for title, rows in FAMILIES.items():
        lines += _family(title, rows)
    return "\n".join(lines)


def _causes() -> Iterator[str]:
    yield "| cycles | the unit is |"
    yield "|---|---|"
    yield from (f"| `{cause}` | {doc} |" for cause, doc in CAUSES.items())
    yield "| `idle` | after its last instruction |\n"


def _family(title: str, rows: tuple[Counter, ...]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| counter | unit | meaning | scope |"
    yield "|---|---|---|---|"
    for row in rows:
        scope = "program" if row.whole else "part"
        yield f"| `{row.name}` | {row.unit} | {row.doc} | {scope} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(manual())

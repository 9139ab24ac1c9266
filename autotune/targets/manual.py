"""The page on machines in docs: prints it from the specs and the tables of figures and checks."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from autotune.targets.derived import FIGURES, derived, spelled
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.plausibility import CHECKS, warnings_of

_INTRODUCTION = """# Machines

Generated from `autotune/targets/` by `python -m autotune.targets.manual`; do not edit.

A machine is a TOML file in `autotune/targets/specs`, or any other one (`--target path/to/file.toml`).
`autotune targets show NAME` prints what follows, `autotune targets check FILE` does so for a new one;
[how to add one](adding.md). The optional key `memory` is `"scratchpad"` (programs copy tiles; the default) or
`"cached"` (instructions read and write tensors in place). `cpu` is the machine that this runs on, `cpu:2` two threads of it; its spec is
detected, not a file ([the native engine](native.md)).
"""


def manual() -> str:
    """Return the page as Markdown."""
    return "\n".join((_INTRODUCTION, *_machines(), *_figures(), *_checks()))


def _machines() -> Iterator[str]:
    yield "## Shipped\n"
    yield "| name | machine | numbers from |"
    yield "|---|---|---|"
    for name in spec_names():
        spec = load_spec(name)
        yield f"| `{name}` | {spec.description} | {'; '.join(spec.sources)} |"
    yield ""


def _figures() -> Iterator[str]:
    columns = {name: derived(load_spec(name)) for name in spec_names()}
    yield "## Figures that follow\n"
    yield f"| figure | unit | {' | '.join(f'`{name}`' for name in columns)} |"
    yield "|---|---|" + "---:|" * len(columns)
    for name, figure in FIGURES.items():
        values = " | ".join(spelled(column[name]) for column in columns.values())
        yield f"| `{name}` | {figure.unit} | {values} |"
    yield "\n| figure | meaning |\n|---|---|"
    for name, figure in FIGURES.items():
        yield f"| `{name}` | {figure.doc} |"
    yield "\nLatencies include `dram.setup_cycles` and the burst. Power is that of fp32.\n"


def _checks() -> Iterator[str]:
    yield "## Warnings\n"
    yield "A spec may be legal and odd. There is a warning when\n"
    for check in CHECKS:
        yield f"- {check.doc} (*{check.name}*);"
    yield "\nOf the shipped ones:\n"
    for name in spec_names():
        for warning in warnings_of(load_spec(name)):
            yield f"- `{name}`: {warning}."
    yield ""


if __name__ == "__main__":
    sys.stdout.write(manual())

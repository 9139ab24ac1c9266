"""The page on machines in docs: prints it from the specs and the tables of figures and checks."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from autotune.isa.formats import Format
from autotune.targets.derived import FIGURES, NARROW, derived, spelled
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
    return "\n".join((_INTRODUCTION, *_machines(), *_formats(), *_figures(), *_checks()))


def _machines() -> Iterator[str]:
    yield "## Shipped\n"
    yield "| name | machine | numbers from |"
    yield "|---|---|---|"
    for name in spec_names():
        spec = load_spec(name)
        yield f"| `{name}` | {spec.description} | {'; '.join(spec.sources)} |"
    yield ""


_FORMATS = """## Formats

Multiply-adds of one cell per cycle, on operands of a format; int8 stands for uint8 too:
"""

_FORMATS_MEANING = """
`matrix.bf16_macs_per_cell` and `matrix.int8_macs_per_cell` are optional; 0, the default, means that the array does not
multiply the format. A cell takes so many neighbours of the summed dimension at once, as a dot product. Sums have 32 bits: fp32
of bf16, int32 of int8; `scratchpad.accumulator_bytes` of the capacity hold them and nothing else, and the rest
holds none: schedules whose tiles need more of either are not legal. A program that multiplies what the array does not have is refused. Tensors lie in DRAM in a narrow
format where the array multiplies it, else in fp32; transfers between formats convert on every machine. With
`dram.converts_fp16` they keep tensors of float16 in two bytes, and products are of fp32.

Every machine runs fp32 networks, one multiply-add per cell and cycle. Where the original multiplies no fp32, that is
emulated: its cells multiply fp32 at the rate of their own format, and its published bytes carry a quarter (int8) or half
(16 bits) of the elements. `server` does fp32 at half of the rate of bf16.
"""


def _formats() -> Iterator[str]:
    specs = [load_spec(name) for name in spec_names()]
    shown = (Format.FP32, *NARROW.values())
    yield _FORMATS
    yield f"| machine | {' | '.join(one.name.lower() for one in shown)} |"
    yield "|---|" + "---:|" * len(shown)
    for spec in specs:
        rates = (spec.matrix.macs_per_cell(one) for one in shown)
        yield f"| `{spec.name}` | {' | '.join(str(rate) if rate else '–' for rate in rates)} |"
    yield _FORMATS_MEANING


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
    yield "\nLatencies include `dram.setup_cycles` and the burst. Power is that of fp32 where no format is named.\n"


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

"""``autotune targets list``, ``show``, ``check``, ``drift`` and ``links``: machines that programs can run on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.commands.targets_drift import drift
from autotune.cli.commands.targets_links import links
from autotune.cli.console import print_facts, print_json, print_table
from autotune.cli.options import JsonOption

if TYPE_CHECKING:
    from autotune.targets.spec import HardwareSpec

targets = typer.Typer(help="Machines that programs can run on.", no_args_is_help=True)


@targets.command("list")
def list_targets(json: JsonOption = False) -> None:
    """The shipped specs, and this machine."""
    from autotune.targets.opening import HOST, load_spec, plugin_names, spec_names

    specs = [load_spec(name) for name in (*spec_names(), HOST)]
    if json:
        plugins = [{"name": name, "plug_in": True} for name in plugin_names()]
        print_json([*(asdict(spec) | {"profile_id": spec.profile_id} for spec in specs), *plugins])
        return
    columns = ("name", "array", "GFLOP/s", "GB/s", "description")
    print_table("targets", columns, [_row(spec) for spec in specs])
    print_facts(
        {"plug-ins": f"{', '.join(plugin_names())}  (time ONNX models; docs/your-hardware.md)"}
    )


def _row(spec: HardwareSpec) -> tuple[str, ...]:
    from autotune.targets.derived import derived, spelled

    figures = derived(spec)
    array = f"{spec.cores}×{spec.matrix.rows}×{spec.matrix.cols} {spec.matrix.dataflow}"
    speeds = [spelled(figures[name]) for name in ("peak_gflops", "dram_gb_per_second")]
    return (spec.name, array, *speeds, spec.description)


@targets.command("show")
def show_target(
    name: Annotated[str, typer.Argument(help="Spec name or file, or cpu.")],
    json: JsonOption = False,
) -> None:
    """A spec's numbers, what follows from them, what is odd about them, and their sources."""
    from autotune.targets.opening import load_spec, plugin_target

    plugin = plugin_target(name)
    if plugin is not None:
        facts = {"name": plugin.name, "identity": plugin.identity, "profile_id": plugin.profile_id}
        if json:
            print_json(facts)
        else:
            print_facts(facts)
        return
    spec = load_spec(name)
    if json:
        print_json(asdict(spec) | _derived_document(spec))
        return
    _print_derived({"name": spec.name, "description": spec.description}, spec)
    for source in spec.sources:
        typer.echo(f"source: {source}")


@targets.command("check")
def check_target(
    file: Annotated[Path, typer.Argument(help="TOML file, or cpu.")], json: JsonOption = False
) -> None:
    """Check that a spec file is complete and its numbers are possible; warn of implausible ones."""
    from autotune.targets.opening import is_host, load_spec
    from autotune.targets.toml_spec import read_spec

    spec = load_spec(str(file)) if is_host(str(file)) else read_spec(file)
    if json:
        print_json({"ok": True} | _derived_document(spec))
        return
    _print_derived({"file": str(file), "verdict": "ok"}, spec)


targets.command("drift")(drift)
targets.command("links")(links)


def _derived_document(spec: HardwareSpec) -> dict[str, Any]:
    """Return the figures and warnings that follow from a spec's numbers, as JSON has them."""
    from autotune.targets.derived import derived
    from autotune.targets.plausibility import warnings_of

    return {
        "profile_id": spec.profile_id,
        "derived": derived(spec),
        "warnings": list(warnings_of(spec)),
    }


def _print_derived(heading: dict[str, str], spec: HardwareSpec) -> None:
    """Print a line per figure with its unit and meaning, then the warnings."""
    from autotune.targets.derived import FIGURES, derived, spelled
    from autotune.targets.plausibility import warnings_of

    values = {name: spelled(value) for name, value in derived(spec).items()}
    value_width = max(map(len, values.values()))
    unit_width = max(len(row.unit) for row in FIGURES.values())
    figures = {
        name: f"{values[name]:>{value_width}} {row.unit:{unit_width}}  {row.doc}"
        for name, row in FIGURES.items()
    }
    print_facts(
        heading | {"hardware profile": spec.profile_id, "machine": _machine(spec)} | figures
    )
    for warning in warnings_of(spec):
        typer.echo(f"warning: {warning}")


def _machine(spec: HardwareSpec) -> str:
    from autotune.targets.derived import NARROW

    rates = {name: spec.matrix.macs_per_cell(one) for name, one in NARROW.items()}
    formats = ["fp32", *(f"{rate} {name}" for name, rate in rates.items() if rate)]
    return (
        f"{spec.cores} × {spec.matrix.rows}×{spec.matrix.cols} "
        f"({spec.matrix.dataflow}; a cell does 1 {' or '.join(formats)} per cycle) at {spec.clock_hz / 1e9:g} GHz, "
        f"{spec.scratchpad.size_bytes / 1024:,.0f} KiB in {spec.scratchpad.banks} banks, "
        f"{spec.vector.lanes} lanes"
    )

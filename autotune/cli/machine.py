"""``autotune targets`` and ``autotune store``: machines, and what is kept about them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import emit, facts, show
from autotune.cli.options import JsonOption

if TYPE_CHECKING:
    from autotune.targets.spec import HardwareSpec

targets = typer.Typer(help="Machines that programs can run on.", no_args_is_help=True)
store = typer.Typer(help="Where measurements and models are kept.", no_args_is_help=True)


def explained(spec: HardwareSpec) -> dict[str, Any]:
    """What follows from a spec's numbers, as JSON has it."""
    from autotune.targets.derived import derived
    from autotune.targets.plausibility import warnings_of

    return {
        "profile_id": spec.profile_id,
        "derived": derived(spec),
        "warnings": list(warnings_of(spec)),
    }


def explain(heading: dict[str, str], spec: HardwareSpec) -> None:
    """The same for people: a line per figure with its unit and meaning, then what is odd."""
    from autotune.targets.derived import FIGURES, derived, spelled
    from autotune.targets.plausibility import warnings_of

    shown = {name: spelled(value) for name, value in derived(spec).items()}
    wide, long = max(map(len, shown.values())), max(len(row.unit) for row in FIGURES.values())
    facts(
        heading
        | {
            "hardware profile": spec.profile_id,
            "machine": f"{spec.cores} × {spec.matrix.rows}×{spec.matrix.cols} "
            f"({spec.matrix.dataflow}) at {spec.clock_hz / 1e9:g} GHz, "
            f"{spec.scratchpad.size_bytes / 1024:,.0f} KiB in {spec.scratchpad.banks} banks, "
            f"{spec.vector.lanes} lanes",
        }
        | {
            name: f"{shown[name]:>{wide}} {row.unit:{long}}  {row.doc}"
            for name, row in FIGURES.items()
        }
    )
    for warning in warnings_of(spec):
        typer.echo(f"warning: {warning}")


@targets.command("list")
def list_targets(json: JsonOption = False) -> None:
    """The shipped specs, and this machine."""
    from autotune.targets.derived import derived, spelled
    from autotune.targets.opening import HOST, load_spec, spec_names

    specs = [load_spec(name) for name in (*spec_names(), HOST)]
    if json:
        emit([asdict(spec) | {"profile_id": spec.profile_id} for spec in specs])
        return
    rows = []
    for spec in specs:
        found = derived(spec)
        array = f"{spec.cores}×{spec.matrix.rows}×{spec.matrix.cols} {spec.matrix.dataflow}"
        figures = [spelled(found[name]) for name in ("peak_gflops", "dram_gb_per_second")]
        rows.append((spec.name, array, *figures, spec.description))
    show("targets", ("name", "array", "GFLOP/s", "GB/s", "description"), rows)


@targets.command("show")
def show_target(
    name: Annotated[str, typer.Argument(help="Spec name or file, or cpu.")],
    json: JsonOption = False,
) -> None:
    """A spec's numbers, what follows from them, what is odd about them, and their sources."""
    from autotune.targets.opening import load_spec

    spec = load_spec(name)
    if json:
        emit(asdict(spec) | explained(spec))
        return
    explain({"name": spec.name, "description": spec.description}, spec)
    for source in spec.sources:
        typer.echo(f"source: {source}")


@targets.command("check")
def check_target(
    file: Annotated[Path, typer.Argument(help="TOML file, or cpu.")], json: JsonOption = False
) -> None:
    """Whether a spec file is complete and its numbers are possible; warns of implausible ones."""
    from autotune.targets.opening import is_host, load_spec
    from autotune.targets.toml_spec import read_spec

    spec = load_spec(str(file)) if is_host(str(file)) else read_spec(file)
    if json:
        emit({"ok": True} | explained(spec))
        return
    explain({"file": str(file), "verdict": "ok"}, spec)


@store.command("info")
def store_info(json: JsonOption = False) -> None:
    """What the store holds."""
    from autotune.store.store import Store

    with Store.open(None, reading=True) as opened:
        info = opened.info()
    if json:
        emit(asdict(info))
        return
    facts({"path": info.path, "bytes": f"{info.size_bytes:,}", "schema": info.schema_version})
    rows = [
        (", ".join(p.targets), p.profile_id, f"{p.measurements:,}", str(p.groups), str(p.models))
        for p in info.profiles
    ]
    show("profiles", ("targets", "profile", "measurements", "groups", "models"), rows)


@store.command("path")
def store_path() -> None:
    """Where the store is."""
    from autotune.disk.home import store_file

    typer.echo(str(store_file()))


@store.command("prune")
def store_prune(
    size: Annotated[
        int, typer.Option("--mb", min=0, help="Megabytes to keep: those used most recently.")
    ] = 256,
    days: Annotated[
        float | None,
        typer.Option("--days", min=0, help="Also remove what was not used for so long."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Remove kept networks, code and tables: they are made again when needed.

    Measurements, models and plans stay.
    """
    from autotune.disk.eviction import prune

    found = prune(_caches(), size * 1_000_000, None if days is None else days * 86_400.0)
    if json:
        emit(asdict(found))
        return
    facts(
        {
            "removed": f"{found.removed_files:,} files, {found.removed_bytes / 1e6:,.1f} MB",
            "kept": f"{found.kept_files:,} files, {found.kept_bytes / 1e6:,.1f} MB",
        }
    )


def _caches() -> list[Path]:
    """Folders of what can be made again; the figures of this machine are not among them."""
    from autotune.disk.home import cache_folder, home

    cache = cache_folder()
    return [
        cache / "networks",
        cache / "objects",
        cache / "tables",
        cache / "schedules",
        home() / "networks",
    ]

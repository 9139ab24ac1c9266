"""``autotune targets``, ``autotune store`` and ``autotune doctor``: what is here to work with."""

from __future__ import annotations

import platform
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

LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "xgboost",
    "optuna",
    "onnx",
    "networkx",
    "SQLAlchemy",
)


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
    from autotune.targets.library import HOST, load_spec, spec_names

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
    from autotune.targets.library import load_spec

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
    from autotune.targets.library import is_host, load_spec
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
    from autotune.home import store_file

    typer.echo(str(store_file()))


def doctor(
    operators: Annotated[
        bool, typer.Option("--operators", help="List the supported ONNX operators.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check the installation; with --operators, list what networks may contain."""
    from importlib.metadata import version

    from autotune.graph.onnx_import import constant_operators, supported_operators

    if operators:
        constants = constant_operators()
        anywhere = tuple(x for x in supported_operators() if x not in constants)
        _operators(anywhere, constants, json)
        return
    from autotune.kernels import contraction, engine  # noqa: F401 (that they load is the check)
    from autotune.store.store import Store

    with Store.open(None, reading=True) as opened:
        state = "writable" if opened.is_writable else "cannot be written: nothing is kept"
        store = f"{opened.path} ({state})"
    found = {
        "autotune": version("autotune"),
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        "compiled kernels": "present",
        "store": store,
    }
    if json:
        emit(found)
    else:
        facts(found)


def _operators(anywhere: tuple[str, ...], constants: tuple[str, ...], json: bool) -> None:
    from autotune.graph.control_flow import STEPPED

    if json:
        emit(
            {
                "operators": anywhere,
                "on_constants_only": constants,
                "control_flow": sorted(STEPPED),
            }
        )
        return
    typer.echo("supported: " + " ".join(anywhere))
    typer.echo("on constants only: " + " ".join(constants))
    typer.echo("as steps between graphs: " + " ".join(sorted(STEPPED)))

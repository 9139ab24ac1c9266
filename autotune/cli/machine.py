"""``autotune targets``, ``autotune store`` and ``autotune doctor``: what is here to work with."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


def derived(spec: HardwareSpec) -> dict[str, str]:
    """Figures that follow from a spec's numbers."""
    peak = spec.peak_macs_per_cycle
    return {
        "hardware profile": spec.profile_id,
        "cores": str(spec.cores),
        "array": f"{spec.matrix.rows} × {spec.matrix.cols} ({spec.matrix.dataflow})",
        "clock": f"{spec.clock_hz / 1e9:g} GHz",
        "peak": f"{peak} multiply-adds per cycle, {2 * peak * spec.clock_hz / 1e9:,.0f} GFLOP/s",
        "DRAM": f"{spec.dram.bytes_per_cycle:g} bytes per cycle, "
        f"{spec.dram.bytes_per_cycle * spec.clock_hz / 1e9:,.1f} GB/s",
        "ridge point": f"{peak / spec.dram.bytes_per_cycle:.1f} multiply-adds per byte",
        "scratchpad": f"{spec.scratchpad.size_bytes // 1024} KiB per core, {spec.scratchpad.banks} banks",
        "vector lanes": str(spec.vector.lanes),
    }


@targets.command("list")
def list_targets(json: JsonOption = False) -> None:
    """The shipped specs."""
    from autotune.targets.library import load_spec, spec_names

    specs = [load_spec(name) for name in spec_names()]
    if json:
        emit([asdict(spec) | {"profile_id": spec.profile_id} for spec in specs])
        return
    show(
        "targets",
        ("name", "array", "scratchpad KiB", "description"),
        [
            (
                s.name,
                f"{s.cores}×{s.matrix.rows}×{s.matrix.cols}",
                str(s.scratchpad.size_bytes // 1024),
                s.description,
            )
            for s in specs
        ],
    )


@targets.command("show")
def show_target(
    name: Annotated[str, typer.Argument(help="Spec name or file.")], json: JsonOption = False
) -> None:
    """A spec's numbers, what follows from them, and their sources."""
    from autotune.targets.library import load_spec

    spec = load_spec(name)
    if json:
        emit(asdict(spec) | {"derived": derived(spec)})
        return
    facts({"name": spec.name, "description": spec.description} | derived(spec))
    for source in spec.sources:
        typer.echo(f"  source: {source}")


@targets.command("check")
def check_target(
    file: Annotated[Path, typer.Argument(help="TOML file.")], json: JsonOption = False
) -> None:
    """Whether a spec file is complete and its numbers are possible."""
    from autotune.targets.toml_spec import read_spec

    spec = read_spec(file)
    if json:
        emit({"ok": True, "derived": derived(spec)})
        return
    facts({"file": str(file), "verdict": "ok"} | derived(spec))


@store.command("info")
def store_info(json: JsonOption = False) -> None:
    """What the store holds."""
    from autotune.store.store import Store

    with Store.open(None) as opened:
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
    from autotune.store.store import home

    typer.echo(str(home() / "autotune.db"))


def doctor(
    operators: Annotated[
        bool, typer.Option("--operators", help="List the supported ONNX operators.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check the installation; with --operators, list what networks may contain."""
    from autotune.graph.onnx_import import constant_operators, supported_operators

    if operators:
        constants = constant_operators()
        anywhere = tuple(x for x in supported_operators() if x not in constants)
        _operators(anywhere, constants, json)
        return
    from autotune.kernels import contraction, engine  # noqa: F401 (that they load is the check)
    from autotune.store.store import Store

    with Store.open(None) as opened:
        path = opened.path
    found = {
        "autotune": version("autotune"),
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        "compiled kernels": "present",
        "store": f"{path} (writable)",
    }
    if json:
        emit(found)
    else:
        facts(found)


def _operators(anywhere: tuple[str, ...], constants: tuple[str, ...], json: bool) -> None:
    if json:
        emit({"operators": anywhere, "on_constants_only": constants})
        return
    typer.echo("supported: " + " ".join(anywhere))
    typer.echo("on constants only: " + " ".join(constants))

"""``autotune doctor``: the installation, this machine, and the user's folders."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.cli.console import print_facts, print_json
from autotune.cli.options import JsonOption, StoreOption

LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "xgboost", "optuna", "onnx", "networkx", "SQLAlchemy"),
    "llvmlite",
)

FEATURES = {
    "sse4.2": "SSE4.2",
    "avx2": "AVX2",
    "fma": "FMA",
    "f16c": "F16C",
    "avx512f": "AVX-512",
    "avx512vnni": "AVX-512 VNNI",
    "avx512bf16": "AVX-512 BF16",
    "avxvnni": "AVX-VNNI",
    "amx-int8": "AMX int8",
    "amx-bf16": "AMX bf16",
    "neon": "NEON",
    "dotprod": "dot product",
    "sve": "SVE",
}
"""CPU features that speed up neural networks: LLVM's name to the vendor's."""


def doctor(
    operators: Annotated[
        bool, typer.Option("--operators", help="List the supported ONNX operators.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Check the installation and show this machine; with --operators, list what networks may contain."""
    if operators:
        _print_operators(json)
        return
    figures = installation() | host() | folders(store)
    if json:
        print_json(figures)
    else:
        print_facts({_label(name): _spell(name, value) for name, value in figures.items()})


def installation() -> dict[str, Any]:
    """Return the versions of this program and of its libraries."""
    from importlib.metadata import PackageNotFoundError, version

    from autotune.kernels.emit import contraction  # noqa: F401 (that they load is the check)
    from autotune.kernels.emulator import engine  # noqa: F401 (that they load is the check)

    def find_version(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "missing"

    return {
        "autotune": find_version("autotune"),
        "Python": platform.python_version(),
        **{name: find_version(name) for name in LIBRARIES},
        "compiled kernels": "present",
    }


def host() -> dict[str, Any]:
    """Return this machine's CPU, cores and memory."""
    from autotune.targets.native.cpu import topology
    from autotune.targets.native.cpu.host import available, host_isa, present_features
    from autotune.targets.native.detection.detect import default_threads

    present = present_features() if available() else topology.flags()
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return {
        "CPU": topology.model_name(),
        "CPU_features": [text for name, text in FEATURES.items() if name in present],
        "code_for": host_isa().name if available() else "none: llvmlite is missing",
        "threads": default_threads(),
        "memory_bytes": page_bytes * os.sysconf("SC_PHYS_PAGES"),
        "free_memory_bytes": page_bytes * os.sysconf("SC_AVPHYS_PAGES"),
    }


def folders(store: str | None = None) -> dict[str, Any]:
    """Return the user's folders with their sizes, the free disk, and the state of the store."""
    from autotune.disk.eviction import folder_bytes
    from autotune.disk.home import cache_folder, home
    from autotune.store.store import Store

    with Store.open(store, reading=True) as opened:
        state = "writable" if opened.is_writable else "cannot be written: nothing is kept"
        path = opened.path
    place, cache = home(), cache_folder()
    return {
        "home": str(place),
        "home_size_bytes": folder_bytes(place),
        "cache": str(cache),
        "cache_size_bytes": folder_bytes(cache),
        "free_disk_bytes": shutil.disk_usage(_nearest_existing(place)).free,
        "store": f"{path} ({state})",
    }


def _nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _spell(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return f"{value / 1e9:,.2f} GB"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)


def _print_operators(json: bool) -> None:
    from autotune.frontend.importing import constant_operators, supported_operators
    from autotune.frontend.subgraphs import STEPPED

    constants = constant_operators()
    anywhere = tuple(x for x in supported_operators() if x not in constants)
    if json:
        print_json(
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

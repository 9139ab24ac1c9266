"""``autotune targets drift``: make a machine depart from its spec, from now on."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.console import print_facts, print_json
from autotune.cli.options import JsonOption
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.targets.physical import Drift


def drift(
    name: Annotated[str, typer.Argument(help="Shipped spec or TOML file.")],
    dram_bandwidth: Annotated[
        float | None, typer.Option("--dram-bandwidth", help="Factor on DRAM bandwidth.")
    ] = None,
    clock: Annotated[float | None, typer.Option("--clock", help="Factor on the clock.")] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="°C that every command begins at.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option("--noise", help="Relative spread of measured times.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Take back all drift first.")] = False,
    json: JsonOption = False,
) -> None:
    """Let later commands and scripts meet a slower, hotter or noisier machine; show its drift."""
    from autotune.targets.drift_memory import describe_drift, recall, remember
    from autotune.targets.opening import load_spec, machine_key
    from autotune.targets.physical import Drift

    load_spec(name)  # a bad name is refused before anything is remembered under it
    options = {
        "dram_bandwidth": dram_bandwidth,
        "clock": clock,
        "temperature_celsius": temperature,
        "noise": noise,
    }
    changes = {key: value for key, value in options.items() if value is not None}
    wanted = replace(Drift() if reset else recall(machine_key(name)), **changes)
    if changes:
        _check(name, wanted)
    if changes or reset:
        remember(machine_key(name), wanted)
    if json:
        print_json({"target": name, "drifted": wanted != Drift(), "drift": asdict(wanted)})
    else:
        print_facts({"target": name, "drift": describe_drift(wanted)})


def _check(name: str, wanted: Drift) -> None:
    """Raise ``InputError`` or ``SpecError`` for a machine that cannot drift so."""
    from autotune.targets.emulator.target import EmulatorTarget
    from autotune.targets.opening import is_host, load_spec

    if is_host(name):
        raise InputError(f"{name} is not emulated; only an emulated machine can be drifted")
    EmulatorTarget(load_spec(name), name).drift(wanted)

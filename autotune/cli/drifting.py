"""``autotune targets drift``: make a machine depart from its spec for the commands that follow."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer

from autotune.cli.console import emit, facts
from autotune.cli.options import JsonOption


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
    """Let later commands on a target meet a slower, hotter or noisier machine; show its drift."""
    from autotune.cli.drift_memory import described, drifted, recall, remember
    from autotune.targets.opening import load_spec
    from autotune.targets.physical import Drift

    load_spec(name)  # a bad name is refused before anything is remembered under it
    options = {
        "dram_bandwidth": dram_bandwidth,
        "clock": clock,
        "temperature_celsius": temperature,
        "noise": noise,
    }
    given = {key: value for key, value in options.items() if value is not None}
    wanted = replace(Drift() if reset else recall(name), **given)
    if given:
        drifted(name, wanted)  # raises for what this machine cannot have
    if given or reset:
        remember(name, wanted)
    if json:
        emit({"target": name, "drifted": wanted != Drift(), "drift": asdict(wanted)})
        return
    facts({"target": name, "drift": described(wanted)})

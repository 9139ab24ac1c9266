"""Options and arguments of several commands, and the values of their texts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from autotune.arguments import dims_of_texts
from autotune.datasets import NETWORKS
from autotune.errors import InputError
from autotune.graph.accuracy import Accuracy
from autotune.runtime.session.out_of_range import OutOfRangePolicy


def complete_target(typed: str) -> list[str]:
    """Return the names of machines that begin as ``typed``."""
    from autotune.targets.opening import HOST, spec_names

    return [name for name in (HOST, *spec_names()) if name.startswith(typed)]


def complete_spec(typed: str) -> list[str]:
    """Return the names of emulated machines that begin as ``typed``."""
    from autotune.targets.opening import spec_names

    return [name for name in spec_names() if name.startswith(typed)]


def complete_network(typed: str) -> list[str]:
    """Return the shipped networks, ONNX files, plans and folders whose names begin as ``typed``."""
    folder = Path(typed) if typed.endswith("/") else Path(typed).parent
    begin = typed.rpartition("/")[2]
    paths = sorted(path for path in folder.glob("*") if path.name.startswith(begin))
    folders = [f"{path}/" for path in paths if path.is_dir()]
    files = [str(path) for path in paths if path.suffix in (".onnx", ".plan")]
    return [*(name for name in NETWORKS if name.startswith(typed)), *files, *folders]


TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        autocompletion=complete_target,
        help="Name of a machine (autotune targets list), TOML file, or cpu: this machine. "
        "Default: a plan's own machine, else cpu.",
    ),
]
EmulatedOption = Annotated[
    str, typer.Option("--target", help="Shipped spec, TOML file, or cpu: this machine.")
]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads of --target cpu; default: one per core."),
]
CoresOption = Annotated[
    int | None,
    typer.Option("--cores", min=1, help="Threads that build programs at most; default: all cores."),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory", help="Memory of this process while it builds, such as 4GiB; default: any."
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]
AccuracyOption = Annotated[
    Accuracy | None,
    typer.Option(
        "--accuracy",
        help="exact: sums as the model writes them; close: errors near 1e-6 of an output's range; "
        "fast: near 1e-5, finite numbers only. Default: close on cpu, exact elsewhere.",
    ),
]
TimeLimitOption = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        min=0.001,
        help="Seconds after which a measurement fails. Default: 60, and more for large candidates.",
    ),
]
WorkersOption = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="N|URL",
        help="Measure on N local Dask workers, or on those of the scheduler at tcp://HOST:PORT. "
        "Default: autotune's own processes.",
    ),
]
MOST_COUNTED = 10_000_000
"""Largest number of measurements or partitions of one command: years of work."""
NoVerifyOption = Annotated[
    bool, typer.Option("--no-verify", help="Do not prove that the program is safe to run.")
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where measurements and models are kept: a file, or postgresql://USER@HOST/DATABASE. "
        "Default: AUTOTUNE_STORE, else autotune.db in the home.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
DimOption = Annotated[
    list[str] | None, typer.Option("--dim", help="Bind a symbolic dimension: NAME=INT; repeatable.")
]
RangeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--range", help="What an input stays within: NAME=LOW:HIGH; repeatable. Runs check it."
    ),
]
OutsideOption = Annotated[
    OutOfRangePolicy,
    typer.Option(
        "--outside",
        help="Runs on inputs outside of their ranges, or a plan's: refuse, or general, which runs the "
        "network without ranges.",
    ),
]
AssumeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        help="A frequent class of an input: NAME=ones, zeros, padded:LENGTH, NUMBER or LOW:HIGH; repeatable. Builds a "
        "variant for it behind a guard; other inputs run by the general program.",
    ),
]
SHIPPED = f"Shipped: {', '.join(NETWORKS)}."
ModelArgument = Annotated[
    str,
    typer.Argument(
        help=f"ONNX file, or the name of a shipped network. {SHIPPED}",
        autocompletion=complete_network,
    ),
]
NetworksArgument = Annotated[
    list[str],
    typer.Argument(
        help=f"ONNX files, or names of shipped networks. {SHIPPED}",
        autocompletion=complete_network,
    ),
]
RunnableArgument = Annotated[
    str,
    typer.Argument(
        help=f"Plan file, ONNX file, or the name of a shipped network. {SHIPPED}",
        autocompletion=complete_network,
    ),
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Plan file to write.")]
PageOption = Annotated[Path | None, typer.Option("--out", help="HTML page to write.")]


def machine_name(target: str | None, threads: int | None, model: Path | str | None = None) -> str:
    """Return the name of the machine, with ``threads`` in it where they are given.

    Without a ``target`` it is the machine of the plan in ``model``, else this CPU. Raises ``SpecError``
    for threads of an emulated machine.
    """
    from autotune.runtime.session.defaults import target_name
    from autotune.targets.opening import host_name

    return str(host_name(target_name(model) if target is None else target, threads))


def dimensions(options: list[str] | None) -> dict[str, int]:
    """Return ``NAME=INT`` options as a mapping. Raises ``InputError``."""
    return dims_of_texts(options or (), "--dim")


def input_ranges(options: list[str] | None) -> dict[str, tuple[float, float]]:
    """Return ``NAME=LOW:HIGH`` options as a mapping. Raises ``InputError``."""
    ranges: dict[str, tuple[float, float]] = {}
    for option in options or ():
        name, _, ends = option.rpartition("=")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            name = ""
        if not name:
            raise InputError(
                f"--range {option!r} is not NAME=LOW:HIGH with numbers, such as --range x=0:1"
            )
        if ranges.setdefault(name, (low, high)) != (low, high):
            raise InputError(f"--range {name}: given twice, with other ends; give it once")
    return ranges


def input_classes(options: list[str] | None) -> dict[str, str | float | tuple[float, float]]:
    """Return ``NAME=CLASS`` options as assumptions. Raises ``InputError``."""
    classes: dict[str, str | float | tuple[float, float]] = {}
    for option in options or ():
        name, _, text = option.rpartition("=")
        try:
            value = _input_class(text)
        except ValueError:
            name = ""
        if not name:
            raise InputError(
                f"--assume {option!r} is not NAME=ones, zeros, padded:LENGTH, NUMBER or LOW:HIGH, such as --assume "
                "attention_mask=ones"
            )
        if classes.setdefault(name, value) != value:
            raise InputError(f"--assume {name}: given twice, with other classes; give it once")
    return classes


def _input_class(text: str) -> str | float | tuple[float, float]:
    if text in ("ones", "zeros") or text.startswith("padded:"):
        return text
    if ":" in text:
        low, high = map(float, text.split(":"))
        return low, high
    return float(text)


def given_options(context: typer.Context, names: Iterable[str]) -> dict[str, str]:
    """Return the options of the command that have another value than their default, by name as they are typed."""
    rows = {option.name: option for option in context.command.params}
    return {
        name: rows[name].opts[0]
        for name in names
        if context.params[name]
        not in (rows[name].default, [], ())  # none of an option that repeats
    }

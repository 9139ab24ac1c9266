"""The command line: parses, calls the library, prints. Errors become one line and an exit code."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from autotune import __version__
from autotune.cli import (
    assembling,
    benching,
    calibration,
    conforming,
    doctor,
    drifting,
    inspection,
    machine,
    running,
    searching,
    timing,
)
from autotune.cli.ending import INTERRUPTED, OK, USAGE, Ending, prepare_streams, settle_output
from autotune.errors import AutotuneError, one_line

_UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""Wrong arguments: click's class, or typer's own in the versions that bring click along."""

app = typer.Typer(
    name="autotune",
    help="Learns what fused operators cost on a machine, and fuses, tiles and lays out by it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("calibrate")(calibration.calibrate)
app.command("search")(searching.search)
app.command("run")(running.run)
app.command("explain")(inspection.explain)
app.command("predict")(inspection.predict)
app.command("asm")(assembling.asm)
app.command("disasm")(assembling.disasm)
app.command("time")(timing.time)
app.command("doctor")(doctor.doctor)
machine.targets.command("drift")(drifting.drift)
app.add_typer(machine.targets, name="targets")
app.add_typer(machine.store, name="store")
benching.bench.command("conformance")(conforming.conformance)
app.add_typer(benching.bench, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autotune {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Learns what fused operators cost on a machine, and fuses, tiles and lays out by it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``autotune``. Exit code 0, 1 for a failed check, 2 for bad input, 130 for
    Ctrl-C, 143 for SIGTERM; anything unexpected is a bug and shows its traceback."""
    prepare_streams()
    with warnings.catch_warnings():
        warnings.showwarning = _warned
        sys.exit(_status(arguments))


def _status(arguments: Sequence[str] | None) -> int:
    """Run a command; return its exit code."""
    ending = Ending(sys.argv[1:] if arguments is None else arguments)
    try:
        with ending.terminable():
            status = app(args=arguments, standalone_mode=False)
            sys.stdout.flush()
        code = status if isinstance(status, int) else OK
        if code == INTERRUPTED:  # how typer reports Ctrl-C
            code = ending.interrupted()
    except (typer.Abort, KeyboardInterrupt):
        code = ending.interrupted()
    except _UsageError as error:
        code = _misused(error, ending)
    except AutotuneError as error:
        code = ending.refused(str(error))
    except BrokenPipeError:
        settle_output()
        code = OK
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        if error.filename is not None:
            code = ending.refused(f"{error.filename}: {error.strerror}")
        else:
            code = ending.refused(f"{error.strerror}; free some for output and temporary files")
    return code


def _warned(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line for people."""
    sys.stderr.write(f"autotune: warning: {one_line(str(message))}\n")


def _misused(error: Any, ending: Ending) -> int:
    """Tell wrong arguments in one line; without any, show the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show(sys.stderr)
        return USAGE
    command = "autotune" if error.ctx is None else error.ctx.command_path
    text = error.format_message()
    stop = "" if text.endswith((".", "?", "!")) else "."
    return ending.refused(f"{text}{stop} See '{command} --help'")

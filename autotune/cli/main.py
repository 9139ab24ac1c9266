"""The command line: parses, calls the library, prints. Errors become one line and an exit code."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from autotune import __version__
from autotune.cli.commands import (
    asm,
    bench_conformance,
    bench_drift,
    calibrate,
    diff,
    disasm,
    doctor,
    explain,
    explore,
    predict,
    quantize,
    run,
    search,
    serve,
    status,
    store,
    sweep,
    targets,
    time,
)
from autotune.cli.ending import (
    INTERRUPTED,
    OK,
    PRINTED,
    USAGE,
    Ending,
    prepare_streams,
    settle_output,
)
from autotune.errors import AutotuneError, one_line

app = typer.Typer(
    name="autotune",
    help="Learns what fused operators cost on a machine, and fuses, tiles and lays out by it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("calibrate")(calibrate.calibrate)
app.command("search")(search.search)
app.command("run")(run.run)
app.command("explore")(explore.explore)
app.command("sweep")(sweep.sweep)
app.command("explain")(explain.explain)
app.command("diff")(diff.diff)
app.command("status")(status.status)
app.command("serve")(serve.serve)
app.command("predict")(predict.predict)
app.command("quantize")(quantize.quantize)
app.command("asm")(asm.asm)
app.command("disasm")(disasm.disasm)
app.command("time")(time.time)
app.command("doctor")(doctor.doctor)
app.add_typer(targets.targets, name="targets")
app.add_typer(store.store, name="store")

bench = typer.Typer(help="Demonstrations that measure something.", no_args_is_help=True)
bench.command("drift")(bench_drift.drift)
bench.command("conformance")(bench_conformance.conformance)
app.add_typer(bench, name="bench")


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
    """Entry point of ``autotune``. Exit code 0, 1 for a failed check or a defect of ours, 2 for bad input, 130 for
    Ctrl-C, 143 for SIGTERM; anything unexpected is a bug and shows its traceback."""
    prepare_streams()
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        sys.exit(_status(arguments))


def _status(arguments: Sequence[str] | None) -> int:
    """Run a command; return its exit code."""
    ending = Ending(sys.argv[1:] if arguments is None else arguments)
    try:
        with ending.terminable():
            status = app(args=arguments, standalone_mode=False)
            sys.stdout.flush()
        code = status if isinstance(status, int) else OK
        if code in (INTERRUPTED, PRINTED):  # how typer reports Ctrl-C, and how commands do
            code = ending.interrupt(is_printed=code == PRINTED)
    except (typer.Abort, KeyboardInterrupt):
        code = ending.interrupt()
    except TyperException as error:
        code = _refuse_usage(error, ending)
    except AutotuneError as error:
        code = ending.refuse(str(error))
    except (BrokenPipeError, SystemExit) as error:
        # typer and rich make an exit with 1 of it when the reader of stdout is gone
        if not isinstance(error, BrokenPipeError) and not isinstance(
            error.__context__, BrokenPipeError
        ):
            raise
        settle_output()
        code = OK
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        if error.filename is not None:
            code = ending.refuse(f"{error.filename}: {error.strerror}")
        else:
            code = ending.refuse(f"{error.strerror}; free some for output and temporary files")
    return code


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line for people."""
    sys.stderr.write(f"autotune: warning: {one_line(str(message))}\n")


def _refuse_usage(error: Any, ending: Ending) -> int:
    """Tell wrong arguments in one line; without any, show the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show(sys.stderr)
        return USAGE
    command = "autotune" if error.ctx is None else error.ctx.command_path
    text = error.format_message()
    stop = "" if text.endswith((".", "?", "!")) else "."
    return ending.refuse(f"{text}{stop} See '{command} --help'")

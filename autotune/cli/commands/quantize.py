"""``autotune quantize``: a network in int8 or bf16 from the user's inputs, in standard ONNX, with its loss."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.cli.options import (
    DimOption,
    JsonOption,
    ModelArgument,
    SeedOption,
    StoreOption,
    complete_target,
    dimensions,
)
from autotune.cli.progress import progress
from autotune.disk.atomic_file import check_place
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.quantisation.result import QuantizeResult


METHODS, ACTIVATIONS = ("minmax", "percentile", "mse"), ("int8", "uint8")
FORMATS = ("int8", "bf16", "int8,bf16")
LOSSES = ("relative", "cosine", "top1")
STAGES = {"calibrate": 0.3, "check": 0.1, "sensitivity": 0.4, "predict": 0.2}
"""Phases with their shares of the time; without --max-loss the first two are all."""


def _complete_format(typed: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(typed)]


def _complete_method(typed: str) -> list[str]:
    return [name for name in METHODS if name.startswith(typed)]


def _complete_activations(typed: str) -> list[str]:
    return [name for name in ACTIVATIONS if name.startswith(typed)]


def _complete_loss(typed: str) -> list[str]:
    return [name for name in LOSSES if name.startswith(typed)]


DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER|FILE",
        help="Inputs of the network: a folder of .npy and .npz files, or one such file. Each array is one run, or a "
        "stack of runs. Only --weights-only and --format bf16 need none.",
    ),
]
FileOption = Annotated[
    Path | None, typer.Option("--out", help="ONNX file to write. Default: NET.FORMAT.onnx.")
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        help="Format that products multiply: int8, bf16 (no scales: numbers are rounded to it), or int8,bf16: "
        "--max-loss and --target choose for each product.",
        autocompletion=_complete_format,
    ),
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        help=f"How ranges follow from the inputs: {', '.join(METHODS)} (least squared error).",
        autocompletion=_complete_method,
    ),
]
PercentileOption = Annotated[
    float,
    typer.Option(
        "--percentile", help="Per cent of the elements in range, for --method percentile."
    ),
]
ActivationsOption = Annotated[
    str,
    typer.Option(
        "--activations",
        help=f"Type of activations: {', '.join(ACTIVATIONS)}. Weights are int8, biases int32.",
        autocompletion=_complete_activations,
    ),
]
PerTensorOption = Annotated[
    bool, typer.Option("--per-tensor", help="One scale per weight; else one per output channel.")
]
WeightsOnlyOption = Annotated[
    bool,
    typer.Option("--weights-only", help="Only weights become narrow; activations stay float32."),
]
MaxLossOption = Annotated[
    str | None,
    typer.Option(
        "--max-loss",
        metavar="LOSS",
        help="Largest loss on the runs held out, such as 0.5% or 0.005. Products stay in float32, those first that "
        "harm most for what they gain.",
    ),
]
LossOption = Annotated[
    str,
    typer.Option(
        "--loss",
        help=f"What --max-loss bounds: {', '.join(LOSSES)}. Norm of the difference by that of the output; 1 − cosine; "
        "fraction of rows whose largest element is another one.",
        autocompletion=_complete_loss,
    ),
]
GainTargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        autocompletion=complete_target,
        help="Machine whose cost model tells what the format gains, for --max-loss. Default: multiplications are counted.",
    ),
]
HoldOutOption = Annotated[
    float, typer.Option("--hold-out", help="Fraction of the runs that only judges the result.")
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="Page of the front and of every product, for --max-loss.",
    ),
]
RunsOption = Annotated[int, typer.Option("--runs", help="Runs that are used at most.")]


def quantize(
    model: ModelArgument,
    data: DataOption = None,
    out: FileOption = None,
    format: FormatOption = "int8",
    method: MethodOption = "mse",
    percentile: PercentileOption = 99.99,
    activations: ActivationsOption = "int8",
    per_tensor: PerTensorOption = False,
    weights_only: WeightsOnlyOption = False,
    max_loss: MaxLossOption = None,
    loss: LossOption = "relative",
    target: GainTargetOption = None,
    hold_out: HoldOutOption = 0.25,
    runs: RunsOption = 128,
    dim: DimOption = None,
    seed: SeedOption = 0,
    store: StoreOption = None,
    report: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Quantise a network to int8 or bf16 by inputs of yours, and tell the loss on held-out ones.

    The file is standard ONNX: any runtime that reads QuantizeLinear and DequantizeLinear, or Cast to
    bfloat16, runs it.
    """
    name = format.replace(" ", "").replace(",", "-")
    file = Path(f"{Path(model).stem}.{name:.20}.onnx") if out is None else out
    check_place(file)
    if report is not None:
        _check_report(report, file, max_loss)
    stages = {"calibrate": 0.6, "check": 0.4} if max_loss is None else STAGES
    with progress(f"quantize {model}", stages) as heard:
        from autotune.quantisation.quantize import quantize as run

        result = run(
            model,
            data,
            file,
            format=format,
            method=method,
            activations=activations,
            per_channel=not per_tensor,
            percentile=percentile,
            weights_only=weights_only,
            max_loss=max_loss,
            loss=loss,
            target=target,
            hold_out=hold_out,
            runs=runs,
            dims=dimensions(dim),
            seed=seed,
            store=store,
            progress=heard,
        )
    if report is not None:
        from autotune.report.precision_page import write_precision

        write_precision(result, report)
    if json:
        print_json(_document(result))
    else:
        _print(result)
    if report is not None:
        say(f"page: {report}")
    if result.unused_runs:
        say(f"{result.unused_runs:,} more runs of the data were not used; --runs sets how many are")


def _check_report(report: Path, file: Path, max_loss: str | None) -> None:
    """Refuse a page that nothing would be on, or in the place of the network."""
    if max_loss is None:
        raise InputError("--report shows choices within a limit of the loss; give --max-loss too")
    if report.absolute() == file.absolute():
        raise InputError(f"--report {report} is the network's file; name another one")
    check_place(report)


def _document(result: QuantizeResult) -> dict[str, Any]:
    """Return the result as JSON has it."""
    return {
        "network": result.network,
        "file": str(result.file),
        "format": result.scheme.name,
        "method": result.scheme.method.value if "int8" in result.scheme.formats else None,
        "activations": result.scheme.stored_activations,
        "runs": {"calibration": result.calibration_runs, "held_out": result.held_out_runs},
        "losses": {measure.value: loss for measure, loss in result.losses.items()},
        "bytes": {"before": result.bytes_before, "after": result.bytes_after},
        "operators": [
            {
                "name": one.name,
                "kind": one.kind,
                "type": one.type,
                "reason": one.reason,
                "sensitivity": one.sensitivity,
                "gain": one.gain,
            }
            for one in result.products
        ],
        "limit": None
        if result.limit is None
        else {"loss": result.measure.value, "most": result.limit, "gain": result.gain_unit},
        "front": [
            {
                "quantised": one.quantised,
                "formats": {format.value: count for format, count in one.counts.items()},
                "gain": one.gain,
                "loss": one.loss,
                "seconds": one.seconds,
                "kept": one.is_kept,
            }
            for one in result.front
        ],
    }


def _print(result: QuantizeResult) -> None:
    """Print facts, and the operators that stayed in float32."""
    runs = f"{result.calibration_runs} to calibrate, {result.held_out_runs} held out"
    ratio = result.bytes_after / result.bytes_before
    print_facts(
        {
            "network": result.network,
            **_counts(result),
            "runs": runs if result.held_out_runs else "none: the loss is not measured",
            **{f"loss, {measure}": f"{loss:.3%}" for measure, loss in result.losses.items()},
            "bytes": f"{result.bytes_after:,} ({ratio:.2f} × {result.bytes_before:,})",
            "file": result.file,
        }
    )
    _print_products(result)
    if result.front:
        _print_front(result)


def _counts(result: QuantizeResult) -> dict[str, str]:
    """Return how many products have each format."""
    types = [one.type for one in result.products]
    return {
        format.value: f"{types.count(format.value)} of {len(types)} products"
        for format in result.scheme.formats
    }


def _print_products(result: QuantizeResult) -> None:
    """Print the products that stayed in float32."""
    rows = [
        (
            x.name,
            x.kind,
            x.reason,
            "" if x.sensitivity is None else f"{x.sensitivity:.3%}",
            "" if x.gain is None else f"{x.gain:.1%}",
        )
        for x in result.products
        if x.reason is not None
    ]
    if rows:
        columns = ("operator", "kind", "why", "loss alone", "gain")
        print_table("in float32", columns, rows, texts=3)


def _print_front(result: QuantizeResult) -> None:
    """Print choices between all products and none, with the file's own marked."""
    rows = [
        (
            "kept" if one.is_kept else "",
            *(str(one.counts.get(format, 0)) for format in result.scheme.formats),
            f"{one.gain:.1%}",
            f"{one.loss:.3%}",
            *(() if one.seconds is None else (f"{one.seconds * 1e3:,.3f}",)),
        )
        for one in result.front
    ]
    columns = ("", *result.scheme.formats, "gain", "loss", "predicted ms")
    say(f"gain in {result.gain_unit}; loss: the greater of calibration and held-out runs")
    title = f"front by {result.measure} loss"
    print_table(title, columns[: len(rows[0])], rows)

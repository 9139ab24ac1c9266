"""``autotune quantize``: a network in int8 from the user's inputs, in ONNX's QDQ form, with its loss."""

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
    dimensions,
)
from autotune.cli.progress import progress
from autotune.disk.atomic_file import check_place

if TYPE_CHECKING:
    from autotune.quantisation.quantize import QuantizeResult


METHODS, ACTIVATIONS = ("minmax", "percentile", "mse"), ("int8", "uint8")


def _complete_method(typed: str) -> list[str]:
    return [name for name in METHODS if name.startswith(typed)]


def _complete_activations(typed: str) -> list[str]:
    return [name for name in ACTIVATIONS if name.startswith(typed)]


DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER|FILE",
        help="Inputs of the network: a folder of .npy and .npz files, or one such file. Each array is one run, or a "
        "stack of runs. Only --weights-only needs none.",
    ),
]
FileOption = Annotated[
    Path | None, typer.Option("--out", help="ONNX file to write. Default: NET.int8.onnx.")
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
    typer.Option("--weights-only", help="Only weights become int8; activations stay float32."),
]
HoldOutOption = Annotated[
    float, typer.Option("--hold-out", help="Fraction of the runs that only judges the result.")
]
RunsOption = Annotated[int, typer.Option("--runs", help="Runs that are used at most.")]


def quantize(
    model: ModelArgument,
    data: DataOption = None,
    out: FileOption = None,
    method: MethodOption = "mse",
    percentile: PercentileOption = 99.99,
    activations: ActivationsOption = "int8",
    per_tensor: PerTensorOption = False,
    weights_only: WeightsOnlyOption = False,
    hold_out: HoldOutOption = 0.25,
    runs: RunsOption = 128,
    dim: DimOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Quantise a network to int8 by inputs of yours, and tell the loss on held-out ones.

    The file is standard ONNX: any runtime that reads QuantizeLinear and DequantizeLinear runs it.
    """
    file = Path(f"{Path(model).stem}.int8.onnx") if out is None else out
    check_place(file)
    with progress(f"quantize {model}", {"calibrate": 0.6, "check": 0.4}) as heard:
        from autotune.quantisation.quantize import quantize as run

        result = run(
            model,
            data,
            file,
            method=method,
            activations=activations,
            per_channel=not per_tensor,
            percentile=percentile,
            weights_only=weights_only,
            hold_out=hold_out,
            runs=runs,
            dims=dimensions(dim),
            seed=seed,
            progress=heard,
        )
    if json:
        print_json(_document(result))
    else:
        _print(result)
    if result.unused_runs:
        say(f"{result.unused_runs:,} more runs of the data were not used; --runs sets how many are")


def _document(result: QuantizeResult) -> dict[str, Any]:
    """Return the result as JSON has it."""
    return {
        "network": result.network,
        "file": str(result.file),
        "method": result.scheme.method.value,
        "activations": "float32"
        if result.scheme.is_weights_only
        else result.scheme.activations.value,
        "runs": {"calibration": result.calibration_runs, "held_out": result.held_out_runs},
        "losses": {measure.value: loss for measure, loss in result.losses.items()},
        "bytes": {"before": result.bytes_before, "after": result.bytes_after},
        "operators": [
            {"name": one.name, "kind": one.kind, "type": one.type, "reason": one.reason}
            for one in result.products
        ],
    }


def _print(result: QuantizeResult) -> None:
    """Print facts, and the operators that stayed in float32."""
    runs = f"{result.calibration_runs} to calibrate, {result.held_out_runs} held out"
    ratio = result.bytes_after / result.bytes_before
    print_facts(
        {
            "network": result.network,
            "int8": f"{result.quantised} of {len(result.products)} products",
            "runs": runs if result.held_out_runs else "none: the loss is not measured",
            **{f"loss, {measure}": f"{loss:.3%}" for measure, loss in result.losses.items()},
            "bytes": f"{result.bytes_after:,} ({ratio:.2f} × {result.bytes_before:,})",
            "file": result.file,
        }
    )
    rows = [(x.name, x.kind, x.reason) for x in result.products if x.reason is not None]
    if rows:
        print_table("in float32", ("operator", "kind", "why"), rows, texts=3)

"""Options of ``autotune search`` that no other command has, and the request that they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import MOST_COUNTED, SHIPPED, complete_network
from autotune.tuner.objective import NAMES as OBJECTIVES
from autotune.tuner.options import DEFAULT_MEASURE, DEFAULT_TRIALS, STRATEGY_NAMES

if TYPE_CHECKING:
    from autotune.graph.accuracy import Accuracy
    from autotune.graph.ranges import Ranges
    from autotune.tuner.objective import Objective

LOSSES = ("relative", "cosine", "top1")
"""Names of ``quantisation.loss.Loss``, for the help."""

NetworkArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help=f"ONNX file, or the name of a shipped network; none with --replay. {SHIPPED}",
        autocompletion=complete_network,
    ),
]

TrialsOption = Annotated[
    int | None,
    typer.Option(
        "--trials",
        min=1,
        max=MOST_COUNTED,
        help=f"Plans to try at most. Default: {DEFAULT_TRIALS}; on this CPU as many as the time allows.",
    ),
]

MeasureOption = Annotated[
    int | None,
    typer.Option(
        "--measure",
        min=1,
        max=MOST_COUNTED,
        help=f"Candidates to measure at most. Default: {DEFAULT_MEASURE}; on this CPU as many as the time allows.",
    ),
]

SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--seconds",
        min=0.001,
        help="Time of a search on this CPU. Default: 15 to 60, by the network's own time.",
    ),
]


def _complete_strategy(typed: str) -> list[str]:
    return [name for name in STRATEGY_NAMES if name.startswith(typed)]


StrategyOption = Annotated[
    str,
    typer.Option(
        "--strategy",
        help=f"What proposes plans: {', '.join(STRATEGY_NAMES)}. With --max-loss, also formats: greedy by our rule, random and "
        "tpe by Optuna's sampler, others by the rule and NSGA-II.",
        autocompletion=_complete_strategy,
    ),
]

StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="Where the study of tried plans is kept: a URL of Optuna's storages, or a file (.log: a journal, else "
        "SQLite). Default: studies.db beside the store. :memory: keeps none.",
    ),
]


def _complete_objective(typed: str) -> list[str]:
    return [name for name in OBJECTIVES if name.startswith(typed)]


ObjectiveOption = Annotated[
    str,
    typer.Option(
        "--objective",
        help=f"What to minimise: {', '.join(OBJECTIVES)}, or a sum such as latency+4e-07*energy of cycles and "
        "femtojoules. On this CPU memory, the intermediate tensors that live at once, or latency within a bound such as "
        "'memory<=2MiB'.",
        autocompletion=_complete_objective,
    ),
]

MaxLossOption = Annotated[
    str | None,
    typer.Option(
        "--max-loss",
        metavar="LOSS",
        help="Let the search choose int8, bf16 or float32 for each product, within this loss on inputs held out of "
        "--data, such as 0.5% or 0.005. Up to 7 networks are searched; float32 stays unless another one is faster.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER|FILE",
        help="Inputs of the network for --max-loss: a folder of .npy and .npz files, or one such file. A quarter is "
        "held out.",
    ),
]


def _complete_loss(typed: str) -> list[str]:
    return [name for name in LOSSES if name.startswith(typed)]


LossOption = Annotated[
    str | None,
    typer.Option(
        "--loss",
        help=f"What --max-loss bounds: {', '.join(LOSSES)}. Default: {LOSSES[0]}.",
        autocompletion=_complete_loss,
    ),
]

ReportOption = Annotated[Path | None, typer.Option("--report", help="HTML report to write.")]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The options of one ``autotune search``, parsed; the files can be written."""

    model: str
    target: str | None
    threads: int | None
    trials: int | None
    measure: int | None
    seconds: float | None
    cores: int | None
    memory: str | None
    objective: Objective
    plan_file: Path
    report_file: Path
    dims: dict[str, int]
    accuracy: Accuracy | None
    ranges: Ranges
    seed: int
    time_limit_seconds: float | None
    workers: str | None
    command: str
    """The command line that repeats the search."""
    strategy: str
    storage: str | None
    store: str | None
    front: int | None
    """Searches of a front; None for one plan."""
    max_loss: str | None = None
    data: Path | None = None
    loss: str | None = None

"""``autotune search --replay``: search a recorded tuning space as a black box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.console import print_facts, print_json, say
from autotune.cli.options import MOST_COUNTED
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.targets.recorded_space import RecordedSpace
    from autotune.tuner.blackbox.replay import BlackBoxSearch

DEFAULT_EVALUATIONS = 200
ReplayOption = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        help="Search a recorded tuning space instead of a network: Kernel Tuner cache or T4 file, may "
        "be gzipped.",
    ),
]
EvaluationsOption = Annotated[
    int | None,
    typer.Option(
        "--evaluations",
        min=1,
        max=MOST_COUNTED,
        help=f"Configurations that --replay tries. Default: {DEFAULT_EVALUATIONS}, or all of a smaller space.",
    ),
]


PriorOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--prior",
        help="Recordings of the same kernel on other machines that --replay learns from: one or more "
        "files; repeatable.",
    ),
]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """The options of one ``autotune search --replay``."""

    file: Path
    evaluations: int | None
    priors: tuple[Path, ...]

    @classmethod
    def of(
        cls,
        replay: Path | None,
        evaluations: int | None,
        prior: list[Path] | None,
        others: list[str] | None,
    ) -> RecordedRequest | None:
        """Return the request, None without ``--replay``. ``others`` are files that follow the first one
        behind ``--prior``. Raises ``InputError`` for options without what they belong to."""
        if replay is None:
            if evaluations is not None or prior:
                name = "--prior" if evaluations is None else "--evaluations"
                raise InputError(f"{name} belongs to --replay FILE; name the recorded space")
            return None
        if others and not prior:
            raise InputError(f"--replay searches a recorded space, not the network {others[0]!r}")
        files = (*(prior or ()), *map(Path, others or ()))
        return cls(replay, evaluations, files)


def check_recorded_options(others: Sequence[str]) -> None:
    """Raise ``InputError`` if ``others`` were given, which a recorded space leaves no choice of."""
    if others:
        raise InputError(f"{others[0]} is for the search of a network; leave it out with --replay")


def print_recorded_search(request: RecordedRequest, seed: int, json: bool) -> None:
    """Search the space of a file and print every value in the order tried."""
    from autotune.targets.recorded_space import RecordedSpace
    from autotune.tuner.blackbox.replay import search_recorded

    space = RecordedSpace.read(request.file)
    priors = [RecordedSpace.read(file) for file in request.priors]
    most = min(DEFAULT_EVALUATIONS, len(space))
    count = most if request.evaluations is None else request.evaluations
    result = search_recorded(space, count, seed, priors)
    if json:
        print_json(asdict(result))
    else:
        _print(space, result)


def _print(space: RecordedSpace, result: BlackBoxSearch) -> None:
    failed = sum(value is None for value in result.values)
    tried = len(result.values)
    facts = {
        "space": f"{space.name}: {len(space):,} configurations",
        "tried": f"{tried:,} ({failed} failed)",
    }
    if result.best is None or result.configuration is None:
        print_facts(facts)
        say("no configuration that was tried is valid; raise --evaluations")
        return
    milliseconds = 1e3 * space.unit_seconds
    random = float(space.best_of_random(tried)[-1])
    optimum = float(space.best_seconds / space.unit_seconds)
    best = ", ".join(f"{name}={value}" for name, value in result.configuration.items())
    print_facts(
        facts
        | {
            "best": f"{result.best * milliseconds:.4g} ms: {best}",
            "optimum": f"{optimum * milliseconds:.4g} ms; the best is {result.best / optimum - 1:.2%} above "
            f"it, that of as many random ones {random / optimum - 1:.2%} on average",
        }
    )

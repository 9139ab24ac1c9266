"""``autotune search`` on a machine that times ONNX models: the best configuration of its own parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from autotune.cli.console import print_json, print_table, say
from autotune.cli.failures import exit_on_defects, say_failures
from autotune.cli.progress import progress
from autotune.errors import InputError
from autotune.tuner.progress import SEARCH_STAGES


@dataclass(frozen=True, slots=True)
class ConfigurationRequest:
    """The options of one such search."""

    model: str
    target: str
    dims: Mapping[str, int]
    store: str | None
    time_limit_seconds: float | None
    workers: str | int | None


def is_timed_by_function(target: str | None) -> bool:
    """Return True if a target's name means a machine that times ONNX models."""
    from autotune.targets.opening import plugin_target

    return target is not None and plugin_target(target) is not None


def print_configurations(
    request: ConfigurationRequest, measure: int | None, others: Sequence[str], json: bool
) -> None:
    """Search and print what was tried; Raises ``InputError`` for ``others``, options that were given."""
    from autotune import api
    from autotune.tuner.configuration_search import MEASURED

    if others:
        raise InputError(
            f"{others[0]} belongs to machines that run programs; leave it out for {request.target}"
        )
    with progress(f"search {request.model}", SEARCH_STAGES) as heard:
        result = api.search_configuration(
            request.model,
            request.target,
            request.dims,
            MEASURED if measure is None else measure,
            request.store,
            heard,
            request.time_limit_seconds,
            request.workers,
        )
    say_failures(result.failures)
    if json:
        print_json(asdict(result))
    else:
        rows = [
            (
                ", ".join(f"{name}={value}" for name, value in one.configuration.items()),
                f"{one.predicted_seconds * 1e6:,.1f}",
                "failed" if one.measured_seconds is None else f"{one.measured_seconds * 1e6:,.1f}",
            )
            for one in result.tried
        ]
        title = f"{result.network} on {result.target}, {len(rows)} of {result.weighed} configurations measured"
        print_table(title, ("configuration", "predicted (µs)", "measured (µs)"), rows)
        best = ", ".join(f"{name}={value}" for name, value in result.best.configuration.items())
        say(f"fastest: {best}")
    exit_on_defects(result.failures)

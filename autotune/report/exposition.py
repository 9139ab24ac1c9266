"""Status of sessions as Prometheus reads it: text exposition format 0.0.4.

Names follow Prometheus (base units, ``_total``) and translate to OpenTelemetry without loss:
``autotune_run_duration_seconds`` is the histogram ``autotune.run.duration`` in ``s``. Written here, as
a client library keeps live metrics of its own process, and this is a snapshot of other processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OPERATORS_SHOWN = 120
"""Characters of a group's operators in its label."""

Document = Mapping[str, Any]
_Labels = Mapping[str, str]
_Sample = tuple[str, _Labels, float]


@dataclass(frozen=True, slots=True)
class _Family:
    """A metric: name, type, meaning."""

    name: str
    kind: str
    help: str


_RUNS = _Family("autotune_run_duration_seconds", "histogram", "Duration of runs of a session.")
_MEMORY = _Family("autotune_session_memory_bytes", "gauge", "Memory that a session's tables hold.")
_PLAN = _Family("autotune_plan_version", "gauge", "Plans that a session has published.")
_MODEL = _Family("autotune_model_version", "gauge", "Cost models that a session has published.")
_EXECUTIONS = _Family("autotune_group_executions_total", "counter", "Executions of a group.")
_SECONDS = _Family("autotune_group_duration_seconds_total", "counter", "Time spent in a group.")
_MEAN = _Family(
    "autotune_group_recent_duration_seconds", "gauge", "Mean time of a group's newest runs."
)
_PREDICTED = _Family(
    "autotune_group_predicted_duration_seconds",
    "gauge",
    "Time of a group as the cost model predicts it.",
)


def exposition(processes: Sequence[Document]) -> str:
    """Return the metrics of all sessions of these processes (``read_statuses``), each line ended."""
    samples: dict[_Family, list[_Sample]] = {
        family: []
        for family in (_RUNS, _MEMORY, _PLAN, _MODEL, _EXECUTIONS, _SECONDS, _MEAN, _PREDICTED)
    }
    for process in processes:
        for session in process["sessions"]:
            labels = _session_labels(process, session)
            samples[_RUNS] += _histogram(session, labels)
            samples[_MEMORY] += [
                ("", {**labels, "kind": kind}, session["memory"][f"{kind}_bytes"])
                for kind in ("constant", "arena")
            ]
            samples[_PLAN].append(("", labels, session["plan_version"]))
            samples[_MODEL].append(("", labels, session["model_version"]))
            for group in session["groups"]:
                _add_group(samples, group, labels, session["clock_hz"])
    return "".join(line for family, found in samples.items() for line in _lines(family, found))


def _session_labels(process: Document, session: Document) -> dict[str, str]:
    names = ("network", "target", "hardware_profile", "session")
    return {**{x: str(session[x]) for x in names}, "pid": str(process["pid"])}


def _histogram(session: Document, labels: _Labels) -> Iterator[_Sample]:
    """Give the cumulative classes, the sum and the count."""
    reached = 0
    for bound, count in session["histogram"]:
        reached += count
        yield "_bucket", {**labels, "le": "+Inf" if bound is None else f"{bound:g}"}, reached
    yield "_sum", labels, session["total_seconds"]
    yield "_count", labels, session["runs"]


def _add_group(
    samples: Mapping[_Family, list[_Sample]], group: Document, session: _Labels, clock_hz: float
) -> None:
    labels = {
        **session,
        "group": group["group"],
        "schedule": group["schedule"],
        "operators": " ".join(group["operators"])[:OPERATORS_SHOWN],
        "origin": group["origin"],
        "altered": str(group["altered"]).lower(),
    }
    samples[_EXECUTIONS].append(("", labels, group["executions"]))
    samples[_SECONDS].append(("", labels, group["total_cycles"] / clock_hz))
    samples[_MEAN].append(("", labels, group["mean_cycles"] / clock_hz))
    if group["predicted_cycles"] is not None:
        samples[_PREDICTED].append(("", labels, group["predicted_cycles"] / clock_hz))


def _lines(family: _Family, samples: Sequence[_Sample]) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP {family.name} {family.help}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for suffix, labels, value in samples:
        text = ",".join(f'{name}="{_escaped(x)}"' for name, x in labels.items())
        yield f"{family.name}{suffix}{{{text}}} {value!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""A recorded tuning space: every configuration of a kernel with its time, as tuners keep it in files.

Reads the cache files of Kernel Tuner (van Werkhoven 2019, *Kernel Tuner*, FGCS 90) and the T4 format of the
auto-tuning community (Hellsten et al. 2022, arXiv:2210.01465, benchmark hub), plain or gzipped.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError

Value = int | float | str
Floats = npt.NDArray[np.float64]

SECONDS = {
    "s": 1.0, "seconds": 1.0,
    "ms": 1e-3, "milliseconds": 1e-3, "miliseconds": 1e-3,  # so spelt in the community's own files
    "us": 1e-6, "microseconds": 1e-6,
    "ns": 1e-9, "nanoseconds": 1e-9,
}  # fmt: skip
"""Seconds of the units of time that files name."""

KERNEL_TUNER_UNIT = SECONDS["ms"]
OBJECTIVE = "time"
FAILED_TIME = 1e20
"""Stands for a failure in older files of Kernel Tuner."""
GZIP_MAGIC = b"\x1f\x8b"
SIZE_LIMIT_BYTES = 1 << 30
"""Unpacked; protects against a small file that unpacks to all of the memory."""


@dataclass(frozen=True)
class RecordedSpace:
    """``n`` configurations of ``parameters``: their ``values`` [n][p], measured ``times`` [n] in units of
    ``unit_seconds``, NaN where a configuration failed, and ``reasons`` [n], empty where it did not."""

    name: str
    parameters: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    times: Floats
    unit_seconds: float
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def seconds(self) -> Floats:
        """Times [n] in seconds."""
        return self.times * self.unit_seconds

    @cached_property
    def is_valid(self) -> npt.NDArray[np.bool_]:
        """True [n] for configurations with a time."""
        return np.isfinite(self.seconds)

    @cached_property
    def best_seconds(self) -> float:
        """Time of the fastest configuration."""
        return float(np.nanmin(self.seconds))

    def best_of_random(self, evaluations: int) -> Floats:
        """Exact expected time [evaluations] of the best of 1, 2, … random configurations, none drawn twice.

        Failed ones count as draws; nothing but failures counts as the slowest time. The best of n draws lies
        behind the i fastest with probability C(N − i, n) / C(N, n).
        """
        slowest = np.nanmax(self.times)
        ordered = np.sort(np.where(self.is_valid, self.times, slowest))
        steps = np.diff(ordered)
        rest = len(ordered) - np.arange(1.0, len(ordered))
        behind = np.ones(len(steps))
        expected = np.empty(evaluations)
        for drawn in range(evaluations):
            behind = behind * np.maximum(rest - drawn, 0) / max(len(ordered) - drawn, 1)
            expected[drawn] = ordered[0] + steps @ behind
        return expected

    @classmethod
    def read(cls, path: Path) -> RecordedSpace:
        """Read a file of either format. Raises ``InputError`` with file and place."""
        try:
            return _space(path.stem.removesuffix(".json"), _document(path))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise InputError(f"{path}: not a recorded tuning space: {what}; {FORMATS}") from None


FORMATS = "give a Kernel Tuner cache file or a T4 results file, plain or gzipped"


def _document(path: Path) -> Any:
    """Return the JSON document of a file; a cache file that a tuner still writes is closed."""
    text = _content(path).decode("utf-8")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        open_end = text.rstrip().rstrip(",")
        return json.loads(open_end + "}}")


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        with gzip.open(path, "rb") if is_packed else path.open("rb") as file:
            content = file.read(SIZE_LIMIT_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {error}; {FORMATS}") from None
    if len(content) > SIZE_LIMIT_BYTES:
        raise InputError(f"{path}: more than {SIZE_LIMIT_BYTES} bytes unpacked; {FORMATS}")
    return content


def _space(name: str, document: Any) -> RecordedSpace:
    if "cache" in document:
        return _kernel_tuner(name, document)
    if "results" in document:
        return _t4(name, document)
    raise ValueError("it has neither 'cache' nor 'results'")


def _kernel_tuner(name: str, document: Mapping[str, Any]) -> RecordedSpace:
    objective = document.get("objective", OBJECTIVE)
    if objective != OBJECTIVE:
        raise ValueError(f"its objective is {objective!r}, not {OBJECTIVE!r}")
    parameters = tuple(map(str, document["tune_params_keys"]))
    title = f"{document.get('kernel_name', name)} on {document.get('device_name', 'a device')}"
    rows = [
        (tuple(_value(row[p]) for p in parameters), _time(row[OBJECTIVE]))
        for row in document["cache"].values()
    ]
    return _assembled(title, parameters, rows, KERNEL_TUNER_UNIT)


def _t4(name: str, document: Mapping[str, Any]) -> RecordedSpace:
    unit = document.get("metadata", {}).get("timeunit", "milliseconds")
    if unit not in SECONDS:
        raise ValueError(f"time unit {unit!r} is not one of {', '.join(SECONDS)}")
    results = document["results"]
    parameters = tuple(map(str, results[0]["configuration"])) if results else ()
    rows = [_t4_row(number, row, parameters) for number, row in enumerate(results)]
    return _assembled(name, parameters, rows, SECONDS[unit])


Row = tuple[tuple[Value, ...], float | str]
"""Values of a configuration, and its time or why it has none."""


def _t4_row(number: int, row: Mapping[str, Any], parameters: Sequence[str]) -> Row:
    configuration = row["configuration"]
    if set(configuration) != set(parameters):
        raise ValueError(f"result {number}: its parameters differ from those of result 0")
    values = tuple(_value(configuration[p]) for p in parameters)
    invalidity = row.get("invalidity", "correct")
    measured = [m["value"] for m in row["measurements"] if m["name"] == OBJECTIVE]
    if not measured:
        raise ValueError(f"result {number} measures no {OBJECTIVE!r}")
    result = _time(measured[0])
    if invalidity != "correct":
        reason = f"{invalidity}: {result}" if isinstance(result, str) else str(invalidity)
        return values, reason
    return values, result


def _time(value: Any) -> float | str:
    """Return a time, or the text that stands in its place."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not math.isfinite(value) or not 0 < value < FAILED_TIME:
        return f"its time is {value}"
    return float(value)


def _value(value: Any) -> Value:
    if isinstance(value, (bool, int, float, str)):
        return int(value) if isinstance(value, bool) else value
    raise ValueError(f"{value!r} is no value of a parameter")


def _assembled(
    name: str, parameters: tuple[str, ...], rows: Sequence[Row], unit_seconds: float
) -> RecordedSpace:
    if not rows or not parameters:
        raise ValueError("it has no configuration")
    results = [result for _, result in rows]
    if all(isinstance(result, str) for result in results):
        raise ValueError(f"every configuration failed, the last with {results[-1]}")
    return RecordedSpace(
        name,
        parameters,
        tuple(values for values, _ in rows),
        np.array([math.nan if isinstance(r, str) else r for r in results]),
        unit_seconds,
        tuple(r if isinstance(r, str) else "" for r in results),
    )

"""Page of a choice of precision: its front of loss against time or gain, and every product, in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotune.disk.atomic_file import replace_file
from autotune.errors import InputError
from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.result import FrontPoint, ProductChoice, QuantizeResult
from autotune.report.axis import Axis
from autotune.report.document import KIND
from autotune.report.machines_page import render
from autotune.report.svg import Picture

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 66, WIDTH - 16, 14, HEIGHT - 48
ROOM = 0.06
"""Room around the points, of their range."""


def write_precision(result: QuantizeResult, path: Path) -> None:
    """Write the page of a result with a front. Raises ``InputError`` without one, ``OSError`` naming
    ``path``."""
    if not result.front:
        raise InputError(f"{path}: a page of a front needs a limit of the loss; give --max-loss")
    replace_file(path, precision_page(result).encode(), KIND)


def precision_page(result: QuantizeResult) -> str:
    """Return the page as HTML text; nothing is loaded from elsewhere."""
    assert result.limit is not None, "a front belongs to a limit"
    name, formats = " or ".join(result.scheme.formats), result.scheme.formats
    return render(
        "precision.html",
        title=f"{result.network} in {', '.join(formats)} and float32",
        file=result.file.name,
        format=name,
        losses=[(str(measure), f"{loss:.3%}") for measure, loss in result.losses.items()],
        limit=f"{result.measure} ≤ {result.limit:.3%}",
        gain_unit=result.gain_unit,
        plot=front_plot(result.front, name),
        front_columns=(*(f"in {format}" for format in formats), "gain", "loss", "predicted ms"),
        front=[(_point_cells(one, formats), one.is_kept) for one in result.front],
        product_columns=("product", "kind", "type", "loss alone", "gain", "why"),
        products=[_product_cells(one) for one in result.products],
        runs=f"{result.calibration_runs} runs to calibrate, {result.held_out_runs} held out",
    )


def front_plot(points: Sequence[FrontPoint], format: str) -> str:
    """Draw the loss of every choice over its predicted milliseconds, or over its share of the gain."""
    seconds = [one.seconds for one in points if one.seconds is not None]
    is_timed = len(seconds) == len(points)
    across = [1e3 * x for x in seconds] if is_timed else [100 * one.gain for one in points]
    losses = [100 * one.loss for one in points]
    picture = Picture(WIDTH, HEIGHT, f"Loss of choices between all products in {format} and none")
    x, y = _around(across, LEFT, RIGHT), _around(losses, BOTTOM, TOP)
    picture.grid(x, y, "predicted ms of a run" if is_timed else "gain, % of all", "loss, %")
    places = [(x(a), y(b)) for a, b in zip(across, losses, strict=True)]
    if len(places) > 1:
        picture.polyline(places, "front")
    for one, place in zip(points, places, strict=True):
        counts = ", ".join(f"{count} in {kind}" for kind, count in one.counts.items() if count)
        tip = f"products: {counts or 'all in float32'}\ngain {one.gain:.1%}, loss {one.loss:.3%}"
        picture.circle(*place, 6, "chosen" if one.is_kept else "point", tip)
    return picture.text()


def _around(values: Sequence[float], start: float, end: float) -> Axis:
    low, high = min(values), max(values)
    room = ROOM * (high - low) or 0.05 * abs(high) or 1.0
    return Axis(low - room, high + room, start, end)


def _point_cells(one: FrontPoint, formats: Sequence[NarrowFormat]) -> tuple[str, ...]:
    milliseconds = "–" if one.seconds is None else f"{1e3 * one.seconds:,.3f}"
    counts = (str(one.counts.get(format, 0)) for format in formats)
    return *counts, f"{one.gain:.1%}", f"{one.loss:.3%}", milliseconds


def _product_cells(one: ProductChoice) -> tuple[str, ...]:
    loss = "–" if one.sensitivity is None else f"{one.sensitivity:.3%}"
    gain = "–" if one.gain is None else f"{one.gain:.1%}"
    return one.name, one.kind, one.type, loss, gain, one.reason or ""

"""Waterfall: from the operators run apart to the found plan, what each fused group saves."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.report.axis import Axis, short
from autotune.report.svg import CHARACTER_PIXELS, NARROW, Picture, shorten
from autotune.report.view import GroupRow, TimeScale

SHOWN = 14
"""Groups with a step of their own: those that save or cost most; the others are one step."""
ROW = 24


@dataclass(frozen=True, slots=True)
class Step:
    """One bar between two levels of cycles; ``group`` is its group's number, if it is one group's."""

    text: str
    start: float
    end: float
    group: int | None = None

    @property
    def saved(self) -> float:
        """Cycles that the step saves; negative if it costs some."""
        return self.start - self.end


def steps(groups: tuple[GroupRow, ...]) -> tuple[Step, ...]:
    """Return the steps from operators apart to the plan, the largest saving first; none where operators
    apart are not known, or nothing is saved."""
    if not all(row.apart_cycles or row.is_view for row in groups):
        return ()
    saving = sorted(
        (row for row in groups if row.saved_cycles), key=lambda row: -abs(row.saved_cycles or 0)
    )
    level = sum(sum(row.apart_cycles) for row in groups)
    made = []
    for row in sorted(saving[:SHOWN], key=lambda row: -(row.saved_cycles or 0)):
        after = level - (row.saved_cycles or 0.0)
        made.append(Step(f"#{row.index} {row.title}", level, after, row.index))
        level = after
    rest = saving[SHOWN:]
    if rest:
        after = level - sum(row.saved_cycles or 0.0 for row in rest)
        made.append(Step(f"{len(rest)} more groups", level, after))
    return tuple(made)


def waterfall(groups: tuple[GroupRow, ...], width: float, scale: TimeScale) -> str:
    """Draw the steps as bars that begin where the one above ends; '' without steps."""
    made = steps(groups)
    if not made:
        return ""
    before, after = made[0].start, made[-1].end
    bars = [
        Step("operators apart", 0.0, before),
        *made,
        Step("found plan", 0.0, after),
    ]
    above = width <= NARROW * 1.5
    pitch = ROW + 15 if above else ROW
    left, right = (4.0, width - 8.0) if above else (330.0, width - 150.0)
    picture = Picture(width, pitch * len(bars) + 34, "What each fused group saves")
    x = Axis(0.0, before * scale.per_cycle, left, right)
    base = pitch * len(bars) + 4
    for value in x.ticks(4 if above else 8):
        picture.line(x(value), 2, x(value), base, "grid")
        picture.label(x(value), base + 15, short(value), "tick", "middle")
    picture.label(right, base + 29, scale.unit, "axis-title", "end")
    for i, step in enumerate(bars):
        with picture.linked(step.group):
            is_total = i in (0, len(bars) - 1)
            _bar(picture, x, i * pitch + 4, step, scale, above, is_total, before)
    return picture.text()


def _bar(
    picture: Picture, x: Axis, y: float, step: Step, scale: TimeScale, above: bool, is_total: bool,
    whole: float,
) -> None:  # fmt: skip
    low, high = sorted((step.start * scale.per_cycle, step.end * scale.per_cycle))
    if is_total:
        told, style = (
            scale.text(step.end),
            "plan-found" if step.text == "found plan" else "plan-unfused",
        )
    else:
        told = f"{'−' if step.saved >= 0 else '+'}{scale.number(abs(step.saved))}"
        style = "saved" if step.saved >= 0 else "lost"
    tip = f"{step.text}: {told} ({abs(step.end - step.start) / whole:.1%} of the operators apart)"
    kind = "number strong" if is_total else "number"
    if above:
        room = x.end - x.start - CHARACTER_PIXELS * (len(told) + 2)
        picture.label(x.start, y + 11, shorten(step.text, room), "label", tip=tip)
        picture.label(x.end, y + 11, told, kind, "end", tip)
        y += 15
    else:
        picture.label(x.start - 10, y + 14, shorten(step.text, x.start - 20), "label", "end", tip)
        picture.label(x(high) + 7, y + 12, told, kind, tip=tip)
    picture.rect(x(low), y, x(high) - x(low), ROW - 8, style, tip)

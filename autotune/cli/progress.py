"""Progress of long commands on stderr: one bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from autotune.cli.console import MESSAGES, say
from autotune.tuner.progress import Whole

EVERY_SECONDS = 5.0
"""Least time between two lines."""

HEARTBEAT_SECONDS = 20.0
"""Silence after which a line says that the work goes on."""

PATIENCE_SECONDS = 0.5
"""Time after which short work names itself."""

LEAST_FRACTION, LEAST_SECONDS = 0.05, 3.0
"""Fraction and time of the work before which its time left is not estimated."""

CostText = Callable[[float], str]
"""From a plan's cost to its text with a unit."""


def time_left(fraction: float, elapsed_seconds: float) -> str:
    """Return the time left at the speed so far; nothing before an estimate is worth it."""
    if fraction < LEAST_FRACTION or elapsed_seconds < LEAST_SECONDS:
        return ""
    return f"{_clock(elapsed_seconds * (1 - fraction) / fraction)} left"


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))).removeprefix("0:")


class Report:
    """State of a command's work; ``cost_text`` makes text of the best cost so far. The first report calls
    ``when_begun``, once."""

    def __init__(self, title: str, stages: Mapping[str, float]) -> None:
        self.title = title
        self.cost_text: CostText | None = None
        self.when_begun: Callable[[], None] | None = None
        self._whole = Whole(stages)
        self._begin = time.monotonic()
        self._first_report: float | None = None
        self._state = "starting"
        self._best = ""

    def __call__(self, phase: str, done: int, total: int, best: float | None = None) -> None:
        """Take a report, as ``autotune.tuner.progress.Progress`` defines it."""
        if self._first_report is None:
            self._first_report = time.monotonic()
        self._whole.reached(phase, done, total)
        self._state = f"{phase} {done:,}/{total:,}"
        if best is not None and self.cost_text is not None:
            self._best = f"best predicted {self.cost_text(best)}"
        self.show()
        begun, self.when_begun = self.when_begun, None
        if begun is not None:
            begun()

    @property
    def fraction(self) -> float:
        """Fraction of the whole that is done."""
        return self._whole.fraction

    @property
    def state(self) -> str:
        """Current phase, and the best cost so far."""
        return ", ".join(filter(None, (self._state, self._best)))

    @property
    def elapsed_seconds(self) -> float:
        """Time since the work began."""
        return time.monotonic() - self._begin

    @property
    def time_left(self) -> str:
        """Time left at the speed since the first report, which comes after the imports."""
        if self._first_report is None:
            return ""
        return time_left(self.fraction, time.monotonic() - self._first_report)

    def show(self) -> None:
        """Show the state."""
        raise NotImplementedError


class Lines(Report):
    """Plain lines: the first within a second, then one every few seconds at most, and a heartbeat.

    Work that ends at once says nothing.
    """

    def __init__(self, title: str, stages: Mapping[str, float]) -> None:
        super().__init__(title, stages)
        self._last_seconds = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def begin(self) -> None:
        """Start the first line and the heartbeat."""
        self._thread.start()

    def end(self) -> None:
        """Stop the heartbeat."""
        self._ended.set()
        self._thread.join()

    def show(self) -> None:
        """Print the state, unless a line was printed a moment ago."""
        if time.monotonic() - self._last_seconds >= EVERY_SECONDS:
            self._print()

    def _beat(self) -> None:
        if not self._ended.wait(PATIENCE_SECONDS):
            self._print()
        while not self._ended.wait(1.0):
            if time.monotonic() - self._last_seconds >= HEARTBEAT_SECONDS:
                self._print()

    def _print(self) -> None:
        self._last_seconds = time.monotonic()
        times = [f"{_clock(self.elapsed_seconds)} elapsed", self.time_left]
        parts = (f"{self.fraction:.0%}", self.state, *filter(None, times))
        say(f"{self.title}: {', '.join(parts)}")


class _TimeLeft(ProgressColumn):
    """Column: time left of the report of its task."""

    def render(self, task: Task) -> Text:
        """Return the text of the column, anew whenever the bar is drawn."""
        return Text(task.fields["report"].time_left, style="progress.remaining")


class _State(ProgressColumn):
    """Column: state of the report of its task; it alone gives way on a narrow terminal."""

    def render(self, task: Task) -> Text:
        """Return the text of the column, in one line."""
        return Text(task.fields["report"].state, no_wrap=True, overflow="ellipsis")


class Bar(Report):
    """One bar on a terminal, with state, elapsed time and time left."""

    def __init__(self, title: str, stages: Mapping[str, float], shown: Progress) -> None:
        super().__init__(title, stages)
        self._shown = shown
        self._task = shown.add_task(title, total=1.0, report=self)

    def show(self) -> None:
        """Move the bar."""
        self._shown.update(self._task, description=self.title, completed=self.fraction)


def _bar_columns() -> tuple[ProgressColumn, ...]:
    return (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TaskProgressColumn(),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        _TimeLeft(table_column=Column(no_wrap=True)),
        _State(table_column=Column()),
    )


@contextmanager
def progress(title: str, stages: Mapping[str, float] | None = None) -> Iterator[Report]:
    """Show the progress of long work, which calls the ``Report`` of this context.

    ``stages`` are its phases in order with their shares of the time; without them one phase is the
    whole. The first line appears within a second: enter this before long imports.
    """
    if MESSAGES.is_terminal:
        with Progress(*_bar_columns(), console=MESSAGES, transient=True) as shown:
            yield Bar(title, stages or {}, shown)
        return
    lines = Lines(title, stages or {})
    lines.begin()
    try:
        yield lines
    finally:
        lines.end()


@contextmanager
def working(text: str, quiet: bool = False) -> Iterator[None]:
    """Print ``text`` if the block takes longer than a moment; on a terminal with a spinner.

    ``quiet`` is for output that programs read: an error is then the one line on stderr.
    """
    if quiet:
        yield
        return
    if MESSAGES.is_terminal:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=MESSAGES, transient=True) as shown:
            shown.add_task(text, total=None)
            yield
        return
    timer = threading.Timer(PATIENCE_SECONDS, say, (f"{text} …",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

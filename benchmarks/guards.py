"""What variants for classes of inputs save, and what their guards and samples cost.

    python -m benchmarks.guards [--markdown docs/figures-guards.md] [--json FILE] [--pairs N] [--seconds S]

Run it by `make bench-guards`. On this CPU sessions with and without variants take turns on the same inputs; cycles of
emulated machines are counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from autotune.datasets.masked import masked_encoder
from autotune.runtime.session.session import Session
from benchmarks.machine import busy
from benchmarks.table import Table
from benchmarks.zero_activations import section

Arrays = dict[str, np.ndarray[Any, Any]]
MASK = "attention_mask"
ONES = {MASK: "ones", "token_type_ids": "zeros"}
GUARD_CALLS = 200
TURNS = 60
"""Texts that a session that has learned and one that does not run in turns."""
SEED = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A network and the classes that it is opened for. ``sizes`` are those of an encoder: batch, tokens, width,
    heads, layers; ``by_hand`` is the length of the same network exported for shorter inputs."""

    network: str
    what: str
    assume: Mapping[str, Any]
    sizes: tuple[int, ...] = ()
    by_hand: int | None = None

    def export(self, folder: Path, tokens: int | None = None) -> Path | str:
        """Return the network, of other ``tokens`` if given."""
        if not self.sizes:
            return self.network
        sizes = self.sizes if tokens is None else (self.sizes[0], tokens, *self.sizes[2:])
        path = folder / f"encoder_{'_'.join(map(str, sizes))}.onnx"
        if not path.exists():
            onnx.save(masked_encoder(*sizes), path)
        return path


def _padded(name: str, sizes: tuple[int, ...], length: int) -> Case:
    return Case(name, f"padded from {length} on", {MASK: f"padded:{length}"}, sizes, length)


BASE, MINI, BATCH, TINY = (
    (1, 128, 768, 12, 2),
    (1, 128, 256, 4, 4),
    (4, 64, 256, 4, 4),
    (1, 32, 128, 2, 2),
)
CASES = (
    _padded("BERT 768×12, 2 layers, 1×128", BASE, 32),
    _padded("BERT 768×12, 2 layers, 1×128", BASE, 64),
    _padded("BERT 768×12, 2 layers, 1×128", BASE, 112),
    _padded("BERT 768×12, 2 layers, 1×128", BASE, 128),
    _padded("BERT 256×4, 4 layers, 1×128", MINI, 64),
    _padded("BERT 256×4, 4 layers, 4×64", BATCH, 32),
    _padded("BERT 128×2, 2 layers, 1×32", TINY, 16),
    Case("BERT 768×12, 2 layers, 1×128", "mask of ones", ONES, BASE),
    Case("BERT 256×4, 4 layers, 1×128", "mask of ones", ONES, MINI),
    Case("BERT 128×2, 2 layers, 1×32", "mask of ones", ONES, TINY),
    Case("mobilenet_v2", "image of 0 to 1", {"x": (0.0, 1.0)}),
    Case("light_squeezenet", "image of 0 to 1", {"data_0": (0.0, 1.0)}),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one case.

    ``share`` is that of the operations left; ``general_ms`` the time without variants. ``inside`` and ``outside`` of
    the class are ratios to it, median and ninth decile of the pairs; ``by_hand`` is the ratio of a network cut by
    hand. ``opening`` are seconds. ``reason`` says why there is no variant."""

    network: str
    what: str
    share: float
    general_ms: float
    inside: tuple[float, float]
    outside: tuple[float, float]
    by_hand: float | None
    guard_us: float
    opening: tuple[float, float]
    reason: str

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of the table."""
        return (
            self.network,
            self.what,
            "left alone" if self.reason else f"{self.share:.1%}",
            f"{self.general_ms:.2f}",
            f"{self.inside[0]:.3f} ({self.inside[1]:.3f})",
            f"{self.outside[0]:.3f} ({self.outside[1]:.3f})",
            "" if self.by_hand is None else f"{self.by_hand:.3f}",
            f"{self.guard_us:.1f}",
            f"{self.guard_us / (1e3 * self.general_ms):.3%}",
            f"{self.opening[0]:.2f} → {self.opening[1]:.2f}",
        )


@contextmanager
def opened(
    case: Case, folder: Path, target: str
) -> Iterator[tuple[Session, Session, float, float]]:
    """Give the session without variants, the one with, and the seconds that each took to open."""
    source = case.export(folder)
    started = time.perf_counter()
    with Session(source, target) as plain:
        middle = time.perf_counter()
        with Session(source, target, assume=case.assume) as special:
            yield plain, special, middle - started, time.perf_counter() - middle


def measured(case: Case, folder: Path, target: str, pairs: int) -> Figures:
    """Measure one case by turns of two sessions."""
    with opened(case, folder, target) as (plain, special, first, second):
        inside = special.draw_inputs(np.random.default_rng(SEED))
        general, ratios = turns(plain, special, inside, pairs)
        _, others = turns(plain, special, outside(inside, case), pairs)
        variants, events = special.variants, special.events
        by_hand = None
        if case.by_hand is not None and variants:
            with Session(case.export(folder, case.by_hand), target) as short:
                fed = {x: np.ascontiguousarray(v[:, : case.by_hand]) for x, v in inside.items()}
                by_hand = statistics.median(turns(plain, short, inside, pairs // 2, fed)[1])
        return Figures(
            case.network,
            case.what,
            variants[0].share if variants else 1.0,
            general * 1e3,
            _spread(ratios),
            _spread(others),
            by_hand,
            guard_us(special, inside),
            (first, second),
            "" if variants else events[-1].text,
        )


def outside(inside: Arrays, case: Case) -> Arrays:
    """Leave the class as late as the guard can see it: by the last element, or by hiding the first token."""
    name = next(iter(case.assume))
    changed = inside[name].copy()
    if str(case.assume[name]).startswith("padded"):
        changed[:, 0] = 0
    else:
        changed.reshape(-1)[-1] = 0 if changed.dtype.kind in "iu" else 2.0
    return {**inside, name: changed}


def turns(
    plain: Session, special: Session, fed: Arrays, pairs: int, other: Arrays | None = None
) -> tuple[float, list[float]]:
    """Return the median seconds without variants, and the ratio of each pair of runs."""
    ratios, seconds = [], []
    given = {plain: fed, special: fed if other is None else other}
    for number in range(pairs + 2):
        taken = {}
        for session in (plain, special) if number % 2 else (special, plain):
            started = time.perf_counter()
            session.run(given[session])
            taken[session] = time.perf_counter() - started
        if number >= 2:
            seconds.append(taken[plain])
            ratios.append(taken[special] / taken[plain])
    return statistics.median(seconds), ratios


def _spread(ratios: list[float]) -> tuple[float, float]:
    return statistics.median(ratios), float(np.quantile(ratios, 0.9))


def guard_us(session: Session, fed: Arrays) -> float:
    """Return the median microseconds of a guard that passes; 0 without a variant."""
    specialiser = session._network._learners.specialiser  # type: ignore[attr-defined]
    if specialiser is None:
        return 0.0
    arrays = {x: np.ascontiguousarray(v, np.float32) for x, v in fed.items()}
    guard, taken = specialiser.active[0].guard, []
    for _ in range(GUARD_CALLS):
        started = time.perf_counter_ns()
        guard.passes(arrays)
        taken.append(time.perf_counter_ns() - started)
    return statistics.median(taken) / 1e3


EMULATED = (
    Case("BERT 128×2, 2 layers, 1×32", "padded from 16 on", {MASK: "padded:16"}, TINY),
    Case("BERT 128×2, 2 layers, 1×32", "mask of ones", ONES, TINY),
    Case("BERT 64×2, 2 layers, 2×16", "padded from 8 on", {MASK: "padded:8"}, (2, 16, 64, 2, 2)),
    Case("BERT 64×2, 2 layers, 2×16", "mask of ones", ONES, (2, 16, 64, 2, 2)),
)


def counted(case: Case, folder: Path) -> tuple[str, ...]:
    """Return a row of an emulated case: cycles and energy without the variant, outside and inside of its class, exact."""
    source = case.export(folder)
    with Session(source, "edge", assume=case.assume) as session:
        fed = session.draw_inputs(np.random.default_rng(SEED))
        inside = session.traced_run(fed)[1]
        general = session.traced_run(outside(fed, case))[1]
        shared = [x for x in session.events if "programs" in x.figures]
    with Session(source, "edge") as plain:
        alone = plain.traced_run(fed)[1]
    programs = shared[0].figures if shared else {}
    return (
        case.network,
        case.what,
        f"{alone.cycles:,}",
        f"{general.cycles:,} ({general.cycles / alone.cycles - 1:+.2%})",
        f"{inside.cycles:,}",
        f"{1 - inside.cycles / alone.cycles:.1%}",
        f"{1 - inside.energy_fj / alone.energy_fj:.1%}",
        f"{programs['programs_before']:.0f} → {programs['programs']:.0f}" if programs else "",
    )


@dataclass(frozen=True, slots=True)
class Learned:
    """A live session whose callers feed texts of several lengths: what it found, and when. ``ratio`` is of its last runs, in
    turns with a session that does not learn: the median of the pairs, and the ninth decile."""

    lengths: str
    runs: int
    first_variant: int | None
    variants: int
    before_ms: float
    ratio: tuple[float, float]
    sampling: float
    longest_ms: float

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of the table."""
        return (
            self.lengths,
            f"{self.runs:,}",
            "none" if self.first_variant is None else f"{self.first_variant:,}",
            str(self.variants),
            f"{self.before_ms:.2f}",
            f"{self.ratio[0]:.3f} ({self.ratio[1]:.3f})",
            f"{self.sampling:.3%}",
            f"{self.longest_ms:.1f}",
        )


def text(length: int, rng: np.random.Generator) -> Arrays:
    """Return inputs of a text of so many tokens, padded to 128."""
    fed = {x: np.zeros((1, 128), np.int64) for x in ("input_ids", MASK, "token_type_ids")}
    fed["input_ids"][:, :length] = rng.integers(1, 8000, length)
    fed[MASK][:, :length] = 1
    return fed


def learned(low: int, high: int, folder: Path, target: str, seconds: float) -> Learned:
    """Feed texts of ``low`` to ``high`` tokens of 128, drawn uniformly, for so long; then take turns with a session that
    does not learn."""
    rng = np.random.default_rng(SEED)
    path = CASES[4].export(folder)
    taken: list[float] = []
    first = None
    with Session(path, target, online=True) as session:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            fed = text(int(rng.integers(low, high + 1)), rng)
            started = time.perf_counter()
            session.run(fed)
            taken.append(time.perf_counter() - started)
            if first is None and session.variants:
                first = len(taken)
        sampling = session._network._learners.specialiser.sampling_ns  # type: ignore[attr-defined]
        with Session(path, target) as plain:
            plain.run(fed)
            ratios = [
                ratio
                for _ in range(TURNS)
                for ratio in turns(plain, session, text(int(rng.integers(low, high + 1)), rng), 1)[
                    1
                ]
            ]
        return Learned(
            f"{low} to {high}",
            len(taken),
            first,
            len(session.variants),
            1e3 * statistics.median(taken[:100]),
            _spread(ratios),
            1e-9 * sampling / sum(taken),
            1e3 * max(taken[10:]),
        )


LEGEND = (
    "Networks have random weights; one token's logits are read, as of a classifier. Ratios are times over those of a session "
    "without variants, in turns on the same inputs: the median of the pairs, and in brackets the ninth decile. *inside* the class "
    "the variant runs; *outside* the guard fails as late as it can, and the general program runs. *by hand* the same network, "
    "exported for inputs of that length, runs on inputs cut to it. *operations* are what the variant has left. *opening* is "
    "seconds without and with the class stated. A variant that does not pay is *left alone*: its session runs as the one without. "
    "On emulated machines the network and its variant share *programs* by dispatch: those that both need, apart and together. "
    "*padded from 128 on* hides nothing of 128 tokens: what it saves comes from the last layer, of which one token is read."
)


def tables(
    rows: list[Figures], emulated: list[tuple[str, ...]], live: list[Learned]
) -> list[Table]:
    """Return the tables of the page."""
    columns = (
        *("network", "class", "operations", "ms", "inside", "outside", "by hand"),
        *("guard µs", "of a run", "opening s"),
    )
    inside, others = ([x.inside[0] for x in rows], [x.outside[0] for x in rows])
    summary = (
        ("inside, mean", f"{statistics.mean(inside):.3f}"),
        ("inside, worst", f"{max(inside):.3f}"),
        ("outside, mean", f"{statistics.mean(others):.3f}"),
        ("outside, worst", f"{max(others):.3f}"),
    )
    names = (
        "network",
        "class",
        "cycles",
        "outside",
        "inside",
        "cycles saved",
        "energy saved",
        "programs",
    )
    asked = (
        *("tokens of 128", "runs", "first variant at run", "variants", "first ms", "ratio then"),
        *("sampling", "longest ms"),
    )
    return [
        Table("## This CPU, classes stated", columns, tuple(row.row for row in rows)),
        Table("## Of all rows", ("ratio", ""), summary),
        Table(
            "## This CPU, classes learned (BERT 256×4, 4 layers)", asked, tuple(x.row for x in live)
        ),
        Table("## Emulated: edge", names, tuple(emulated)),
    ]


def main() -> None:
    """Measure all cases; print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [measured(case, folder, options.target, options.pairs) for case in CASES]
        emulated = [counted(case, folder) for case in EMULATED]
        lengths = ((20, 60), (1, 128), (128, 128))
        live = [learned(*one, folder, options.target, options.seconds) for one in lengths]
        zeros = section(folder)
    found = tables(rows, emulated, live)
    for table in found:
        print(table.text(), end="\n\n")
    if options.markdown is not None:
        options.markdown.write_text(f"{page(found, rows)}\n{zeros}", encoding="utf-8")
    if options.json is not None:
        plain = {"stated": [asdict(x) for x in rows], "learned": [asdict(x) for x in live]}
        options.json.write_text(json.dumps(plain, indent=1), encoding="utf-8")


def page(found: list[Table], rows: list[Figures]) -> str:
    """Return the page."""
    reasons = [
        f"- {row.network}, {row.what}: {row.reason.partition(': ')[2]}"
        for row in rows
        if row.reason
    ]
    parts = [
        "# Variants for classes of inputs",
        f"Written by `make bench-guards`. {LEGEND} {busy()}",
        *(table.markdown() for table in found),
        "Left alone:",
        "\n".join(reasons),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()

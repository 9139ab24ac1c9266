"""What variants for classes of inputs save, and what their guards cost: this CPU by turns, emulated machines by count.

    python -m benchmarks.guards [--markdown docs/figures-guards.md] [--json FILE] [--pairs N]

Run it by `make bench-guards`. Sessions with and without the variant take turns on the same inputs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from autotune.datasets.masked import masked_encoder
from autotune.runtime.session.session import Session
from benchmarks.table import Table

Feeds = Mapping[str, np.ndarray[Any, Any]]
MASKS = {"attention_mask": "ones", "token_type_ids": "zeros"}
IMAGE = (0.0, 1.0)
GUARD_CALLS = 200


@dataclass(frozen=True, slots=True)
class Case:
    """A network and the classes that it is opened for; None stands for an image of 0 to 1."""

    network: str
    make: Callable[[], onnx.ModelProto] | None
    assume: Mapping[str, Any] | None
    what: str


def _encoder(*sizes: int) -> Callable[[], onnx.ModelProto]:
    return lambda: masked_encoder(*sizes)


CASES = (
    Case("BERT 768×12, 2 layers, 1×128", _encoder(1, 128, 768, 12, 2), MASKS, "masks"),
    Case("BERT 256×4, 4 layers, 1×128", _encoder(1, 128, 256, 4, 4), MASKS, "masks"),
    Case("BERT 256×4, 4 layers, 4×64", _encoder(4, 64, 256, 4, 4), MASKS, "masks"),
    Case("BERT 128×2, 2 layers, 1×32", _encoder(1, 32, 128, 2, 2), MASKS, "masks"),
    Case("mobilenet_v2", None, None, "clips"),
    Case("light_squeezenet", None, None, "clips"),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one case: median milliseconds without variants, the median ratio and its worst tenth of the turns inside and
    outside of the class, the guard's share, and why there is no variant where there is none."""

    network: str
    what: str
    share: float
    general_ms: float
    inside: tuple[float, float]
    outside: tuple[float, float]
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
            f"{self.general_ms:.3f}",
            f"{self.inside[0]:.3f} ({self.inside[1]:.3f})",
            f"{self.outside[0]:.3f} ({self.outside[1]:.3f})",
            f"{self.guard_us:.2f}",
            f"{self.guard_us / (1e3 * self.general_ms):.3%}",
            f"{self.opening[0]:.2f} → {self.opening[1]:.2f}",
        )


def measured(case: Case, folder: Path, target: str, pairs: int) -> Figures:
    """Measure one case by turns of two sessions."""
    source: Path | str = case.network
    if case.make is not None:
        source = folder / f"{abs(hash(case.network))}.onnx"
        onnx.save(case.make(), source)
    started = time.perf_counter()
    with Session(source, target) as plain:
        middle = time.perf_counter()
        name = plain.inputs[0].name
        assume = {name: IMAGE} if case.assume is None else case.assume
        with Session(source, target, assume=assume) as special:
            opening = middle - started, time.perf_counter() - middle
            inside = special.draw_inputs(np.random.default_rng(0))
            outside = _outside(inside, next(iter(assume)))
            general, ratios = _turns(plain, special, inside, pairs)
            _, others = _turns(plain, special, outside, pairs)
            events = special.events
            reason = "" if special.variants else (events[-1].text if events else "")
            share = special.variants[0].share if special.variants else 1.0
            return Figures(
                case.network,
                case.what,
                share,
                general * 1e3,
                _spread(ratios),
                _spread(others),
                _guard_us(special, inside),
                opening,
                reason,
            )


def _outside(inside: Feeds, name: str) -> dict[str, np.ndarray[Any, Any]]:
    """Leave the class by the last element of an input: the dearest failure of a guard."""
    changed = inside[name].copy()
    changed.reshape(-1)[-1] = 0 if changed.dtype.kind in "iu" else 2.0
    return {**inside, name: changed}


def _turns(plain: Session, special: Session, fed: Feeds, pairs: int) -> tuple[float, list[float]]:
    """Return the median seconds without variants, and the ratio of each pair of runs."""
    ratios, seconds = [], []
    for number in range(pairs + 2):
        taken = {}
        for session in (plain, special) if number % 2 else (special, plain):
            started = time.perf_counter()
            session.run(fed)
            taken[session] = time.perf_counter() - started
        if number >= 2:
            seconds.append(taken[plain])
            ratios.append(taken[special] / taken[plain])
    return statistics.median(seconds), ratios


def _spread(ratios: list[float]) -> tuple[float, float]:
    return statistics.median(ratios), float(np.quantile(ratios, 0.9))


def _guard_us(session: Session, fed: Feeds) -> float:
    variants = session._network._variants  # type: ignore[attr-defined]
    if not variants:
        return 0.0
    arrays = {x: np.ascontiguousarray(v, np.float32) for x, v in fed.items()}
    guard, taken = variants[0].guard, []
    for _ in range(GUARD_CALLS):
        started = time.perf_counter_ns()
        guard.passes(arrays)
        taken.append(time.perf_counter_ns() - started)
    return statistics.median(taken) / 1e3


EMULATED = (
    ("edge", _encoder(1, 32, 128, 2, 2), MASKS),
    ("edge", _encoder(2, 16, 64, 2, 2), MASKS),
)


def counted(folder: Path) -> list[tuple[str, ...]]:
    """Return a row for every emulated case: cycles with and without the variant, exact."""
    rows: list[tuple[str, ...]] = []
    for number, (target, make, assume) in enumerate(EMULATED):
        path = folder / f"emulated{number}.onnx"
        onnx.save(make(), path)
        with Session(path, target, assume=assume) as session:
            fed = session.draw_inputs(np.random.default_rng(0))
            inside = session.traced_run(fed)[1]
            outside = session.traced_run(_outside(fed, "attention_mask"))[1]
        shape = "×".join(map(str, fed["input_ids"].shape))
        rows.append(
            (
                f"BERT, 2 layers, {shape}",
                target,
                f"{outside.cycles:,}",
                f"{inside.cycles:,}",
                f"{1 - inside.cycles / outside.cycles:.1%}",
                f"{1 - inside.energy_fj / outside.energy_fj:.1%}",
            )
        )
    return rows


LEGEND = (
    "Ratios are times of a session with the variant over one without, in turns on the same inputs: the median of the "
    "pairs, and in brackets the ninth decile. *inside* the class the variant runs; *outside* the last element of an "
    "input leaves it, the guard fails and the general program runs. *opening* is seconds without and with the class "
    "stated. A variant that is not shown to pay is *left alone*: its session runs as the one without."
)


def tables(rows: list[Figures], emulated: list[tuple[str, ...]]) -> list[Table]:
    """Return the tables of the page."""
    columns = (
        *("network", "class", "operations", "ms", "inside", "outside"),
        *("guard µs", "of a run", "opening s"),
    )
    found = [Table("## This CPU", columns, tuple(row.row for row in rows))]
    worst = max(row.outside[0] for row in rows)
    inside = [row.inside[0] for row in rows]
    summary = (
        ("inside, mean", f"{statistics.mean(inside):.3f}"),
        ("inside, worst", f"{max(inside):.3f}"),
        ("outside, worst", f"{worst:.3f}"),
    )
    found.append(Table("## Of all networks", ("ratio", ""), summary))
    names = ("network", "machine", "cycles", "variant", "cycles saved", "energy saved")
    found.append(Table("## Emulated machines", names, tuple(emulated)))
    return found


def main() -> None:
    """Measure all cases; print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [measured(case, folder, options.target, options.pairs) for case in CASES]
        found = tables(rows, counted(folder))
    for table in found:
        print(table.text(), end="\n\n")
    for row in rows:
        if row.reason:
            print(row.reason)
    if options.markdown is not None:
        reasons = "\n".join(f"- {row.reason}" for row in rows if row.reason)
        body = "\n\n".join(table.markdown() for table in found)
        text = f"# Variants for classes of inputs\n\nWritten by `make bench-guards`. {LEGEND}\n\n{body}\n\n"
        text += f"Left alone:\n\n{reasons}\n" if reasons else ""
        options.markdown.write_text(text, encoding="utf-8")
    if options.json is not None:
        plain = [asdict(row) for row in rows]
        options.json.write_text(json.dumps(plain, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

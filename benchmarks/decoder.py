"""Decoders that generate text, with a key-value cache that grows by one at every step: tokens per
second and the longest step, beside ONNX Runtime. Run it by `make bench-decoder`.

Every engine runs in a process of its own: the same file, prompt, tokens and threads. Our caches are
empty at first: the first generation meets every shape for the first time. A second process of ours
finds what the first has kept on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from autotune.datasets.generation import gpt2_decoder, llama_decoder
from benchmarks.child import ROOT, run_child
from benchmarks.machine import busy
from benchmarks.table import Table

PEERS = ROOT / ".bench" / "cpu" / "bin" / "python"
WORKER = "benchmarks.decoder_worker"
PROMPT, STEPS, GENERATIONS = 16, 200, 3


@dataclass(frozen=True, slots=True)
class Decoder:
    """A network and its number of words."""

    build: Callable[[], onnx.ModelProto]
    vocabulary: int


DECODERS: Mapping[str, Decoder] = {
    "gpt2_decoder": Decoder(gpt2_decoder, 50257),
    "llama_decoder": Decoder(llama_decoder, 16384),
}


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation: a prompt, then steps."""

    prompt_seconds: float
    seconds: tuple[float, ...]

    @property
    def tokens_per_second(self) -> float:
        """Steps over their total time."""
        return len(self.seconds) / sum(self.seconds)

    @property
    def stall(self) -> float:
        """The longest step over the median step."""
        return max(self.seconds) / statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Result:
    """What one engine did; ``logits`` are some of every step's of the last generation."""

    open_seconds: float
    generations: tuple[Generation, ...]
    logits: np.ndarray
    peak_bytes: float

    @property
    def cold(self) -> Generation:
        """The first generation."""
        return self.generations[0]

    @property
    def warm(self) -> Generation:
        """The last generation."""
        return self.generations[-1]


def measured(python: Path, engine: str, path: Path, threads: int, vocabulary: int) -> Result:
    """Generate with one engine in a process of its own."""
    numbers = (threads, PROMPT, STEPS, vocabulary, GENERATIONS)
    answer: dict[str, Any] = run_child(python, WORKER, [engine, str(path), *map(str, numbers)])
    rows = answer["generations"]
    generations = tuple(Generation(row["prompt_seconds"], tuple(row["seconds"])) for row in rows)
    seconds = answer["open_seconds"]
    return Result(seconds, generations, np.array(rows[-1]["logits"]), answer["peak_rss_bytes"])


def rows_of(
    name: str, threads: int, ours: Mapping[str, Result], peers: Mapping[str, Result]
) -> list[tuple[str, ...]]:
    """A line for each of our processes and of the peer's, by their names."""
    engines = {**ours, **peers}
    return [
        _row((name, str(threads), engine), one, tuple(peers.values()))
        for engine, one in engines.items()
    ]


def _row(labels: tuple[str, ...], result: Result, peers: tuple[Result, ...]) -> tuple[str, ...]:
    """Figures of a process; ratios are over the mean of the peer's."""
    cold, warm = result.cold, result.warm
    first = (1e3 * cold.prompt_seconds, 1e3 * cold.seconds[0], 1e3 * max(cold.seconds))
    whole = result.open_seconds + cold.prompt_seconds + sum(cold.seconds)
    expected = peers[0].logits
    error = float(np.abs(result.logits - expected).max() / np.abs(expected).max())
    colds = statistics.mean(peer.cold.tokens_per_second for peer in peers)
    warms = statistics.mean(peer.warm.tokens_per_second for peer in peers)
    return (
        *labels,
        f"{result.open_seconds:.2f}",
        *(f"{x:.0f}" for x in first),
        f"{cold.tokens_per_second:.1f}",
        f"{cold.tokens_per_second / colds:.2f}",
        f"{whole:.1f}",
        f"{1e3 * statistics.median(warm.seconds):.1f}",
        f"{warm.stall:.2f}",
        f"{warm.tokens_per_second:.1f}",
        f"{warm.tokens_per_second / warms:.2f}",
        f"{result.peak_bytes / 1e6:.0f}",
        "" if any(result is peer for peer in peers) else f"{error:.0e}",
    )


COLUMNS = (
    *("network", "threads", "process", "opening s", "first prompt ms", "first step ms"),
    *("longest step ms", "tokens/s", "ratio", "to the last token s", "warm median ms"),
    *("longest / median", "warm tokens/s", "warm ratio", "peak MB", "difference"),
)
FIRST, SECOND = "autotune, caches empty", "autotune, the next process"
BEFORE, AFTER = "ONNX Runtime, before", "ONNX Runtime, after"


def markdown(table: Table) -> str:
    """docs/figures-decoder.md."""
    head = (
        "# Figures of generating text\n\n"
        "Written by `make bench-decoder`: decoders exported with open batch, sequence and past, whose cache "
        f"grows by one at every step. A prompt of {PROMPT} tokens, then {STEPS} steps, {GENERATIONS} times; every engine "
        "in a process of its own. With caches empty, every shape is new; *the next process* finds on disk what the first one "
        "proved and compiled. Opening makes the programs of a decoder's steps. Figures up to *to the last token*, which "
        "includes opening, are of the process's first generation, the warm ones of its last. ONNX Runtime runs before and "
        "after: its two lines show how far the machine drifts. A *ratio* is tokens per second over the mean of both in "
        "the same generation, *difference* the largest one of sampled logits over the largest logit. "
        f"{busy()}\n\n"
    )
    return head + table.markdown() + "\n"


def _keep_bytecode(folder: Path, peers: Path) -> None:
    """Compile sources to bytecode, as installing does, by a small decoder and in a home of its own."""
    os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["AUTOTUNE_HOME"] = f"{folder}/small"
    path = folder / "small.onnx"
    onnx.save(gpt2_decoder(64, 2, 1, 100, 512), path)
    for python, engine in ((peers, "onnxruntime"), (Path(sys.executable), "autotune")):
        measured(python, engine, path, 1, 100)


def main() -> None:
    """Print the table; ``--json FILE`` and ``--markdown FILE`` keep it too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-decoder.md here")
    parser.add_argument("--networks", nargs="+", choices=DECODERS, default=tuple(DECODERS))
    parser.add_argument("--threads", nargs="+", type=int, default=(os.cpu_count() or 1,))
    parser.add_argument("--peers", type=Path, default=PEERS, help="interpreter with ONNX Runtime")
    chosen = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        _keep_bytecode(Path(folder), chosen.peers)
        for name in chosen.networks:
            path = Path(folder) / f"{name}.onnx"
            onnx.save(DECODERS[name].build(), path)
            for threads in chosen.threads:
                os.environ["AUTOTUNE_HOME"] = f"{folder}/{name}{threads}"
                vocabulary = DECODERS[name].vocabulary
                own = Path(sys.executable)
                turns = {
                    process: measured(python, engine, path, threads, vocabulary)
                    for process, python, engine in (
                        (BEFORE, chosen.peers, "onnxruntime"),
                        (FIRST, own, "autotune"),
                        (SECOND, own, "autotune"),
                        (AFTER, chosen.peers, "onnxruntime"),
                    )
                }
                ours = {process: turns[process] for process in (FIRST, SECOND)}
                peers = {process: turns[process] for process in (BEFORE, AFTER)}
                added = rows_of(name, threads, ours, peers)
                print(Table(name, COLUMNS, tuple(added)).text(), flush=True)
                rows += added
    table = Table("Decoders", COLUMNS, tuple(rows))
    if chosen.markdown is not None:
        chosen.markdown.write_text(markdown(table))
    if chosen.json is not None:
        plain = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        chosen.json.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""One engine generates text with a decoder, in a process of its own for `decoder.py`.

Arguments: engine, network, threads, length of the prompt, steps, generations. Prints one JSON object.
Runs under the interpreter that has the engine, so it imports that engine alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.child import raise_priority, spent

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]
SAMPLED = 64
"""Logits of every step that are compared between engines."""


def open_onnxruntime(network: str, threads: int) -> tuple[Run, dict[str, list[Any]]]:
    """ONNX Runtime, all optimisations (its default)."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    shapes = {value.name: value.shape for value in session.get_inputs()}
    return lambda feeds: dict(zip(names, session.run(None, feeds), strict=True)), shapes


def open_autotune(network: str, threads: int) -> tuple[Run, dict[str, list[Any]]]:
    """Our session by its defaults."""
    import autotune

    session = autotune.Session(network, threads=threads)
    return session.run, {info.name: list(info.shape or ()) for info in session.inputs}


ENGINES = {"onnxruntime": open_onnxruntime, "autotune": open_autotune}


def generate(
    run: Run, shapes: dict[str, list[Any]], prompt: int, steps: int, vocabulary: int
) -> dict[str, Any]:
    """A prompt, then one token after the other; tokens are drawn, the same for every engine."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, vocabulary, (1, prompt + steps))
    cache = {
        name: np.zeros((1, shape[1], 0, shape[3]), np.float32)
        for name, shape in shapes.items()
        if name.startswith("past_key_values")
    }
    seconds, logits, first = [], [], 0
    for last in (prompt, *range(prompt + 1, prompt + steps + 1)):
        feeds = {
            "input_ids": tokens[:, first:last],
            "position_ids": np.arange(first, last)[None],
            "attention_mask": np.ones((1, last), np.int64),
            **cache,
        }
        begin = time.perf_counter()
        made = run(feeds)
        seconds.append(time.perf_counter() - begin)
        cache = {name: made[name.replace("past_key_values", "present")] for name in cache}
        logits.append([float(x) for x in made["logits"][0, -1, :SAMPLED]])
        first = last
    return {"prompt_seconds": seconds[0], "seconds": seconds[1:], "logits": logits}


def main() -> None:
    """Open the engine and generate some times."""
    engine, network, threads, prompt, steps, vocabulary, generations = sys.argv[1:]
    raise_priority()
    begin = time.perf_counter()
    run, shapes = ENGINES[engine](network, int(threads))
    opened = time.perf_counter() - begin
    rows = [
        generate(run, shapes, int(prompt), int(steps), int(vocabulary))
        for _ in range(int(generations))
    ]
    print(json.dumps({"open_seconds": opened, "generations": rows, **spent()}))


if __name__ == "__main__":
    main()

"""Files made to harm are refused: exit code 2, one line, within bounds of memory and time."""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from autotune.cli.main import main
from autotune.graph.evaluation import evaluate
from tests.frontend.adversarial_models import MODELS, node, of, write
from tests.frontend.onnx_case import imported, single

CPU_SECONDS = 20
"""That refusing a file may take; most take a hundredth of one."""

MORE_BYTES = 3 << 30
"""Address space that refusing a file may take beside what the process has: room for one tensor of
the limit."""

LONGEST_LINE = 2000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended: its exit code, negative for a signal, and what it printed to stderr."""

    code: int
    errors: str


def bounded(arguments: list[str], errors: Path) -> Ending:
    """Run the command line in a forked process that may not take much."""
    child = os.fork()
    if child == 0:
        _run(arguments, errors)
    _, status = os.waitpid(child, 0)
    return Ending(os.waitstatus_to_exitcode(status), errors.read_text(errors="replace"))


def _run(arguments: list[str], errors: Path) -> None:
    """The child's part; never returns."""
    file = errors.open("w")
    os.dup2(file.fileno(), 2)
    sys.stderr = file
    signal.alarm(10 * CPU_SECONDS)  # for what waits instead of computing
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    code = 1
    try:
        main(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent shall see it
        file.write(f"Traceback: {type(error).__name__}: {error}"[:4000])
    file.flush()
    os._exit(code)


def assert_refused(ending: Ending, path: Path) -> None:
    assert ending.code == 2, ending
    lines = ending.errors.splitlines()
    assert len(lines) == 1, ending
    assert lines[0].startswith("autotune: error: "), ending
    assert len(lines[0]) < LONGEST_LINE
    assert str(path) in lines[0], ending


@pytest.fixture(scope="module", autouse=True)
def imported_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the command imports is imported before the forks."""
    path = tmp_path_factory.mktemp("good") / "model.onnx"
    path.write_bytes(of(node("Relu", "x", "y")).SerializeToString())
    with pytest.raises(SystemExit) as ended:
        main(["explain", str(path)])
    assert ended.value.code == 0


@pytest.mark.parametrize("name", MODELS)
def test_a_file_made_to_harm_is_refused_in_bounded_memory_and_time(
    name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = write(name, folder)
    assert_refused(bounded(["explain", str(path)], tmp_path / "errors"), path)


def test_a_sum_over_more_channels_than_there_are_is_over_all_of_them() -> None:
    x = np.linspace(-1, 1, 5 * 4, dtype=np.float32).reshape(1, 5, 2, 2)
    graph = imported(single("LRN", [x], size=1 << 40, alpha=1.0, beta=1.0)[0])
    (found,) = evaluate(graph, {"i0": x}).values()
    np.testing.assert_allclose(
        found, x / (1 + (x**2).sum(axis=1, keepdims=True) / 2**40), rtol=1e-6
    )

"""Times one job of `compile_path.py` in a process of its own, whose imports are part of the figures.

Arguments: a job of ``JOBS``, then its own. Prints one JSON object of CPU seconds by stage.
"""

from __future__ import annotations

import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from benchmarks.child import best_cpu_seconds, raise_priority

if TYPE_CHECKING:  # the worker measures what it imports
    import numpy.typing as npt

    from autotune.graph.graph import Graph
    from autotune.runtime.session.session import Session

Figures = dict[str, float]
CANDIDATES = 400
RUNS = 2_000
CHAIN = ("MatMul", "Mul", "Add", "Relu", "Identity")
"""Operators of a chain, again and again: some fold into weights, some go, some fuse."""
FEATURES = 8


class _Clock:
    """CPU seconds of this process's threads since it was last asked."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def lap(self) -> float:
        """Seconds since the last lap."""
        before, self._last = self._last, time.process_time()
        return self._last - before


def start(code: str) -> Figures:
    """An interpreter that runs ``code``: what the system says it took."""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": used.ru_utime + used.ru_stime}


def session(path: str) -> Figures:
    """A session from an ONNX file to its first result and the next."""
    clock = _Clock()
    import numpy as np

    from autotune.runtime.session.session import Session

    found = {"import": clock.lap()}
    opened = Session(path, target="cpu", threads=1)
    found["open"] = clock.lap()
    inputs = {x: np.ones(opened.graph.shape(x), np.float32) for x in opened.graph.inputs}
    clock.lap()
    opened.run(inputs)
    found["first run"] = clock.lap()
    found["load to first result"] = found["open"] + found["first run"]
    opened.run(inputs)
    return found | {"next run": clock.lap()}


def stages(path: str, spec: str) -> Figures:
    """An ONNX file to programs by rule."""
    from autotune.frontend.importing import read_onnx

    return _lowered(lambda: read_onnx(path), spec)


def chain(nodes: str, spec: str) -> Figures:
    """A chain of as many ONNX nodes to programs by rule."""
    from autotune.frontend.importing import translate

    model = _chain(int(nodes))
    return _lowered(lambda: translate(model, "chain", {}), spec)


def _lowered(imported: Callable[[], Graph], spec: str) -> Figures:
    from autotune.graph.passes import simplify
    from autotune.runtime.execution.program_cache import ProgramCache
    from autotune.runtime.execution.program_table import compile_table
    from autotune.targets.opening import target
    from autotune.tuner.heuristic_plan import heuristic_choices

    machine = target(spec).spec
    clock = _Clock()
    graph = imported()
    found = {"import": clock.lap()}
    graph = simplify(graph).graph
    found["passes"] = clock.lap()
    choices = heuristic_choices(graph, machine)
    found["rules"] = clock.lap()
    compile_table(graph, choices, machine, ProgramCache())
    return found | {"lowering": clock.lap()}


def _chain(nodes: int) -> object:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(FEATURES, FEATURES)).astype(np.float32),
        "v": rng.normal(size=FEATURES).astype(np.float32),
    }
    body, x = [], "x"
    for i in range(nodes):
        operator = CHAIN[i % len(CHAIN)]
        second = {"MatMul": ["w"], "Mul": ["v"], "Add": ["v"]}.get(operator, [])
        body.append(helper.make_node(operator, [x, *second], [f"y{i}"]))
        x = f"y{i}"
    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, [4, FEATURES]) for e in ("x", x)]
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(body, "chain", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def candidates(spec: str) -> Figures:
    """Lowering of drawn candidates, each once behind the first time."""
    from autotune import api
    from autotune.errors import ScheduleError
    from autotune.lowering.lower import lower
    from autotune.targets.opening import target
    from autotune.tuner.sampling import sample_candidates as drawn

    machine = target(spec).spec
    graphs = [api.load_network(name) for name in ("light_squeezenet", "mlp")]
    took = []
    for candidate in islice(drawn(graphs, machine, 0), CANDIDATES):
        with contextlib.suppress(ScheduleError):
            lower(candidate.group, candidate.schedule, machine)
            clock = _Clock()
            lower(candidate.group, candidate.schedule, machine)
            took.append(clock.lap())
    return {
        "one candidate lowered, median": statistics.median(took),
        "one candidate lowered, mean": statistics.mean(took),
    }


def runs() -> Figures:
    """Session.run of one Relu, and the part of it that the executor takes."""
    import numpy as np

    from autotune.graph.builder import GraphBuilder
    from autotune.operators.op import OpKind
    from autotune.runtime.session.session import Session

    builder = GraphBuilder("relu")
    graph = builder.build([builder.add(OpKind.RELU, builder.input("x", (8,)))])
    opened = Session(graph, target="cpu", threads=1)
    inputs = {"x": np.ones(8, np.float32)}
    several = best_cpu_seconds(lambda: [opened.run(inputs) for _ in range(RUNS)], 15)
    kernels = min(_executed(opened, inputs) for _ in range(RUNS))
    return {"Session.run of a Relu of 8 elements": several / RUNS, "  its kernel": kernels}


def _executed(opened: Session, inputs: Mapping[str, npt.NDArray[Any]]) -> float:
    """Run once; return the seconds that its programs took."""
    opened.run(inputs)
    return 1e-9 * sum(run.execution.counters["nanoseconds"] for run in opened.last_run.groups)


JOBS: dict[str, Callable[..., Figures]] = {
    job.__name__: job for job in (start, session, stages, chain, candidates, runs)
}


def main() -> None:
    """Measure and print."""
    raise_priority()
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))


if __name__ == "__main__":
    main()

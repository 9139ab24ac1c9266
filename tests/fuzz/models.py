"""``python -m tests.fuzz.models``: fuzzes the importer with changed ONNX files.

A case is a small valid model with one to three changes: of bytes of the file, or of fields of the
message (attributes, extents, types, names, data). It is refused with an ``AutotuneError``, or
imported; then the graph gives what ONNX's reference evaluator gives, wherever that runs. Anything
else, running for too long and taking too much memory included, is a failure, shrunk by taking
changes back.
"""

from __future__ import annotations

import argparse
import math
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autotune.errors import AutotuneError
from autotune.frontend.importing import load_onnx
from autotune.frontend.modernise import OLDEST_OPSET
from autotune.frontend.subgraphs import opset_of
from autotune.graph.evaluation import evaluate
from autotune.operators.tensor import DType
from tests.fuzz.draws import Rng, below, chance, pick

CASE_SECONDS = 20
"""CPU time of a case."""
MORE_BYTES = 6 << 30
"""Address space of the process beside what it takes at first."""
COMPARED_ELEMENTS = 1 << 16
"""Larger inputs are imported and not evaluated."""
INTEGERS = (
    0,
    1,
    2,
    3,
    -1,
    -2,
    7,
    64,
    255,
    1 << 16,
    1 << 31,
    -(1 << 31),
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
)
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, math.inf, -math.inf, math.nan)
TEXTS = (
    "",
    "x",
    "y",
    "nowhere",
    "Relu",
    "Conv",
    "Loop",
    "SAME_UPPER",
    "VALID",
    "linear",
    "ij,jk->ik",
    "\n",
    "é",
)

NUMBERS = (onnx.AttributeProto, onnx.TensorProto, onnx.TensorShapeProto.Dimension)
"""What is changed mostly: other changes break the wiring, which is soon refused."""

Change = tuple[int, ...]
"""The seed of one change."""


def _one(
    operator: str, shapes: Sequence[Sequence[int]], opset: int = 17, **attrs: object
) -> onnx.ModelProto:
    """A node whose first input is the network's; the others are weights."""
    rng = np.random.default_rng(1)
    names = ["x", *[f"w{i}" for i in range(1, len(shapes))]]
    weights = [
        numpy_helper.from_array(np.abs(rng.standard_normal(shape).astype(np.float32)), name)
        for name, shape in zip(names[1:], shapes[1:], strict=True)
    ]
    return _model(
        [helper.make_node(operator, names, ["y"], name="n", **attrs)], shapes[0], weights, opset
    )


def _model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int],
    weights: Sequence[onnx.TensorProto],
    opset: int,
) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [])
    graph = helper.make_graph(list(nodes), "g", [x], [y], list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _with_integers(
    operator: str, x: Sequence[int], /, **integers: Sequence[int]
) -> onnx.ModelProto:
    """A node that reads x and lists of integers."""
    weights = [numpy_helper.from_array(np.asarray(v, np.int64), k) for k, v in integers.items()]
    return _model([helper.make_node(operator, ["x", *integers], ["y"], name="n")], x, weights, 17)


def _branch() -> onnx.ModelProto:
    """An If whose condition is known, and a Shape beside it."""
    bodies = {}
    for key, operator in (("then_branch", "Relu"), ("else_branch", "Neg")):
        out = helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, [2, 3])
        bodies[key] = helper.make_graph([helper.make_node(operator, ["x"], [key])], key, [], [out])
    nodes = [
        helper.make_node("If", ["c"], ["t"], **bodies),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Reshape", ["t", "s"], ["y"]),
    ]
    return _model(nodes, [2, 3], [numpy_helper.from_array(np.asarray(True), "c")], 17)


@cache
def corpus() -> tuple[bytes, ...]:
    """Valid models, one family of operators each."""
    image = (1, 4, 6, 6)
    models = [
        _one("Conv", [image, (4, 2, 3, 3), (4,)], group=2, pads=[1, 1, 1, 1], strides=[1, 2]),
        _one("ConvTranspose", [image, (4, 2, 3, 3)], strides=[2, 2]),
        _one("MaxPool", [image], kernel_shape=[2, 3], strides=[2, 1], ceil_mode=1),
        _one("AveragePool", [image], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        _one("Gemm", [(3, 4), (5, 4), (5,)], transB=1, alpha=0.5),
        _one("MatMul", [(2, 3, 4), (4, 5)]),
        _one("BatchNormalization", [image, (4,), (4,), (4,), (4,)]),
        _one("LayerNormalization", [(2, 3, 4), (4,), (4,)], axis=-1),
        _one("Softmax", [(2, 5)], axis=1),
        _one("Add", [(2, 3), (3,)]),
        _one("Transpose", [(2, 3, 4)], perm=[2, 0, 1]),
        _one("Concat", [(2, 3), (2, 1)], axis=1),
        _one("ReduceMean", [(2, 3, 4)], axes=[1], keepdims=0),
        _one("Clip", [(2, 3), (), ()]),
        _one("LRN", [image], size=3),
        _one("DepthToSpace", [image], blocksize=2),
        _one("Einsum", [(2, 3), (3, 4)], equation="ij,jk->ik"),
        _one("LSTM", [(3, 1, 2), (1, 8, 2), (1, 8, 2)], hidden_size=2),
        _one("Cast", [(2, 3)], to=6),
        _with_integers("Slice", (4, 5), starts=[1, 0], ends=[4, 5], axes=[0, 1], steps=[2, 1]),
        _with_integers("Reshape", (4, 6), shape=[2, -1]),
        _with_integers("Expand", (1, 3), shape=[2, 3]),
        _with_integers("Tile", (2, 3), repeats=[2, 1]),
        _with_integers("Pad", (2, 3), pads=[1, 0, 0, 1]),
        _with_integers("Unsqueeze", (2, 3), axes=[0, 3]),
        _with_integers("Gather", (4, 3), indices=[0, 2, -1]),
        _with_integers("Split", (4, 3), split=[4]),
        _branch(),
    ]
    return tuple(model.SerializeToString() for model in models)


def _messages(message: Any) -> Iterator[Any]:
    """A message and all within it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            repeated = not hasattr(value, "ListFields")
            for inner in value if repeated else [value]:
                yield from _messages(inner)


def _drawn(rng: Rng, field: Any) -> Any:
    """A value for a field, by its type in the wire format."""
    if field.enum_type is not None:
        return pick(rng, list(field.enum_type.values_by_number))
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return pick(rng, FLOATS)
    if field.type == field.TYPE_BYTES:
        return rng.generator.bytes(below(rng, 20))
    if field.type == field.TYPE_STRING:
        return pick(rng, TEXTS)
    value = pick(rng, INTEGERS) if chance(rng, 0.6) else below(rng, 8) - 2
    if field.cpp_type == field.CPPTYPE_INT32:
        return max(min(value, (1 << 31) - 1), -(1 << 31))
    return value % (1 << 64) if field.cpp_type == field.CPPTYPE_UINT64 else value


def changed_field(rng: Rng, content: bytes) -> bytes:
    """A file with one field of its message set, emptied, repeated or moved."""
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception:  # noqa: BLE001 - an earlier change of bytes; the parser has errors of its own
        return changed_bytes(rng, content)
    inner = list(_messages(model))
    numbers = [m for m in inner if isinstance(m, NUMBERS)]
    message = pick(rng, numbers if numbers and chance(rng, 0.8) else inner)
    fields = [f for f, _ in message.ListFields()]
    if not fields or chance(rng, 0.1):
        fields = list(message.DESCRIPTOR.fields)
    field = pick(rng, fields)
    if field.type == field.TYPE_STRING:
        field = pick(rng, fields)
    value = getattr(message, field.name)
    repeated = hasattr(value, "extend")
    if chance(rng, 0.12) or (field.message_type is not None and not repeated):
        message.ClearField(field.name)
    elif not repeated:
        setattr(message, field.name, _drawn(rng, field))
    else:
        _change_list(rng, field, value)
    return bytes(model.SerializeToString())


def _change_list(rng: Rng, field: Any, values: Any) -> None:
    at = below(rng, max(1, len(values)))
    if field.message_type is not None:
        if len(values) and chance(rng, 0.5):
            values.append(values[at])
        elif len(values):
            del values[at]
    elif not len(values) or chance(rng, 0.2):
        values.append(_drawn(rng, field))
    elif chance(rng, 0.15):
        del values[at]
    else:
        values[at] = _drawn(rng, field)


def changed_bytes(rng: Rng, content: bytes) -> bytes:
    """A file with a bit turned, bytes replaced, cut out or put in."""
    data = bytearray(content or b"\0")
    at = below(rng, len(data))
    match below(rng, 5):
        case 0 | 1:
            data[at] ^= 1 << below(rng, 8)
        case 2:
            data[at] = pick(rng, (0, 1, 127, 128, 255))
        case 3:
            del data[at : at + 1 + below(rng, 12)]
        case _:
            data[at:at] = rng.generator.bytes(1 + below(rng, 8))
    return bytes(data)


def changes(seed: int, number: int) -> tuple[bytes, tuple[Change, ...]]:
    """What case ``number`` of a seed begins from, and what is changed."""
    rng = Rng(seed, number)
    return pick(rng, corpus()), tuple((seed, number, i) for i in range(1, 2 + below(rng, 3)))


def applied(content: bytes, made: Sequence[Change]) -> bytes:
    """A file after some changes."""
    for change in made:
        rng = Rng(*change)
        content = (changed_bytes if chance(rng, 0.15) else changed_field)(rng, content)
    return content


class Wrong(AssertionError):
    """An imported model computes something else than ONNX."""


def judge(content: bytes, path: Path) -> str:
    """What becomes of a file: refused, imported, or the same as ONNX's. Raises ``Wrong``, or
    whatever else went wrong."""
    try:
        path.write_bytes(content)
        graph = load_onnx(path)
    except AutotuneError:
        return "refused"
    model = onnx.ModelProto.FromString(content)
    types = [graph.types[x] for x in graph.inputs]
    if sum(t.elements for t in types) > COMPARED_ELEMENTS or any(
        t.dtype is not DType.FLOAT32 for t in types
    ):
        return "imported"
    return _compared(graph, model)


def _compared(graph: Any, model: onnx.ModelProto) -> str:
    rng = np.random.default_rng(0)
    fed = {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}
    if any(math.prod(graph.shape(op.output)) > COMPARED_ELEMENTS for op in graph.ops):
        return "imported"
    with np.errstate(all="ignore"):
        ours = evaluate(graph, fed)
        try:
            theirs = ReferenceEvaluator(model).run(list(ours), fed)
        except Exception:  # noqa: BLE001 - it refuses what it cannot do with any exception
            return "imported"
    return _same(ours, theirs, old=opset_of(model) < OLDEST_OPSET)


def _same(ours: dict[str, Any], theirs: Sequence[Any], old: bool) -> str:
    """Equal up to rounding; an ``old`` operator set is converted by onnx, whose evaluator then counts
    paddings otherwise."""
    for (name, found), value in zip(ours.items(), theirs, strict=True):
        expected = np.asarray(value)
        if found.shape != expected.shape:
            raise Wrong(f"{name} has shape {found.shape}, not {expected.shape}")
        if expected.dtype == np.float32 and not np.allclose(
            found, expected, 1e-3, 1e-4, equal_nan=True
        ):
            if not old and np.isfinite(expected).all():  # infinite parameters end as inf or NaN
                raise Wrong(f"{name} is {found.ravel()[:9]}, not {expected.ravel()[:9]}")
            return "imported, other numbers"
    return "same as ONNX"


def fails(content: bytes, path: Path) -> bool:
    """Whether judging a file ends in any error, printed nowhere."""
    try:
        _bounded(content, path)
    except Exception:  # noqa: BLE001 - whatever it is, it is what we look for
        return True
    return False


class Hang(Exception):
    """A case took more than ``CASE_SECONDS``."""


def _hang(*_: object) -> None:
    raise Hang(f"more than {CASE_SECONDS} s")


def _bounded(content: bytes, path: Path) -> str:
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
    try:
        return judge(content, path)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _explain(content: bytes, made: Sequence[Change], path: Path) -> None:
    """Print the failure, and the file after those changes alone that it needs."""
    traceback.print_exc(limit=-4)
    needed = list(made)
    for change in made:
        fewer = [other for other in needed if other != change]
        if fails(applied(content, fewer), path):
            needed = fewer
    data = applied(content, needed)
    try:
        print(onnx.ModelProto.FromString(data))
    except Exception:  # noqa: BLE001 - the parser has errors of its own
        print(data.hex())


def fuzz(cases: int, seed: int, first: int = 0) -> tuple[Counter[str], list[int]]:
    """Try cases; what became of them, and the numbers of those that failed, each explained."""
    outcomes: Counter[str] = Counter()
    failures = []
    signal.signal(signal.SIGPROF, _hang)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_BYTES, limits[1]))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        for number in range(first, first + cases):
            content, made = changes(seed, number)
            try:
                outcomes[_bounded(applied(content, made), path)] += 1
            except Exception:  # noqa: BLE001 - no error of any kind may come out of a case
                print(f"# seed {seed}, case {number}", flush=True)
                outcomes["FAILED"] += 1
                failures.append(number)
                _explain(content, made, path)
    resource.setrlimit(resource.RLIMIT_AS, limits)
    return outcomes, failures


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("tests.fuzz.models", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="go on from this case")
    given = parser.parse_args()
    begin = time.monotonic()
    outcomes, failures = fuzz(given.cases, given.seed, given.first)
    for name, count in sorted(outcomes.items()):
        print(f"{count:9} {name}")
    print(f"{given.cases} cases in {time.monotonic() - begin:.0f} s, seed {given.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

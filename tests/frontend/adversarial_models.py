"""ONNX files made to harm whoever imports them: each is written to a folder, and has to be refused."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx_case import model_of, single

Node: TypeAlias = onnx.NodeProto
Model: TypeAlias = onnx.ModelProto | bytes
TRILLION = 10**12


def node(operator: str, inputs: str, outputs: str, **attrs: object) -> Node:
    """A node from names between spaces."""
    return helper.make_node(
        operator, inputs.split(), outputs.split(), name=f"the {operator}", **attrs
    )


def of(
    *nodes: Node, shape: Sequence[int | str] = (2,), opset: int = 17, **constants: object
) -> onnx.ModelProto:
    """A model from x to what its last node makes."""
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    return model_of(nodes, {"x": shape}, [nodes[-1].output[0]], arrays, opset)


def folded(
    operator: str,
    names: str,
    opset: int = 17,
    attrs: Mapping[str, object] = {},
    **constants: object,
) -> onnx.ModelProto:
    """x plus the value of an operator over constants."""
    return of(
        node(operator, names, "big", **attrs), node("Add", "x big", "y"), opset=opset, **constants
    )


def tensor(
    dims: Sequence[int], data: bytes = bytes(8), kind: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    """x plus a stored tensor of these dimensions and this data."""
    model = of(node("Add", "x w", "y"), w=np.float32([1, 2]))
    stored = model.graph.initializer[0]
    stored.ClearField("dims")
    stored.dims.extend(dims)
    stored.raw_data, stored.data_type = data, kind
    return model


def function(name: str, *calls: str) -> onnx.FunctionProto:
    """A function of one input that calls others one after the other."""
    steps = ["a", *[f"t{i}" for i in range(len(calls) - 1)], "b"]
    nodes = [
        helper.make_node(call, [x], [y], domain="own" if call.startswith("f") else "")
        for call, x, y in zip(calls, steps, steps[1:], strict=False)
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], nodes, imports)


def functions(*defined: onnx.FunctionProto) -> onnx.ModelProto:
    """A model that calls the first of these functions."""
    call = helper.make_node(defined[0].name, ["x"], ["y"], domain="own", name="the call")
    model = of(call)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(defined)
    return model


def changed(
    change: Callable[[onnx.ModelProto], object], model: onnx.ModelProto | None = None
) -> onnx.ModelProto:
    """A model, that of an addition if none is given, after a change."""
    model = of(node("Add", "x w", "y"), w=np.float32([1, 2])) if model is None else model
    change(model)
    return model


def doubled(
    levels: int = 45, operator: str = "Concat", first: str = "c", **attrs: object
) -> onnx.ModelProto:
    """A tensor joined to itself again and again."""
    names = [first, *[f"d{i}" for i in range(levels)]]
    nodes = [node(operator, f"{x} {x}", y, **attrs) for x, y in itertools.pairwise(names)]
    return of(*nodes, node("Add", f"{names[-1]} x", "y"), c=np.float32([1, 2]))


def many_values(count: int = 60, elements: int = (1 << 29) - 1) -> onnx.ModelProto:
    """Constants each just below the limit of one tensor."""
    nodes = [node("ConstantOfShape", "s", f"v{i}") for i in range(count)]
    nodes.append(node("Add", f"x v{count - 1}", "y"))
    return of(*nodes, s=np.asarray([elements]))


def body(nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> onnx.GraphProto:
    """A subgraph without types."""
    values = [[onnx.ValueInfoProto(name=x) for x in names] for names in (inputs, outputs)]
    return helper.make_graph(nodes, "body", *values)


def nested_loops(levels: int = 8, trips: int = 16) -> onnx.ModelProto:
    """Loops within loops, of ``trips ** levels`` iterations in all."""
    inner = [helper.make_node("Relu", ["v0"], ["w0"])]
    for level in range(levels):
        inside = body(
            [*inner, helper.make_node("Identity", [f"c{level}"], [f"k{level}"])],
            [f"i{level}", f"c{level}", f"v{level}"],
            [f"k{level}", f"w{level}"],
        )
        inner = [
            helper.make_node(
                "Loop", ["trips", "go", f"v{level + 1}"], [f"w{level + 1}"], body=inside
            )
        ]
    inner[0].input[2], inner[0].output[0] = "x", "y"
    return of(*inner, trips=np.asarray(trips), go=np.asarray(True))


def nested_ifs(levels: int) -> onnx.ModelProto:
    """Branches within branches; both branches hold the next, so that nodes double."""
    inner = [helper.make_node("Relu", ["x"], ["b0"])]
    for level in range(levels):
        then = body(inner, [], [f"b{level}"])
        inner = [
            helper.make_node(
                "If",
                ["go"],
                [f"b{level + 1}"],
                then_branch=then,
                else_branch=body([helper.make_node("Neg", ["x"], ["n"])], [], ["n"]),
            )
        ]
    return of(*inner, go=np.asarray(True))


def wrapped(levels: int) -> bytes:
    """A graph in an attribute of a node of a graph, and so on, deeper than any parser may follow."""
    model = of(node("If", "c", "y"), c=np.asarray(True))
    content, head = b"", model.SerializeToString()
    for _ in range(levels):
        for key in (
            0x32,
            0x2A,
            0x0A,
        ):  # AttributeProto.g 6, NodeProto.attribute 5, GraphProto.node 1
            content = bytes([key]) + _varint(len(content)) + content
    return head + b"\x3a" + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def external(folder: Path, location: str, **more: object) -> onnx.ModelProto:
    """A model whose weight lies in a file; a secret lies beside the model's folder."""
    (folder.parent / "secret").write_bytes(np.float32([3, 4]).tobytes())
    (folder / "inside").write_bytes(np.float32([3, 4]).tobytes())
    (folder / "link").symlink_to("../secret")
    (folder / "linked folder").symlink_to("..")
    os.mkfifo(folder / "pipe")
    model = tensor([2])
    stored = model.graph.initializer[0]
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        stored.external_data.add(key=key, value=str(value))
    return model


def many(count: int = 10**6) -> onnx.ModelProto:
    """A chain of a million nodes."""
    model = of(node("Relu", "x", "0"))
    one = onnx.NodeProto(op_type="Relu")
    for i in range(count):
        step = model.graph.node.add()
        step.CopyFrom(one)
        step.input.append(str(i))
        step.output.append(str(i + 1))
    model.graph.output[0].name = str(count)
    return model


def damaged_text(model: onnx.ModelProto, text: bytes) -> bytes:
    """A file in which a text is not UTF-8."""
    content = model.SerializeToString()
    assert text in content
    return content.replace(text, b"\xff\xfe" + text[2:])


def _add_attribute(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.extend([helper.make_attribute("axis", 0)] * 2)


def _set_opset(version: int, domain: str = "") -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        model.opset_import[0].version, model.opset_import[0].domain = version, domain

    return change


def _set_input(*dims: int) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        shape = model.graph.input[0].type.tensor_type.shape
        shape.ClearField("dim")
        for extent in dims:
            shape.dim.add(dim_value=extent)

    return change


def recurrent(steps: int) -> onnx.ModelProto:
    """An RNN over a sequence that was never there."""
    weight = np.ones((1, 2, 2), np.float32)
    return of(node("RNN", "x w r", "y", hidden_size=2), shape=(steps, 1, 2), w=weight, r=weight)


RESIZED = {"roi": np.float32([]), "scales": np.float32([]), "sizes": np.asarray([TRILLION])}

MODELS: dict[str, Callable[[Path], Model]] = {
    "recursive function": lambda _: functions(function("f", "Relu", "f")),
    "functions that call each other": lambda _: functions(function("f", "fg"), function("fg", "f")),
    "functions that double 40 times": lambda _: functions(
        *[function(f"f{i}", f"f{i + 1}", f"f{i + 1}") for i in range(40)], function("f40", "Relu")
    ),
    "functions 5,000 deep": lambda _: functions(
        *[function(f"f{i}", f"f{i + 1}") for i in range(5000)], function("f5000", "Relu")
    ),
    "function defined twice": lambda _: functions(function("f", "Relu"), function("f", "Neg")),
    "function that is not there": lambda _: functions(function("f", "fnowhere")),
    "huge input": lambda _: of(node("Relu", "x", "y"), shape=(1 << 40,)),
    "input whose size overflows": lambda _: of(node("Relu", "x", "y"), shape=(1 << 32, 1 << 32)),
    "input of size zero modulo 2^64": lambda _: of(node("Relu", "x", "y"), shape=(1 << 33, 1 << 33)),
    "huge stored tensor": lambda _: tensor([TRILLION]),
    "stored tensor whose size overflows": lambda _: tensor([1 << 62, 8]),
    "stored tensor of negative size": lambda _: tensor([-2]),
    "stored tensor of two negative sizes": lambda _: tensor([-1, -2]),
    "too little data": lambda _: tensor([3]),
    "too much data": lambda _: tensor([1]),
    "data of half an element": lambda _: tensor([2], bytes(7)),
    "no data": lambda _: tensor([2], b""),
    "much too much data": lambda _: tensor([2], bytes(1 << 20)),
    "unknown element type": lambda _: tensor([2], kind=99),
    "tensor of rank 100": lambda _: tensor([1] * 98 + [2, 1]),
    "input of rank 100,000": lambda _: of(node("Relu", "x", "y"), shape=[1] * 100_000),
    "weight above the folder": lambda d: external(d, "../secret"),
    "weight at an absolute path": lambda d: external(d, str(d.parent / "secret")),
    "weight that is a device": lambda d: external(d, "/dev/zero"),
    "weight behind a link": lambda d: external(d, "link"),
    "weight behind a linked folder": lambda d: external(d, "linked folder/secret"),
    "weight that is a pipe": lambda d: external(d, "pipe"),
    "weight that is a folder": lambda d: external(d, "."),
    "weight that is not there": lambda d: external(d, "nowhere"),
    "weight without a place": lambda d: external(d, ""),
    "weight of a place with a zero byte": lambda d: external(d, "in\0side"),
    "weight that begins behind its file": lambda d: external(d, "inside", offset=TRILLION),
    "weight that begins before its file": lambda d: external(d, "inside", offset=-8),
    "weight longer than its file": lambda d: external(d, "inside", length=TRILLION),
    "weight of negative length": lambda d: external(d, "inside", length=-1),
    "weight whose offset is no number": lambda d: external(d, "inside", offset="here"),
    "two nodes make one tensor": lambda _: of(node("Relu", "x", "t"), node("Neg", "x", "t"), node("Relu", "t", "y")),
    "two stored tensors of one name": lambda _: changed(lambda m: m.graph.initializer.append(m.graph.initializer[0])),
    "two inputs of one name": lambda _: changed(lambda m: m.graph.input.append(m.graph.input[0])),
    "two attributes of one name": lambda _: changed(_add_attribute),
    "a node makes an input": lambda _: of(node("Relu", "x", "x"), node("Neg", "x", "y")),
    "a node makes a stored tensor": lambda _: of(node("Relu", "x", "w"), node("Neg", "w", "y"), w=np.float32([1, 2])),
    "a node makes its outputs twice": lambda _: of(node("Split", "x", "t t", axis=0), node("Relu", "t", "y")),
    "cycle": lambda _: of(node("Add", "x b", "a"), node("Relu", "a", "b")),
    "node that reads itself": lambda _: of(node("Add", "x y", "y")),
    "cycle of 100,000 nodes": lambda _: of(*[node("Relu", f"t{i}", f"t{(i + 1) % 100_000}") for i in range(100_000)]),
    "cycle through a body": lambda _: of(
        node("If", "c", "a", then_branch=body([node("Relu", "b", "t")], [], ["t"]), else_branch=body([node("Relu", "x", "e")], [], ["e"])),
        node("Relu", "a", "b"), c=np.asarray(True),
    ),
    "missing input": lambda _: of(node("Relu", "nowhere", "y")),
    "node without inputs": lambda _: of(node("Relu", "", "y")),
    "node with a nameless input": lambda _: of(helper.make_node("Relu", [""], ["y"])),
    "convolution without weights": lambda _: of(node("Conv", "x", "y"), shape=(1, 1, 4, 4)),
    "output that nobody makes": lambda _: changed(lambda m: m.graph.output.add(name="nowhere")),
    "negative extent": lambda _: changed(_set_input(-5)),
    "input without a shape": lambda _: changed(lambda m: m.graph.input[0].type.tensor_type.ClearField("shape")),
    "input without a type": lambda _: changed(lambda m: m.graph.input[0].ClearField("type")),
    "operator set to come": lambda _: changed(_set_opset(9999)),
    "operator set of negative number": lambda _: changed(_set_opset(-1)),
    "operator set of number zero": lambda _: changed(_set_opset(0)),
    "operator set of unknown domain": lambda _: changed(_set_opset(1, "nowhere")),
    "file format to come": lambda _: changed(lambda m: setattr(m, "ir_version", 9999)),
    "operator of unknown domain": lambda _: of(helper.make_node("Relu", ["x"], ["y"], domain="nowhere")),
    "attribute of the wrong type": lambda _: of(node("Softmax", "x", "y", axis="first")),
    "attribute without a type": lambda _: of(changed_attribute()),
    "branches 10,000 deep": lambda _: wrapped(10_000),
    "branches 30 deep, cut off": lambda _: wrapped(30),
    "loops of 16^8 trips": lambda _: nested_loops(),
    "branches as deep as a parser goes, decided by nobody": lambda _: changed(lambda m: m.graph.initializer.pop(), nested_ifs(30)),
    "ConstantOfShape": lambda _: folded("ConstantOfShape", "s", s=[TRILLION]),
    "ConstantOfShape whose size overflows": lambda _: folded("ConstantOfShape", "s", s=[1 << 32, 1 << 32]),
    "ConstantOfShape of negative size": lambda _: folded("ConstantOfShape", "s", s=[-1]),
    "ConstantOfShape filled with nothing": lambda _: folded(
        "ConstantOfShape", "s", attrs={"value": numpy_helper.from_array(np.float32([]))}, s=[2]),
    "Expand": lambda _: folded("Expand", "c s", c=np.float32([1]), s=[TRILLION]),
    "Tile": lambda _: folded("Tile", "c s", c=np.float32([1]), s=[TRILLION]),
    "Tile of bytes": lambda _: folded("Tile", "c s", c=np.uint8([1]), s=[-TRILLION]),
    "Range": lambda _: folded("Range", "a b d", a=0, b=TRILLION, d=1),
    "Range of nothing known": lambda _: folded("Range", "a b d", a=np.float32(0), b=np.float32(np.inf), d=np.float32(1)),
    "Range of tiny steps": lambda _: folded("Range", "a b d", a=np.float32(0), b=np.float32(1), d=np.float32(1e-30)),
    "Resize": lambda _: folded("Resize", "c roi scales sizes", c=np.float32([1]), **RESIZED),
    "Resize by a huge factor": lambda _: folded("Resize", "c roi s", c=np.float32([1]), roi=np.float32([]), s=np.float32([1e30])),
    "Pad": lambda _: folded("Pad", "c p", c=np.float32([1]), p=[0, TRILLION]),
    "Pad of overflowing size": lambda _: folded("Pad", "c p", c=np.float32([1]), p=[(1 << 63) - 1, (1 << 63) - 1]),
    "OneHot": lambda _: folded("OneHot", "c d v", c=np.asarray([1]), d=np.asarray(TRILLION), v=np.float32([0, 1])),
    "MatMul": lambda _: folded("MatMul", "a b", a=np.ones((1 << 20, 1), np.float32), b=np.ones((1, 1 << 20), np.float32)),
    "Add of a column and a row": lambda _: folded("Add", "a b", a=np.ones((1 << 20, 1), np.float32), b=np.ones((1, 1 << 20), np.float32)),
    "Gather of a row a million times": lambda _: folded("Gather", "a b", a=np.ones((1, 1 << 20), np.float32), b=np.zeros(1 << 20, np.int64)),
    "Unsqueeze of 100 axes": lambda _: folded("Unsqueeze", "c s", c=np.float32([1]), s=list(range(100))),
    "Reshape to a negative size": lambda _: folded("Reshape", "c s", c=np.float32([1]), s=[-7]),
    "HannWindow": lambda _: folded("HannWindow", "s", s=np.asarray(TRILLION)),
    "constants doubled 45 times": lambda _: doubled(axis=0),
    "tensors doubled 45 times": lambda _: doubled(first="x", axis=0),
    "60 constants of 2 GiB": lambda _: many_values(),
    "wide constants of small bytes": lambda _: folded("Cast", "big8", attrs={"to": TensorProto.DOUBLE}, big8=np.ones(1 << 26, np.uint8)),
    "RNN of a billion steps": lambda _: recurrent(10**8),
    "a million nodes": lambda _: many(),
    "a node of a million inputs": lambda _: of(helper.make_node("Concat", ["x"] * 10**6, ["y"], axis=7)),
    "a name of ten million letters": lambda _: of(helper.make_node("Nothing" * 1_500_000, ["x"], ["y"])),
    "a line break in a name": lambda _: of(helper.make_node("Odd\nName\r\x1b[2J", ["x"], ["y"])),
    "an operator that is not UTF-8": lambda _: damaged_text(of(helper.make_node("Nothing", ["x"], ["y"])), b"Nothing"),
    "a node's name that is not UTF-8": lambda _: damaged_text(of(helper.make_node("Relu", ["z"], ["y"], name="called so")), b"called so"),
    "a cut file": lambda _: of(node("Relu", "x", "y")).SerializeToString()[:-20],
    "random bytes": lambda _: np.random.default_rng(0).bytes(1 << 16),
    "zeros": lambda _: bytes(1 << 20),
    "a length beyond the file": lambda _: b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "single operator with a null attribute": lambda _: single("Conv", [np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)], strides=[0, 0])[0],
    "huge strides": lambda _: single("Conv", [np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)], dilations=[1 << 62, 1 << 62])[0],
    "huge paddings": lambda _: single("MaxPool", [np.ones((1, 1, 4, 4), np.float32)], kernel_shape=[2, 2], pads=[1 << 62] * 4)[0],
}  # fmt: skip
"""What is written to the file, by name; some write other files into the folder."""


def changed_attribute() -> Node:
    """A node with an attribute of no type."""
    made = node("Softmax", "x", "y", axis=0)
    made.attribute[0].ClearField("type")
    return made


def write(name: str, folder: Path) -> Path:
    """One of ``MODELS`` as a file in a folder."""
    model = MODELS[name](folder)
    path = folder / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path

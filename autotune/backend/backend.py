"""The backend class that ONNX's tools drive, and the model it prepares."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.backend.base import Backend, BackendRep

from autotune.api import as_target
from autotune.backend.network import Network
from autotune.errors import InputError, ModelError
from autotune.graph.onnx_ops.scope import RunTimeValue
from autotune.targets.protocol import Target

AnyArray = npt.NDArray[Any]
DEFAULT_TARGET = "edge"
NETWORKS_KEPT = 8
"""Versions of a model for different values of inputs that decide shapes; the oldest goes first."""

BOUND_ELEMENTS = 4096
"""An input with more elements than this holds data and decides no shape."""


class Prepared(BackendRep):  # type: ignore[misc]  # onnx has no types
    """A model ready to run on a target.

    Inputs whose values decide shapes (a Reshape's target, axes, repeats) are constants of the
    programs: other values make other programs, and the newest are kept.
    """

    def __init__(self, model: onnx.ModelProto, target: Target) -> None:
        weights = {tensor.name for tensor in model.graph.initializer}
        self._model, self._target = model, target
        self._values = [v for v in model.graph.input if v.name not in weights]
        self.inputs = tuple(v.name for v in self._values)
        self.outputs = tuple(v.name for v in model.graph.output)
        self._bound: tuple[str, ...] = ()
        self._networks: OrderedDict[Any, Network] = OrderedDict()
        if not any(_open_axes(value) for value in self._values):
            self._prepare_ahead()

    @property
    def is_known(self) -> bool:
        """Whether the last run computed nothing, because no output depends on run-time data."""
        last = next(reversed(self._networks.values()), None)
        return last is not None and last.programs is None

    def run(self, inputs: Any, **_: Any) -> tuple[AnyArray, ...]:
        """The outputs in the model's order, for inputs in its order, by name, or a single array.

        Raises ``InputError`` for inputs that do not fit, ``ModelError`` for a model that can not be
        prepared with them.
        """
        named = self._named(inputs)
        made = self._network(named).run(named)
        return tuple(made[name] for name in self.outputs)

    def _named(self, inputs: Any) -> dict[str, AnyArray]:
        if isinstance(inputs, Mapping):
            return {name: np.asarray(value) for name, value in inputs.items()}
        values: Sequence[Any] = inputs if isinstance(inputs, list | tuple) else [inputs]
        if len(values) > len(self.inputs):
            raise InputError(f"{len(values)} inputs given; the model takes {list(self.inputs)}")
        self._check_tensors(values)
        return {x: np.asarray(v) for x, v in zip(self.inputs, values, strict=False)}

    def _check_tensors(self, values: Sequence[Any]) -> None:
        for name, value in zip(self.inputs, values, strict=False):
            if value is None or isinstance(value, list | tuple):
                raise InputError(f"input {name!r} is {type(value).__name__}; feed an array")

    def _prepare_ahead(self) -> None:
        """Whatever can be refused is refused now; what needs values waits for a run."""
        try:
            self._networks[()] = Network(self._model, self._target, {}, {})
        except RunTimeValue as need:
            self._bound = self._bindable(need)

    def _network(self, named: Mapping[str, AnyArray]) -> Network:
        """The version of the model for these inputs; compiled now if it is new."""
        while True:
            bind = {x: named[x] for x in self._bound if x in named}
            bind |= {x: value for x, value in named.items() if value.size == 0}
            dims = self._dims(named, bind)
            key = self._key(dims, bind)
            if key in self._networks:
                self._networks.move_to_end(key)
                return self._networks[key]
            try:
                self._networks[key] = Network(self._model, self._target, dims, bind)
            except RunTimeValue as need:
                self._bound = self._bindable(need)
                continue
            if len(self._networks) > NETWORKS_KEPT:
                self._networks.popitem(last=False)

    def _key(self, dims: Mapping[str, int], bind: Mapping[str, AnyArray]) -> Any:
        values = tuple((x, str(v.dtype), v.shape, v.tobytes()) for x, v in bind.items())
        return (*sorted(dims.items()), *values)

    def _bindable(self, need: RunTimeValue) -> tuple[str, ...]:
        """The inputs bound so far and those that the import asks for.

        Raises the request itself where one of them is data.
        """
        more = tuple(x for x in need.inputs if x not in self._bound)
        if not more or any(self._elements(x) > BOUND_ELEMENTS for x in more):
            raise need
        return (*self._bound, *more)

    def _elements(self, name: str) -> int:
        value = next(v for v in self._values if v.name == name)
        return int(np.prod([dim.dim_value for dim in value.type.tensor_type.shape.dim]))

    def _dims(self, named: Mapping[str, AnyArray], bind: Mapping[str, AnyArray]) -> dict[str, int]:
        """Extents of the dimensions that the model leaves open, by those of the inputs."""
        found: dict[str, int] = {}
        for value in self._values:
            if value.name in bind or value.name not in named:
                continue
            shape = named[value.name].shape
            for axis, symbol in _open_axes(value).items():
                extent = shape[axis] if axis < len(shape) else 0
                if found.setdefault(symbol, extent) != extent:
                    raise InputError(
                        f"input {value.name!r} has shape {list(shape)}, but dimension {symbol!r} is "
                        f"{found[symbol]} in another input; feed equal extents"
                    )
        return found


def _open_axes(value: onnx.ValueInfoProto) -> dict[int, str]:
    """Axes of an input without an extent, and what import calls them."""
    return {
        axis: dim.dim_param or f"{value.name}:{axis}"
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if not dim.HasField("dim_value") or dim.dim_value < 1
    }


class AutotuneBackend(Backend):  # type: ignore[misc]  # onnx has no types
    """Runs ONNX models on an emulated accelerator."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> bool:
        """Whether the model can be prepared."""
        try:
            cls.prepare(model, device)
        except ModelError:
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether ``device`` is one of ours; ONNX knows ``CPU`` and ``CUDA``."""
        return device == "CPU"

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: str = "CPU",
        target: Target | str = DEFAULT_TARGET,
        **_: Any,
    ) -> Prepared:
        """Compile a model for a target: an open one, a shipped name or a spec file.

        Raises ``ModelError`` naming the node, the operator and the way out.
        """
        own = onnx.ModelProto()
        own.CopyFrom(model)
        return Prepared(own, as_target(target))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **options: Any
    ) -> tuple[AnyArray, ...]:
        """Prepare and run once."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[AnyArray],
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[AnyArray, ...]:
        """Run one node by itself, of the newest operator set."""
        named = zip([x for x in node.input if x], inputs, strict=True)
        feeds = {name: np.asarray(value) for name, value in named}
        kinds = {
            name: onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in feeds.items()
        }
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], node.op_type, list(kinds.values()), outputs)
        model = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph))
        return cls.run_model(model, feeds, device, **options)

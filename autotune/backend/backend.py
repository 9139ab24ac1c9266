"""The backend class that ONNX's tools drive, and the model it prepares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.backend.base import Backend, BackendRep

from autotune.api import as_target
from autotune.backend.network import Network
from autotune.errors import InputError, ModelError
from autotune.graph.onnx_import import translate
from autotune.runtime.inputs import checked_inputs
from autotune.targets.protocol import Target

AnyArray = npt.NDArray[Any]
DEFAULT_TARGET = "edge"


class Prepared(BackendRep):  # type: ignore[misc]  # onnx has no types
    """A model ready to run on a target."""

    def __init__(self, model: onnx.ModelProto, target: Target) -> None:
        weights = {tensor.name for tensor in model.graph.initializer}
        self.inputs = tuple(v.name for v in model.graph.input if v.name not in weights)
        self.outputs = tuple(v.name for v in model.graph.output)
        self._network = Network(translate(model, model.graph.name or "model", {}), target)

    def run(self, inputs: Any, **_: Any) -> tuple[AnyArray, ...]:
        """The outputs in the model's order, for inputs in its order, by name, or a single array.

        Raises ``InputError`` for inputs that do not fit.
        """
        made = self._network.run(checked_inputs(self._network.graph, self._named(inputs)))
        return tuple(made[name] for name in self.outputs)

    def _named(self, inputs: Any) -> dict[str, AnyArray]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        values: Sequence[AnyArray] = inputs if isinstance(inputs, list | tuple) else [inputs]
        if len(values) > len(self.inputs):
            raise InputError(f"{len(values)} inputs given; the model takes {list(self.inputs)}")
        return dict(zip(self.inputs, values, strict=False))


class AutotuneBackend(Backend):  # type: ignore[misc]  # onnx has no types
    """Runs ONNX models on an emulated accelerator, or on this machine as ``device="cpu:1"``."""

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
        """Whether ``device`` is one of ours; the suite asks for ``CPU`` and ``CUDA``."""
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

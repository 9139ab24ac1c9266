"""The backend class that ONNX's tools drive, and the model it prepares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.backend.base import Backend, BackendRep

from autotune.backend.network import Programs
from autotune.errors import InputError, ModelError
from autotune.frontend.importing import check_model
from autotune.frontend.source_model import SourceModel
from autotune.runtime.execution.ownership import owned
from autotune.runtime.session.control.tree_runner import TreeRunner
from autotune.runtime.session.control.versions import GraphVersion, Versions
from autotune.runtime.session.defaults import choose_target
from autotune.targets.protocol import Target

AnyArray = npt.NDArray[Any]
DEFAULT_TARGET = "edge"


class Prepared(BackendRep):  # type: ignore[misc]  # onnx has no types
    """A model ready to run on a target.

    Inputs whose values decide shapes (a Reshape's target, axes, repeats) are constants of the
    programs: other values make other programs, and the newest are kept.
    """

    def __init__(self, model: onnx.ModelProto, target: Target) -> None:
        source = SourceModel(model)
        name = model.graph.name or "model"
        self._versions = Versions(source, lambda graph: Programs(graph, target), name, TreeRunner)
        self.inputs = self._versions.inputs
        self.outputs = tuple(value.name for value in source.outputs)
        check_model(source)
        self._versions.prepare()

    @property
    def is_known(self) -> bool:
        """True if the last run computed nothing, since no output depends on run-time data."""
        held = self._versions.held
        return bool(held) and isinstance(held[-1], GraphVersion) and held[-1].programs is None

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """Return the outputs in the model's order, for inputs in its order, by name, or a single array.
        A sequence is a list of arrays, an optional may be None.

        Raises ``InputError`` for inputs that do not fit, ``ModelError`` for a model that can not be
        prepared with them.
        """
        _check_options(options)
        given = self._named(inputs)
        made = owned(self._versions.run(given), given)
        return tuple(made[name] for name in self.outputs)

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return {name: _value(value) for name, value in inputs.items()}
        values: Sequence[Any] = inputs if isinstance(inputs, list | tuple) else [inputs]
        if len(values) > len(self.inputs):
            raise InputError(f"{len(values)} inputs given; the model takes {list(self.inputs)}")
        return {x: _value(v) for x, v in zip(self.inputs, values, strict=False)}


def _value(given: Any) -> Any:
    """A tensor, a sequence of tensors, or nothing."""
    if given is None:
        return None
    return [_value(x) for x in given] if isinstance(given, list | tuple) else np.asarray(given)


def _check_options(given: Mapping[str, Any], *known: str) -> None:
    if given:
        taken = f"known are {list(known)}" if known else "there are none"
        raise InputError(f"no option {next(iter(given))!r}; {taken}")


class AutotuneBackend(Backend):  # type: ignore[misc]  # onnx has no types
    """Runs ONNX models on an emulated accelerator."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Return True if the model can be prepared for a device.

        For open dimensions, return True if its operators are supported.
        """
        if not cls.supports_device(device):
            return False
        try:
            cls.prepare(model, device, **options)
        except ModelError:
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True for the device ``CPU``; ONNX has ``CUDA`` too."""
        return device == "CPU"

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: str = "CPU",
        target: Target | str = DEFAULT_TARGET,
        **options: Any,
    ) -> Prepared:
        """Compile a model for a target: an open one, a shipped name or a spec file.

        Raises ``ModelError`` naming the node, the operator and the way out, ``InputError`` for a
        device or an option that there is none of.
        """
        _check_options(options, "target")
        if not cls.supports_device(device):
            raise InputError(
                f"device {device!r} is not supported; targets are emulated on 'CPU', and this machine "
                "is one of them (target='cpu')"
            )
        own = onnx.ModelProto()
        own.CopyFrom(model)
        return Prepared(own, choose_target(target))

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

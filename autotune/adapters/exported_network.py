"""An exported PyTorch program as a session that takes and gives tensors."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir
import torch
from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument

from autotune.adapters.temporary_model import TemporaryModel
from autotune.adapters.tensors import array_of, check_tensor, tensor_of
from autotune.errors import ModelError, one_line
from autotune.graph.accuracy import Accuracy
from autotune.runtime.session.session import Session
from autotune.targets.opening import HOST

_RANDOM_IF = frozenset({"train", "dropout_p"})
"""Arguments that must be true, or not zero, for an operator with dropout to draw random numbers."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a compiled module: threads (None: those of PyTorch) and accuracy (None: ``close``)."""

    threads: int | None = None
    accuracy: Accuracy | str | None = None


@dataclass(frozen=True, slots=True)
class _Given:
    """An output that is an input, by its position."""

    position: int


@dataclass(frozen=True, slots=True)
class _Made:
    """An output that the network computes, by its ONNX name."""

    name: str


@dataclass(frozen=True, slots=True)
class _Fixed:
    """An output that is always the same: None, a number or a tensor."""

    value: Any


class ExportedNetwork:
    """Runs an ``ExportedProgram`` on this CPU: flat inputs to flat outputs.

    Raises ``ModelError`` naming the operator or tensor for a program that writes to its inputs, that
    draws random numbers, or that cannot be exported to ONNX or imported from it.
    """

    def __init__(self, program: torch.export.ExportedProgram, settings: Settings) -> None:
        _check_supported(program)
        with _quietly("converted to ONNX"):
            converted = torch.onnx.export(program, dynamo=True, verbose=False, optimize=False)
        _check_unwritten(converted.exported_program)
        model = converted.model  # of onnx_ir; its weights are the tensors themselves
        self._outputs = _output_sources(converted.exported_program, model)
        made = dict.fromkeys(x.name for x in self._outputs if isinstance(x, _Made))
        if not made:
            raise ModelError("the program computes nothing")
        values = {value.name: value for value in model.graph.outputs}
        inputs = [value.name for value in model.graph.inputs]
        _set_outputs(model, [values[name] for name in made])
        file = TemporaryModel()
        onnx_ir.save(model, file.path)
        self.session = _opened(file.path, settings)
        file.belong_to(self.session)
        taken = {info.name for info in self.session.inputs}
        self._inputs = tuple((at, name) for at, name in enumerate(inputs) if name in taken)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """Run once. ``inputs`` are the tensors of the program's user inputs, in its order."""
        feed = {name: array_of(inputs[at]) for at, name in self._inputs}
        arrays = self.session.run(feed)
        outputs: list[Any] = []
        for source in self._outputs:
            match source:
                case _Made(name):
                    outputs.append(tensor_of(arrays[name]))
                case _Given(position):
                    outputs.append(inputs[position])
                case _Fixed(value):
                    outputs.append(value)
        return outputs


def export_program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> torch.export.ExportedProgram:
    """Export the forward pass of a module. Raises ``ModelError`` if PyTorch cannot."""
    with _quietly("exported"):
        return torch.export.export(
            module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False
        )


def _check_supported(program: torch.export.ExportedProgram) -> None:
    """Raise ``ModelError`` for random numbers and for tensors that a session cannot take or give."""
    for node in program.graph.nodes:
        if _is_random(node):
            raise ModelError(f"{node.target} draws random numbers; call module.eval()")
    signature = program.graph_signature
    held = {node.name: node.meta.get("val") for node in program.graph.nodes}
    for name in (*signature.user_inputs, *signature.user_outputs):
        if isinstance(name, str) and isinstance(held.get(name), torch.Tensor):
            check_tensor(name, held[name])
    for name, tensor in program.state_dict.items():
        check_tensor(name, tensor)


def _check_unwritten(program: torch.export.ExportedProgram) -> None:
    """Raise ``ModelError`` for a program that writes to its inputs or weights.

    ``program`` is functional, as it is after decomposition: before, writes are operators in place.
    """
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise ModelError(
            f"the module writes to {written[0]!r}; call module.eval(), or leave it in PyTorch"
        )


def _is_random(node: torch.fx.Node) -> bool:
    """Return True for an operator that draws random numbers with the arguments that it has."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    for place, argument in enumerate(node.target._schema.arguments):
        if argument.name in _RANDOM_IF:
            positional = node.args[place] if place < len(node.args) else argument.default_value
            return bool(node.kwargs.get(argument.name, positional))
    return True


def _output_sources(
    program: torch.export.ExportedProgram, model: Any
) -> tuple[_Given | _Made | _Fixed, ...]:
    """Return the origin of every user output; ONNX has no constant outputs, and each value once."""
    values = iter(model.graph.outputs)
    inputs = {value: at for at, value in enumerate(model.graph.inputs)}
    sources: list[_Given | _Made | _Fixed] = []
    for spec in program.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            continue
        if isinstance(spec.arg, ConstantArgument):
            sources.append(_Fixed(spec.arg.value))
            continue
        if not isinstance(spec.arg, TensorArgument):
            raise ModelError(f"output {spec.arg.name!r} is a number that depends on shapes")
        value = next(values)
        sources.append(_Given(inputs[value]) if value in inputs else _Made(value.name))
    return tuple(sources)


def _set_outputs(model: Any, values: Sequence[Any]) -> None:
    model.graph.outputs.clear()
    model.graph.outputs.extend(values)


def _opened(path: Path, settings: Settings) -> Session:
    threads = torch.get_num_threads() if settings.threads is None else settings.threads
    return Session(path, HOST, threads=threads, accuracy=settings.accuracy)


@contextlib.contextmanager
def _quietly(step: str) -> Iterator[None]:
    """Silence PyTorch's exporter; raise ``ModelError`` for whatever it raises."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "torch.export")]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
    except ModelError:
        raise
    except Exception as error:  # a compiler raises errors of every kind
        raise ModelError(f"cannot be {step} by PyTorch: {_cause(error)}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _cause(error: BaseException) -> str:
    """Return the innermost error as one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip().splitlines() or [""]
    return one_line(f"{type(error).__name__}: {text[0]}"[:300])

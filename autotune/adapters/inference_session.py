"""A session with the interface of ONNX Runtime's, for programs written for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.adapters.session_options import (
    CPU_PROVIDER,
    SessionOptions,
    check_options,
    check_providers,
    dims_of,
    threads_of,
    warn_of_unwritten_files,
)
from autotune.adapters.temporary_model import TemporaryModel
from autotune.errors import InputError
from autotune.runtime.execution.signature import TensorInfo
from autotune.runtime.session.session import Session
from autotune.targets.opening import HOST

if TYPE_CHECKING:
    from autotune.frontend.source_model import ModelMetadata


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a network.

    An extent in ``shape`` is a number, the name of a symbolic dimension, or None if it is unknown.
    ``type`` is such as ``tensor(float)``.
    """

    name: str
    shape: list[int | str | None]
    type: str


class InferenceSession:
    """Runs an ONNX model on this CPU through the interface of ``onnxruntime.InferenceSession``.

    ``path_or_bytes`` is an ONNX file, a plan file, or a serialised model. Of ``sess_options``, the
    number of threads and the overridden dimensions count. Execution providers other than the CPU's
    are passed over with a warning, ``provider_options`` in silence. Raises ``ModelError`` for a bad
    network, ``InputError`` for an argument of a wrong type.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: Any = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        check_providers(providers)
        check_options(sess_options)
        warn_of_unwritten_files(sess_options)
        self._options = SessionOptions() if sess_options is None else sess_options
        file = None
        if isinstance(path_or_bytes, bytes):
            file = TemporaryModel()
            file.path.write_bytes(path_or_bytes)
            self._path = file.path
        else:
            self._path = _path_of(path_or_bytes)
        threads, dims = threads_of(self._options), dims_of(self._options)
        self._session = Session(self._path, HOST, dims=dims, threads=threads)
        if file is not None:
            file.belong_to(self._session)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Run the model once and return the outputs in the order of ``output_names``.

        None or an empty sequence asks for all outputs. An input may be an array, or nested lists
        of numbers. Raises ``InputError`` for an unknown name, a wrong shape or element type, and
        for an argument of a wrong type.
        """
        wanted = self._checked_names(output_names) if output_names else self._output_names
        outputs = self._session.run(self._arrays(input_feed))
        return [outputs[name] for name in wanted]

    def get_inputs(self) -> list[NodeArg]:
        """Return name, shape and type of every input."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return name, shape and type of every output."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return an empty list: initializers are constants."""
        return []

    def get_providers(self) -> list[str]:
        """Return the names of the execution providers in use."""
        return [CPU_PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options by execution provider: there are none."""
        return {CPU_PROVIDER: {}}

    def get_session_options(self) -> Any:
        """Return the options that the session was opened with."""
        return self._options

    def get_modelmeta(self) -> ModelMetadata:
        """Return the metadata of the ONNX model. Reads the file again.

        Raises ``ModelError`` if the session was opened with a plan.
        """
        from autotune.frontend.model_file import (
            peek_model,
        )  # a session over a kept network does without

        return peek_model(self._path).metadata

    @property
    def session(self) -> Session:
        """The session underneath, for profiles and program tables."""
        return self._session

    @cached_property
    def _inputs(self) -> tuple[NodeArg, ...]:
        return tuple(self._node_arg(info) for info in self._session.inputs)

    @cached_property
    def _outputs(self) -> tuple[NodeArg, ...]:
        return tuple(self._node_arg(info) for info in self._session.outputs)

    @cached_property
    def _output_names(self) -> tuple[str, ...]:
        return tuple(info.name for info in self._session.outputs)

    @cached_property
    def _input_types(self) -> dict[str, np.dtype[Any] | None]:
        return {info.name: info.dtype for info in self._session.inputs}

    def _node_arg(self, info: TensorInfo) -> NodeArg:
        return NodeArg(info.name, list(info.shape or ()), info.onnx_type)

    def _checked_names(self, names: Sequence[str]) -> Sequence[str]:
        if isinstance(names, str):
            raise InputError(f"output_names is a list of names, such as [{names!r}]")
        for name in names:
            if name not in self._output_names:
                raise InputError(
                    f"no output {name!r}; the network has {', '.join(map(repr, self._output_names))}"
                )
        return names

    def _arrays(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the feed with nested lists as arrays of the input's element type."""
        if not isinstance(feed, Mapping):
            raise InputError(f"input_feed maps input names to arrays, got {type(feed).__name__}")
        types = self._input_types
        return {
            name: np.asarray(value, types.get(name))
            if isinstance(value, (list, tuple, int, float)) and types.get(name) is not None
            else value
            for name, value in feed.items()
        }


def _path_of(source: object) -> Path:
    if not isinstance(source, (str, os.PathLike)):
        raise InputError(
            f"a model is a path or bytes, not {type(source).__name__}; convert other buffers "
            "with bytes(...)"
        )
    return Path(source)

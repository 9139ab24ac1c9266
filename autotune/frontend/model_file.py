"""Reads an ONNX file: parses its structure, leaves its weights where they lie."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no stubs

from autotune.disk.regular_file import open_regular
from autotune.errors import ModelError
from autotune.frontend.node import first_line
from autotune.frontend.source_model import SourceModel
from autotune.frontend.weights import NO_WEIGHTS, SMALL_BYTES, NotProtobufError, cut

MAX_NODES = 100_000
"""Limit on nodes, functions expanded: far beyond real networks, but functions that call others twice
double with every level."""


def read_model(path: Path) -> SourceModel:
    """Read a file and its external tensor data. The weights are views of the mapped file.

    Raises ``ModelError`` naming the file if it cannot be read or is no ONNX file.
    """
    model = peek_model(path)
    try:
        onnx.load_external_data_for_model(model.proto, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"{path}: its external data cannot be read: {first_line(error)}") from None
    return model


def peek_model(path: Path) -> SourceModel:
    """Read a file without its external tensor data: for its structure. Raises as ``read_model``."""
    try:
        content = _content(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        file = cut(content)
        model = onnx.load_model_from_string(bytes(content) if file is None else file.model)
    except (DecodeError, NotProtobufError):
        raise ModelError(
            f"{path}: not an ONNX file, or cut short; export or copy it again"
        ) from None
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError(
            f"{path}: not an ONNX file, or cut short: it has no graph or no opset; export it again"
        )
    if len(model.graph.node) > MAX_NODES:
        raise ModelError(
            f"{path}: the model has {len(model.graph.node)} nodes, more than the limit of {MAX_NODES}; "
            "export a smaller part of it"
        )
    return SourceModel(model, NO_WEIGHTS if file is None else file.weights)


def is_whole(path: Path) -> bool:
    """Return True if a file that was read holds all of its model.

    External tensors name a location; anything that looks like it counts as external.
    """
    content = _content(path)
    try:
        file = cut(content)
    except NotProtobufError:  # another file came to its place
        return False
    return b"location" not in (bytes(content) if file is None else file.model)


def _content(path: Path) -> memoryview:
    """Return a file's bytes, mapped instead of read, which saves 80 ms at 100 MB.

    The file must not shrink meanwhile, so nothing of the map outlives import (``mapped_weights``).
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size < SMALL_BYTES:
            return memoryview(file.read())
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

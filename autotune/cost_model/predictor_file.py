"""The file of a predictor: a machine's spec and its cost model, for use without the store."""

from __future__ import annotations

import json
from pathlib import Path

from autotune.cost_model.model import CostModel
from autotune.disk.atomic_file import FileKind, replace_file
from autotune.errors import SpecError, StoreError
from autotune.targets.spec import HardwareSpec
from autotune.targets.spec_document import read_document, spec_document

MAGIC = b"autotune-predictor\n"
FORMAT_VERSION = 1
_LENGTH_BYTES = 8
_KIND = FileKind("predictor", (b"autotune-predictor",))


def write_predictor(path: Path, model: CostModel) -> None:
    """Write a model and its spec to one file, whole or not at all."""
    header = json.dumps({"format": FORMAT_VERSION, "spec": spec_document(model.spec)}).encode()
    length = len(header).to_bytes(_LENGTH_BYTES, "little")
    replace_file(path, MAGIC + length + header + model.to_bytes(), _KIND)


def is_predictor(path: Path) -> bool:
    """Return True if a file begins as a predictor's does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_predictor(path: Path) -> CostModel:
    """Read what ``write_predictor`` wrote.

    Raises ``StoreError`` naming the file if it is damaged or of another version.
    """
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        spec, model = _split(blob)
        return CostModel.from_bytes(model, spec)
    except (StoreError, SpecError) as error:
        raise StoreError(f"{path}: {error}") from None


def _split(blob: bytes) -> tuple[HardwareSpec, bytes]:
    """Return the spec and the model's bytes. Raises ``StoreError`` or ``SpecError``."""
    again = "save it again with Predictor.save"
    start = len(MAGIC) + _LENGTH_BYTES
    if not blob.startswith(MAGIC) or len(blob) < start:
        raise StoreError(f"not the file of a predictor; {again}")
    end = start + int.from_bytes(blob[len(MAGIC) : start], "little")
    try:
        header = json.loads(blob[start:end])
    except ValueError:
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("spec"), dict):
        raise StoreError(f"damaged header; {again}")
    if header.get("format") != FORMAT_VERSION:
        raise StoreError(
            f"format {header.get('format')}; this version reads {FORMAT_VERSION}; {again}"
        )
    return read_document(header["spec"]), blob[end:]

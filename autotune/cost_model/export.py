"""Writes a cost model's trees to files that other programs use without this package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotune.cost_model.model import CostModel
from autotune.cost_model.training import MIN_SCALE, WIDEST
from autotune.disk.atomic_file import FileKind, replace_file
from autotune.errors import InputError

_C = FileKind("a C file", (b"/*learnedcostmodel",))
_ONNX = FileKind("an ONNX model", (b"\x08",))


def export_model(model: CostModel, file: Path) -> tuple[Path, ...]:
    """Write a model to ``file``: as C where it ends in .c (and a header beside it), as ONNX in .onnx.

    Return the files. Raises ``InputError`` for another ending, where no file can be written, and for a raw model:
    its trees read prices that these files do not hold.
    """
    if model.is_raw and file.suffix in (".c", ".onnx"):
        raise InputError(
            f"{file}: {model.spec.name} is answered by its raw model, whose trees correct work at fitted prices; "
            f"C and ONNX hold trees alone: write {file.with_suffix('.predictor')}, or name a guided model by --model"
        )
    names = model.corrected.feature_names
    match file.suffix:
        case ".c":
            texts = _c_texts(model, file, names)
        case ".onnx":
            from autotune.cost_model.onnx_export import export_onnx

            blob = export_onnx(model.spec.name, names, model.trees).SerializeToString()
            replace_file(file, blob, _ONNX)
            return (file,)
        case _:
            raise InputError(
                f"{file}: a model is exported to a file that ends in .c, .onnx or .predictor"
            )
    for path, text in texts.items():
        replace_file(path, text.encode(), _C)
    return tuple(texts)


def _c_texts(model: CostModel, file: Path, names: tuple[str, ...]) -> Mapping[Path, str]:
    from autotune.cost_model.c_export import export_c

    source, header = export_c(
        file.stem, model.spec.name, names, model.trees, model.interval_factor, MIN_SCALE, WIDEST
    )
    return {file: source, file.with_suffix(".h"): header}

"""A temporary ONNX file for a session, which may read its file again while it lives."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class TemporaryModel:
    """The path of an ONNX file, whose folder is removed with the object or when the process ends."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="autotune-")
        self.path = Path(folder, "model.onnx")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

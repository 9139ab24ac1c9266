"""Regular files are opened; pipes and devices are refused without waiting for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.disk.regular_file import open_regular, regular_text


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("ä")
    assert regular_text(tmp_path / "a") == "ä"


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="device or pipe"):
        open_regular(tmp_path / "pipe")


def test_a_terminal_is_refused() -> None:
    ours, theirs = os.openpty()
    with pytest.raises(OSError, match="device or pipe"):
        open_regular(Path(os.ttyname(theirs)))
    os.close(ours)
    os.close(theirs)


def test_a_folder_and_a_missing_file_are_what_the_system_says(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")

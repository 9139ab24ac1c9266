"""Commands end with one line and an exit code, whatever their streams are and whoever ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.cli.ending import Ending

COMMAND = [sys.executable, "-c", "from autotune.cli.main import main; main()"]
FULL = "No space left on device; free some for output and temporary files"


def test_the_first_sigterm_is_taken_as_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    ending = Ending(["calibrate"])

    def end() -> None:
        with ending.terminable():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        end()
    assert ending.is_terminated
    assert ending.interrupt() == 143
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("search", "what was measured is kept"),
        ("quantize", "no file was written"),
        ("serve", "nothing was served yet"),
    ],
)
def test_ctrl_c_tells_what_is_left(
    command: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Ending([command, "net.onnx"]).interrupt() == 130
    assert told in capsys.readouterr().err


def test_closed_stdout_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" "$@" >&-', *COMMAND, "targets", "list"],
        env=os.environ | {"AUTOTUNE_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command", [["--help"], ["targets", "list"], ["doctor", "--json"], ["store", "path"]]
)
def test_a_reader_of_stdout_that_is_gone_is_no_error(command: list[str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, *command],
        env=os.environ | {"AUTOTUNE_HOME": str(tmp_path)},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["store", "path"], FULL),
        (["store", "prune"], FULL),
        (["targets", "list", "--json"], FULL),
        (["run", "no.onnx", "--json"], "no.onnx: cannot be read: No such file or directory"),
    ],
)
def test_a_full_disk_behind_stdout_is_one_line(
    command: list[str], told: str, unbuffered: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" "$@" >/dev/full', *COMMAND, *command],
        env=os.environ | {"AUTOTUNE_HOME": str(tmp_path), "PYTHONUNBUFFERED": unbuffered},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"autotune: error: {told}\n")


def test_signs_that_the_encoding_lacks_are_spelt_out(tmp_path: Path) -> None:
    script = "from autotune.cli.main import prepare_streams as p; p(); print('µJ \\udcff')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"AUTOTUNE_HOME": str(tmp_path), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("\\xb5J \\udcff\n", "")

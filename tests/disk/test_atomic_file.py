"""A file is written whole or not at all, and takes the place of nothing but a file of its kind."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from autotune.disk.atomic_file import FileKind, check_place, replace_file, replacing
from autotune.errors import InputError

PLAN = FileKind("plan", (b'{"schema":',))


def test_a_file_takes_the_place_of_the_one_before_and_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    replace_file(path, '{"schema": 1}', PLAN)
    path.chmod(0o640)
    replace_file(path, '{\n "schema": 2}', PLAN)
    assert path.read_text() == '{\n "schema": 2}'
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_fails_leaves_the_file_before_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"

    def fill() -> None:
        with replacing(path):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        fill()
    assert caught.value.filename == str(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "before", [b"<!doctype html>", b"PK\x03\x04", b"a letter", b'{"scheme": 1}']
)
def test_a_file_of_another_kind_is_left_alone(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(before)
    with pytest.raises(InputError, match="holds no plan"):
        replace_file(path, '{"schema": 1}', PLAN)
    with pytest.raises(InputError, match="holds no plan"):
        check_place(path, PLAN)
    assert path.read_bytes() == before


def test_an_empty_file_is_of_any_kind(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    replace_file(path, '{"schema": 1}', PLAN)
    assert path.read_text()


def test_a_folder_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "is a folder"), (tmp_path / "x" / "a", "no folder")):
        with pytest.raises(InputError, match=reason):
            check_place(path)
        with pytest.raises(InputError, match=reason):
            replace_file(path, "x")
    assert not list(tmp_path.iterdir())


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"x")
    except OSError:
        pytest.skip("this user cannot make or use a device node")


def test_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "null"
    _device(path)
    replace_file(path, "x", PLAN)
    assert stat.S_ISCHR(path.stat().st_mode)
    assert list(tmp_path.iterdir()) == [path]


def test_a_terminal_is_written_to_and_stays(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    link = tmp_path / "tty"
    link.symlink_to(os.ttyname(theirs))
    replace_file(link, "hello")
    assert os.read(ours, 5) == b"hello"
    assert link.is_symlink()
    os.close(ours)
    os.close(theirs)


def test_a_pipe_is_written_to_and_one_without_a_reader_is_no_wait(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match=str(path)):
        replace_file(path, "x")
    found: list[bytes] = []
    opened = threading.Event()

    def read() -> None:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(handle, True)
        opened.set()
        with os.fdopen(handle, "rb") as file:
            while not found or not found[-1]:
                found.append(file.read())

    reader = threading.Thread(target=read)
    reader.start()
    assert opened.wait(10)
    replace_file(path, "hello", PLAN)
    reader.join(10)
    assert b"".join(found) == b"hello"
    assert path.is_fifo()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_an_open_pipe_is_reached_by_its_descriptor(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    link = tmp_path / "stdout"
    link.symlink_to(f"/proc/self/fd/{theirs}")
    check_place(link, PLAN)
    replace_file(link, "hello", PLAN)
    assert os.read(ours, 5) == b"hello"
    os.close(ours)
    os.close(theirs)


def test_an_own_link_is_followed_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    link = tmp_path / "latest.plan"
    link.symlink_to(folder / "a.plan")
    replace_file(link, '{"schema": 1}', PLAN)
    assert link.is_symlink()
    assert (folder / "a.plan").read_text() == '{"schema": 1}'


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "a"
    link.symlink_to(link)
    with pytest.raises(InputError, match="cannot be written"):
        check_place(link)


def test_part_files_have_names_that_nobody_can_guess(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    names = set()
    for _ in range(3):
        with replacing(path):
            (part,) = (x for x in tmp_path.iterdir() if x != path)
            names.add(part.name)
            assert len(part.stem) > 32
            assert part.suffix == ".npz"
    assert len(names) == 3


def test_a_prepared_part_file_is_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("os.urandom", bytes)
    (tmp_path / f".{bytes(16).hex()}.npz").symlink_to(victim)
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "a.npz", "x")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_the_umask_of_the_user_decides_the_mode_and_a_mode_given_is_kept(
    tmp_path: Path, mask: int
) -> None:
    before = os.umask(mask)
    try:
        replace_file(tmp_path / "open", "x")
        replace_file(tmp_path / "private", "x", mode=0o600)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o666 & ~mask
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with replacing(path) as one, replacing(path) as other:
        one.write(b"one")
        other.write(b"other")
    assert path.read_bytes() == b"one"


@pytest.mark.parametrize("name", ["a" * 250 + ".npz", "a." + "b" * 250, "\udcff.plan"])
def test_names_of_any_length_and_bytes_are_written(tmp_path: Path, name: str) -> None:
    replace_file(tmp_path / name, "x")
    assert (tmp_path / name).read_text() == "x"

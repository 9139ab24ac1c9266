"""Folders are made for one user alone, and trusted only while no other user can write to them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from autotune.disk.private_folder import is_own, is_trusted, make_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_and_its_missing_parents_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "home" / "cache" / "objects")
    finally:
        os.umask(before)
    for place in ("home", "home/cache", "home/cache/objects"):
        assert mode(tmp_path / place) == 0o700
    assert is_trusted(tmp_path / "home" / "cache" / "objects")


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(OSError, match="home"):
        make_private(tmp_path / "home")
    with pytest.raises(OSError, match="home"):
        make_private(tmp_path / "home" / "cache")


@pytest.mark.parametrize("place", ["home", "home/cache"])
def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path, place: str) -> None:
    make_private(tmp_path / "home" / "cache")
    (tmp_path / place).chmod(0o777)
    with pytest.warns(RuntimeWarning, match=f"chmod go-w .*{place}"):
        assert not is_trusted(tmp_path / "home" / "cache")


def test_one_warning_stands_for_all_folders_below_one_place(tmp_path: Path) -> None:
    places = [tmp_path / "home" / name for name in ("objects", "tables", "networks")]
    for place in places:
        make_private(place)
    (tmp_path / "home").chmod(0o777)
    with pytest.warns(RuntimeWarning) as told:
        assert not any(map(is_trusted, places))
    assert len(told) == 1 and str(tmp_path / "home") in str(told[0].message)


def test_an_own_folder_in_a_sticky_one_is_trusted(tmp_path: Path) -> None:
    make_private(tmp_path / "shared" / "home")
    (tmp_path / "shared").chmod(0o1777)
    assert is_trusted(tmp_path / "shared" / "home")


def test_what_another_user_owns_is_not_own(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch(0o600)
    assert is_own(path.stat())
    path.chmod(0o666)
    assert not is_own(path.stat())
    path.chmod(0o600)
    try:
        os.chown(path, 65534, -1)
    except PermissionError:
        pytest.skip("this user cannot give a file away")
    assert not is_own(path.stat())

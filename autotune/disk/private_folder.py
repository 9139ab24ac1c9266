"""Folders of one user: made private, and trusted only while no other user can write to them.

The cache holds machine code. Whoever writes to it runs code as the user, so owner and mode are checked
as ssh checks those of its keys.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import warnings
from functools import cache
from pathlib import Path

FOLDER_MODE = 0o700


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents with mode 0700, whatever the umask. Raises ``OSError``."""
    missing = []
    place = folder
    while not place.exists() and place != place.parent:
        missing.append(place)
        place = place.parent
    for each in reversed(missing):
        each.mkdir(FOLDER_MODE, exist_ok=True)  # a umask only takes bits away
    if not folder.is_dir():
        folder.mkdir(FOLDER_MODE, exist_ok=True)


def is_own(status: os.stat_result) -> bool:
    """Return True if a file or folder belongs to this user or root, and no other user can write to it."""
    if status.st_uid not in (0, os.geteuid()):
        return False
    if status.st_mode & stat.S_IWOTH:
        return False
    return not status.st_mode & stat.S_IWGRP or _is_own_group(status.st_gid)


def is_trusted(folder: Path) -> bool:
    """Return True if no other user can change what lies in ``folder``, there or by a folder above it; warn
    otherwise, once for each folder at fault. Raises ``OSError`` where there is no folder."""
    place = folder.resolve(strict=True)
    status = place.stat()
    if not is_own(status):
        _warn(place)
        return False
    for above in place.parents:
        inner, status = status, above.stat()
        if not _keeps(status, inner):
            _warn(above)
            return False
    return True


def _keeps(above: os.stat_result, inner: os.stat_result) -> bool:
    """Return True if others cannot exchange the folder ``inner`` for another one: in a sticky folder, as /tmp,
    only its owner can."""
    sticky = bool(above.st_mode & stat.S_ISVTX) and above.st_uid in (0, os.geteuid())
    return is_own(above) or (sticky and inner.st_uid in (0, os.geteuid()))


@cache
def _is_own_group(gid: int) -> bool:
    """Return True for a user's private group, with which many systems make all files."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return (
        gid == user.pw_gid
        and group.gr_name == user.pw_name
        and not set(group.gr_mem) - {user.pw_name}
    )


@cache
def _warn(place: Path) -> None:
    """Warn once per process: every folder of the cache below ``place`` is concerned."""
    warnings.warn(
        f"{place}: another user owns it or can write to it, so no cache below it is used; "
        f"'chmod go-w {place}', or set AUTOTUNE_HOME to a folder of your own",
        RuntimeWarning,
        stacklevel=3,
    )

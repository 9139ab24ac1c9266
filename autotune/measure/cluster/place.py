"""Where measurements run besides this process: so many local workers, or a Dask scheduler's address."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import InputError

SCHEMES = ("tcp", "tls")
"""Protocols of a Dask scheduler that can be named."""

MOST_LOCAL = 256
"""Local workers at most: each is a process of 200 MB."""

FORMS = "a number of local worker processes, or tcp://HOST:PORT of a Dask scheduler"


@dataclass(frozen=True, slots=True)
class Place:
    """``local_workers`` processes of this machine, or the scheduler at ``address``: one of the two."""

    local_workers: int | None = None
    address: str | None = None

    @classmethod
    def parse(cls, given: int | str) -> Place:
        """Read what a user gave as workers. Raises ``InputError`` for anything but its two forms."""
        text = str(given).strip()
        if text.lstrip("+-").isdecimal() and not isinstance(given, bool):
            return cls(local_workers=_count(int(text)))
        scheme, mark, rest = text.partition("://")
        if not mark or scheme not in SCHEMES:
            raise InputError(f"workers = {given!r:.60}: give {FORMS}")
        host, _, port = rest.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise InputError(
                f"workers = {text!r:.60}: no host with a port; give {scheme}://HOST:PORT, "
                "as 'dask scheduler' prints it"
            )
        return cls(address=text)

    @property
    def text(self) -> str:
        """The place as users write it."""
        return str(self.local_workers) if self.address is None else self.address


def _count(number: int) -> int:
    if not 1 <= number <= MOST_LOCAL:
        raise InputError(
            f"workers = {number}: give 1 to {MOST_LOCAL} local worker processes, or the address of a "
            "Dask scheduler for more"
        )
    return number

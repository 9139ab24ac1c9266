"""Measured links of this machine that outlive a process: one small file in the user's folder.

``autotune targets links`` writes it; ``--links measured`` reads it. Links are kept by the hardware profile of this CPU.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.disk.atomic_file import PRIVATE_MODE, replace_file
from autotune.disk.home import home
from autotune.disk.private_folder import make_private
from autotune.disk.regular_file import regular_text
from autotune.errors import SpecError, StoreError
from autotune.targets.link_spec import HOST_MEMORY, Links, LinkSpec, place_of

FILE_NAME = "links.json"
SCHEMA = 1
MEASURED = "measured"
"""What ``--links`` takes for the link of this machine, in place of a file."""


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """A link by measured hand-overs: ``samples`` are bytes and seconds of each size."""

    link: LinkSpec
    samples: tuple[tuple[int, float], ...]

    @property
    def worst_error(self) -> float:
        """Largest distance of a sample from the link's line, as a share of the sample."""
        return max(abs(self.link.seconds(size) / seconds - 1) for size, seconds in self.samples)

    @property
    def text(self) -> str:
        """The link in few words."""
        link = self.link
        return (
            f"{link.bandwidth_bytes_per_second / 1e9:.2f} GB/s, {1e6 * link.latency_seconds:.1f} µs, "
            f"samples within {self.worst_error:.0%}"
        )


def fitted(samples: Iterable[tuple[int, float]]) -> MeasuredLink:
    """Return the line of least squares of relative errors through measured hand-overs, latency at least 0.

    ``samples`` are bytes and seconds, of two sizes or more.
    """
    rows = tuple(samples)
    ones = sum(1 / t**2 for _, t in rows)
    firsts = sum(size / t**2 for size, t in rows)
    squares = sum(size**2 / t**2 for size, t in rows)
    right, sized = sum(1 / t for _, t in rows), sum(size / t for size, t in rows)
    slope = (ones * sized - firsts * right) / (ones * squares - firsts**2)
    latency = (right - slope * firsts) / ones
    if latency < 0:
        latency, slope = 0.0, sized / squares
    return MeasuredLink(LinkSpec(1 / slope, latency), rows)


def with_measured(links: Links, measured: MeasuredLink, devices: Iterable[str]) -> Links:
    """Return links in which the measured one joins this CPU with every other device; the others stay."""
    others = [name for name in map(place_of, devices) if name != HOST_MEMORY]
    own = {tuple(sorted((HOST_MEMORY, name))): measured.link for name in others}
    described = f"{HOST_MEMORY} and each other device: measured on this machine, {measured.text}"
    rest = f"; emulated devices among each other: {links.description}" if len(others) > 1 else ""
    return replace(links, description=described + rest, pairs={**links.pairs, **own})  # type: ignore[dict-item]


def recall_link(profile_id: str) -> MeasuredLink | None:
    """Return the remembered link of a machine, None without one. Raises ``StoreError`` when the file cannot be read."""
    row = _load(home() / FILE_NAME).get(profile_id)
    return None if row is None else _link_of(row, home() / FILE_NAME)


def remember_link(profile_id: str, link: MeasuredLink) -> None:
    """Replace the remembered link of a machine. Raises ``StoreError`` when the file cannot be read or written."""
    path = home() / FILE_NAME
    rows = {**_load(path), profile_id: {"samples": [list(one) for one in link.samples]}}
    try:
        make_private(path.parent)
        text = json.dumps({"schema": SCHEMA, "machines": rows}, indent=1)
        replace_file(path, text + "\n", mode=PRIVATE_MODE)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written: {error.strerror}; set AUTOTUNE_HOME to another folder"
        ) from None


def _link_of(row: Mapping[str, Any], path: Path) -> MeasuredLink:
    try:
        samples = [(int(size), float(seconds)) for size, seconds in row["samples"]]
        if len({size for size, _ in samples}) < 2:
            raise ValueError("fewer than two sizes")
        if not all(size > 0 and math.isfinite(t) and t > 0 for size, t in samples):
            raise ValueError("a sample that is no time")
        return fitted(samples)
    except (KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError, SpecError) as error:
        raise StoreError(f"{path}: not a remembered link: {error}; delete the file") from None


def _load(path: Path) -> dict[str, Any]:
    remedy = "delete the file to forget all links"
    try:
        plain = json.loads(regular_text(path))
        if plain["schema"] != SCHEMA:
            raise StoreError(
                f"{path}: links of schema {plain['schema']!r}, this version reads {SCHEMA}; {remedy}"
            )
        return dict(plain["machines"])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{path}: not remembered links: {error}; {remedy}") from None

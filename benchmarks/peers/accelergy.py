"""Reads Accelergy's energy reference table (ERT) and prices Timeloop's action counts with it.

The ledger that comes out is compared with the energies that Timeloop itself prints for published
designs: a check of the ledger against numbers that are not ours.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from autotune.disk.regular_file import regular_text
from autotune.errors import SpecError
from autotune.targets.emulator.ledger import Action, EnergyTable, Ledger
from benchmarks.peers.timeloop_stats import read_action_counts

_FJ_PER_PJ = 1000
_SIZE_LIMIT_BYTES = 1 << 20
"""More than any table; protects against being handed something else."""
_LIMIT_PJ = Decimal(10) ** 12
_FINEST_PJ = -30
"""Decimal places that a price may have: keeps ``1e-999999999`` from becoming a huge fraction."""
_WORDS: dict[type, str] = {dict: "a mapping", list: "a list", str: "a text or number"}


def read_timeloop_ledger(ert: Path, stats: Path) -> Ledger:
    """The energy of one Timeloop run: action counts in ``stats`` under the prices in ``ert``.

    Raises ``SpecError`` naming file and place for a broken file, or for an action that the table
    does not price.
    """
    table, counts = read_ert(ert), read_action_counts(stats)
    try:
        return Ledger(table).post(counts)
    except SpecError as error:
        raise SpecError(f"{ert} does not fit {stats}: {error}") from None


def read_ert(path: Path) -> EnergyTable:
    """The prices in an ``ERT_summary.yaml``: picojoules per action, kept to the last digit.

    A component's name is the last part of its path without its index range:
    ``system_top_level.psum_spad[1..168]`` is ``psum_spad``, as in Timeloop's statistics.
    Raises ``SpecError`` naming file and place.
    """
    try:
        return EnergyTable(_prices(_document(path)))
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _document(path: Path) -> object:
    """The YAML with every scalar as text: no number passes through a float, no object is made."""
    try:
        if path.stat().st_size > _SIZE_LIMIT_BYTES:
            raise SpecError(f"larger than {_SIZE_LIMIT_BYTES} bytes; not an energy table")
        return yaml.load(regular_text(path), Loader=yaml.BaseLoader)
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.reader.ReaderError):
        raise SpecError("not a text file; an energy table is YAML") from None
    except RecursionError:
        raise SpecError("nested too deeply; not an energy table") from None
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        raise SpecError(f"{line}not valid YAML: {error.problem}") from None


def _prices(document: object) -> dict[Action, Fraction]:
    summary = _item(_as(document, dict, "file"), "ERT_summary", dict, "")
    prices: dict[Action, Fraction] = {}
    for number, row in enumerate(_item(summary, "table_summary", list, "ERT_summary.")):
        place = f"ERT_summary.table_summary[{number}]"
        name = _item(_as(row, dict, place), "name", str, f"{place}.")
        component = re.sub(r"\[[^]]*\]", "", name).rpartition(".")[2]
        for index, entry in enumerate(_item(row, "actions", list, f"{place}.")):
            at = f"{place} ({name}).actions[{index}]"
            action = Action(component, _item(_as(entry, dict, at), "name", str, f"{at}."))
            if action in prices:
                raise SpecError(f"{at}: {action} was given before; a component acts once per table")
            prices[action] = _price(_item(entry, "energy", str, f"{at}."), f"{at}.energy")
    return prices


def _price(text: str, place: str) -> Fraction:
    """Femtojoules from a text in picojoules, exactly."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise SpecError(f"{place}: {text!r} is not a number of picojoules") from None
    if not value.is_finite() or not 0 <= value <= _LIMIT_PJ:
        raise SpecError(f"{place}: {text} pJ is not in 0..{_LIMIT_PJ:.0e}")
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "finite"
    if exponent < _FINEST_PJ:
        raise SpecError(f"{place}: {text} pJ has more than {-_FINEST_PJ} decimals; round it")
    return Fraction(value) * _FJ_PER_PJ


def _item(mapping: dict[str, Any], key: str, kind: type, prefix: str) -> Any:
    if key not in mapping:
        raise SpecError(f"{prefix}{key}: missing; expected Accelergy's ERT_summary.yaml")
    return _as(mapping[key], kind, f"{prefix}{key}")


def _as(value: object, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        raise SpecError(f"{place}: {type(value).__name__} is not {_WORDS[kind]}")
    return value

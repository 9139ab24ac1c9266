"""Plans of a network with control flow: one for each of its graphs, in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.disk.regular_file import open_regular
from autotune.errors import PlanError
from autotune.tuner.plan import NetworkFile, Plan, read_text, write_text

SCHEMA = 1
_AGAIN = "make it again with 'autotune search'"
_HEAD = '{"tree": '


@dataclass(frozen=True, slots=True)
class PlanTree:
    """``plans`` of the graphs that the network in ``network_file`` comes to with ``dims`` bound; all
    are for one machine. A part that no plan is for is planned when it runs."""

    network_file: NetworkFile
    dims: Mapping[str, int]
    plans: tuple[Plan, ...]

    def __post_init__(self) -> None:
        if not self.plans:
            raise PlanError(f"{self.network_file.path}: none of its parts has a plan; {_AGAIN}")

    def to_json(self) -> str:
        """The file's text; ``from_json`` reads it back without loss."""
        plain = {
            "tree": SCHEMA,
            "model": {"path": self.network_file.path, "sha256": self.network_file.sha256},
            "dims": dict(self.dims),
            "plans": [json.loads(plan.to_json()) for plan in self.plans],
        }
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str, where: str = "plan") -> PlanTree:
        """Read what ``to_json`` wrote. Raises ``PlanError`` naming ``where`` for anything else."""
        try:
            plain = json.loads(text)
            if plain["tree"] != SCHEMA:
                raise PlanError(
                    f"{where}: plans of schema {plain['tree']!r}, this version reads {SCHEMA}; {_AGAIN}"
                )
            model = plain["model"]
            return cls(
                NetworkFile(str(model["path"]), str(model["sha256"])),
                {str(name): int(extent) for name, extent in plain["dims"].items()},
                tuple(Plan.from_json(json.dumps(one), where) for one in plain["plans"]),
            )
        except KeyError as error:
            raise PlanError(f"{where}: not plans: {error} is missing; {_AGAIN}") from None
        except (TypeError, ValueError, OverflowError, RecursionError, AttributeError) as error:
            raise PlanError(f"{where}: not plans: {error}; {_AGAIN}") from None

    @classmethod
    def load(cls, path: Path) -> PlanTree:
        """Read a file. Raises ``PlanError`` in one line when that is impossible."""
        return cls.from_json(read_text(path), str(path))

    def save(self, path: Path) -> None:
        """Write the file whole or not at all. Raises ``PlanError`` when that is impossible."""
        write_text(path, self.to_json())


def is_plan_tree(path: Path) -> bool:
    """Whether a file holds the plans of a tree, by how it begins."""
    try:
        with open_regular(path) as file:
            return file.read(len(_HEAD)) == _HEAD.encode()
    except OSError:
        return False


def load_plans(path: Path) -> tuple[Plan, ...]:
    """The plans in a file, of one graph or of several. Raises ``PlanError``."""
    return PlanTree.load(path).plans if is_plan_tree(path) else (Plan.load(path),)

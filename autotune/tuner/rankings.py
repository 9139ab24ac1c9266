"""Rankings of groups' schedules that searches of one network in several precisions share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from autotune.cost_model.model import CostModel
from autotune.tuner.ranking import Effort, Ranked


@dataclass
class Rankings:
    """Ranked schedules by model, group, effort, and whether an earlier ranking took part.

    A ranking depends on these alone within one seed, objective and machine (``tuner.ranking``). So networks that
    have groups in common rank them once.
    """

    _kept: dict[tuple[str, str, Effort, bool], Ranked] = field(default_factory=dict)
    _models: dict[int, tuple[CostModel, str]] = field(default_factory=dict)
    """By identity: the model, which so stays alive, and its digest."""

    def get(self, model: CostModel, group: str, effort: Effort, is_first: bool) -> Ranked | None:
        """Return the ranking of the group of this key; None if there is none."""
        return self._kept.get((self._digest(model), group, effort, is_first))

    def keep(
        self, model: CostModel, group: str, effort: Effort, is_first: bool, ranked: Ranked
    ) -> None:
        """Keep a ranking; ``is_first`` is True where no earlier one took part."""
        self._kept[self._digest(model), group, effort, is_first] = ranked

    def _digest(self, model: CostModel) -> str:
        if id(model) not in self._models:
            self._models[id(model)] = model, hashlib.sha256(model.to_bytes()).hexdigest()
        return self._models[id(model)][1]

"""Rankings of groups' schedules that searches of one network in several precisions share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from autotune.cost_model.model import CostModel
from autotune.tuner.objective import Objective
from autotune.tuner.ranking import Effort, Ranked, Ranking


@dataclass
class Rankings:
    """Ranked schedules by model, objective, group, effort, and whether an earlier ranking took part.

    A ranking depends on these alone within one seed and machine (``tuner.ranking``). So networks that have groups in
    common rank them once.
    """

    _kept: dict[tuple[str, Objective, str, Effort, bool], Ranked] = field(default_factory=dict)
    _models: dict[int, tuple[CostModel, str]] = field(default_factory=dict)
    """By identity: the model, which so stays alive, and its digest."""

    def get(self, ranking: Ranking, group: str, effort: Effort, is_first: bool) -> Ranked | None:
        """Return what ``ranking`` made of the group of this key; None if nothing is kept."""
        return self._kept.get((*self._maker(ranking), group, effort, is_first))

    def keep(
        self, ranking: Ranking, group: str, effort: Effort, is_first: bool, ranked: Ranked
    ) -> None:
        """Keep what ``ranking`` made; ``is_first`` is True where no earlier one took part."""
        self._kept[*self._maker(ranking), group, effort, is_first] = ranked

    def _maker(self, ranking: Ranking) -> tuple[str, Objective]:
        model = ranking.model
        if id(model) not in self._models:
            self._models[id(model)] = model, hashlib.sha256(model.to_bytes()).hexdigest()
        return self._models[id(model)][1], ranking.objective

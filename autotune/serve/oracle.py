"""What the service knows: a predictor per machine, and the schedules that the store has measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune import api
from autotune.cost_model.cost import Cost, Costs
from autotune.cost_model.predictor import Predictor
from autotune.errors import AutotuneError, InputError
from autotune.fusion.group import Group
from autotune.schedule.schedule import Schedule
from autotune.serve.documents import (
    BatchAnswer,
    BatchItem,
    BatchRequest,
    BestSchedule,
    CostDocument,
    FuseAnswer,
    FuseRequest,
    LayerDocument,
    PredictRequest,
    Refused,
    TargetDocument,
)
from autotune.serve.limits import Limits
from autotune.serve.questions import fused, group_of, groups_of, schedule_of, text_of
from autotune.store.store import Store


class UnknownTarget(InputError):
    """A machine that the service was not started with."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Answers from several threads; ``store`` is open while the service runs."""

    predictors: dict[str, Predictor]
    store: Store
    limits: Limits

    @classmethod
    def open(cls, targets: Iterable[str], store: Store, limits: Limits) -> Oracle:
        """Load a predictor per target. Raises ``SpecError`` and ``StoreError`` naming it."""
        return cls({name: Predictor.load(name, store) for name in targets}, store, limits)

    @property
    def targets(self) -> list[TargetDocument]:
        """The machines."""
        return [
            TargetDocument(
                name=name,
                profile_id=one.spec.profile_id,
                clock_hz=one.spec.clock_hz,
                origin=one.origin,
            )
            for name, one in self.predictors.items()
        ]

    def predictor(self, target: str) -> Predictor:
        """Return the predictor of a machine. Raises ``UnknownTarget``: clients open no machines."""
        if target not in self.predictors:
            raise UnknownTarget(
                f"this service answers for {', '.join(self.predictors)}, not for {target!r}"
            )
        return self.predictors[target]

    def predict(self, asked: PredictRequest) -> CostDocument:
        """Return the cost of a group."""
        return self._cost(self.predictor(asked.target), asked.layers, asked.schedule)

    def predict_alike(self, asked: Sequence[PredictRequest]) -> list[CostDocument | Refused]:
        """Return the costs of one group on one machine by several schedules, or why one has none."""
        return list(self._costs(self.predictor(asked[0].target), asked))

    def predict_batch(self, asked: BatchRequest) -> BatchAnswer:
        """Return the cost of each group, or why it has none."""
        if len(asked.items) > self.limits.items:
            raise InputError(
                f"{len(asked.items)} items; a batch has at most {self.limits.items}, send several"
            )
        predictor = self.predictor(asked.target)
        costs: list[CostDocument | Refused] = [Refused(error="")] * len(asked.items)
        for places in _alike(asked.items):
            items = [asked.items[at] for at in places]
            for at, cost in zip(places, self._costs(predictor, items), strict=True):
                costs[at] = cost
        return BatchAnswer(costs=costs)

    def _costs(
        self, predictor: Predictor, items: Sequence[BatchItem | PredictRequest]
    ) -> Iterator[CostDocument | Refused]:
        """Yield the costs of one group by several schedules, predicted at once where all are legal."""
        try:
            costs, schedules = self._costs_at_once(predictor, items)
        except AutotuneError:  # one by one, to say of each why
            pass
        else:
            figures = zip(costs.cycles.tolist(), costs.low_cycles.tolist(), costs.high_cycles.tolist(), costs.energy_fj.tolist(), costs.dram_bytes.tolist(), costs.novelty.tolist(), strict=True)  # fmt: skip
            pairs = zip(schedules, figures, strict=True)
            for schedule, (cycles, low, high, energy, moved, novelty) in pairs:
                seconds = cycles / predictor.spec.clock_hz
                yield CostDocument(
                    cycles=cycles, low_cycles=low, high_cycles=high, seconds=seconds, energy_fj=energy,
                    dram_bytes=moved, novelty=novelty_of(novelty), schedule=schedule.to_json(),
                )  # fmt: skip
            return
        for item in items:
            try:
                yield self._cost(predictor, item.layers, item.schedule)
            except AutotuneError as error:
                yield Refused(error=str(error))

    def _costs_at_once(
        self, predictor: Predictor, items: Sequence[BatchItem | PredictRequest]
    ) -> tuple[Costs, list[Schedule]]:
        """Return costs of one group by several schedules. Raises ``AutotuneError`` where one has none."""
        schedules = [Schedule.from_json(item.schedule) for item in items if item.schedule]
        if len(schedules) < len(items):
            raise InputError("a best schedule is looked for by itself")
        prepared = predictor.prepare(self._group(items[0].layers))
        return prepared.predict_batch(prepared.rows(schedules)), schedules

    def best_schedule(self, asked: PredictRequest) -> BestSchedule:
        """Return the best schedule that the store has measured on the machine, else the predicted one."""
        predictor = self.predictor(asked.target)
        group = self._group(asked.layers)
        known = self.store.best_schedules(predictor.spec.profile_id, groups=[group.key])
        text = known.get(group.key)
        cost = predictor.predict(group, schedule_of(text))
        return BestSchedule(
            schedule=cost.schedule.to_json(),
            source="predicted" if text is None else "measured",
            predicted=cost_document(cost, predictor.spec.clock_hz),
        )

    def should_fuse(self, asked: FuseRequest) -> FuseAnswer:
        """Return what one program saves over two."""
        groups = groups_of(asked.layers, self.limits.layers)
        if asked.split >= len(groups):
            raise InputError(
                f"split is {asked.split}; of {len(groups)} layers some are the consumer"
            )
        gain = self.predictor(asked.target).should_fuse(
            fused(groups[: asked.split]), fused(groups[asked.split :])
        )
        return FuseAnswer(
            fuse=bool(gain),
            gain_cycles=gain.gain_cycles,
            low_cycles=gain.low_cycles,
            high_cycles=gain.high_cycles,
            reason=gain.reason,
        )

    def plan(self, file: Path, target: str, trials: int, dims: Mapping[str, int]) -> str:
        """Return the plan of an ONNX file as text, by the model and what the store knows; nothing is measured.

        Errors name neither the file nor an option of the command line: clients gave none.
        """
        out = file.with_suffix(".plan")
        try:
            api.search(file, target, trials=trials, measure=0, dims=dims, out=out, store=self.store)
        except AutotuneError as error:
            told = str(error).replace(str(out), "the plan").replace(str(file), "the network")
            told = told.replace("--dim ", "dim=")
            raise InputError(told) from None
        return out.read_text("utf-8")

    def _cost(
        self, predictor: Predictor, layers: Sequence[LayerDocument], schedule: str | None
    ) -> CostDocument:
        cost = predictor.predict(self._group(layers), schedule_of(schedule))
        return cost_document(cost, predictor.spec.clock_hz)

    def _group(self, layers: Sequence[LayerDocument]) -> Group:
        return group_of(text_of(layers), self.limits.layers)


def _alike(items: Sequence[BatchItem]) -> list[list[int]]:
    """Return places of items with equal layers, in order of the first of each."""
    found: dict[bytes, list[int]] = {}
    for at, item in enumerate(items):
        found.setdefault(text_of(item.layers), []).append(at)
    return list(found.values())


def novelty_of(novelty: float) -> float | None:
    """Return a novelty as JSON has it: None where it is not known."""
    return None if math.isnan(novelty) else novelty


def cost_document(cost: Cost, clock_hz: float) -> CostDocument:
    """Return a cost as answers have it."""
    return CostDocument(
        cycles=cost.cycles,
        low_cycles=cost.low_cycles,
        high_cycles=cost.high_cycles,
        seconds=cost.cycles / clock_hz,
        energy_fj=cost.energy_fj,
        dram_bytes=cost.dram_bytes,
        novelty=novelty_of(cost.novelty),
        schedule=cost.schedule.to_json(),
    )

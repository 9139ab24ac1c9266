"""Requests and answers of the service as JSON documents; OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_NAME = 200
DEEPEST = 8
"""Dimensions of a shape at most."""

Extent = Annotated[int, Field(ge=1, le=1 << 31, strict=True)]
Shape = Annotated[list[Extent], Field(max_length=DEEPEST)]
Earlier = Annotated[int, Field(ge=0, le=1 << 16, strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Whole = Annotated[int, Field(ge=-(1 << 31), le=1 << 31, strict=True)]
Real = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Attribute = Whole | Real | Name | Annotated[list[Whole], Field(max_length=64)]


class Document(BaseModel):
    """A document without unknown fields."""

    model_config = ConfigDict(extra="forbid")


Operand = Shape | Earlier
Named = Annotated[dict[Name, Operand], Field(min_length=1, max_length=64)]
Listed = Annotated[list[Operand], Field(min_length=1, max_length=64)]


class LayerDocument(Document):
    """One operator of a group, as ``autotune.layer`` takes it."""

    kind: Name = Field(examples=["conv"])
    operands: Named | Listed = Field(
        description="By name or in order: a shape, or the number of an earlier layer, whose result is read.",
        examples=[{"x": [1, 64, 56, 56], "w": [64, 64, 3, 3]}],
    )
    attributes: Annotated[dict[Name, Attribute], Field(max_length=64)] = Field(
        default_factory=dict, examples=[{"pads": 1}]
    )


EXAMPLE = [
    {
        "kind": "conv",
        "operands": {"x": [1, 64, 56, 56], "w": [64, 64, 3, 3]},
        "attributes": {"pads": 1},
    },
    {"kind": "relu", "operands": [0]},
]
"""A group as questions have it."""
Layers = Annotated[
    list[LayerDocument],
    Field(
        min_length=1,
        max_length=256,
        description="Operators that run as one program, in order.",
        examples=[EXAMPLE],
    ),
]
ScheduleRow = Annotated[
    str, Field(max_length=1 << 16, description="A schedule as answers and plans have it.")
]


class PredictRequest(Document):
    """A fused group and its machine."""

    target: Name = Field(default="edge", description="A name that GET /v1/targets lists.")
    layers: Layers
    schedule: ScheduleRow | None = Field(
        default=None, description="None: the best one that the model knows."
    )


class BatchItem(Document):
    """One question of a batch."""

    layers: Layers
    schedule: ScheduleRow | None = None


class BatchRequest(Document):
    """Many questions about one machine."""

    target: Name = "edge"
    items: list[BatchItem]


class FuseRequest(Document):
    """A group, and one that reads its result; would one program be faster?"""

    target: Name = "edge"
    layers: Layers
    split: int = Field(
        ge=1, le=255, description="Layers that are the producer; the others are the consumer."
    )


class CostDocument(BaseModel):
    """Cost of a group on one machine; ``low`` to ``high`` holds 90 % of measurements."""

    cycles: float
    low_cycles: float
    high_cycles: float
    seconds: float
    energy_fj: float
    dram_bytes: float
    novelty: float | None = Field(
        description="Share of training programs that the model knew better; null where unknown."
    )
    schedule: str


class Refused(BaseModel):
    """Why a question has no answer, and the way out."""

    error: str


class BatchAnswer(BaseModel):
    """Answers in the order of the questions."""

    costs: list[CostDocument | Refused]


class BestSchedule(BaseModel):
    """The best schedule that was measured, else the one that the model expects to be best."""

    schedule: str
    source: Literal["measured", "predicted"]
    predicted: CostDocument


class FuseAnswer(BaseModel):
    """Cycles that one program saves; ``fuse`` if they exceed the uncertainty."""

    fuse: bool
    gain_cycles: float
    low_cycles: float
    high_cycles: float
    reason: str


class TargetDocument(BaseModel):
    """A machine that the service answers for, and what answers."""

    name: str
    profile_id: str
    clock_hz: float
    origin: str


class Health(BaseModel):
    """The service is up."""

    status: Literal["ok"]
    version: str
